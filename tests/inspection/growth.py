"""How the time of a walk grows with its input."""

import gc
import time
from collections.abc import Callable

MOST_GROWTH = 6.0
"""Of the time for four times the input: n to the power of 1.3. The square would be 16."""
_LEAST_SECONDS = 0.002  # below, the time is that of the call and the clock
_TRIES = 12
_LOOPS = 1_000_000
_LOOP_SECONDS = 0.014
"""What so many loops take on the machine for which bounds in seconds are written."""


def growth(seconds: Callable[[int], float], size: int) -> float:
    """Return how many times as long an input of `size` takes as one of a quarter.

    Both are measured by turns, and the least times count, so that other work on the machine disturbs neither alone. One
    try is enough if it shows no more than `MOST_GROWTH`.
    """
    quarter = whole = float("inf")
    ratio = 0.0
    gc.disable()
    try:
        for _ in range(_TRIES):
            quarter, whole = min(quarter, seconds(size // 4)), min(whole, seconds(size))
            ratio = whole / max(quarter, _LEAST_SECONDS)
            if ratio <= MOST_GROWTH:
                break
    finally:
        gc.enable()
    return ratio


def seconds_of(walk: Callable[[int], object], size: int) -> float:
    """Return the processor time of a walk."""
    began = time.process_time()
    walk(size)
    return time.process_time() - began


def assert_linear(walk: Callable[[int], object], size: int) -> None:
    """Assert that the time of the walk grows as its input does, up to `size`."""
    ratio = growth(lambda each: seconds_of(walk, each), size)
    assert ratio <= MOST_GROWTH, f"{size} take {ratio:.1f} times as long as a quarter"


def slowness() -> float:
    """Return how many times as long this machine takes now as the one for which bounds are written, at least 1."""

    def loop(count: int) -> None:
        for _ in range(count):
            pass

    return max(1.0, seconds_of(loop, _LOOPS) / _LOOP_SECONDS)
