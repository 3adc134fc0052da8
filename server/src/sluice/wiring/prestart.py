"""The early start of the sandbox's zygote, before the rest of the program is loaded. `engines` hands it to the sandbox.

Imports as little as possible: the zygote starts on another core while this process loads the rest.
"""

import sys
from collections.abc import Callable
from typing import TypeAlias

from sluice_inspect.sandbox.launch import (
    EarlyZygote,
    IsolatedProcess,
    LaunchedZygote,
    launch_shared_zygote,
    launch_zygote,
    open_zygote_socket,
)
from sluice_inspect.sandbox.protocol import JobLimits

__all__ = [
    "EarlyZygote",
    "IsolatedProcess",
    "Launch",
    "LaunchedZygote",
    "launch_early",
    "launch_shared_zygote",
    "open_zygote_socket",
]

# Starts a zygote, or returns None if there cannot be one.
Launch: TypeAlias = Callable[[], LaunchedZygote | None]


def launch_early() -> LaunchedZygote | None:
    """Start a zygote if the sandbox will use one. Return None on failure: the sandbox's own start then says why."""
    if sys.platform != "linux":
        return None
    try:
        return launch_zygote(memory_bytes=JobLimits().memory_bytes)
    except OSError:
        return None
