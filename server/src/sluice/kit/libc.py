"""Calls of the C library that Python does not have: on memory, written bytes, and the end of the parent process."""

import ctypes
from typing import Final

# mallopt(3) of glibc.
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 4 * 1024 * 1024
_SYNC_FILE_RANGE_WRITE: Final = 2  # sync_file_range(2): start writing, wait for nothing
_PR_SET_PDEATHSIG: Final = 1  # prctl(2)
_libc: Final = ctypes.CDLL(None)
_sync_file_range: Final = getattr(_libc, "sync_file_range", None)


def give_large_blocks_back() -> None:
    """Make the allocator return blocks of 4 MiB and more to the system when they are freed. A no-op without glibc."""
    # By default glibc raises the threshold once it has seen a large block freed. Parts of uploads then lie between
    # small blocks in the heaps of a dozen threads, and the process never shrinks.
    mallopt = getattr(_libc, "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
        # Setting one threshold ends glibc's own tuning of both, and the trim threshold would stay at its initial 128
        # KiB: every small upload would move the end of the heap. glibc itself uses twice the other threshold.
        mallopt(_M_TRIM_THRESHOLD, 2 * _LARGE_BYTES)


def start_writeback(fd: int, offset: int, length: int) -> None:
    """Make the kernel start to write a range of a file to disk.

    A hint: errors are not reported; a no-op without the call.
    """
    # Otherwise the kernel starts when the file is flushed. On a journalled file system every other flush then waits
    # until all of the file is written, and not just the rest of it.
    if _sync_file_range is not None:
        _sync_file_range(fd, ctypes.c_int64(offset), ctypes.c_int64(length), ctypes.c_uint(_SYNC_FILE_RANGE_WRITE))


def die_with_parent(number: int) -> None:
    """Let this process get signal `number` when the thread that forked it has ended. A no-op outside of Linux."""
    prctl = getattr(_libc, "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
