"""The bytes under judgement, readable in any order by any number of readers at once. Knows no format."""

import errno
import io
import mmap
import os
from functools import cached_property
from typing import BinaryIO, Final

HEAD_BYTES: Final = 64 * 1024


class Source:
    """A file behind a descriptor, which is never closed and whose offset is never moved: every read says where.

    A file of no more than 64 KiB is read once: what its judges ask for piece by piece is in memory then.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.size: int = os.fstat(fd).st_size
        self._is_small = self.size <= HEAD_BYTES

    @cached_property
    def head(self) -> bytes:
        """The first 64 KiB."""
        return self._read(0, HEAD_BYTES)

    @cached_property
    def tail(self) -> bytes:
        """The last 64 KiB."""
        return self.head if self._is_small else self._read(self.size - HEAD_BYTES, HEAD_BYTES)

    def read_at(self, offset: int, length: int) -> bytes:
        """Answer up to `length` bytes from `offset`, fewer only at the end of the file."""
        if self._is_small and offset >= 0:
            return self.head[offset : offset + max(0, length)]
        return self._read(offset, length)

    def _read(self, offset: int, length: int) -> bytes:
        chunks: list[bytes] = []
        while length > 0 and (chunk := os.pread(self._fd, length, offset)):
            chunks.append(chunk)
            offset += len(chunk)
            length -= len(chunk)
        return b"".join(chunks)

    def mapped(self) -> memoryview:
        """Answer the whole file as memory, for libraries that read nothing else. Raises `OSError` where there is no room for it."""
        return memoryview(mmap.mmap(self._fd, 0, access=mmap.ACCESS_COPY) if self.size else b"")

    def open(self) -> BinaryIO:
        """Answer a fresh buffered reader at the start, with an offset of its own."""
        if self._is_small:
            return InMemory(self.head)
        return io.BufferedReader(_Reader(self._fd, self.size), HEAD_BYTES)


class InMemory(io.BytesIO):
    """Bytes that read like a file: who seeks before their start is told so as files do, by `OSError`."""

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move, and answer where to; raises `OSError`."""
        base = 0 if whence == os.SEEK_SET else self.tell() if whence == os.SEEK_CUR else self.getbuffer().nbytes
        if base + offset < 0:
            raise OSError(errno.EINVAL, "seek before the start")
        return super().seek(base + offset)


class _Reader(io.RawIOBase):
    def __init__(self, fd: int, size: int) -> None:
        self._fd = fd
        self._size = size
        self._offset = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._offset

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError(errno.EINVAL, "seek before the start")
        self._offset = base + offset
        return self._offset

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # typeshed asks for any Buffer
        chunk = os.pread(self._fd, len(buffer), self._offset)
        buffer[: len(chunk)] = chunk
        self._offset += len(chunk)
        return len(chunk)
