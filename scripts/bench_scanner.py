"""Compare Sluice's scans with clamd alone: small files, a 100 MB zip, and a verdict from the cache.

Run it with `make bench-scanner` on a quiet machine. All variants take turns with the same clamd, which has 100,000
signatures that match nothing. Rates depend on the machine; compare only the ratios of one run.
"""

import argparse
import asyncio
import hashlib
import io
import os
import random
import socket
import sys
import tempfile
import time
import zipfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import uvloop

from sluice.scanner import Clean, Scanner, UnpackReport
from sluice.scanner.clamd.scanner import ClamdScanner
from sluice.scanner.icap.connection import IcapAddress
from sluice.scanner.icap.scanner import IcapScanner
from sluice.scanner.redis_verdict_cache import RedisVerdictCache
from sluice.scanner.several import ConfiguredScanner, SeveralScanners
from sluice.scanner.verdict_cache import CleanVerdict, MemoryVerdictCache, VerdictCache, VerdictKey
from sluice.settings import Settings
from sluice.uploads.inspection import examine
from sluice_inspect.sandbox import Sandbox
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.sealed import Sealed
from tests.scanning.pictures import noise_png
from tests.scanning.signatures import database_of
from tests.servers.c_icap import running_c_icap
from tests.servers.clamd import LARGEST, Clamd, running_clamd
from tests.servers.redis import running_redis

SIGNATURES: Final = 100_000
AT_ONCE: Final = 8
LOOKUPS: Final = 5_000
WITHOUT_CACHE: Final = {"DisableCache": "yes"}
"""clamd caches clean verdicts: with its cache only the first scan of a file would be measured."""
_TICK: Final = os.sysconf("SC_CLK_TCK")
_MB: Final = 1024**2

Scan = Callable[[Sealed], Awaitable[None]]


@dataclass
class Cost:
    """Wall clock seconds, and CPU seconds of clamd, of this process, and of the sandbox's child processes."""

    name: str
    files: int = 0
    seconds: list[float] = field(default_factory=list)
    clamd: float = 0.0
    server: float = 0.0
    children: float = 0.0


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICK


