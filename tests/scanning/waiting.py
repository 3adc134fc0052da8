"""Waiting for background work of a service."""

import time
from collections.abc import Callable


def until(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Return whether `holds` becomes true in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
