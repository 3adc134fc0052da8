"""Measure the sandbox without parsers: a file in a reused child, a file of a new tenant, and a start.

Usage: `python scripts/bench_sandbox.py`. The script is its own jobs module, whose jobs return at once.
"""

import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import uvloop

from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.launch import DEFAULT_JOBS
from sluice_inspect.sandbox.sealed import Sealed

FILES = 3000
OTHER_TENANTS = 300

JOBS: Mapping[str, Callable[[int, str], Mapping[str, object]]] = {
    "check": lambda _fd, _name: {"format": "none", "outcome": "ok"},
    "scan": lambda _fd, _name: {},
}


def preload() -> None:
    """Load every parser, so that a fork copies as much memory as in production."""
    from sluice_inspect.child import jobs  # noqa: PLC0415  (in the child only)

    jobs.preload()


def samples() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """Yield one sample."""
    yield "none", "a.bin", lambda: b"sample"


async def timed(name: str, times: int, work: Callable[[int], Awaitable[object]]) -> None:
    """Print the median and p90 of `times` runs in milliseconds, and the CPU time of this process per run."""
    spent, taken = time.process_time(), []
    for turn in range(times):
        began = time.perf_counter()
        await work(turn)
        taken.append((time.perf_counter() - began) * 1000)
    taken.sort()
    cpu = (time.process_time() - spent) * 1000 / times
    print(
        f"{name:42} median {taken[times // 2]:8.3f} ms   p90 {taken[times * 9 // 10]:8.3f} ms   server CPU {cpu:6.3f} ms"
    )


async def start_once(_turn: int) -> None:
    """Start and close a sandbox with the real jobs, including the self-test of every format."""
    sandbox = ZygoteSandbox(jobs=DEFAULT_JOBS)
    await sandbox.start()
    await sandbox.aclose()


async def main() -> None:
    """Run all measurements."""
    sandbox = ZygoteSandbox(jobs=Path(__file__).stem, import_path=[str(Path(__file__).parent)])
    await sandbox.start()
    print(f"level {sandbox.level}, {sys.version.split()[0]}, {os.cpu_count()} cores")
    sealed = Sealed(os.memfd_create("file"), 0, b"")

    def one_tenant(_turn: int) -> Awaitable[object]:
        return sandbox.run("check", sealed, filename="a.bin", tenant_id="one")

    def another_tenant(turn: int) -> Awaitable[object]:
        return sandbox.run("check", sealed, filename="a.bin", tenant_id=f"t{turn}")

    await timed("a file in a reused child", FILES, one_tenant)
    await timed("a file of a new tenant", OTHER_TENANTS, another_tenant)
    await sandbox.aclose()
    await timed("start and close, real jobs", 5, start_once)


if __name__ == "__main__":
    uvloop.run(main())
