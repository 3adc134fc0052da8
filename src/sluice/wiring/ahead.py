"""What takes long to start, begun before the rest of the program is loaded: the zygote of the sandbox. Who uses it is in `engines`."""

import sys
from collections.abc import Callable
from typing import TypeAlias

from sluice.engines.sandbox.judge import Budget
from sluice.engines.sandbox.launch import Launched, launch_zygote

__all__ = ["Launch", "Launched", "launch_ahead"]

Launch: TypeAlias = Callable[[], Launched | None]
"""Begins a zygote, or answers None where there is none to be had."""


def launch_ahead() -> Launched | None:
    """Begin a zygote, where the sandbox will want one; what stands against it the sandbox's own start tells."""
    if sys.platform != "linux":
        return None
    try:
        return launch_zygote(memory_bytes=Budget().memory_bytes)
    except OSError:
        return None
