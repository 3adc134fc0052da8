"""Running `sluice` as a person or a script does: a process of its own, with an environment and a folder of its own."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.cli.forked import run_forked
from tests.gate import forked, module
from tests.servers import Process, daemon, free_port, listens


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[Any]:
        """The lines of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def complaint(self) -> str:
        """The one sentence on standard error."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("sluice: ")
        assert lines[0].endswith((".", "`"))
        return lines[0].removeprefix("sluice: ")


@dataclass(frozen=True)
class Sluice:
    """The command with its settings. Its data are in `folder`/data, which is also where it runs."""

    folder: Path
    settings: Mapping[str, str]

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        own = {"DATA_DIR": str(self.data_dir), "SCANNER": "builtin"} | dict(self.settings)
        return kept | {f"SLUICE_{name}": value for name, value in own.items()}

    def with_settings(self, **settings: str) -> "Sluice":
        return replace(self, settings=dict(self.settings) | settings)

    def __call__(self, *words: str | Path) -> Ended:
        """Run the command to its end; however it ends, it shows no trace."""
        with tempfile.TemporaryDirectory() as place:
            out, err = Path(place) / "out", Path(place) / "err"
            code = run_forked(list(map(str, words)), self.environment, self.folder, out, err)
            ended = Ended(code, *(path.read_text(errors="surrogateescape") for path in (out, err)))
        assert "Traceback" not in ended.err, ended.err
        return ended

    @contextmanager
    def started(self) -> Iterator["Running"]:
        """Run `serve` as a person starts it, from nothing, until the block ends; the block begins when it answers."""
        port, log, environment = self._fresh()
        with daemon(module("serve"), log, ready=lambda: listens(port), environment=environment) as process:
            yield Running(process, f"http://127.0.0.1:{port}", log)

    @contextmanager
    def running(self, variables: Mapping[str, str] | None = None) -> Iterator["Running"]:
        """Run `serve`, with `variables` that are no settings, forked from a process that has loaded it, which takes a third of the work."""
        port, log, environment = self._fresh()
        with forked("serve", log, ready=lambda: listens(port), environment=environment | dict(variables or {})) as process:
            yield Running(process, f"http://127.0.0.1:{port}", log)

    def _fresh(self) -> tuple[int, Path, dict[str, str]]:
        """Answer a port, an empty log and an environment with that port."""
        port, log = free_port(), self.folder / "log"
        log.write_bytes(b"")
        return port, log, self.with_settings(PORT=str(port)).environment


@dataclass(frozen=True)
class Running:
    """A server as its terminal shows it."""

    process: Process
    url: str
    log: Path

    @property
    def shown(self) -> str:
        return self.log.read_text()


def sluice_in(folder: Path, **settings: str) -> Sluice:
    folder.mkdir(parents=True, exist_ok=True)
    return Sluice(folder, settings)
