"""What a start costs with one, two and four processes: seconds and CPU until ready, CPU of ten seconds after, memory.

The server works on PostgreSQL and a local store, with Sluice's own scanner. Its memory is shown as a tree of processes
with the Pss of each, in which memory that several processes share is divided among them. It is measured after uploads
that every process has had a part in.
"""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench import payloads
from bench.cpu import children, cpu_seconds, pss_bytes, tree
from bench.load import load
from bench.sluice import Sluice, running_sluice
from tests.servers.postgres import Postgres, running_postgres

_COUNTS = (1, 2, 4)
_STARTS = 3
_AFTER_SECONDS = 10.0
_UPLOADS, _CONNECTIONS = 64, 16


def measure(folder: Path) -> dict[str, Any]:
    """Return for each number of processes the medians of its starts."""
    found: dict[str, Any] = {}
    with running_postgres(folder / "postgres") as postgres:
        for count in _COUNTS:
            starts = [_start(folder / f"{count}-{number}", postgres, count) for number in range(_STARTS)]
            found[str(count)] = row = {name: median(start[name] for start in starts) for name in starts[0]}
            print(f"{count} processes:", {name: round(value, 2) for name, value in row.items()})
    return found


def _start(folder: Path, postgres: Postgres, count: int) -> dict[str, float]:
    folder.mkdir()
    with running_sluice(folder / "data", postgres.createdb(), PROCESSES=str(count)) as sluice:
        at_ready = cpu_seconds([sluice.pid])
        time.sleep(_AFTER_SECONDS)
        after = cpu_seconds([sluice.pid])
        asyncio.run(load(sluice.context("png"), payloads.png(10_000), connections=_CONNECTIONS, uploads=_UPLOADS))
        pids = tree(sluice.pid)
        print("\n".join(_drawn(sluice)))
        return {
            "seconds": sluice.started,
            "cpu_at_ready": at_ready,
            "cpu_after": after - at_ready,
            "pss_mb": sum(pss_bytes(pid) for pid in pids) / 1e6,
            "processes": len(pids),
        }


def _drawn(sluice: Sluice) -> Iterator[str]:
    """Yield the tree of processes as lines: kind, process id, Pss. A worker is a fork of its zygote."""

    def draw(pid: int, depth: int, above: bytes) -> Iterator[str]:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
        is_zygote = b"sluice_inspect.child.zygote" in command
        kind = "server" if not is_zygote else "worker" if command == above else "zygote"
        yield f"{'  ' * depth}{kind} {pid}: {pss_bytes(pid) / 1e6:.0f} MB"
        for child in children(pid):
            yield from draw(child, depth + 1, command)

    yield from draw(sluice.pid, 0, b"")
