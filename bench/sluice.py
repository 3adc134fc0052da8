"""The Sluice server of a measurement: set it up, start it, and create tenants and contexts."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from bench.load import Target
from tests.servers import daemon, free_port

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Sluice:
    """A running server; `started` is the number of seconds until it was ready."""

    port: int
    pid: int
    key: str
    tenant_id: str
    environment: Mapping[str, str]
    started: float

    def target(self, context: str, key: str = "") -> Target:
        """Return the target of uploads into a context, with the first tenant's key or another."""
        return Target("sluice", self.port, f"Bearer {key or self.key}", context, (self.pid,))

    def context(self, name: str, key: str = "", *, scan: bool = False) -> Target:
        """Create a context for large files and return its target."""
        rules = {"context_key": name, "display_name": "Bench", "max_file_size_mb": 500, "scan_for_viruses": scan}
        self.request("POST", "/contexts", rules, key)
        return self.target(name, key)

    def new_tenant(self) -> str:
        """Create another tenant and return an admin key."""
        tenant = _command(self.environment, "tenants", "create", "--name", "Neighbour", "--plan", "unlimited", "--json")
        created = _command(
            self.environment,
            "keys",
            "create",
            "--tenant",
            tenant["tenant_id"],
            "--name",
            "n",
            "--scope",
            "admin",
            "--json",
        )
        return str(created["api_key"])

    def request(self, method: str, path: str, body: object = None, key: str = "") -> Any:
        """Send one request and return the body of the response. Raises `RuntimeError` with the body of an error."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {key or self.key}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request) as response:  # noqa: S310  (a loopback URL)
                return json.loads(response.read())
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()) from error


@contextmanager
def running_sluice(
    folder: Path, database: str, checkout: str = "", samples: Path | None = None, /, **settings: str
) -> Iterator[Sluice]:
    """Run a server with its data in `folder`, which must not exist, until the block ends.

    `checkout` is the one whose code it runs, by default this one. With `samples`, it is a `sampled_server`.
    """
    port = free_port()
    values = {
        "DATA_DIR": str(folder),
        "DATABASE_URL": database,
        "PORT": str(port),
        "SCANNER": "builtin",
        "PROCESSES": "1",
    }
    values |= settings
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")} | {
        f"SLUICE_{name}": value for name, value in values.items()
    }
    environment["PYTHONPATH"] = os.pathsep.join([*_sources(Path(checkout) if checkout else _ROOT), str(_ROOT)])
    first = _command(environment, "init", "--json")
    program = ["sluice.cli", "serve"] if samples is None else ["bench.sampled_server", str(samples)]
    command = [sys.executable, "-m", *program]
    began = time.perf_counter()
    with daemon(
        command, folder.parent / f"sluice-{port}.log", ready=lambda: ready(port), environment=environment
    ) as process:
        yield Sluice(port, process.pid, first["api_key"], first["tenant_id"], environment, time.perf_counter() - began)


def ready(port: int) -> bool:
    """Return whether the server reports that it is ready."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/ready", timeout=5) as response:
            return int(response.status) == HTTPStatus.OK
    except OSError:
        return False


def _command(environment: Mapping[str, str], *words: str) -> dict[str, str]:
    command = [sys.executable, "-m", "sluice.cli", *words]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    output: dict[str, str] = json.loads(done.stdout)
    return output


def _sources(checkout: Path) -> Sequence[str]:
    """Return the folders of the packages in a checkout, which may be older than their folders."""
    folders = (checkout / "inspect" / "src", checkout / "server" / "src", checkout / "src")
    return [str(folder) for folder in folders if folder.exists()]
