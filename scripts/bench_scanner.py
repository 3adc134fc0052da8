"""What a scan costs beside clamd alone: small files, a 100 MB zip, and a verdict from the cache. Prints a table of one run.

Run it as `make bench-scanner`, on a quiet machine. All ways take turns with the same clamd, which has 100,000 signatures that match
nothing. Rates depend on the machine; ratios of one run are what counts.
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
from tests.scanning.pictures import noise
from tests.scanning.signatures import database_of
from tests.servers.clamd import LARGEST, Clamd, running_clamd
from tests.servers.redis import running_redis

from sluice.engines.sandbox import Sandbox
from sluice.engines.sandbox.zygote import ZygoteSandbox
from sluice.engines.scanner import Clean, Glance, Scanner
from sluice.engines.scanner.clamd import ClamdScanner
from sluice.engines.verdicts import Cleared, VerdictCache, VerdictKey
from sluice.engines.verdicts.memory import MemoryVerdicts
from sluice.engines.verdicts.redis import RedisVerdicts
from sluice.kit.sealed import Sealed
from sluice.settings import Settings
from sluice.uploads.stages.examine import examine

SIGNATURES: Final = 100_000
AT_ONCE: Final = 8
LOOKS: Final = 5_000
WITHOUT_CACHE: Final = {"DisableCache": "yes"}
"""clamd keeps clean verdicts of its own: whoever scans a file first would pay for all."""
_TICK: Final = os.sysconf("SC_CLK_TCK")
_MB: Final = 1024**2

Scan = Callable[[Sealed], Awaitable[None]]


@dataclass
class Cost:
    """Seconds on the clock, and of processors: in clamd, in this process, and in the sandbox's children."""

    name: str
    files: int = 0
    seconds: list[float] = field(default_factory=list)
    clamd: float = 0.0
    ours: float = 0.0
    children: float = 0.0


def processor_seconds(pid: int) -> float:
    """Answer what a process has used so far, and those of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICK


def descendants(pid: int) -> Iterator[int]:
    """Answer the living processes below `pid`."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield int(child)
            yield from descendants(int(child))


def children_seconds(clamd: Clamd) -> float:
    """Answer what the living processes below this one have used, but for clamd."""
    return sum(processor_seconds(pid) for pid in descendants(os.getpid()) if pid != clamd.pid)


@contextmanager
def sealed(content: bytes) -> Iterator[Sealed]:
    """Answer the bytes as the spool hands them on."""
    fd = os.memfd_create("bench")
    try:
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(content)
        yield Sealed(fd, len(content), hashlib.sha256(content).digest())
    finally:
        os.close(fd)


def large_zip() -> bytes:
    """Answer a zip of 100 MB: a quarter of its members of 1 MB are stored noise, the others deflated words."""
    dice = random.Random(7)  # noqa: S311  (the same bytes each time, no secret)
    words = [b"%x" % dice.getrandbits(40) for _ in range(4000)]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        number = 0
        while out.tell() < 99 * _MB:
            if number % 4 == 0:
                archive.writestr(f"bin/{number}.bin", dice.randbytes(_MB), zipfile.ZIP_STORED)
            else:
                archive.writestr(f"txt/{number}.txt", b" ".join(dice.choices(words, k=200_000)), zipfile.ZIP_DEFLATED, 1)
            number += 1
    return out.getvalue()


def ask_alone(clamd: Clamd, file: Sealed) -> None:
    """Have clamd scan a file as plainly as can be: a connection, a descriptor, an answer."""
    fd = file.reopen()
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(clamd.socket))
            connection.sendall(b"zFILDES\0")
            socket.send_fds(connection, [b"\0"], [fd])
            answer = connection.recv(4096)
    finally:
        os.close(fd)
    if not answer.endswith(b": OK\0"):
        raise RuntimeError(f"clamd said {answer!r}")


def alone(clamd: Clamd) -> Scan:
    """Answer how clamd is asked without Sluice, from a thread for each scan under way."""

    async def scan(file: Sealed) -> None:
        await asyncio.to_thread(ask_alone, clamd, file)

    return scan


def by(scanner: Scanner) -> Scan:
    """Answer how a scanner is asked; one tenant's files."""

    async def scan(file: Sealed) -> None:
        result = await scanner.scan(file, tenant_id="ten_bench")
        if not isinstance(result, Clean):
            raise TypeError(f"the scan answered {result}")

    return scan


def beside_a_check(scanner: Scanner | None, sandbox: Sandbox) -> Scan:
    """Answer how an upload has a file checked, and scanned at the same time where there is a scanner."""

    async def check(file: Sealed) -> None:
        if scanner is None:
            await examine(file, "a.png", "ten_bench", sandbox)
            return
        glance = Glance()
        scanning = asyncio.create_task(scanner.scan(file, tenant_id="ten_bench", glance=glance))
        await examine(file, "a.png", "ten_bench", sandbox, glance)
        result = await scanning
        if not isinstance(result, Clean):
            raise TypeError(f"the scan answered {result}")

    return check


async def all_of(files: Sequence[Sealed], scan: Scan, at_once: int) -> None:
    """Scan all files, so many at once."""
    left = iter(files)

    async def work() -> None:
        for file in left:
            await scan(file)

    await asyncio.gather(*(work() for _ in range(at_once)))


async def measured(cost: Cost, clamd: Clamd, files: Sequence[Sealed], scan: Scan, at_once: int) -> None:
    """Scan all files and add what it took to `cost`."""
    ours, children, theirs = time.process_time(), children_seconds(clamd), processor_seconds(clamd.pid)
    began = time.perf_counter()
    await all_of(files, scan, at_once)
    cost.seconds.append(time.perf_counter() - began)
    cost.ours += time.process_time() - ours
    cost.children += children_seconds(clamd) - children
    cost.clamd += processor_seconds(clamd.pid) - theirs
    cost.files += len(files)


