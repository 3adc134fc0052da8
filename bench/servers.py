"""The servers of a measurement: PostgreSQL, a clamd with 100,000 signatures, the baseline and Sluice."""

import os
import random
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http import HTTPStatus
from pathlib import Path

from bench import baseline_key
from bench.load import Target
from bench.sluice import running_sluice
from bench.stores import Store, running_store
from tests.servers import daemon, free_port
from tests.servers.clamd import LARGEST, Clamd, running_clamd
from tests.servers.postgres import Postgres, running_postgres

_ROOT = Path(__file__).parents[1]
_SIGNATURES = 100_000


@dataclass(frozen=True)
class Bench:
    """The running servers. `shared` are the processes that serve both targets: database, scanner and store.

    `baseline` is what Sluice is compared with: the service of an afternoon, or the Sluice of another checkout.
    """

    sluice: dict[bool, Target]
    baseline: dict[bool, Target]
    clamd: Clamd | None
    shared: tuple[int, ...]


@contextmanager
def running(folder: Path, store_kind: str, against: Path | None = None) -> Iterator[Bench]:
    """Run everything until the block ends. Targets are keyed by whether they scan.

    `against` is the checkout whose server is the baseline.
    """
    with (
        running_postgres(folder / "postgres") as postgres,
        running_scanner(folder / "clamd") as clamd,
        running_store(folder, store_kind) as store,
        _sluice(folder / "sluice", postgres.createdb(), clamd, store) as sluice,
        _compared(folder, postgres, clamd, store, against) as baseline,
    ):
        shared = (postmaster(postgres), *([clamd.pid] if clamd else []), *store.pids)
        yield Bench(sluice, baseline, clamd, shared)


def postmaster(postgres: Postgres) -> int:
    """Return the pid of the server's main process."""
    return int(postgres.psql("SELECT split_part(pg_read_file('postmaster.pid'), chr(10), 1)"))


@contextmanager
def _compared(
    folder: Path, postgres: Postgres, clamd: Clamd | None, store: Store, against: Path | None
) -> Iterator[dict[bool, Target]]:
    if against is not None:
        with _sluice(folder / "before", postgres.createdb(), clamd, store, str(against.absolute())) as before:
            yield {scan: replace(target, name="before") for scan, target in before.items()}
        return
    with _baseline(folder, postgres.createdb(), None, store) as plain:
        if clamd is None:
            yield {False: plain}
            return
        with _baseline(folder, postgres.createdb(), clamd, store) as scanning:
            yield {False: plain, True: scanning}


@contextmanager
def running_scanner(folder: Path) -> Iterator[Clamd | None]:
    """Run a clamd with many signatures until the block ends; None if it is not installed."""
    if shutil.which("clamd") is None:
        print(
            "clamd is not installed: rows with scans are left out. On Debian: apt-get install clamav-daemon",
            file=sys.stderr,
        )
        yield None
        return
    source = random.Random(1)
    # Most signatures of a real database are hashes of files; the rest match bytes at any offset.
    hashes = "".join(
        f"{source.randbytes(16).hex()}:{source.randint(1000, 4_000_000)}:T.Hash-{n}\n"
        for n in range(_SIGNATURES * 4 // 5)
    )
    bodies = "".join(f"T.Body-{n}:0:*:{source.randbytes(24).hex()}\n" for n in range(_SIGNATURES // 5))
    with running_clamd(folder, LARGEST, signatures={"many.hdb": hashes, "many.ndb": bodies}) as clamd:
        yield clamd


@contextmanager
def _baseline(folder: Path, database: str, clamd: Clamd | None, store: Store) -> Iterator[Target]:
    port, files = free_port(), folder / f"baseline-{clamd is not None}"
    files.mkdir()
    environment = dict(os.environ) | {
        "BASELINE_DATABASE": database,
        "BASELINE_FOLDER": str(files),
        "BASELINE_S3": store.endpoint,
        "BASELINE_CLAMD": str(clamd.socket) if clamd else "",
        "PYTHONPATH": str(_ROOT),
    }
    subprocess.run([sys.executable, "-m", "bench.baseline"], env=environment, check=True)
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "bench.baseline:app",
        "--port",
        str(port),
        "--workers",
        str(os.cpu_count() or 1),
        "--log-level",
        "warning",
        "--no-access-log",
    ]
    with daemon(
        command, folder / f"baseline-{port}.log", ready=lambda: _healthy(port), environment=environment
    ) as process:
        yield Target("baseline", port, f"Bearer {baseline_key.KEY}", baseline_key.CONTEXT, (process.pid,))


@contextmanager
def _sluice(
    folder: Path, database: str, clamd: Clamd | None, store: Store, checkout: str = ""
) -> Iterator[dict[bool, Target]]:
    scanner = {"CLAMD": clamd.address, "SCANNER": "clamd"} if clamd else {}
    with running_sluice(folder, database, checkout, **scanner, **store.settings) as sluice:
        kinds = (False,) if clamd is None else (False, True)
        yield {scan: sluice.context(f"bench_{'scan' if scan else 'plain'}", scan=scan) for scan in kinds}


def _healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health/live", timeout=5) as response:
            return int(response.status) == HTTPStatus.OK
    except OSError:
        return False
