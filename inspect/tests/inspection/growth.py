"""How the time of a walk grows with its input."""

import gc
import time
from collections.abc import Callable

MOST_GROWTH = 5.3
"""Of the time for four times the input: n to the power of 1.2. The square would be 16."""
_NEAR = 1.3  # times that: n to the power of 1.4
_LEAST_SECONDS = 0.002  # below, the time is that of the call and the clock
_TRIES = 12
_LOOPS = 1_000_000
_LOOP_SECONDS = 0.014
"""What this many loops take on the machine for which bounds in seconds are written."""


def growth(
    seconds: Callable[[int], float], size: int, *, most: float = MOST_GROWTH, within: float = float("inf")
) -> tuple[float, float]:
    """Return how many times as long an input of `size` takes as one of a quarter, and its seconds.

    If that is little more than `most`, the same of half the size counts: what leaves the cache of the processor, which
    other processes use too, takes longer once; what grows faster does so at each size.
    """
    ratio, whole = _compared(seconds, size, most, within)
    if most < ratio <= _NEAR * most:
        ratio = _compared(seconds, size // 2, most, float("inf"))[0]
    return ratio, whole


def _compared(seconds: Callable[[int], float], size: int, most: float, within: float) -> tuple[float, float]:
    """Measure by turns; the least times count, so that other work on the machine disturbs neither alone.

    One try is enough if it shows no more than `most`, and less than `within` seconds.
    """
    quarter = whole = float("inf")
    ratio = 0.0
    gc.disable()
    try:
        for _ in range(_TRIES):
            quarter, whole = min(quarter, seconds(size // 4)), min(whole, seconds(size))
            ratio = whole / max(quarter, _LEAST_SECONDS)
            if ratio <= most and whole < within:
                break
    finally:
        gc.enable()
    return ratio, whole


def seconds_of(walk: Callable[[int], object], size: int) -> float:
    """Return the processor time of a walk."""
    began = time.process_time()
    walk(size)
    return time.process_time() - began


def assert_linear(
    walk: Callable[[int], object], size: int, *, most: float = MOST_GROWTH, within: float = float("inf")
) -> None:
    """Assert that the time of the walk grows as its input does, up to `size`, which takes less than `within` seconds."""
    bound = within * slowness()
    ratio, spent = growth(lambda each: seconds_of(walk, each), size, most=most, within=bound)
    assert ratio <= most, f"{size} take {ratio:.1f} times as long as a quarter"
    assert spent < bound, f"{size} take {spent:.1f} s"


def slowness() -> float:
    """Return how many times as long this machine takes now as the one for which bounds are written, at least 1."""

    def loop(count: int) -> None:
        for _ in range(count):
            pass

    return max(1.0, seconds_of(loop, _LOOPS) / _LOOP_SECONDS)
