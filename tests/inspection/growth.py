"""How the time of a walk grows with its input."""

import gc
import time
from collections.abc import Callable

from tests.run_length import amount

_MAX_GROWTH = 2.3
_FIRST_TRIES = amount("GROWTH_TRIES", short=1, full=3)
_TRIES = 3
_DOUBLINGS = 4


def assert_linear(walk: Callable[[int], object], size: int) -> None:
    """Assert that an input of twice the size costs at most 2.3 times the processor time.

    Where memory outgrows a cache of the processor, one doubling may cost more: then the next ones are measured. What
    grows with the square of its input fails at each of them.
    """
    gc.disable()
    try:
        growths = []
        # The best of some tries each, since other processes disturb them; often one shows enough.
        for doubling, tries in ((0, _FIRST_TRIES), *((each, _TRIES) for each in range(_DOUBLINGS))):
            once, twice = (min(_seconds(walk, n << doubling) for _ in range(tries)) for n in (size, 2 * size))
            growths.append(round(twice / once, 2))
            if growths[-1] <= _MAX_GROWTH:
                return
    finally:
        gc.enable()
    raise AssertionError(f"each doubling from {size} on multiplies the time by {growths}")


def _seconds(walk: Callable[[int], object], size: int) -> float:
    began = time.process_time()
    walk(size)
    return max(time.process_time() - began, 1e-6)
