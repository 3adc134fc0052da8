"""Run `sluice` as a user or script does: in a separate process, with its own environment and folder."""

import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.cli.forked import run_forked
from tests.servers import Process, free_port, listens
from tests.service import forked_process


@dataclass(frozen=True)
class CommandResult:
    """The exit code and output of a finished command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[Any]:
        """The parsed lines of JSON output."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error_line(self) -> str:
        """The single error sentence on standard error, without its prefix."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("sluice: ")
        assert lines[0].endswith((".", "`"))
        return lines[0].removeprefix("sluice: ")


@dataclass(frozen=True)
class Sluice:
    """The command with its settings. It runs in `folder` and stores its data in `folder`/data."""

    folder: Path
    settings: Mapping[str, str]

    @property
    def data_dir(self) -> Path:
        return self.folder / "data"

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
        # The tests do not use the profiles and journals of the user who runs them.
        inherited |= {f"XDG_{kind}_HOME": str(self.folder / kind.lower()) for kind in ("CONFIG", "STATE")}
        defaults = {"DATA_DIR": str(self.data_dir), "SCANNER": "builtin"} | dict(self.settings)
        return inherited | {f"SLUICE_{name}": value for name, value in defaults.items()}

    def with_settings(self, **settings: str) -> "Sluice":
        return replace(self, settings=dict(self.settings) | settings)

    def __call__(self, *arguments: str | Path) -> CommandResult:
        """Run the command until it exits. Assert that it prints no traceback, whatever its exit code."""
        with tempfile.TemporaryDirectory() as directory:
            out, err = Path(directory) / "out", Path(directory) / "err"
            code = run_forked(list(map(str, arguments)), self.environment, self.folder, out, err)
            result = CommandResult(code, *(path.read_text(errors="surrogateescape") for path in (out, err)))
        assert "Traceback" not in result.err, result.err
        return result

    @contextmanager
    def running(self, variables: Mapping[str, str] | None = None, *, own_zygote: bool = False) -> Iterator["Running"]:
        """Run `serve` forked from a preloaded process, which costs a tenth of a new interpreter.

        `variables` are environment variables other than settings; `own_zygote` as for `ForkedServer`.
        """
        port, log, environment = self._listen_settings()
        with forked_process(
            "serve",
            log,
            ready=lambda: has_started(port, log),
            environment=environment | dict(variables or {}),
            own_zygote=own_zygote,
        ) as process:
            yield Running(process, f"http://127.0.0.1:{port}", log)

    def _listen_settings(self) -> tuple[int, Path, dict[str, str]]:
        """Return a free port, an empty log file and an environment with that port."""
        port, log = free_port(), self.folder / "log"
        log.write_bytes(b"")
        return port, log, self.with_settings(PORT=str(port)).environment


@dataclass(frozen=True)
class Running:
    """A running server and its terminal output."""

    process: Process
    url: str
    log: Path

    @property
    def output(self) -> str:
        return self.log.read_text()

    @property
    def first_key(self) -> str:
        """The key that a first start made, from the file that its output names."""
        return first_key(self.output)


def has_started(port: int, log: Path) -> bool:
    """Return whether a server listens and has printed the last line of its start, which names the first key before it."""
    return listens(port) and "Ctrl-C drains and stops." in log.read_text()


def first_key(output: str) -> str:
    (path,) = re.findall(r"^  api key  in (\S+), ", output, re.MULTILINE)
    return Path(path).read_text().strip()


def sluice_in(folder: Path, **settings: str) -> Sluice:
    folder.mkdir(parents=True, exist_ok=True)
    return Sluice(folder, settings)
