"""A file made of chosen stretches of a source and of bytes in between, without a copy. What is chosen is the caller's business."""

import io
import os
from bisect import bisect_right
from collections.abc import Sequence
from typing import BinaryIO, Final

from sluice.formats.source import InMemory, Source

Piece = bytes | tuple[int, int]
"""Bytes, or offset and length of a stretch of the source."""

_COPIED_BYTES: Final = 64 * 1024


def open_pieces(source: Source, pieces: Sequence[Piece]) -> BinaryIO:
    """Answer a reader over the pieces one after the other. A few are copied together all the same: that is quicker than reading them in turn."""
    if sum(len(piece) if isinstance(piece, bytes) else piece[1] for piece in pieces) <= _COPIED_BYTES:
        return InMemory(b"".join(piece if isinstance(piece, bytes) else source.read_at(*piece) for piece in pieces))
    return io.BufferedReader(_Pieces(source, pieces), 64 * 1024)


class _Pieces(io.RawIOBase):
    def __init__(self, source: Source, pieces: Sequence[Piece]) -> None:
        self._source = source
        self._pieces = pieces
        self._starts: list[int] = []
        size = 0
        for piece in pieces:
            self._starts.append(size)
            size += len(piece) if isinstance(piece, bytes) else piece[1]
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
            raise OSError(22, "seek before the start")
        self._offset = base + offset
        return self._offset

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # typeshed asks for any Buffer
        if self._offset >= self._size or not buffer:
            return 0
        index = bisect_right(self._starts, self._offset) - 1
        chunk = self._read(self._pieces[index], self._offset - self._starts[index], len(buffer))
        buffer[: len(chunk)] = chunk
        self._offset += len(chunk)
        return len(chunk)

    def _read(self, piece: Piece, skip: int, most: int) -> bytes:
        if isinstance(piece, bytes):
            return piece[skip : skip + most]
        offset, length = piece
        return self._source.read_at(offset + skip, min(most, length - skip))
