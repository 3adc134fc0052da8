"""No parser, walker or rule takes more than 2.3 times as long for an input of twice the size."""

import os
import resource
import signal
from collections.abc import Callable
from typing import Final

import pytest

from sluice_inspect.inspection import inspect_file, preload
from sluice_inspect.threats.scan import scan_source
from tests.inspection.growing import GROWING, LARGE, SAMPLES, Growing, seconds
from tests.rows import each_row
from tests.run_length import LONG_RUN, amount

MAX_RATIO = 2.3
# Below, the time of an input is mostly that of the start of a check, and the clock's.
LEAST_SECONDS = 0.02
MAX_BYTES = amount("GROWTH_BYTES", short=16 * 1024, full=8 * 1024**2)
MAX_SECONDS = 5.0  # of any input of these sizes
LARGE_COUNT = 8192  # stretches of 1,216 bytes: 10 MB
LEAST_GROWTH = 1.5  # of an input that is read to its end
LEAST_TRIES = 5
CPU_SECONDS = 30
CRASHES: Final = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS)
CASES = {**GROWING, **SAMPLES} if LONG_RUN else GROWING


@pytest.fixture(scope="module", autouse=True)
def _loaded() -> None:
    preload()


def check(fd: int, filename: str) -> None:
    inspect_file(fd, filename=filename)


def scan(fd: int, filename: str) -> None:
    scan_source(fd, filename)


def ratio(run: Callable[[int, str], object], growing: Growing) -> float:
    """Return how much longer the largest input takes than one of half its size; 0 if both are too fast to tell."""
    count = 1
    while len(growing.make(2 * count)) <= MAX_BYTES and count < 2**20:
        count *= 2
    large = growing.make(count)
    slow = seconds(run, large, growing.extension, tries=1)
    assert slow < MAX_SECONDS, f"{len(large)} bytes take {slow:.1f} s"
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


def in_child(run: Callable[[int, str], object], growing: Growing) -> float:
    """Return the ratio, measured in a child: a library may crash, which the sandbox takes for a refusal."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            os.write(writer, str(ratio(run, growing)).encode())
        except BaseException as error:  # noqa: BLE001  (whatever it is, the parent must learn of it)
            os.write(writer, str(error).encode()[:500])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as answers:
        answer = answers.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) in CRASHES, f"ended by signal {os.WTERMSIG(status)}: too slow"
        return 0
    try:
        return float(answer)
    except ValueError:
        pytest.fail(answer)


@pytest.mark.asvs("15.2.2")
@each_row("name", CASES)
@each_row("run", [check, scan])
def test_time_at_most_doubles_with_the_size(run: Callable[[int, str], object], name: str) -> None:
    assert in_child(run, CASES[name]) <= MAX_RATIO


@each_row("name", LARGE)
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
