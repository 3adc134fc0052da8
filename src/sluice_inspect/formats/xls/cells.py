"""What the sheets of a binary workbook show ([MS-XLS]): styles that leave no ink, cells, objects. Records are walked by `biff.py`.

The rule is that of `cells.py`: values count, texts are collected by row, what is hidden counts only where it may be filtered out.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sluice.formats.office.biff import BOUNDSHEET, CONTINUE, FILEPASS, SHARED_STRINGS, SHARED_TEXT, VERSION_8, Record, Workbook
from sluice.formats.office.biff_strings import SharedStrings, read_string
from sluice.formats.text.plaintext import INVISIBLE

_FONT: Final = 0x0031
_FORMATS: Final = frozenset({0x001E, 0x041E})
_STYLE: Final = 0x00E0
_PALETTE: Final = 0x0092
_DRAWINGS: Final = 0x00EB
_STYLE_BYTES: Final = 20
_WHITES: Final = frozenset({1, 9})
"""Numbers of white in the fixed colours and in the palette, whose first number is 8."""
_WHITE: Final = b"\xff\xff\xff"
_PALETTE_FIRST: Final = 8
_NO_FONT: Final = 4
"""Fonts are numbered without a 4."""

_VALUES: Final = frozenset({0x0002, 0x0003, 0x0005, 0x0203, 0x0205, 0x027E, 0x00BD})
_OLD_LABEL: Final = 0x0004
_TEXTS: Final = frozenset({SHARED_TEXT, 0x0204, 0x00D6, _OLD_LABEL})
_FORMULAS: Final = frozenset({0x0006, 0x0206, 0x0406})
_RESULT: Final = frozenset({0x0007, 0x0207})
_TEXT_RESULT: Final = b"\xff\xff"
_NO_VALUE_RESULTS: Final = frozenset({0, 3})
"""A text, which follows, or an empty text."""
_EMPTY_TEXTS: Final = frozenset({b"", b"\x17\0", b"\x17\0\0"})
"""Formulas that are an empty text. What others give was perhaps not reckoned when the file was written."""
_ROW: Final = 0x0208
_COLUMNS: Final = 0x007D
_NOTE: Final = 0x001C
_OBJECT: Final = 0x005D
_OBJECTS: Final = frozenset({_OBJECT, _NOTE, 0x007F})
"""Objects, comments, pictures of Excel 5."""
_DOUBTFUL: Final = frozenset({0x009B, 0x009D, 0x01B0, 0x0871, 0x0879})
"""Filters, conditional formats, tables: with these, hidden rows may only be filtered out, and white text may stand on colour."""
_ROW_HIDDEN: Final = 0x20
_OUTLINE: Final = 0x07

_OBJECT_HEADER: Final = struct.Struct("<4xHHH")
_PICTURE, _DROP_DOWN, _COMMENT = 8, 0x14, 0x19
_MADE_BY_PROGRAM: Final = 0x0100
_EMBEDDED: Final = b"\x09\x00"
_TEXTS_MOST: Final = 5_000
"""More cells of text than this on one sheet are content, whatever they say."""


@dataclass(frozen=True, slots=True)
class SheetPlace:
    """One sheet in the list of a workbook."""

    at: int
    is_hidden: bool
    is_cells: bool
    """False for charts, macros, modules."""


@dataclass(slots=True)
class Globals:
    """What stands in front of the sheets and is needed to know what they show."""

    sheets: list[SheetPlace] = field(default_factory=list)
    invisible: set[int] = field(default_factory=set)
    """Numbers of cell styles that leave no ink."""
    drawings: list[bytes] = field(default_factory=list)
    strings: list[bytes] = field(default_factory=list)
    is_locked: bool = False
    """Whether all else is encrypted."""
    _fonts: list[int] = field(default_factory=list)
    _styles: list[tuple[int, int, bool]] = field(default_factory=list)
    _hiding: set[int] = field(default_factory=set)
    _palette: bytes = b""

    @classmethod
    def read(cls, workbook: Workbook) -> "Globals":
        """Read the first part of a workbook."""
        found, before = cls(), 0
        has_flags = workbook.version == VERSION_8
        for record in workbook.part(0):
            kind = before if record.kind == CONTINUE else record.kind
            found._take(kind, record.body, has_flags=has_flags)
            before = kind
        for number, (font, number_format, is_bare) in enumerate(found._styles):
            if number_format in found._hiding or (is_bare and found._is_white(font)):
                found.invisible.add(number)
        return found

    def _take(self, kind: int, body: bytes, *, has_flags: bool) -> None:
        if kind == FILEPASS:
            self.is_locked = True
        elif self.is_locked:
            return
        elif kind == BOUNDSHEET:
            self.sheets.append(SheetPlace(int.from_bytes(body[:4], "little"), bool(body[4] & 3), body[5] == 0))
        elif kind == SHARED_STRINGS:
            self.strings.append(body)
        elif kind == _DRAWINGS:
            self.drawings.append(body)
        elif kind == _FONT:
            self._fonts.append(int.from_bytes(body[4:6], "little"))
        elif kind in _FORMATS and has_flags and read_string(body, 2, has_flags=True) == ";;;":
            self._hiding.add(int.from_bytes(body[:2], "little"))
        elif kind == _PALETTE:
            self._palette = body[2:]
        elif kind == _STYLE:
            font, number_format = struct.unpack_from("<HH", body)
            is_bare = len(body) == _STYLE_BYTES and not int.from_bytes(body[14:18], "little") >> 26
            self._styles.append((font, number_format, is_bare))

    def _is_white(self, font: int) -> bool:
        number = font - (font > _NO_FONT)
        colour = self._fonts[number] if number < len(self._fonts) else 0
        place = 4 * (colour - _PALETTE_FIRST)
        if place >= 0 and len(self._palette) >= place + 4:
            return self._palette[place : place + 3] == _WHITE
        return colour in _WHITES


class SheetLook:
    """The cells and objects of one sheet. Reading may end once `has_content` is true."""

    def __init__(self, version: int, invisible: set[int]) -> None:
        self.rows: dict[int, list[int | str]] = {}
        """Texts by row: visible ones as they are, shared ones as their number."""
        self.has_pictures = False
        self._version = version
        self._invisible = invisible
        self._found = self._hidden_found = self._doubtful = False
        self._hidden_rows: set[int] = set()
        self._hidden_columns: list[range] = []
        self._formula = (0, 0, 0)
        self._texts = 0

    @property
    def has_content(self) -> bool:
        """Whether something is content by itself."""
        return self._found or (self._hidden_found and self._doubtful)

    def see(self, record: Record) -> None:
        """Take one record of the sheet."""
        kind, body = record.kind, record.body
        if kind in _VALUES:
            self._show(_place(body), None)
        elif kind in _TEXTS:
            self._show(_place(body), self._text(kind, body))
        elif kind in _FORMULAS:
            self._see_formula(body)
        elif kind in _RESULT:
            self._show(self._formula, read_string(body, 0, has_flags=self._version == VERSION_8))
        elif kind == _ROW:
            self._see_row(body)
        elif kind == _COLUMNS:
            self._see_columns(body)
        elif kind in _DOUBTFUL:
            self._doubtful = True
        elif kind in _OBJECTS:
            self._see_object(kind, body)

    def _text(self, kind: int, body: bytes) -> int | str:
        if kind == SHARED_TEXT:
            return int.from_bytes(body[6:10], "little")
        if kind == _OLD_LABEL:
            return body[8:].decode("cp1252", "replace")
        return read_string(body, 6, has_flags=self._version == VERSION_8)

    def _see_formula(self, body: bytes) -> None:
        self._formula = _place(body)
        result, words = body[6:14], body[22:]
        if result[6:] != _TEXT_RESULT or result[0] not in _NO_VALUE_RESULTS or (result[0] and words not in _EMPTY_TEXTS):
            self._show(self._formula, None)

    def _see_row(self, body: bytes) -> None:
        if len(body) > 12:  # noqa: PLR2004  (its flags)
            self._doubtful |= bool(body[12] & _OUTLINE)
            if body[12] & _ROW_HIDDEN:
                self._hidden_rows.add(int.from_bytes(body[:2], "little"))

    def _see_columns(self, body: bytes) -> None:
        first, last, flags = struct.unpack_from("<HH4xH", body)
        if flags & 1:
            self._hidden_columns.append(range(first, last + 1))

    def _see_object(self, kind: int, body: bytes) -> None:
        if kind != _OBJECT or self._version != VERSION_8 or len(body) < _OBJECT_HEADER.size:
            self._found = True
            return
        what, _, flags = _OBJECT_HEADER.unpack_from(body)
        if what == _PICTURE and _EMBEDDED not in _parts(body):
            self.has_pictures = True
        elif what != _COMMENT and not (what == _DROP_DOWN and flags & _MADE_BY_PROGRAM):
            self._found = True

    def _show(self, cell: tuple[int, int, int], text: int | str | None) -> None:
        row, column, style = cell
        shown = text.strip(INVISIBLE) if isinstance(text, str) else text
        if shown == "":
            return
        if row in self._hidden_rows or style in self._invisible or any(column in hidden for hidden in self._hidden_columns):
            self._hidden_found = True
            return
        self._texts += 1
        if shown is None or self._texts > _TEXTS_MOST:
            self._found = True
        else:
            self.rows.setdefault(row, []).append(shown)


def texts_of(rows: Sequence[list[int | str]], strings: Sequence[bytes]) -> list[list[str]]:
    """Answer the visible texts of each row that has any."""
    wanted = frozenset(cell for row in rows for cell in row if isinstance(cell, int))
    shared = SharedStrings(strings).walk(wanted) if wanted and strings else {}
    texts = ([shared.get(cell, "").strip(INVISIBLE) if isinstance(cell, int) else cell for cell in row] for row in rows)
    return [visible for row in texts if (visible := [text for text in row if text])]


def _place(body: bytes) -> tuple[int, int, int]:
    """Answer row, column and style of a cell."""
    row, column, style = struct.unpack_from("<HHH", body)
    return row, column, style


def _parts(body: bytes) -> list[bytes]:
    """Answer the kinds of the parts of an object."""
    kinds, at = [], 0
    while at + 4 <= len(body):
        kinds.append(body[at : at + 2])
        at += 4 + int.from_bytes(body[at + 2 : at + 4], "little")
    return kinds
