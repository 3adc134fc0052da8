"""No parser, walker or rule takes more than 2.3 times as long for an input of twice the size."""

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pytest

from sluice_inspect.inspection import inspect_file, preload
from sluice_inspect.threats.scan import scan_source
from tests.inspection.growing import GROWING, LARGE, SAMPLES, Growing, seconds
from tests.rows import every_row
from tests.run_length import LONG_RUN, amount

MAX_RATIO = 2.3
# Below, the time of an input is mostly that of the start of a check, and the clock's.
LEAST_SECONDS = 0.02
MAX_BYTES = amount("GROWTH_BYTES", short=16 * 1024, full=8 * 1024**2)
MAX_SECONDS = 5.0  # of any input of these sizes
LARGE_COUNT = 8192  # stretches of 1,216 bytes: 10 MB
LEAST_GROWTH = 1.5  # of an input that is read to its end
LEAST_TRIES = amount("GROWTH_TRIES", short=3, full=5)
ENOUGH_SECONDS = amount("GROWTH_ENOUGH_MS", short=80, full=30_000) / 1000
"""A larger input than one that takes so long shows nothing more."""
CPU_SECONDS = 30
CRASHES: Final = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)
CASES = {**GROWING, **SAMPLES} if LONG_RUN else GROWING
Run = Callable[[int, str], object]


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    preload()


def check(fd: int, filename: str) -> None:
    inspect_file(fd, filename=filename)


def scan(fd: int, filename: str) -> None:
    scan_source(fd, filename)


def ratio(run: Run, growing: Growing) -> float:
    """Return how much longer the largest input takes than one of half its size; 0 if both are too fast to tell."""
    count = 1
    while len(growing.make(2 * count)) <= MAX_BYTES and count < 2**20:
        count *= 2
    large = growing.make(count)
    slow = seconds(run, large, growing.extension, tries=1)
    assert slow < MAX_SECONDS, f"{len(large)} bytes take {slow:.1f} s"
    while slow > ENOUGH_SECONDS and count > 1:
        count //= 2
        large = growing.make(count)
        slow = seconds(run, large, growing.extension, tries=1)
    if slow < 2 * LEAST_SECONDS or count == 1:
        return 0
    small, fast = growing.make(count // 2), float("inf")
    for attempt in range(1, 25):  # by turns, so that other work on the machine slows both
        fast = min(fast, seconds(run, small, growing.extension, tries=1))
        slow = min(slow, seconds(run, large, growing.extension, tries=1))
        growth = slow / max(fast, LEAST_SECONDS / 2)
        if attempt >= LEAST_TRIES and growth <= MAX_RATIO:
            return growth
    # Where memory outgrows a cache of the processor, one doubling costs more than the others. What grows faster than its
    # input does so at the next size, too; an input that is not read to its end there shows nothing.
    beyond = seconds(run, growing.make(2 * count), growing.extension, tries=6) / slow
    return beyond if LEAST_GROWTH <= beyond <= MAX_RATIO else growth


def ratios(cases: Sequence[tuple[Run, Growing]]) -> Iterator[str]:
    """Yield the ratio of each case, or why there is none, as one child measures them.

    A library may crash, which the sandbox takes for a refusal: another child continues after that case.
    """
    done = 0
    while done < len(cases):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            for run, growing in cases[done:]:
                seconds_so_far = int(time.process_time())
                resource.setrlimit(resource.RLIMIT_CPU, (seconds_so_far + CPU_SECONDS, resource.RLIM_INFINITY))
                try:
                    answer = str(ratio(run, growing))
                except BaseException as error:  # noqa: BLE001  (whatever it is, the parent must learn of it)
                    answer = repr(error)[:500]
                os.write(writer, answer.encode() + b"\n")
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as answers:
            lines = answers.read().splitlines()
        _, status = os.waitpid(child, 0)
        yield from lines
        done += len(lines)
        if os.WIFSIGNALED(status):
            yield "0" if os.WTERMSIG(status) in CRASHES else f"ended by signal {os.WTERMSIG(status)}: too slow"
            done += 1


@pytest.mark.asvs("15.2.2")
@pytest.mark.parametrize("kind", sorted({name.partition(",")[0] for name in CASES}))
def test_time_at_most_doubles_with_the_size(kind: str) -> None:
    names = [name for name in CASES if name.partition(",")[0] == kind]
    cases = {(name, run.__name__): (run, CASES[name]) for name in names for run in (check, scan)}
    with every_row() as row:
        for case, answer in zip(cases, ratios([*cases.values()]), strict=True):
            with row(case):
                assert answer[:1].isdigit(), answer
                assert float(answer) <= MAX_RATIO


@pytest.mark.parametrize("name", LARGE)
def test_time_of_a_large_file_at_most_doubles_with_its_size(name: str) -> None:
    once, twice = (LARGE[name].make(count) for count in (LARGE_COUNT // 2, LARGE_COUNT))
    assert seconds(check, twice, "pdf", tries=1) < MAX_SECONDS
    slow = fast = float("inf")
    for attempt in range(1, 15):
        fast = min(fast, max(LEAST_SECONDS, seconds(check, once, "pdf", tries=1)))
        slow = min(slow, seconds(check, twice, "pdf", tries=1))
        if attempt >= LEAST_TRIES and slow / fast <= MAX_RATIO:
            return
    pytest.fail(f"twice the size takes {slow / fast:.2f} times as long")
