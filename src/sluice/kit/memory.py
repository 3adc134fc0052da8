"""How the C library gives memory back to the system. How much is held at once is bounded where it is held (see `budget`)."""

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
"""mallopt(3) of glibc."""
_LARGE_BYTES: Final = 4 * 1024 * 1024


def give_large_blocks_back() -> None:
    """Have blocks of 4 MiB and more go back to the system when they are freed; where there is no glibc this does nothing.

    By itself glibc keeps them once it has seen one freed: parts of uploads then lie between small blocks in the heaps of a dozen threads,
    and the process stays as large as it ever was.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        # Setting one ends glibc's own tuning of both. Twice, as it would choose: with its first 128 KiB every small upload would move the heap's end.
        mallopt(_M_TRIM_THRESHOLD, 2 * _LARGE_BYTES)
