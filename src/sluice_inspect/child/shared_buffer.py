"""Memory that the server lends to a child for one run, to lay out what it unpacked. What is laid there is as hostile as the file itself.

A child has no file system, and may neither make files nor let one grow. So the server makes the memory and fixes its size; the child maps
a window of it at a time and writes there. When the child has answered, the server seals the memory: that fails as long as anybody can
still write to it, and then the child is not believed. Both sides use this module; a system without memfd has a nameless file instead.
"""

import contextlib
import fcntl
import mmap
import os
from typing import Final

_WINDOW_BYTES: Final = 8 * 1024**2
"""Address space that a child needs for it; a multiple of every page size."""
_HAS_SEALS: Final = hasattr(fcntl, "F_ADD_SEALS")


class Tray:
    """Server side: `size` bytes of memory, taken from the machine only as they are written. To be closed. Raises `OSError`."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.fd = _nameless()
        try:
            os.ftruncate(self.fd, size)
            if _HAS_SEALS:
                fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
        except OSError:
            self.close()
            raise

    def seal(self) -> bool:
        """Make sure that nobody can write to it any more; answers False when somebody still can."""
        if not _HAS_SEALS:
            return True  # the engine without seals ends its child after each file
        try:
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        except OSError:  # busy, or sealed against seals by a child that is held by limits only
            return False
        return True

    def close(self) -> None:
        """Let go of the memory. A second call is a no-op."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class TrayWriter:
    """Child side: lays bytes down, one piece behind another. Takes over `fd`."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._at = 0
        self._window: mmap.mmap | None = None
        self._window_at = 0

    @property
    def at(self) -> int:
        """Where the next byte will lie."""
        return self._at

    def lay(self, data: bytes | bytearray | memoryview) -> bool:
        """Lay `data` down; answers False, with nothing laid down, when there is no room for all of it."""
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
        """Let go of memory and descriptor, without which the server believes nothing. A second call is a no-op."""
        if self._window is not None:
            self._window.close()
            self._window = None
        if self._fd >= 0:
            with contextlib.suppress(OSError):  # a parser that closed it has done no harm
                os.close(self._fd)
            self._fd = -1

    def _mapped(self) -> tuple[mmap.mmap, int]:
        start = self._at // _WINDOW_BYTES * _WINDOW_BYTES
        if self._window is None or start != self._window_at:
            if self._window is not None:
                self._window.close()
            self._window = mmap.mmap(self._fd, min(_WINDOW_BYTES, self._size - start), offset=start)
            self._window_at = start
        return self._window, self._at - start


def _nameless() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("sluice-tray", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    import tempfile  # noqa: PLC0415  (it loads unpackers, which the server does without)

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())
