"""The time of every parser, walker and rule grows as the input does."""

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Final

import pytest

from sluice_inspect.inspection import inspect_file, preload
from sluice_inspect.threats.scan import scan_source
from tests.inspection.growing import DENSE, GROWING, LARGE, SAMPLES, Growing, seconds
from tests.inspection.growth import MOST_GROWTH, growth, slowness
from tests.rows import each_row, every_row
from tests.run_length import LONG_RUN, amount

# Below, the time of an input is mostly that of the start of a check.
LEAST_SECONDS = 0.02
MAX_BYTES = amount("GROWTH_BYTES", short=8 * 1024, full=8 * 1024**2)
MAX_SECONDS = 5.0  # of any input of these sizes
LARGE_COUNT = amount("GROWTH_STRETCHES", short=2048, full=8192)  # of 1,216 bytes: 2.5 or 10 MB
ENOUGH_SECONDS = amount("GROWTH_ENOUGH_MS", short=80, full=30_000) / 1000
"""A larger input than one that takes so long shows nothing more."""
CPU_SECONDS = 30
DENSE_BYTES = 1_200_000
DENSE_SECONDS = 1.0
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
    """Return how much longer the largest input takes than one of a quarter of its size; 0 if both are too fast to tell."""
    count = 1
    while len(growing.make(2 * count)) <= MAX_BYTES and count < 2**20:
        count *= 2
    slow = seconds(run, growing.make(count), growing.extension, tries=1)
    assert slow < MAX_SECONDS, f"{len(growing.make(count))} bytes take {slow:.1f} s"
    while slow > ENOUGH_SECONDS and count > 4:
        count //= 2
        slow = seconds(run, growing.make(count), growing.extension, tries=1)
    if slow < 2 * LEAST_SECONDS or count < 4:
        return 0
    make = cache(growing.make)

    def seconds_of(size: int) -> float:
        return max(LEAST_SECONDS / 2, seconds(run, make(size), growing.extension, tries=1))

    found = growth(seconds_of, count)[0]
    # A reader that bounds its work may grow faster up to that bound; one without a bound does so at each size.
    if found > MOST_GROWTH and len(make(4 * count)) <= MAX_BYTES:
        found = growth(seconds_of, 4 * count)[0]
    return found


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
                    response = str(ratio(run, growing))
                except BaseException as error:  # noqa: BLE001  (whatever it is, the parent must learn of it)
                    response = repr(error)[:500]
                os.write(writer, response.encode() + b"\n")
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, encoding="utf-8") as responses:
            lines = responses.read().splitlines()
        _, status = os.waitpid(child, 0)
        yield from lines
        done += len(lines)
        if os.WIFSIGNALED(status):
            yield "0" if os.WTERMSIG(status) in CRASHES else f"ended by signal {os.WTERMSIG(status)}: too slow"
            done += 1


@pytest.mark.asvs("15.2.2")
@pytest.mark.parametrize("kind", sorted({name.partition(",")[0] for name in CASES}))
def test_time_grows_as_the_size_does(kind: str) -> None:
    names = [name for name in CASES if name.partition(",")[0] == kind]
    cases = {(name, run.__name__): (run, CASES[name]) for name in names for run in (check, scan)}
    with every_row() as row:
        for case, response in zip(cases, ratios([*cases.values()]), strict=True):
            with row(case):
                assert response[:1].isdigit(), response
                assert float(response) <= MOST_GROWTH


@each_row("name", DENSE)
def test_count_refuses_what_a_library_would_read_in_the_square_of_its_size(name: str) -> None:
    growing = GROWING[name]
    data = growing.make(DENSE_BYTES * 1000 // len(growing.make(1000)))
    for run in (check, scan):
        assert seconds(run, data, growing.extension, tries=1) < DENSE_SECONDS * slowness(), run.__name__


@pytest.mark.parametrize("name", LARGE)
def test_time_of_a_large_file_grows_as_its_size_does(name: str) -> None:
    make = cache(LARGE[name].make)
    assert seconds(check, make(LARGE_COUNT), "pdf", tries=1) < MAX_SECONDS * LARGE_COUNT / 8192

    def seconds_of(count: int) -> float:
        return max(LEAST_SECONDS, seconds(check, make(count), "pdf", tries=1))

    assert growth(seconds_of, LARGE_COUNT)[0] <= MOST_GROWTH