async def in_turns(clamd: Clamd, ways: dict[str, Scan], batches: Iterator[list[bytes]], at_once: int) -> list[Cost]:
    """Have every way scan every batch, each time another way first, and answer what each took."""
    costs = {name: Cost(name) for name in ways}
    for turn, contents in enumerate(batches):
        with ExitStack() as stack:
            files = [stack.enter_context(sealed(content)) for content in contents]
            names = list(ways)
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                await measured(costs[name], clamd, files, ways[name], at_once)
    return list(costs.values())


def show(title: str, costs: Sequence[Cost]) -> None:
    """Print a table; the first way is what the others are compared with."""
    print(f"\n{title}\n{'':38} {'files/s':>9} {'of alone':>9} {'clamd CPU ms':>13} {'server CPU ms':>14} {'children CPU ms':>16}")
    base = costs[0].files / sum(costs[0].seconds)
    for cost in costs:
        rate = cost.files / sum(cost.seconds)
        per_file = 1000 / cost.files
        print(
            f"{cost.name:38} {rate:9.1f} {rate / base:9.2f} {cost.clamd * per_file:13.2f} {cost.ours * per_file:14.2f} {cost.children * per_file:16.2f}"
        )


def without(cost: Cost, other: Cost, name: str) -> Cost:
    """Answer what `cost` takes beyond `other`, over the same files."""
    seconds = [max(0.0, sum(cost.seconds) - sum(other.seconds))]
    return Cost(name, cost.files, seconds, cost.clamd - other.clamd, cost.ours - other.ours, cost.children - other.children)


def show_times(title: str, costs: Sequence[Cost]) -> None:
    """Print the median time of single files; the first way is what the others are compared with."""
    print(f"\n{title}\n{'':38} {'seconds':>9} {'of alone':>9} {'clamd CPU s':>13} {'server CPU s':>14} {'children CPU s':>16}")
    for cost in costs:
        ratio = median(one / other for one, other in zip(cost.seconds, costs[0].seconds, strict=True))
        spent = " ".join(
            f"{part / cost.files:{width}.2f}" for part, width in ((cost.clamd, 13), (cost.ours, 14), (cost.children, 16))
        )
        print(f"{cost.name:38} {median(cost.seconds):9.2f} {ratio:9.2f} {spent}")


async def show_hits(caches: Sequence[VerdictCache]) -> None:
    """Print what a look into each cache costs that finds a verdict."""
    print(f"\nA verdict from the cache, {LOOKS} looks one after another\n{'':38} {'median µs':>9} {'p99 µs':>9} {'our CPU µs':>13}")
    key = VerdictKey(hashlib.sha256(b"x").digest(), "clamd 1.4.6", "27500", "rules 1; passwords allow")
    for cache in caches:
        await cache.keep(key, Cleared("unix:/run/clamav/clamd.ctl"))
        taken, spent = [], time.process_time()
        for _ in range(LOOKS):
            began = time.perf_counter()
            if await cache.find(key) is None:
                raise RuntimeError("the cache lost a verdict")
            taken.append((time.perf_counter() - began) * 1e6)
        cpu = (time.process_time() - spent) / LOOKS * 1e6
        taken.sort()
        print(f"{cache.name:38} {median(taken):9.1f} {taken[LOOKS * 99 // 100]:9.1f} {cpu:13.1f}")


async def main(folder: Path, small: int, rounds: int) -> None:
    """Measure all three."""
    (folder / "clamd" / "db").mkdir(parents=True)
    database_of(SIGNATURES, folder / "clamd" / "db" / "many")
    with running_clamd(folder / "clamd", LARGEST | WITHOUT_CACHE) as clamd, running_redis(folder / "redis") as redis:
        async with AsyncExitStack() as stack:
            sandbox = ZygoteSandbox(files_per_worker=Settings.model_fields["sandbox_files_per_worker"].default)
            stack.push_async_callback(sandbox.aclose)
            await sandbox.start()
            scanner = ClamdScanner([clamd.address], sandbox, concurrency=AT_ONCE)
            stack.push_async_callback(scanner.aclose)
            await scanner.start()
            await scanner.find_reach(120)
            print(
                f"{(await scanner.health()).version}, {SIGNATURES} signatures, Python {sys.version.split()[0]}, {os.cpu_count()} cores"
            )
            ways = {"clamd alone (FILDES)": alone(clamd), "Sluice, by itself (a re-scan)": by(scanner)}
            uploaded = {"check alone": beside_a_check(None, sandbox), "check and scan": beside_a_check(scanner, sandbox)}
            pictures = ([noise(turn * small + number) for number in range(small)] for turn in range(rounds))
            costs = await in_turns(clamd, ways | uploaded, pictures, AT_ONCE)
            beside = without(costs[-1], costs[-2], "Sluice, beside the check (an upload)")
            show(f"PNG of 10 KB, {AT_ONCE} at once", [*costs, beside])
            archive = large_zip()
            archives = ([archive] for _ in range(rounds))
            show_times("A zip of 100 MB, one at a time", await in_turns(clamd, ways, archives, 1))
            caches = [MemoryVerdicts(), RedisVerdicts(redis.url, secret=b"s" * 32)]
            await show_hits(caches)
            for cache in caches:
                await cache.aclose()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=400, help="small files in each turn")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each way")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        uvloop.run(main(Path(temporary), given.small, given.rounds))
