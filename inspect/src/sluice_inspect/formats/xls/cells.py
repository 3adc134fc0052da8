"""What the sheets of a binary workbook show ([MS-XLS]): styles that leave no ink, cells, objects."""
# As in XLSX, values count, texts are collected by row, and hidden cells count only where a filter may hide them.

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sluice_inspect.formats.xls.records import (
    BOUNDSHEET,
    CONTINUE,
    FILEPASS,
    SHARED_STRINGS,
    SHARED_TEXT,
    VERSION_8,
    BiffRecord,
    SharedStrings,
    Workbook,
    read_string,
)
from sluice_inspect.text.plaintext import INVISIBLE

_FONT: Final = 0x0031
_FORMATS: Final = frozenset({0x001E, 0x041E})
_STYLE, _PALETTE, _DRAWINGS, _STYLE_BYTES = 0x00E0, 0x0092, 0x00EB, 20
_WHITE_INDEXES: Final = frozenset({1, 9})  # white among the fixed colours, and in the default palette
_WHITE: Final = b"\xff\xff\xff"
_PALETTE_FIRST: Final = 8  # the index of the palette's first colour
_MISSING_FONT: Final = 4  # fonts are numbered without a 4
_HIDING_FORMAT: Final = ";;;"

_VALUES: Final = frozenset({0x0002, 0x0003, 0x0005, 0x0203, 0x0205, 0x027E, 0x00BD})
_OLD_LABEL: Final = 0x0004
_TEXTS: Final = frozenset({SHARED_TEXT, 0x0204, 0x00D6, _OLD_LABEL})
_FORMULAS: Final = frozenset({0x0006, 0x0206, 0x0406})
_RESULT: Final = frozenset({0x0007, 0x0207})
_TEXT_RESULT: Final = b"\xff\xff"
_TEXT_RESULTS: Final = frozenset({0, 3})  # a text, which is in the next record, or an empty text
# Formulas that are an empty text. Others may not have been calculated when the file was written.
_EMPTY_TEXTS: Final = frozenset({b"", b"\x17\0", b"\x17\0\0"})
_ROW, _COLUMNS, _NOTE, _OBJECT = 0x0208, 0x007D, 0x001C, 0x005D
_OBJECTS: Final = frozenset({_OBJECT, _NOTE, 0x007F})  # objects, comments, pictures of Excel 5
# Filters, conditional formats, tables: with these, hidden rows may only be filtered out, and white text may be on a
# coloured ground.
_AMBIGUOUS: Final = frozenset({0x009B, 0x009D, 0x01B0, 0x0871, 0x0879})
_ROW_HIDDEN: Final = 0x20
_OUTLINE: Final = 0x07

_OBJECT_HEADER: Final = struct.Struct("<4xHHH")
_PICTURE, _DROP_DOWN, _COMMENT = 8, 0x14, 0x19
_MADE_BY_PROGRAM: Final = 0x0100
_EMBEDDED: Final = b"\x09\x00"
_MAX_TEXTS: Final = 5_000  # more cells of text than this on one sheet are content, whatever they are


@dataclass(frozen=True, slots=True)
class SheetEntry:
    """One sheet in the list of a workbook: `at` is its offset in the stream; charts, macros, modules have no cells."""

    at: int
    is_hidden: bool
    has_cells: bool


@dataclass(slots=True)
class WorkbookGlobals:
    """What is in front of the sheets and decides what they show; `invisible` are the numbers of styles without ink."""

    sheets: list[SheetEntry] = field(default_factory=list)
    invisible: set[int] = field(default_factory=set)
    drawings: list[bytes] = field(default_factory=list)
    strings: list[bytes] = field(default_factory=list)
    is_encrypted: bool = False
    _fonts: list[int] = field(default_factory=list)
    _styles: list[tuple[int, int, bool]] = field(default_factory=list)
    _hiding: set[int] = field(default_factory=set)
    _palette: bytes = b""

    @classmethod
    def read(cls, workbook: Workbook) -> "WorkbookGlobals":
        """Read the first part of a workbook."""
        found, previous = cls(), 0
        has_flags = workbook.version == VERSION_8
        for record in workbook.sheet(0):
            record_type = previous if record.type == CONTINUE else record.type
            found._add(record_type, record.body, has_flags=has_flags)
            previous = record_type
        for number, (font, number_format, is_bare) in enumerate(found._styles):
            if number_format in found._hiding or (is_bare and found._is_white(font)):
                found.invisible.add(number)
        return found

    def _add(self, record_type: int, body: bytes, *, has_flags: bool) -> None:
        if record_type == FILEPASS:
            self.is_encrypted = True
        elif self.is_encrypted:
            return
        elif record_type == BOUNDSHEET:
            self.sheets.append(SheetEntry(int.from_bytes(body[:4], "little"), bool(body[4] & 3), body[5] == 0))
        elif record_type == SHARED_STRINGS:
            self.strings.append(body)
        elif record_type == _DRAWINGS:
            self.drawings.append(body)
        elif record_type == _FONT:
            self._fonts.append(int.from_bytes(body[4:6], "little"))
        elif record_type in _FORMATS and has_flags and read_string(body, 2, has_flags=True) == _HIDING_FORMAT:
            self._hiding.add(int.from_bytes(body[:2], "little"))
        elif record_type == _PALETTE:
            self._palette = body[2:]
        elif record_type == _STYLE:
            font, number_format = struct.unpack_from("<HH", body)
            is_bare = len(body) == _STYLE_BYTES and not int.from_bytes(body[14:18], "little") >> 26
            self._styles.append((font, number_format, is_bare))

    def _is_white(self, font: int) -> bool:
        number = font - (font > _MISSING_FONT)
        colour = self._fonts[number] if number < len(self._fonts) else 0
        at = 4 * (colour - _PALETTE_FIRST)
        if at >= 0 and len(self._palette) >= at + 4:
            return self._palette[at : at + 3] == _WHITE
        return colour in _WHITE_INDEXES


