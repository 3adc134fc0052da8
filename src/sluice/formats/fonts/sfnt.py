"""The tables of OpenType and TrueType fonts (ISO/IEC 14496-22): where they lie, and whether their checksums hold.

How tables are packed for the web is known by `webfont.py`.
"""

import struct
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure

TRUETYPE: Final = (b"\0\1\0\0", b"true")
OPENTYPE: Final = b"OTTO"
COLLECTION: Final = b"ttcf"
_HEADER: Final = struct.Struct(">4sH6x")
_ENTRY: Final = struct.Struct(">4sLLL")
_FONTS_MOST: Final = 4096
_TABLES_MOST: Final = 1024
_CHUNK: Final = 256 * 1024
_SUM: Final = 0xFFFFFFFF
_ADJUSTMENT: Final = slice(8, 12)
"""Four bytes of `head` that belong to the checksum of the whole file and count as zero in that of the table."""
_EDITED_ALONE: Final = frozenset({b"head", b"hhea", b"name", b"OS/2", b"post", b"DSIG", b"FFTM", b"PCLT", b"gasp", b"meta"})
"""Small tables that tools change without their checksum: one of them alone is no damage."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a table lies, and its checksum."""

    checksum: int
    offset: int
    length: int


class Font:
    """One font in a file that is not packed. Raises `Corrupt` when its tables do not all lie in the file."""

    def __init__(self, source: Source, at: int = 0) -> None:
        header = source.read_at(at, _HEADER.size)
        if len(header) < _HEADER.size:
            raise Corrupt("the font's header is cut")
        count: int = _HEADER.unpack(header)[1]
        directory = source.read_at(at + _HEADER.size, count * _ENTRY.size)
        if not count or len(directory) < count * _ENTRY.size:
            raise Corrupt("the font's list of tables is empty or cut")
        self._source = source
        self.places: Mapping[bytes, Place] = {tag: Place(*place) for tag, *place in _ENTRY.iter_unpack(directory)}
        for tag, place in self.places.items():
            if place.offset + place.length > source.size:
                raise Corrupt(f"the font is cut or damaged: its table {_named(tag)} lies behind the end of the file")

    def check(self) -> None:
        """Raise `Corrupt` when tables do not have their checksums. One of zero has never been counted."""
        wrong = [tag for tag, place in self.places.items() if place.checksum and self._sum(tag, place) != place.checksum]
        if len(wrong) > 1 or (wrong and wrong[0] not in _EDITED_ALONE):
            raise Corrupt(f"the font is damaged: the checksum of its table {_named(wrong[0])} is wrong")

    def _sum(self, tag: bytes, place: Place) -> int:
        total = 0
        for offset in range(0, place.length, _CHUNK):
            chunk = self._source.read_at(place.offset + offset, min(_CHUNK, place.length - offset))
            total += checksum_of(_unadjusted(chunk) if tag == b"head" and not offset else chunk)
        return total & _SUM


def begins_font(head: bytes, magics: Sequence[bytes]) -> bool:
    """Whether these are the first bytes of a font: a magic number alone is too common, a number of tables is behind it."""
    return head.startswith(tuple(magics)) and 0 < int.from_bytes(head[4:6], "big") <= _TABLES_MOST


def check_fonts(source: Source, _limits: Limits) -> Mapping[str, Measure]:
    """Judge every font in a file; answer how many there are, and how many tables they have."""
    fonts = fonts_of(source)
    for font in fonts:
        font.check()
    return {"fonts": len(fonts), "tables": sum(len(font.places) for font in fonts)}


def fonts_of(source: Source) -> Sequence[Font]:
    """Answer the fonts of a file: one, or those of a collection."""
    if not source.head.startswith(COLLECTION):
        return [Font(source)]
    count = int.from_bytes(source.head[8:12], "big")
    offsets = source.read_at(12, 4 * count) if count <= _FONTS_MOST else b""
    if not count or len(offsets) < 4 * count:
        raise Corrupt("the collection of fonts is empty, cut or damaged")
    return [Font(source, at) for (at,) in struct.iter_unpack(">L", offsets)]


def checksum_of(data: bytes) -> int:
    """Answer the sum of a table's words."""
    words = array("I", data + bytes(-len(data) % 4))
    words.byteswap()
    return sum(words) & _SUM


def table_checksum(tag: bytes, data: bytes) -> int:
    """Answer the checksum of a whole table."""
    return checksum_of(_unadjusted(data) if tag == b"head" else data)


def _unadjusted(head: bytes) -> bytes:
    return head[: _ADJUSTMENT.start] + bytes(4) + head[_ADJUSTMENT.stop :] if len(head) >= _ADJUSTMENT.stop else head


def _named(tag: bytes) -> str:
    return repr(tag.decode("latin-1"))
