"""Waiting for what a service does in its background, and says only when asked."""

import time
from collections.abc import Callable


def until(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    """Answer whether `holds` becomes true in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
