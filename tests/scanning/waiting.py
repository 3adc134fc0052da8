"""Waiting for background work of a service."""

import time
from collections.abc import Callable


def until(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Return whether `holds` becomes true in time; ask less often the longer it takes, since each request costs 10 ms."""
    deadline, pause = time.monotonic() + seconds, 0.05
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.2, 0.3)
    return True
