"""Random access to bytes, by any number of readers at once: of the file under inspection, or of what was unpacked."""

import errno
import io
import mmap
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import BinaryIO, Final, Protocol, Self, TypeVar, TypeVarTuple, cast, runtime_checkable

from sluice_inspect.budget import CHUNK_BYTES

HEAD_BYTES: Final = 64 * 1024

Piece = bytes | tuple[int, int]  # literal bytes, or offset and length of a range of the source

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


@runtime_checkable
class Closable(Protocol):
    """A reading that holds what has to be released, such as an open document of a library."""

    def close(self) -> None:
        """Release it."""


class Source:
    """A file behind a descriptor, which is never closed or moved. Up to 64 KiB are read once and kept in memory.

    As a context manager it ends with `forget`.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.size: int = os.fstat(fd).st_size
        self._is_small = self.size <= HEAD_BYTES
        self._cached: dict[object, object] = {}

    def cached(self, compute: "Callable[[Source, *Arguments], T]", *arguments: *Arguments) -> T:
        """Return `compute(self, *arguments)`, computed once for this file until `forget` is called.

        The check of the format, its facts and the scan share one reading of the file by it. `compute` is a function or
        class of a module, never a lambda, and the arguments are hashable. What it raises is not kept.
        """
        key = (compute, *arguments) if arguments else compute
        if key not in self._cached:
            self._cached[key] = compute(self, *arguments)
        return cast("T", self._cached[key])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop all readings, and close those that have a method `close`."""
        # A reading holds this source, and what a library of C holds is not found by the garbage collector.
        readings, self._cached = list(self._cached.values()), {}
        for each in readings:
            if isinstance(each, Closable):
                each.close()

    @cached_property
    def head(self) -> bytes:
        """The first 64 KiB."""
        return self._read(0, HEAD_BYTES)

    @cached_property
    def tail(self) -> bytes:
        """The last 64 KiB."""
        return self.head if self._is_small else self._read(self.size - HEAD_BYTES, HEAD_BYTES)

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`, fewer only at the end of the file."""
        if self._is_small and offset >= 0:
            return self.head[offset : offset + max(0, length)]
        return self._read(offset, length)

    def _read(self, offset: int, length: int) -> bytes:
        # pread may return less than asked for, on network file systems and for more than 2 GiB.
        chunks: list[bytes] = []
        while length > 0 and (chunk := os.pread(self._fd, length, offset)):
            chunks.append(chunk)
            offset += len(chunk)
            length -= len(chunk)
        return b"".join(chunks)

    def mapped(self) -> memoryview:
        """Return the file as memory, for libraries that read nothing else. Raise `OSError` if there is not enough."""
        return memoryview(mmap.mmap(self._fd, 0, access=mmap.ACCESS_COPY) if self.size else b"")

    def open(self) -> BinaryIO:
        """Return a new buffered reader at the start of the file, with an offset of its own."""
        if self._is_small:
            return InMemory(self.head)
        return io.BufferedReader(RandomAccessReader(self.read_at, self.size), HEAD_BYTES)


class MemoryBacked(Source):
    """Bytes that were unpacked or decrypted."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)
        self._is_small = self.size <= HEAD_BYTES
        self._cached = {}

    def _read(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length]

    def mapped(self) -> memoryview:
        """Return all bytes, without a copy."""
        return memoryview(self._data)


class InMemory(io.BytesIO):
    """Bytes that read like a file."""

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Move to and return an offset. Raise `OSError` before the start, as files do and `BytesIO` does not."""
        return super().seek(_seek_target(offset, whence, self.tell(), self.getbuffer().nbytes))


class RandomAccess(Protocol):
    """Bytes that can be read in any order: a `Source`, or a `MemorySource`."""

    @property
    def size(self) -> int:
        """Length in bytes."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`, fewer only at the end."""

    def mapped(self) -> memoryview:
        """Return all bytes, for libraries that read memory. Raise `OSError` if there is not enough memory."""

    def cached(self, compute: Callable[[Self, *Arguments], T], *arguments: *Arguments) -> T:
        """Return `compute(self, *arguments)`, computed once for bytes that are read several times, as a `Source` is."""


@dataclass(frozen=True, slots=True)
class MemorySource:
    """Unpacked bytes, such as an archive within an archive, held in memory."""

    data: bytearray

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self.data)

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`."""
        return bytes(memoryview(self.data)[offset : offset + length])

    def mapped(self) -> memoryview:
        """Return all bytes, without a copy."""
        return memoryview(self.data)

    def cached(self, compute: "Callable[[MemorySource, *Arguments], T]", *arguments: *Arguments) -> T:
        """Return `compute(self, *arguments)`; nothing is kept, since these bytes are read once."""
        return compute(self, *arguments)


def read_pieces(
    source: RandomAccess, start: int = 0, size: int | None = None, *, piece_bytes: int = CHUNK_BYTES
) -> Iterator[bytes]:
    """Yield `size` bytes (all by default) from `start` in pieces of at most `piece_bytes`, fewer only at the end."""
    end = source.size if size is None else min(start + size, source.size)
    while start < end and (piece := source.read_at(start, min(piece_bytes, end - start))):
        yield piece
        start += len(piece)


def open_pieces(source: Source, pieces: Sequence[Piece]) -> BinaryIO:
    """Return a reader over the pieces one after the other, without a copy of the file."""
    # Up to 64 KiB, one copy is faster than reading piece by piece.
    if sum(map(_piece_length, pieces)) <= HEAD_BYTES:
        return InMemory(b"".join(piece if isinstance(piece, bytes) else source.read_at(*piece) for piece in pieces))
    joined = _Pieces(source, pieces)
    return io.BufferedReader(RandomAccessReader(joined.read_at, joined.size), HEAD_BYTES)


def _piece_length(piece: Piece) -> int:
    return len(piece) if isinstance(piece, bytes) else piece[1]


def _seek_target(offset: int, whence: int, current: int, size: int) -> int:
    target = {os.SEEK_SET: 0, os.SEEK_CUR: current, os.SEEK_END: size}[whence] + offset
    if target < 0:
        raise OSError(errno.EINVAL, "seek before the start")
    return target


class RandomAccessReader(io.RawIOBase):
    """A raw reader of `size` bytes, for libraries that need a file object, over a function like `Source.read_at`."""

    def __init__(self, read_at: Callable[[int, int], bytes], size: int) -> None:
        self._read_at = read_at
        self._size = size
        self._offset = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the offset of the next byte."""
        return self._offset

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to and return an offset. Raise `OSError` before the start."""
        self._offset = _seek_target(offset, whence, self._offset, self._size)
        return self._offset

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # typeshed asks for any Buffer
        """Fill `buffer` as far as there are bytes, and return how many."""
        chunk = self._read_at(self._offset, len(buffer))
        buffer[: len(chunk)] = chunk
        self._offset += len(chunk)
        return len(chunk)


class _Pieces:
    def __init__(self, source: Source, pieces: Sequence[Piece]) -> None:
        self._source = source
        self._pieces = pieces
        *self._starts, self.size = accumulate(map(_piece_length, pieces), initial=0)

    def read_at(self, offset: int, length: int) -> bytes:
        if offset >= self.size or not length:
            return b""
        index = bisect_right(self._starts, offset) - 1
        piece, skipped = self._pieces[index], offset - self._starts[index]
        if isinstance(piece, bytes):
            return piece[skipped : skipped + length]
        start, piece_length = piece
        return self._source.read_at(start + skipped, min(length, piece_length - skipped))
