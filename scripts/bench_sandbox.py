"""What the sandbox costs: a start, a birth, a file in a reused child, a file of ever other tenants. Prints medians; no parser is timed.

Run it as `python scripts/bench_sandbox.py`. The module is its own jobs module: children answer at once.
"""

import os
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import uvloop

from sluice.engines.sandbox.launch import DEFAULT_JOBS
from sluice.engines.sandbox.zygote import ZygoteSandbox
from sluice.kit.sealed import Sealed

FILES = 3000
OTHER_TENANTS = 300

JOBS: Mapping[str, Callable[[int, str], Mapping[str, object]]] = {
    "check": lambda _fd, _name: {"format": "none", "outcome": "ok"},
    "scan": lambda _fd, _name: {},
}


def preload() -> None:
    """Load every parser, so that a fork copies what it copies in production."""
    from sluice.engines.sandbox import jobs  # noqa: PLC0415  (in the child only)

    jobs.preload()


def samples() -> Iterator[tuple[str, str, Callable[[], bytes]]]:
    """Answer one sample."""
    yield "none", "a.bin", lambda: b"sample"


async def timed(name: str, times: int, work: Callable[[int], Awaitable[object]]) -> None:
    """Print the median and the ninth decile of `times` runs, in milliseconds, and the processor time of this process for each."""
    spent, taken = time.process_time(), []
    for turn in range(times):
        began = time.perf_counter()
        await work(turn)
        taken.append((time.perf_counter() - began) * 1000)
    taken.sort()
    cpu = (time.process_time() - spent) * 1000 / times
    print(f"{name:42} median {taken[times // 2]:8.3f} ms   p90 {taken[times * 9 // 10]:8.3f} ms   server CPU {cpu:6.3f} ms")


async def start_once(_turn: int) -> None:
    """Start the product's own sandbox, self-test of every format included, and close it."""
    sandbox = ZygoteSandbox(jobs=DEFAULT_JOBS)
    await sandbox.start()
    await sandbox.aclose()


async def main() -> None:
    """Measure all four."""
    sandbox = ZygoteSandbox(jobs=Path(__file__).stem, import_path=[str(Path(__file__).parent)])
    await sandbox.start()
    print(f"level {sandbox.level}, {sys.version.split()[0]}, {os.cpu_count()} cores")
    sealed = Sealed(os.memfd_create("file"), 0, b"")

    def one_tenant(_turn: int) -> Awaitable[object]:
        return sandbox.run("check", sealed, filename="a.bin", tenant_id="one")

    def another_tenant(turn: int) -> Awaitable[object]:
        return sandbox.run("check", sealed, filename="a.bin", tenant_id=f"t{turn}")

    await timed("a file in a reused child", FILES, one_tenant)
    await timed("a file of a tenant not seen before", OTHER_TENANTS, another_tenant)
    await sandbox.aclose()
    await timed("start to ready and close, product jobs", 5, start_once)


if __name__ == "__main__":
    uvloop.run(main())
