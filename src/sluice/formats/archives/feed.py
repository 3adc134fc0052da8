"""Bytes that come one after the other, with a look ahead. Does not know where they come from or what they mean."""

from collections.abc import Iterable, Iterator


class Feed:
    """Reads pieces of bytes in any other portions than they come in, and holds no more than is looked at."""

    def __init__(self, pieces: Iterable[bytes], position: int = 0) -> None:
        self._pieces = iter(pieces)
        self._held = b""
        self.position = position
        """Offset of the next byte."""

    def peek(self, size: int) -> bytes:
        """Answer the next `size` bytes without taking them, fewer only at the end."""
        while len(self._held) < size and (piece := self._next()):
            self._held += piece
        return self._held[:size]

    def take(self, size: int) -> bytes:
        """Answer the next `size` bytes, fewer only at the end."""
        taken = self.peek(size)
        self._held = self._held[len(taken) :]
        self.position += len(taken)
        return taken

    def piece(self) -> bytes:
        """Answer whatever is at hand next, at least one byte, none only at the end."""
        taken, self._held = self._held or self._next(), b""
        self.position += len(taken)
        return taken

    def give_back(self, unused: bytes) -> None:
        """Return the last of the bytes that were taken."""
        self._held = unused + self._held
        self.position -= len(unused)

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the next `size` bytes in pieces, fewer only at the end."""
        while size > 0 and (piece := self.piece()):
            if len(piece) > size:
                self.give_back(piece[size:])
                piece = piece[:size]
            size -= len(piece)
            yield piece

    def _next(self) -> bytes:
        return next((piece for piece in self._pieces if piece), b"")
