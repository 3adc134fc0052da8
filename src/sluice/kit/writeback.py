"""When what was written to a file goes to the disk. Whether it has got there is asked by whoever flushes (`engines.storage`)."""

import ctypes
from typing import Final

_WRITE: Final = 2
"""SYNC_FILE_RANGE_WRITE of sync_file_range(2): begin, and wait for nothing."""
_sync_file_range: Final = getattr(ctypes.CDLL(None), "sync_file_range", None)


def begin_writing(fd: int, offset: int, length: int) -> None:
    """Have the kernel begin to write a stretch of a file out; where it has no such call this does nothing. A hint: faults are not told.

    By itself it begins when the file is flushed. On a journalled file system every other flush then waits until all of that file, and not
    just what was left of it, has been written.
    """
    if _sync_file_range is not None:
        _sync_file_range(fd, ctypes.c_int64(offset), ctypes.c_int64(length), ctypes.c_uint(_WRITE))
