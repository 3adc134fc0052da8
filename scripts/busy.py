"""Judge files on an idle machine and again beside busy processes, and report each verdict that differs.

    python scripts/busy.py FOLDER [--files 60] [--processes 16] [--nice -10]

Files are taken from all of FOLDER in even steps. The second time `--processes` endless loops run at the priority
`--nice` (below 0 needs root). Exits with 1 if a verdict differs, or a file got none.
"""

import argparse
import asyncio
import hashlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from sluice_inspect.sandbox import Completed, Sandbox
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.protocol import JobLimits
from sluice_inspect.sandbox.sealed import Sealed

_LARGEST_BYTES = 100 * 1024**2


def main(arguments: Sequence[str]) -> int:
    """Print what differs and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=60)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--nice", type=int, default=-10)
    options = parser.parse_args(arguments)
    found = sorted(
        path for path in options.folder.rglob("*") if path.is_file() and path.stat().st_size < _LARGEST_BYTES
    )
    files = found[:: max(1, len(found) // options.files)][: options.files]
    return asyncio.run(_compare(files, options.processes, options.nice))


async def _compare(files: Sequence[Path], processes: int, nice: int) -> int:
    sandbox = ZygoteSandbox(limits=JobLimits(wall_seconds=1800.0), wait_seconds=1800.0)
    await sandbox.start(every_format=False)
    try:
        began = time.perf_counter()
        idle = [await _verdict(sandbox, path) for path in files]
        alone = time.perf_counter() - began
        with _busy(processes, nice):
            began = time.perf_counter()
            busy = [await _verdict(sandbox, path) for path in files]
            beside = time.perf_counter() - began
    finally:
        await sandbox.aclose()
    different = [path for path, one, other in zip(files, idle, busy, strict=True) if one != other or one is None]
    print(f"{len(files)} files: {alone:.1f} s alone, {beside:.1f} s beside {processes} processes at nice {nice}")
    for path in different:
        print(f"differs: {path}")
    print(f"{len(different)} verdicts differ")
    return 1 if different else 0


async def _verdict(sandbox: Sandbox, path: Path) -> Mapping[str, object] | None:
    """Return the report on a file without its time, None if there is none."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").digest()
        sealed = Sealed(file.fileno(), os.fstat(file.fileno()).st_size, digest)
        result = await sandbox.run("check", sealed, filename=path.name, tenant_id="busy")
    if not isinstance(result, Completed):
        print(f"{path}: {result}")
        return None
    return {name: value for name, value in result.payload.items() if name != "ms"}


@contextmanager
def _busy(processes: int, nice: int) -> Iterator[None]:
    """Run endless loops while the block runs."""
    loop = "import os, sys; os.setpriority(os.PRIO_PROCESS, 0, int(sys.argv[1]))\nwhile True: pass"
    started = [subprocess.Popen([sys.executable, "-c", loop, str(nice)]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
