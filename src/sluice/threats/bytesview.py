"""Bytes that can be read in any order, whether they lie in a file or were unpacked into memory. Knows no format."""

from collections.abc import Iterator
from typing import Final, Protocol

PIECE_BYTES: Final = 1024**2


class View(Protocol):
    """A file (`sluice.formats.source.Source`), or unpacked bytes held in memory."""

    @property
    def size(self) -> int:
        """Length in bytes."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Answer up to `length` bytes from `offset`, fewer only at the end."""


class Held:
    """Unpacked bytes in memory."""

    def __init__(self, data: bytearray) -> None:
        self._data = data

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self._data)

    def read_at(self, offset: int, length: int) -> bytes:
        """Answer up to `length` bytes from `offset`, fewer only at the end."""
        return bytes(memoryview(self._data)[offset : offset + length])


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


def pieces(view: View, start: int = 0, end: int | None = None, *, size: int = PIECE_BYTES) -> Iterator[bytes]:
    """Iterate over the bytes from `start` to `end` (the end of the view by default) in pieces of at most `size`."""
    last = view.size if end is None else min(end, view.size)
    while start < last and (piece := view.read_at(start, min(size, last - start))):
        yield piece
        start += len(piece)
