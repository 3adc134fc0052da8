"""What all that holds other files has in common: how it is told, how it is walked, and who is shown its members. No format is here."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from sluice.formats.archives.feed import Feed
from sluice.formats.budget import CHUNK_BYTES, Budget
from sluice.formats.verdict import Measure


class RandomAccess(Protocol):
    """Bytes that can be read in any order: a `Source`, or an archive within an archive."""

    @property
    def size(self) -> int:
        """Length in bytes."""

    def read_at(self, offset: int, length: int) -> bytes:
        """Answer up to `length` bytes from `offset`, fewer only at the end."""

    def mapped(self) -> memoryview:
        """Answer all bytes, for libraries that read memory. Raises `OSError` where there is no room."""


def pieces_of(source: RandomAccess, start: int, size: int) -> Iterator[bytes]:
    """Yield `size` bytes from `start` in pieces, fewer only at the end."""
    end = min(start + size, source.size)
    for offset in range(start, end, CHUNK_BYTES):
        yield source.read_at(offset, min(CHUNK_BYTES, end - offset))


class Visitor(Protocol):
    """Who is shown the content of archives."""

    def member(self, name: str, pieces: Iterator[bytes]) -> None:
        """Take one member, to its last byte. Judgements that `pieces` raises pass through; `Unsafe` is raised for what is in it."""

    def payload(self, pieces: Iterator[bytes]) -> None:
        """Take what a compressed stream holds, in the same way: an archive there is no archive within an archive."""


Begins = Callable[[bytes], bool]
"""Whether content begins as a format does; asked with the first 512 bytes, or all that there are."""


@dataclass(frozen=True, slots=True)
class StreamContainer:
    """A format that is read from its start to its end.

    `walk` shows every member to the visitor and counts what it inflates; it answers measured values, or raises a `Judgement`.
    """

    name: str
    begins: Begins
    walk: Callable[[Feed, Budget, Visitor], Mapping[str, Measure]]


@dataclass(frozen=True, slots=True)
class WholeContainer:
    """A format that is read in any order; `walk` as above."""

    name: str
    begins: Begins
    walk: Callable[[RandomAccess, Budget, Visitor], Mapping[str, Measure]]


Container = StreamContainer | WholeContainer