def descendants(pid: int) -> Iterator[int]:
    """Yield the running descendants of `pid`."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from descendants(int(child))


def children_seconds(clamd: Clamd) -> float:
    """Return the CPU seconds of the running descendants of this process, without clamd."""
    return sum(cpu_seconds(pid) for pid in descendants(os.getpid()) if pid != clamd.pid)


@contextmanager
def sealed(content: bytes) -> Iterator[Sealed]:
    """Yield the content as a sealed file."""
    fd = os.memfd_create("bench")
    try:
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(content)
        yield Sealed(fd, len(content), hashlib.sha256(content).digest())
    finally:
        os.close(fd)


def large_zip() -> bytes:
    """Return a zip of 100 MB: every fourth member is 1 MB of stored noise, the others are deflated words."""
    source = random.Random(7)  # noqa: S311  (the same bytes each time, no secret)
    words = [b"%x" % source.getrandbits(40) for _ in range(4000)]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        number = 0
        while out.tell() < 99 * _MB:
            if number % 4 == 0:
                archive.writestr(f"bin/{number}.bin", source.randbytes(_MB), zipfile.ZIP_STORED)
            else:
                archive.writestr(
                    f"txt/{number}.txt", b" ".join(source.choices(words, k=200_000)), zipfile.ZIP_DEFLATED, 1
                )
            number += 1
    return out.getvalue()


def scan_with_clamd(clamd: Clamd, file: Sealed) -> None:
    """Scan a file with clamd as simply as possible: connect, send a descriptor, read the reply."""
    fd = file.reopen()
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(clamd.socket))
            connection.sendall(b"zFILDES\0")
            socket.send_fds(connection, [b"\0"], [fd])
            reply = connection.recv(4096)
    finally:
        os.close(fd)
    if not reply.endswith(b": OK\0"):
        raise RuntimeError(f"clamd replied {reply!r}")


def clamd_alone(clamd: Clamd) -> Scan:
    """Return a scan by clamd without Sluice, with one thread for each running scan."""

    async def scan(file: Sealed) -> None:
        await asyncio.to_thread(scan_with_clamd, clamd, file)

    return scan


def with_scanner(scanner: Scanner) -> Scan:
    """Return a scan by a scanner, with the files of one tenant."""

    async def scan(file: Sealed) -> None:
        result = await scanner.scan(file, tenant_id="ten_bench")
        if not isinstance(result, Clean):
            raise TypeError(f"the scan returned {result}")

    return scan


def with_check(scanner: Scanner | None, sandbox: Sandbox) -> Scan:
    """Return a file check as in an upload, with a concurrent scan if there is a scanner."""

    async def check(file: Sealed) -> None:
        if scanner is None:
            await examine(file, "a.png", "ten_bench", sandbox)
            return
        unpack_report: asyncio.Future[UnpackReport | None] = asyncio.get_running_loop().create_future()
        scanning = asyncio.create_task(scanner.scan(file, tenant_id="ten_bench", unpack_report=unpack_report))
        await examine(file, "a.png", "ten_bench", sandbox, unpack_report)
        result = await scanning
        if not isinstance(result, Clean):
            raise TypeError(f"the scan returned {result}")

    return check


async def all_of(files: Sequence[Sealed], scan: Scan, at_once: int) -> None:
    """Scan all files, `at_once` concurrently."""
    remaining = iter(files)

    async def work() -> None:
        for file in remaining:
            await scan(file)

    await asyncio.gather(*(work() for _ in range(at_once)))


async def measured(cost: Cost, clamd: Clamd, files: Sequence[Sealed], scan: Scan, at_once: int) -> None:
    """Scan all files and add the time to `cost`."""
    server, children, scanner = time.process_time(), children_seconds(clamd), cpu_seconds(clamd.pid)
    began = time.perf_counter()
    await all_of(files, scan, at_once)
    cost.seconds.append(time.perf_counter() - began)
    cost.server += time.process_time() - server
    cost.children += children_seconds(clamd) - children
    cost.clamd += cpu_seconds(clamd.pid) - scanner
    cost.files += len(files)


async def in_turns(clamd: Clamd, variants: dict[str, Scan], batches: Iterator[list[bytes]], at_once: int) -> list[Cost]:
    """Scan every batch with every variant, starting with another variant each time, and return the costs."""
    costs = {name: Cost(name) for name in variants}
    for turn, contents in enumerate(batches):
        with ExitStack() as stack:
            files = [stack.enter_context(sealed(content)) for content in contents]
            names = list(variants)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                await measured(costs[name], clamd, files, variants[name], at_once)
    return list(costs.values())


def show(title: str, costs: Sequence[Cost]) -> None:
    """Print a table; the others are compared with the first variant."""
    print(
        f"\n{title}\n{'':38} {'files/s':>9} {'of alone':>9} {'clamd CPU ms':>13} {'server CPU ms':>14} {'children CPU ms':>16}"
    )
    base = costs[0].files / sum(costs[0].seconds)
    for cost in costs:
        rate = cost.files / sum(cost.seconds)
        per_file = 1000 / cost.files
        print(
            f"{cost.name:38} {rate:9.1f} {rate / base:9.2f} {cost.clamd * per_file:13.2f} {cost.server * per_file:14.2f} {cost.children * per_file:16.2f}"
        )


def without(cost: Cost, other: Cost, name: str) -> Cost:
    """Return what `cost` takes beyond `other`, over the same files."""
    seconds = [max(0.0, sum(cost.seconds) - sum(other.seconds))]
    return Cost(
        name, cost.files, seconds, cost.clamd - other.clamd, cost.server - other.server, cost.children - other.children
    )


def show_times(title: str, costs: Sequence[Cost]) -> None:
    """Print the median time of single files; the first way is what the others are compared with."""
    print(
        f"\n{title}\n{'':38} {'seconds':>9} {'of alone':>9} {'clamd CPU s':>13} {'server CPU s':>14} {'children CPU s':>16}"
    )
    for cost in costs:
        ratio = median(one / other for one, other in zip(cost.seconds, costs[0].seconds, strict=True))
        spent = " ".join(
            f"{part / cost.files:{width}.2f}"
            for part, width in ((cost.clamd, 13), (cost.server, 14), (cost.children, 16))
        )
        print(f"{cost.name:38} {median(cost.seconds):9.2f} {ratio:9.2f} {spent}")


async def show_verdicts(files: Sequence[Path], scanners: Sequence[Scanner]) -> None:
    """Print how many of these files, which are good ones, each scanner calls clean, and what it says of the others."""
    for scanner in scanners:
        others = []
        for path in files:
            with sealed(path.read_bytes()) as file:
                result = await scanner.scan(file, tenant_id="ten_bench")
            if not isinstance(result, Clean):
                others.append(f"  {path}: {result}")
        print(f"{scanner.name}: {len(files) - len(others):,} of {len(files):,} good files are clean", *others, sep="\n")


async def show_hits(caches: Sequence[VerdictCache]) -> None:
    """Print the cost of a cache hit in each cache."""
    print(
        f"\nA verdict from the cache, {LOOKUPS} lookups in sequence\n{'':38} {'median µs':>9} {'p99 µs':>9} {'server CPU µs':>13}"
    )
    key = VerdictKey(hashlib.sha256(b"x").digest(), "clamd 1.4.6", "27500", "rules 1; passwords allow")
    for cache in caches:
        await cache.put(key, CleanVerdict("unix:/run/clamav/clamd.ctl"))
        taken, spent = [], time.process_time()
        for _ in range(LOOKUPS):
            began = time.perf_counter()
            if await cache.get(key) is None:
                raise RuntimeError("the cache lost a verdict")
            taken.append((time.perf_counter() - began) * 1e6)
        cpu = (time.process_time() - spent) / LOOKUPS * 1e6
        taken.sort()
        print(f"{cache.name:38} {median(taken):9.1f} {taken[LOOKUPS * 99 // 100]:9.1f} {cpu:13.1f}")


async def main(folder: Path, small: int, rounds: int, good: Sequence[Path]) -> None:
    """Run all measurements."""
    (folder / "clamd" / "db").mkdir(parents=True)
    database_of(SIGNATURES, folder / "clamd" / "db" / "many")
    with (
        running_clamd(folder / "clamd", LARGEST | WITHOUT_CACHE) as clamd,
        running_c_icap(folder / "c-icap", clamd_port=clamd.port) as c_icap,
        running_redis(folder / "redis") as redis,
    ):
        async with AsyncExitStack() as stack:
            sandbox = ZygoteSandbox(files_per_worker=Settings.model_fields["sandbox_files_per_worker"].default)
            stack.push_async_callback(sandbox.aclose)
            await sandbox.start()
            scanner = ClamdScanner([clamd.address], sandbox, concurrency=AT_ONCE)
            stack.push_async_callback(scanner.aclose)
            await scanner.start()
            await scanner.find_scan_limit(120)
            print(
                f"{(await scanner.health()).version}, {SIGNATURES} signatures, Python {sys.version.split()[0]}, {os.cpu_count()} cores"
            )
            icap = IcapScanner("av", IcapAddress.parse(c_icap.address()), concurrency=AT_ONCE)
            stack.push_async_callback(icap.aclose)
            await icap.start()
            await icap.find_scan_limit(120)
            if good:
                await show_verdicts(good, (scanner, icap))
                return
            variants = {
                "clamd alone (FILDES)": clamd_alone(clamd),
                "Sluice, by itself (a re-scan)": with_scanner(scanner),
                "the same clamd behind c-icap": with_scanner(icap),
                "both at once": with_scanner(SeveralScanners([ConfiguredScanner(scanner), ConfiguredScanner(icap)])),
            }
            uploaded = {
                "check alone": with_check(None, sandbox),
                "check and scan": with_check(scanner, sandbox),
            }
            pictures = ([noise_png(turn * small + number) for number in range(small)] for turn in range(rounds))
            costs = await in_turns(clamd, variants | uploaded, pictures, AT_ONCE)
            beside = without(costs[-1], costs[-2], "Sluice, beside the check (an upload)")
            show(f"PNG of 10 KB, {AT_ONCE} at once", [*costs, beside])
            archive = large_zip()
            archives = ([archive] for _ in range(rounds))
            show_times("A zip of 100 MB, one at a time", await in_turns(clamd, variants, archives, 1))
            caches: list[VerdictCache] = [MemoryVerdictCache(), RedisVerdictCache(redis.url, secret=b"s" * 32)]
            await show_hits(caches)
            for cache in caches:
                await cache.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=400, help="small files in each round")
    parser.add_argument("--rounds", type=int, default=6, help="rounds of each variant")
    parser.add_argument(
        "--good",
        type=Path,
        nargs="+",
        default=[],
        help="scan the files of these folders by each engine, measure nothing",
    )
    options = parser.parse_args()
    good = sorted(path for folder in options.good for path in folder.rglob("*") if path.is_file())
    with tempfile.TemporaryDirectory() as temporary:
        uvloop.run(main(Path(temporary), options.small, options.rounds, good))
