"""The chunks of RIFF files (WAV, AVI, WebP) and of their big-endian predecessor IFF (AIFF)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from sluice_inspect.report import TooComplex
from sluice_inspect.source import Source

Order = Literal["little", "big"]

HEADER_BYTES: Final = 8
_MAX_CHUNKS: Final = 1_000_000
_PRINTABLE: Final = bytes(range(0x20, 0x7F))
_XMP: Final = b"XMP\0"  # as Adobe's programs name metadata in WebP, which has a space there


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk as its header declares it. Offsets are in bytes from the start of the file."""

    name: bytes
    offset: int
    size: int

    @property
    def body(self) -> int:
        """Where the content begins."""
        return self.offset + HEADER_BYTES

    @property
    def end(self) -> int:
        """Where the content ends, without the padding byte. The file may end before it."""
        return self.body + self.size

    @property
    def is_named(self) -> bool:
        """Whether the name is valid: four printable characters, or one that programs write all the same."""
        return _is_name(self.name)


def chunks(source: Source, start: int, end: int, order: Order = "little") -> Iterator[Chunk]:
    """Yield the chunks whose headers are in the range. Nothing is found after one that is unnamed or passes `end`.

    Raise `TooComplex` if there are too many.
    """
    offset = start
    for _ in range(_MAX_CHUNKS):
        head = source.read_at(offset, HEADER_BYTES) if offset + HEADER_BYTES <= end else b""
        if len(head) < HEADER_BYTES:
            return
        chunk = Chunk(head[:4], offset, int.from_bytes(head[4:], order))
        yield chunk
        if not chunk.is_named or chunk.end > end:
            return
        offset = chunk.end + (chunk.size & 1 and _padding_bytes(source, chunk.end))
    raise TooComplex(f"more than {_MAX_CHUNKS} chunks follow byte {start} of the file")


def _padding_bytes(source: Source, end: int) -> int:
    # Content of odd length is padded to an even offset. Some writers forget it: a name then follows immediately.
    following = source.read_at(end, 5)
    return 0 if _is_name(following[:4]) and not _is_name(following[1:]) else 1


def _is_name(four: bytes) -> bool:
    return four == _XMP or (len(four) == len(b"RIFF") and not four.translate(None, _PRINTABLE))
