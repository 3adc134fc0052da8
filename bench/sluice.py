"""A Sluice to be measured: set up, started, and given tenants. What it stands on is started in `servers`."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.servers import daemon, free_port

from bench.load import Target


@dataclass(frozen=True)
class Sluice:
    """A running server; `started` is how many seconds it took until it was ready."""

    port: int
    pid: int
    key: str
    tenant_id: str
    environment: Mapping[str, str]
    started: float

    def target(self, context: str, key: str = "") -> Target:
        """Answer where uploads into a context go, with the first tenant's key or another."""
        return Target("sluice", self.port, f"Bearer {key or self.key}", context, (self.pid,))

    def context(self, name: str, key: str = "", *, scan: bool = False) -> Target:
        """Make a context that takes large files, and answer where uploads into it go."""
        rules = {"context_key": name, "display_name": "Bench", "max_file_size_mb": 500, "scan_for_viruses": scan}
        self.ask("POST", "/contexts", rules, key)
        return self.target(name, key)

    def new_tenant(self) -> str:
        """Make another tenant and answer an admin key of its."""
        tenant = _command(self.environment, "tenants", "create", "--name", "Neighbour", "--plan", "unlimited", "--json")
        made = _command(
            self.environment, "keys", "create", "--tenant", tenant["tenant_id"], "--name", "n", "--scope", "admin", "--json"
        )
        return str(made["api_key"])

    def ask(self, method: str, path: str, body: object = None, key: str = "") -> Any:
        """Answer the body of an answer to one request; raises `RuntimeError` with the answer when it is a refusal."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {key or self.key}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request) as answer:  # noqa: S310  (the same)
                return json.loads(answer.read())
        except urllib.error.HTTPError as refusal:
            raise RuntimeError(refusal.read().decode()) from refusal


@contextmanager
def running_sluice(folder: Path, database: str, **settings: str) -> Iterator[Sluice]:
    """Run a server with its data in `folder`, which must be fresh, until the block ends."""
    port = free_port()
    ours = {"DATA_DIR": str(folder), "DATABASE_URL": database, "PORT": str(port), "SCANNER": "builtin"} | settings
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")} | {
        f"SLUICE_{name}": value for name, value in ours.items()
    }
    first = _command(environment, "init", "--json")
    command = [sys.executable, "-m", "sluice.cli", "serve"]
    began = time.perf_counter()
    with daemon(command, folder.parent / f"sluice-{port}.log", ready=lambda: ready(port), environment=environment) as process:
        yield Sluice(port, process.pid, first["api_key"], first["tenant_id"], environment, time.perf_counter() - began)


def ready(port: int) -> bool:
    """Say whether the server says that it can work."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=5) as answer:
            return int(answer.status) == HTTPStatus.OK
    except OSError:
        return False


def _command(environment: Mapping[str, str], *words: str) -> dict[str, str]:
    command = [sys.executable, "-m", "sluice.cli", *words]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    answer: dict[str, str] = json.loads(done.stdout)
    return answer
