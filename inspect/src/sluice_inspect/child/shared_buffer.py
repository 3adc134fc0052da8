"""Shared memory that the server lends to a worker for one job, to write what it unpacked; as hostile as the file.

A job that is asked something reads the question in it, which the server has written before.
"""
# A worker can neither create files nor let one grow. So the server creates the memory and fixes its size, the worker
# maps a window of it at a time, and when it has replied the server seals the memory against writing. Sealing fails as
# long as anybody can still write to it, and then the reply is not believed.

import contextlib
import fcntl
import mmap
import os
from typing import Final, Self

_WINDOW_BYTES: Final = 8 * 1024**2  # address space that a worker needs for one window; a multiple of every page size


class SharedBuffer:
    """Server side: `size` bytes of memory, allocated as they are written. The caller closes it. Raise `OSError`."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.fd = os.memfd_create("sluice-shared-buffer", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size)
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
        except OSError:
            self.close()
            raise

    @classmethod
    def holding(cls, data: bytes) -> Self:
        """Return memory of the size of `data`, and with it. Raise `OSError`."""
        buffer = cls(len(data))
        try:
            os.pwrite(buffer.fd, data, 0)
        except OSError:
            buffer.close()
            raise
        return buffer

    def seal(self) -> bool:
        """Make the memory read-only for everybody; return False if somebody can still write to it."""
        try:
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        except OSError:  # still mapped, or sealed against seals by a worker at level limits-only
            return False
        return True

    def close(self) -> None:
        """Release the memory. A second call is a no-op."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class SharedBufferWriter:
    """Worker side: writes pieces one behind another, or reads a question. Takes ownership of `fd`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._at = 0
        self._window: mmap.mmap | None = None
        self._window_at = 0

    @property
    def at(self) -> int:
        """Offset of the next byte to be written."""
        return self._at

    def read(self) -> bytes:
        """Return what the server has written."""
        return os.pread(self._fd, self._size, 0)

    def write(self, data: bytes | bytearray | memoryview) -> bool:
        """Append `data`; return False, with nothing written, when there is no room for all of it."""
        rest = memoryview(data)
        if len(rest) > self._size - self._at:
            return False
        while rest:
            window, offset = self._mapped()
            count = min(len(rest), len(window) - offset)
            window[offset : offset + count] = rest[:count]
            self._at += count
            rest = rest[count:]
        return True

    def close(self) -> None:
        """Unmap the memory and close the descriptor, so that the server can seal it. A second call is a no-op."""
        if self._window is not None:
            self._window.close()
            self._window = None
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # a parser may have closed it already
                os.close(self._fd)
            self._fd = -1

    def _mapped(self) -> tuple[mmap.mmap, int]:
        """Return the window that holds the current offset, and the offset within it."""
        start = self._at // _WINDOW_BYTES * _WINDOW_BYTES
        if self._window is None or start != self._window_at:
            if self._window is not None:
                self._window.close()
            self._window = mmap.mmap(self._fd, min(_WINDOW_BYTES, self._size - start), offset=start)
            self._window_at = start
        return self._window, self._at - start
