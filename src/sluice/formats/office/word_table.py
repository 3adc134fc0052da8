"""The table stream of a Word document ([MS-DOC] 2.5 and 2.9): which part of it lies where, and whether those that can be told are whole."""

import re
import struct
from collections.abc import Iterator
from typing import Final

from sluice.formats.verdict import Corrupt

STYLES: Final = 1
SECTIONS: Final = 6
CHARACTERS: Final = 12
PARAGRAPHS: Final = 13
FONTS: Final = 15
PROPERTIES: Final = 31
PIECES: Final = 33
DRAWINGS: Final = 50
_NEEDED: Final = {STYLES: "styles", PROPERTIES: "properties", PIECES: "text", CHARACTERS: "formatting", PARAGRAPHS: "paragraphs"}
_APART: Final = frozenset({28, 29, 87})
"""Customised commands, in which long stretches of zeros are ordinary, and a pair that is a date."""
_ZEROS: Final = re.compile(rb"\0{2048}")
_EXTENDED: Final = 0xFFFF
_NOWHERE: Final = 0xFFFFFFFF


class WordTable:
    """The parts of a table stream, by their number in the document's header. Raises `Corrupt` when one lies outside that readers need."""

    def __init__(self, table: bytes, pairs: bytes) -> None:
        self._table = table
        self._places: list[tuple[int, int]] = list(struct.iter_unpack("<LL", pairs))
        for index, what in _NEEDED.items():
            start, length = self._places[index]
            if length and start + length > len(table):
                raise Corrupt(f"the document is damaged: its {what} lie behind the end of the table that holds them")

    def part(self, index: int) -> bytes:
        """Answer the bytes of a part, none when the document lacks it."""
        start, length = self._places[index]
        return self._table[start : start + length]

    def check(self) -> None:
        """Raise `Corrupt` where a stretch of the parts is zeros, or the list of fonts is none."""
        if any(_ZEROS.search(self._table, start, end) for start, end in self._stretches()):
            raise Corrupt("the document is damaged: a stretch of the table of its parts is nothing but zeros")
        _check_fonts(self.part(FONTS))

    def sections(self) -> Iterator[int]:
        """Yield where in the document's stream the properties of its sections lie."""
        part = self.part(SECTIONS)
        count = (len(part) - 4) // 16
        for index in range(count):
            place: int = struct.unpack_from("<2xL6x", part, 4 * (count + 1) + 12 * index)[0]
            if place != _NOWHERE:
                yield place

    def _stretches(self) -> Iterator[tuple[int, int]]:
        """Yield start and end of what the parts fill without a gap."""
        start = end = 0
        size = len(self._table)
        places = ((at, at + length) for index, (at, length) in enumerate(self._places) if length and index not in _APART)
        for first, last in sorted(place for place in places if place[1] <= size):
            if first > end:
                yield start, end
                start = first
            end = max(end, last)
        yield start, end


def _check_fonts(part: bytes) -> None:
    if len(part) < 6:  # noqa: PLR2004  (no list)
        return
    count, extra = struct.unpack_from("<HH", part)
    at = 4
    if count == _EXTENDED:
        count, extra = struct.unpack_from("<HH", part, 2)
        at = 6
    for _ in range(count):
        if at >= len(part):
            raise Corrupt("the document is damaged: its list of fonts ends within a font")
        at += 1 + part[at] + extra
    if at > len(part):
        raise Corrupt("the document is damaged: its list of fonts ends within a font")
