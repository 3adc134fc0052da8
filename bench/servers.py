"""What a measurement runs against: PostgreSQL, a clamd with 100,000 signatures, the baseline and Sluice, each a process of its own."""

import json
import os
import random
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from tests.servers import daemon, free_port
from tests.servers.clamd import Clamd, running_clamd
from tests.servers.postgres import running_postgres

from bench import baseline_key
from bench.load import Target

_ROOT = Path(__file__).parents[1]
_SIGNATURES = 100_000


@dataclass(frozen=True)
class Bench:
    """All that runs. `shared` are the processes that serve whoever is measured: the database and the scanner."""

    sluice: dict[bool, Target]
    baseline: dict[bool, Target]
    clamd: Clamd | None
    shared: tuple[int, ...]


@contextmanager
def running(folder: Path) -> Iterator[Bench]:
    """Run everything until the block ends. Targets are had by whether they scan; without clamd only those that do not."""
    with running_postgres(folder / "postgres") as postgres, _scanner(folder / "clamd") as clamd:
        postmaster = int(postgres.psql("SELECT split_part(pg_read_file('postmaster.pid'), chr(10), 1)"))
        shared = (postmaster, *([clamd.pid] if clamd else []))
        with _sluice(folder, postgres.createdb(), clamd) as sluice, _baseline(folder, postgres.createdb(), None) as plain:
            if clamd is None:
                yield Bench(sluice, {False: plain}, None, shared)
                return
            with _baseline(folder, postgres.createdb(), clamd) as scanning:
                yield Bench(sluice, {False: plain, True: scanning}, clamd, shared)


@contextmanager
def _scanner(folder: Path) -> Iterator[Clamd | None]:
    if shutil.which("clamd") is None:
        print("No clamd here: nothing is measured with scans. On Debian: apt-get install clamav-daemon", file=sys.stderr)
        yield None
        return
    source = random.Random(1)
    # Most signatures of a real database are hashes of files; the rest are bytes anywhere in a file.
    hashes = "".join(
        f"{source.randbytes(16).hex()}:{source.randint(1000, 4_000_000)}:T.Hash-{n}\n" for n in range(_SIGNATURES * 4 // 5)
    )
    bodies = "".join(f"T.Body-{n}:0:*:{source.randbytes(24).hex()}\n" for n in range(_SIGNATURES // 5))
    with running_clamd(folder, signatures={"many.hdb": hashes, "many.ndb": bodies}) as clamd:
        yield clamd


@contextmanager
def _baseline(folder: Path, database: str, clamd: Clamd | None) -> Iterator[Target]:
    port, store = free_port(), folder / f"baseline-{clamd is not None}"
    store.mkdir()
    environment = dict(os.environ) | {
        "BASELINE_DATABASE": database,
        "BASELINE_FOLDER": str(store),
        "BASELINE_CLAMD": str(clamd.socket) if clamd else "",
        "PYTHONPATH": str(_ROOT),
    }
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "bench.baseline:app",
        "--port",
        str(port),
        "--log-level",
        "warning",
        "--no-access-log",
    ]
    with daemon(command, folder / f"baseline-{port}.log", ready=lambda: _healthy(port), environment=environment) as process:
        yield Target("baseline", port, f"Bearer {baseline_key.KEY}", baseline_key.CONTEXT, (process.pid,))


@contextmanager
def _sluice(folder: Path, database: str, clamd: Clamd | None) -> Iterator[dict[bool, Target]]:
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")} | {
        "SLUICE_DATA_DIR": str(folder / "sluice"),
        "SLUICE_DATABASE_URL": database,
        "SLUICE_PORT": str(port),
        "SLUICE_CLAMD": clamd.address if clamd else "",
        "SLUICE_SCANNER": "clamd" if clamd else "builtin",
    }
    init = [sys.executable, "-m", "sluice.cli", "init", "--json"]
    key = json.loads(subprocess.run(init, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)[
        "api_key"
    ]
    command = [sys.executable, "-m", "sluice.cli", "serve"]
    with daemon(command, folder / "sluice.log", ready=lambda: _healthy(port), environment=environment) as process:
        yield {
            scan: Target("sluice", port, f"Bearer {key}", _context(port, key, scan=scan), (process.pid,)) for scan in (False, True)
        }


def _context(port: int, key: str, *, scan: bool) -> str:
    name = f"bench_{'scan' if scan else 'plain'}"
    rules = {"context_key": name, "display_name": "Bench", "max_file_size_mb": 500, "scan_for_viruses": scan}
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/v1/contexts",
        data=json.dumps(rules).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310  (the same)
            answer.read()
    except urllib.error.HTTPError as refusal:
        raise RuntimeError(refusal.read().decode()) from refusal
    return name


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/live", timeout=5) as answer:
            return int(answer.status) == HTTPStatus.OK
    except OSError:
        return False
