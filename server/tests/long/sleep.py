"""Replaces `time.sleep` under libfaketime, which refuses to sleep until a time of the monotonic clock, as Python asks."""

import select
import time
from typing import SupportsIndex


def _sleep(seconds: float | SupportsIndex) -> None:
    select.select([], [], [], float(seconds))


time.sleep = _sleep
