"""The chunks of RIFF files (WAV, AVI, WebP) and of their big-endian forerunner IFF (AIFF). What the chunks must be is said in the kinds."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from sluice.formats.source import Source
from sluice.formats.verdict import TooComplex

Order = Literal["little", "big"]

HEADER_BYTES: Final = 8
_MOST: Final = 1_000_000
_PRINTABLE: Final = bytes(range(0x20, 0x7F))


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk as its header declares it, in bytes from the start of the file; `end` leaves the padding byte out."""

    name: bytes
    offset: int
    size: int

    @property
    def body(self) -> int:
        """Where the content begins."""
        return self.offset + HEADER_BYTES

    @property
    def end(self) -> int:
        """Where the content ends, whether or not the file reaches so far."""
        return self.body + self.size

    @property
    def is_named(self) -> bool:
        """Whether the name is one at all: four printable characters."""
        return _is_name(self.name)


def chunks(source: Source, start: int, end: int, order: Order = "little") -> Iterator[Chunk]:
    """Answer the chunks whose headers stand between `start` and `end`, up to the first that passes `end` or has no name; that one included.

    Content of odd length is padded to even; where a writer forgot the padding, the next header is taken where it stands.
    Raises `TooComplex` for more than a million.
    """
    offset = start
    for _ in range(_MOST):
        head = source.read_at(offset, HEADER_BYTES) if offset + HEADER_BYTES <= end else b""
        if len(head) < HEADER_BYTES:
            return
        chunk = Chunk(head[:4], offset, int.from_bytes(head[4:], order))
        yield chunk
        if not chunk.is_named or chunk.end > end:
            return
        offset = chunk.end + (chunk.size & 1 and _padding(source, chunk.end))
    raise TooComplex(f"more than {_MOST} chunks stand behind byte {start} of the file")


def _padding(source: Source, end: int) -> int:
    """Answer how many bytes of padding follow content of odd length that ends at `end`: none only where a name stands right there."""
    behind = source.read_at(end, 5)
    return 0 if _is_name(behind[:4]) and not _is_name(behind[1:]) else 1


def _is_name(four: bytes) -> bool:
    return len(four) == len(b"RIFF") and not four.translate(None, _PRINTABLE)
