"""The tables of OpenType and TrueType fonts (ISO/IEC 14496-22): where they lie, whether their checksums hold, whether a glyph has an outline.

How tables are packed for the web is known by `webfont.py`.
"""

import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Protocol

from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure

TRUETYPE: Final = (b"\0\1\0\0", b"true")
OPENTYPE: Final = b"OTTO"
COLLECTION: Final = b"ttcf"
NO_OUTLINE: Final = "no glyph of the font, beside the one for missing characters, has an outline"
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
_TABLE_MOST: Final = 64 * 1024**2
_DRAWN_OTHERWISE: Final = frozenset({b"CFF2", b"CBDT", b"EBDT", b"bdat", b"sbix", b"SVG ", b"COLR", b"Zapf"})
_SHORT_NUMBER: Final = 28
_NUMBERS: Final = 32
_LONGER_NUMBERS: Final = 247
_NUMBER_BYTES: Final = {_SHORT_NUMBER: 3, 255: 5}
_DRAWING: Final = frozenset({5, 6, 7, 8, 10, 12, 19, 20, 24, 25, 26, 27, 29, 30, 31})
"""Operators of lines and curves, calls, and those behind which more than numbers follows."""
_END: Final = 14
_ACCENT: Final = 4
"""So many numbers in front of the end name two glyphs, of which this one is made."""
_CHARSTRINGS: Final = 17
_END_OF_REAL: Final = 0xF


class Tables(Protocol):
    """The tables of one font by their tags, whatever they are packed in."""

    def __contains__(self, tag: bytes) -> bool:
        """Whether the font has a table."""

    def read(self, tag: bytes) -> bytes:
        """Answer a table whole, or as much of it as is looked at."""


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

    def __contains__(self, tag: bytes) -> bool:
        return tag in self.places

    def read(self, tag: bytes) -> bytes:
        """Answer a table."""
        place = self.places[tag]
        return self._source.read_at(place.offset, min(place.length, _TABLE_MOST))

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


def blank_fonts(source: Source, _limits: Limits) -> str | None:
    """Answer that no font in a file draws anything."""
    return None if any(has_outline(font) for font in fonts_of(source)) else NO_OUTLINE


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


def has_outline(font: Tables) -> bool:
    """Whether a glyph beside the first, which stands for missing ones, draws something. In doubt one does."""
    if any(tag in font for tag in _DRAWN_OTHERWISE):
        return True
    if b"loca" in font and b"head" in font:
        return _has_placed_glyph(font)
    if b"CFF " in font:
        return any(_draws(program) for program in list(_programs(font.read(b"CFF ")))[1:])
    return True


def _has_placed_glyph(font: Tables) -> bool:
    is_long = font.read(b"head")[51:52] != b"\0"
    size = 4 if is_long else 2
    places = font.read(b"loca")
    offsets = [offset for (offset,) in struct.iter_unpack(">L" if is_long else ">H", places[: len(places) // size * size])]
    return len(offsets) < 2 or offsets[-1] > offsets[1]  # noqa: PLR2004  (begin and end of the first glyph)


def _draws(program: bytes) -> bool:
    """Whether a glyph's program has an operator that draws, or calls others; numbers are passed over."""
    at = count = 0
    while at < len(program):
        byte = program[at]
        if byte == _SHORT_NUMBER or byte >= _NUMBERS:
            at += _NUMBER_BYTES.get(byte, 1 if byte < _LONGER_NUMBERS else 2)
            count += 1
            continue
        if byte in _DRAWING or (byte == _END and count >= _ACCENT):
            return True
        at += 1
        count = 0
    return False


def _programs(table: bytes) -> Iterator[bytes]:
    """Yield the programs of the glyphs of a CFF table. Raises `IndexError` or `struct.error` when they cannot be found."""
    at = table[2]
    _, at = _index(table, at)
    tops, _ = _index(table, at)
    place = _operand(tops[0], _CHARSTRINGS)
    yield from _index(table, place)[0]


def _index(table: bytes, at: int) -> tuple[list[bytes], int]:
    """Answer the entries of an index, and where it ends."""
    count = int.from_bytes(table[at : at + 2], "big")
    if not count:
        return [], at + 2
    size = table[at + 2]
    first = at + 3
    offsets = [int.from_bytes(table[first + size * n : first + size * (n + 1)], "big") for n in range(count + 1)]
    base = first + size * (count + 1) - 1
    entries = [table[base + start : base + end] for start, end in pairwise(offsets)]
    return entries, base + offsets[-1]


def _operand(dictionary: bytes, wanted: int) -> int:
    """Answer the number in front of an operator of a CFF dictionary."""
    at, number = 0, 0
    while at < len(dictionary):
        byte = dictionary[at]
        if byte == wanted:
            return number
        if byte == 28:  # noqa: PLR2004  (a number in two bytes)
            number, at = int.from_bytes(dictionary[at + 1 : at + 3], "big", signed=True), at + 3
        elif byte == 29:  # noqa: PLR2004  (in four)
            number, at = int.from_bytes(dictionary[at + 1 : at + 5], "big", signed=True), at + 5
        elif byte == 30:  # noqa: PLR2004  (a real number: to the half byte that ends it)
            at += 1
            while _END_OF_REAL not in {dictionary[at] & 0xF, dictionary[at] >> 4}:
                at += 1
            at += 1
        elif byte >= 247:  # noqa: PLR2004  (in two bytes, with its size in the first)
            sign = 1 if byte < 251 else -1  # noqa: PLR2004  (negative ones from here on)
            number, at = sign * ((byte - (247 if sign > 0 else 251)) * 256 + dictionary[at + 1] + 108), at + 2
        else:
            number, at = byte - 139, at + (2 if byte == 12 else 1)  # noqa: PLR2004  (one byte, or an operator of two)
    raise IndexError("an operator that the dictionary lacks")


def _unadjusted(head: bytes) -> bytes:
    return head[: _ADJUSTMENT.start] + bytes(4) + head[_ADJUSTMENT.stop :] if len(head) >= _ADJUSTMENT.stop else head


def _named(tag: bytes) -> str:
    return repr(tag.decode("latin-1"))