class SheetCells:
    """The cells and objects of one sheet. `rows` are the visible texts by row, shared ones as their number."""

    def __init__(self, version: int, invisible: set[int]) -> None:
        self.rows: dict[int, list[int | str]] = {}
        self.has_pictures = False
        self._version = version
        self._invisible = invisible
        self._found = self._hidden_found = self._is_ambiguous = False
        self._hidden_rows: set[int] = set()
        self._hidden_columns: list[range] = []
        self._formula = (0, 0, 0)
        self._texts = 0

    @property
    def has_content(self) -> bool:
        """Whether something is content whatever else is on the sheet."""
        return self._found or (self._hidden_found and self._is_ambiguous)

    def add(self, record: BiffRecord) -> None:
        """Take one record of the sheet into account."""
        record_type, body = record.type, record.body
        if record_type in _VALUES:
            self._add_value(_cell_of(body), None)
        elif record_type in _TEXTS:
            self._add_value(_cell_of(body), self._text(record_type, body))
        elif record_type in _FORMULAS:
            self._formula = _cell_of(body)
            result, expression = body[6:14], body[22:]
            is_text = result[6:] == _TEXT_RESULT and result[0] in _TEXT_RESULTS
            if not is_text or (result[0] and expression not in _EMPTY_TEXTS):
                self._add_value(self._formula, None)
        elif record_type in _RESULT:
            self._add_value(self._formula, read_string(body, 0, has_flags=self._version == VERSION_8))
        elif record_type == _ROW:
            options = body[12] if len(body) > 12 else 0
            self._is_ambiguous |= bool(options & _OUTLINE)
            if options & _ROW_HIDDEN:
                self._hidden_rows.add(int.from_bytes(body[:2], "little"))
        elif record_type == _COLUMNS:
            first, last, flags = struct.unpack_from("<HH4xH", body)
            if flags & 1:
                self._hidden_columns.append(range(first, last + 1))
        elif record_type in _AMBIGUOUS:
            self._is_ambiguous = True
        elif record_type in _OBJECTS:
            self._add_object(record_type, body)

    def _text(self, record_type: int, body: bytes) -> int | str:
        if record_type == SHARED_TEXT:
            return int.from_bytes(body[6:10], "little")
        if record_type == _OLD_LABEL:
            return body[8:].decode("cp1252", "replace")
        return read_string(body, 6, has_flags=self._version == VERSION_8)

    def _add_object(self, record_type: int, body: bytes) -> None:
        if record_type != _OBJECT or self._version != VERSION_8 or len(body) < _OBJECT_HEADER.size:
            self._found = True
            return
        object_type, _, flags = _OBJECT_HEADER.unpack_from(body)
        if object_type == _PICTURE and _EMBEDDED not in _object_parts(body):
            self.has_pictures = True
        # Comments have a record of their own (`_NOTE`); Excel makes the drop-down of a filter itself.
        elif object_type != _COMMENT and not (object_type == _DROP_DOWN and flags & _MADE_BY_PROGRAM):
            self._found = True

    def _add_value(self, cell: tuple[int, int, int], text: int | str | None) -> None:
        row, column, style = cell
        shown = text.strip(INVISIBLE) if isinstance(text, str) else text
        if shown == "":
            return
        is_in_hidden_column = any(column in hidden for hidden in self._hidden_columns)
        if row in self._hidden_rows or style in self._invisible or is_in_hidden_column:
            self._hidden_found = True
            return
        self._texts += 1
        if shown is None or self._texts > _MAX_TEXTS:
            self._found = True
        else:
            self.rows.setdefault(row, []).append(shown)


def visible_rows(rows: Sequence[list[int | str]], strings: Sequence[bytes]) -> list[list[str]]:
    """Return the visible texts of each row that has any."""
    wanted = frozenset(cell for row in rows for cell in row if isinstance(cell, int))
    shared = SharedStrings(strings).read(wanted) if wanted and strings else {}
    texts = ([shared.get(cell, "").strip(INVISIBLE) if isinstance(cell, int) else cell for cell in row] for row in rows)
    return [visible for row in texts if (visible := [text for text in row if text])]


def _cell_of(body: bytes) -> tuple[int, int, int]:
    row, column, style = struct.unpack_from("<HHH", body)
    return row, column, style


def _object_parts(body: bytes) -> list[bytes]:
    types, at = [], 0
    while at + 4 <= len(body):
        types.append(body[at : at + 2])
        at += 4 + int.from_bytes(body[at + 2 : at + 4], "little")
    return types
