"""What all readers of packed formats share: bytes in order, containers, and visitors of their members."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from sluice_inspect.budget import Budget
from sluice_inspect.report import Measure
from sluice_inspect.source import RandomAccess


class Feed:
    """A forward reader with look-ahead over pieces of any length; holds only what was peeked at, and one piece."""

    def __init__(self, pieces: Iterable[bytes], position: int = 0) -> None:
        self._pieces = iter(pieces)
        self._buffer = b""
        self._at = 0  # in the buffer: to cut it after every read would copy it once for each TAR block
        self.position = position  # offset of the next byte

    def peek(self, size: int) -> bytes:
        """Return the next `size` bytes without consuming them, fewer only at the end."""
        while len(self._buffer) - self._at < size and (piece := self._next()):
            self._buffer = self._buffer[self._at :] + piece
            self._at = 0
        return self._buffer[self._at : self._at + size]

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer only at the end."""
        return self._advance(self.peek(size))

    def piece(self) -> bytes:
        """Return the next bytes in whatever length is available: at least one byte, none only at the end."""
        self._fill()
        return self._advance(self._buffer[self._at :])

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes in pieces, fewer only at the end."""
        while size > 0:
            self._fill()
            piece = self._advance(self._buffer[self._at : self._at + size])
            if not piece:
                return
            size -= len(piece)
            yield piece

    def unread(self, data: bytes) -> None:
        """Put back the last bytes that were taken."""
        start = self._at - len(data)
        if start >= 0 and self._buffer.startswith(data, start):
            self._at = start
        else:
            self._buffer = data + self._buffer[self._at :]
            self._at = 0
        self.position -= len(data)

    def _fill(self) -> None:
        if self._at == len(self._buffer):
            self._buffer, self._at = self._next(), 0

    def _next(self) -> bytes:
        return next((piece for piece in self._pieces if piece), b"")

    def _advance(self, taken: bytes) -> bytes:
        self._at += len(taken)
        self.position += len(taken)
        return taken


class Visitor(Protocol):
    """Receives the content of archives."""

    def member(self, name: str, pieces: Iterator[bytes]) -> None:
        """Read one member to its last byte. Errors of `pieces` pass through; raise `Unsafe` for what is in it."""

    def payload(self, pieces: Iterator[bytes]) -> None:
        """Read what a compressed stream holds, likewise. An archive in it does not count as nested."""


# Whether content begins as a format does. It is called with the first 512 bytes, or fewer if there are not as many.
Matches = Callable[[bytes], bool]


@dataclass(frozen=True, slots=True)
class StreamContainer:
    """A format that is read in order: `walk` shows members to the visitor, counts what it inflates, and measures."""

    name: str
    matches: Matches
    walk: Callable[[Feed, Budget, Visitor], Mapping[str, Measure]]


@dataclass(frozen=True, slots=True)
class RandomAccessContainer:
    """A format that is read in any order; `walk` as in `StreamContainer`."""

    name: str
    matches: Matches
    walk: Callable[[RandomAccess, Budget, Visitor], Mapping[str, Measure]]


Container = StreamContainer | RandomAccessContainer
