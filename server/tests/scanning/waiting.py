"""Waiting for background work of a service."""

import time
from collections.abc import Callable

_LONGEST_PAUSE = 0.3


def until(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Return whether `holds` becomes true in time; the longer that takes, the more seldom it is asked."""
    deadline, pause = time.monotonic() + seconds, 0.03
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(1.3 * pause, _LONGEST_PAUSE)
    return True
