"""Word's binary format ([MS-DOC], Word 97 and later): header, tables, pieces of text, pages of formatting."""
# Only structures are read that all readers need: where text is, and the pages that hold its formatting.

import itertools
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.formats.doc.modifiers import CutModifier, parse_modifiers
from sluice_inspect.office.compound import CompoundFile, Entry
from sluice_inspect.office.officeart import picture_offsets
from sluice_inspect.report import Corrupt, Encrypted, Limits

_MAGIC: Final = 0xA5EC
_OLD_MAGICS: Final = frozenset({0xA5DC, 0xA697, 0xA698, 0xA699})  # Word 6 and 95, western and east Asian
_OLD_BELOW, _ENCRYPTED, _TABLE_1, _HEADER_BYTES = 0xC1, 0x0100, 0x0200, 0x9A
_COUNTS: Final = (14, 22)  # how many short and long values the header has, in every version
_MIN_PAIRS: Final = 0x5D

_PAGE, _PAGE_NUMBER, _BYTE_WIDE = 512, 0x3FFFFF, 0x40000000
_CHUNK: Final = 256 * 1024
# Text has no zeros. A writer may leave a few, a disk that failed leaves sectors of them.
_TEXT_ZEROS: Final = re.compile(rb"\0{512}")
_TABLE_ZEROS: Final = re.compile(rb"\0{2048}")
_MAX_TABLE_BYTES: Final = 64 * 1024**2
_EXTENDED_FONTS: Final = 0xFFFF
_NOWHERE: Final = 0xFFFFFFFF

# Parts of the table stream, by the number of their pair of offset and length in the header (2.5.6 and later).
CHARACTERS, PARAGRAPHS, _STYLES, _SECTIONS = 12, 13, 1, 6
_FONTS, _PROPERTIES, _PIECES, _DRAWINGS = 15, 31, 33, 50
_NEEDED_PARTS: Final = {
    _STYLES: "styles", _PROPERTIES: "properties", _PIECES: "text", CHARACTERS: "formatting", PARAGRAPHS: "paragraphs",
}  # fmt: skip
# Customised commands, in which long stretches of zeros are ordinary, and a pair that is a date.
_PARTS_WITH_ZEROS: Final = frozenset({28, 29, 87})


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Contiguous text, from character `first` of the document; `width` is 1 (Windows-1252) or 2 (UTF-16)."""

    first: int
    length: int
    offset: int
    width: int


@dataclass(frozen=True, slots=True)
class FormattingRun:
    """Text of one formatting, by its bytes in the stream."""

    start: int
    end: int
    modifiers: bytes


class WordDocument:
    """The streams of one document. Raises `Encrypted`, or `Corrupt` for what no reader can follow."""

    # `lengths`: main text, footnotes, headers, macros, comments, endnotes, text boxes, text boxes in headers.
    def __init__(self, container: CompoundFile, stream: Entry, header: bytes) -> None:
        self._stream = container.open(stream)
        self.size = stream.size
        flags: int = struct.unpack_from("<H", header, 10)[0]
        if flags & _ENCRYPTED:
            raise Encrypted("the document is protected by a password")
        if len(header) < _HEADER_BYTES or (header[0x20], header[0x3E]) != _COUNTS:
            raise Corrupt("the document's header is damaged: it has other parts than such headers have")
        pairs: int = struct.unpack_from("<H", header, 0x98)[0]
        if pairs < _MIN_PAIRS or _HEADER_BYTES + 8 * pairs > self.size:
            raise Corrupt("the document's header is damaged: it is shorter than such headers are")
        self.lengths: tuple[int, ...] = struct.unpack_from("<8L", header, 0x4C)
        table = container.root.stream("1table" if flags & _TABLE_1 else "0table")
        if table is None or table.size > _MAX_TABLE_BYTES:
            raise Corrupt("the document has no table of where its text is")
        self._table = _TableStream(container.read(table), self.read(_HEADER_BYTES, 8 * pairs))
        self.pieces = self._read_pieces()

    def read(self, offset: int, length: int) -> bytes:
        """Return bytes of the document's main stream."""
        self._stream.seek(offset)
        return self._stream.read(length)

    def text(self, piece: TextPiece) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes of a piece in chunks, each with its offset in the stream."""
        end = piece.offset + piece.length * piece.width
        for offset in range(piece.offset, end, _CHUNK):
            yield offset, self.read(offset, min(_CHUNK, end - offset))

    def check_text(self) -> None:
        """Raise `Corrupt` where a stretch of the text is zeros."""
        for piece in self.pieces:
            for _, chunk in self.text(piece):
                if _TEXT_ZEROS.search(chunk):
                    raise Corrupt("the document is damaged: a stretch of its text is nothing but zeros")

    def check_table(self) -> None:
        """Raise `Corrupt` where the table stream or the properties of a section are damaged."""
        self._table.check()
        for offset in self._table.sections():
            length = int.from_bytes(self.read(offset, 2), "little")
            properties = self.read(offset + 2, length)
            if len(properties) < length:
                raise Corrupt(
                    "the document is damaged: the properties of a section lie outside the stream that holds it"
                )
            _check_modifiers(properties)

    def check_formatting(self, limits: Limits) -> Mapping[str, bool]:
        """Read all pages of formatting. Raises `Corrupt` where one is damaged; returns a measure when time ran out."""
        deadline = Deadline(limits.soft_seconds)
        for table in (CHARACTERS, PARAGRAPHS):
            for run in self.runs(table):
                if deadline.has_passed:
                    return {"partially_checked": True}
                _check_modifiers(run.modifiers)
        return {}

    def floating_pictures(self) -> Iterator[int]:
        """Yield the offsets in the stream of pictures that float beside the text."""
        return (offset for offset in picture_offsets(self._table.part(_DRAWINGS)) if offset is not None)

    def runs(self, table: int) -> Iterator[FormattingRun]:
        """Yield the formatting of `CHARACTERS` or `PARAGRAPHS`. Raises `Corrupt` where its pages are damaged."""
        page_table = self._table.part(table)
        count = (len(page_table) - 4) // 8
        if count < 1:
            return
        starts = struct.unpack_from(f"<{count + 1}L", page_table)
        if not _is_rising(starts):
            raise Corrupt("the document is damaged: a page of its formatting lies out of order")
        numbers = struct.unpack_from(f"<{count}L", page_table, 4 * (count + 1))
        begins: Sequence[int] = starts
        for index, number in enumerate(numbers):
            page = self.read((number & _PAGE_NUMBER) * _PAGE, _PAGE)
            if len(page) < _PAGE:
                raise Corrupt("the document is damaged: a page of its formatting lies behind the end of the text")
            if begins is starts and int.from_bytes(page[:4], "little") != starts[index]:
                begins = self._begins_of_pages(numbers)
            yield from _runs_of_page(page, begins[index], 1 if table == CHARACTERS else 13)

    def _begins_of_pages(self, numbers: Sequence[int]) -> list[int]:
        """Return where pages begin by what they state themselves. Raise `Corrupt` if they do not follow each other."""
        # Some writers list other positions, and readers take those of the pages.
        begins: list[int] = []
        end: int | None = None
        for number in numbers:
            page = self.read((number & _PAGE_NUMBER) * _PAGE, _PAGE)
            begin, following = (int.from_bytes(page[at : at + 4], "little") for at in (0, 4 * page[-1]))
            if end not in {None, begin} or len(page) < _PAGE or following <= begin or len(numbers) == 1:
                raise Corrupt("the document is damaged: a page of its formatting belongs to other text than stated")
            begins.append(begin)
            end = following
        return begins

    def _read_pieces(self) -> Sequence[TextPiece]:
        table = _piece_table(self._table.part(_PIECES))
        count = (len(table) - 4) // 12
        if count < 1 or (len(table) - 4) % 12:
            raise Corrupt("the document is damaged: the list of the pieces of its text has no whole entry")
        firsts = struct.unpack_from(f"<{count + 1}L", table)
        if firsts[0] or not _is_rising(firsts):
            raise Corrupt("the document is damaged: the pieces of its text lie out of order")
        if firsts[-1] < sum(self.lengths) or firsts[-1] > 2 * self.size:
            raise Corrupt("the document is damaged: the pieces of its text are not as long as the text")
        pieces = []
        for index, (first, following) in enumerate(itertools.pairwise(firsts)):
            position: int = struct.unpack_from("<2xL2x", table, 4 * (count + 1) + 8 * index)[0]
            width = 1 if position & _BYTE_WIDE else 2
            # The position of text in single bytes is stored doubled (2.9.73).
            offset = (position & ~_BYTE_WIDE) // (3 - width)
            if offset + (following - first) * width > self.size:
                raise Corrupt("the document is damaged: part of its text lies outside the stream that holds it")
            pieces.append(TextPiece(first, following - first, offset, width))
        return pieces


class _TableStream:
    """The parts of a table stream, by number. Raises `Corrupt` when one that readers need is outside of it."""

    def __init__(self, table: bytes, pairs: bytes) -> None:
        self._table = table
        self._extents: list[tuple[int, int]] = list(struct.iter_unpack("<LL", pairs))
        for index, name in _NEEDED_PARTS.items():
            start, length = self._extents[index]
            if length and start + length > len(table):
                raise Corrupt(f"the document is damaged: its {name} lie behind the end of the table that holds them")

    def part(self, index: int) -> bytes:
        start, length = self._extents[index]
        return self._table[start : start + length]

    def check(self) -> None:
        if any(_TABLE_ZEROS.search(self._table, start, end) for start, end in self._covered()):
            raise Corrupt("the document is damaged: a stretch of the table of its parts is nothing but zeros")
        _check_fonts(self.part(_FONTS))

    def sections(self) -> Iterator[int]:
        part = self.part(_SECTIONS)
        count = (len(part) - 4) // 16
        for index in range(count):
            offset: int = struct.unpack_from("<2xL6x", part, 4 * (count + 1) + 12 * index)[0]
            if offset != _NOWHERE:
                yield offset

    def _covered(self) -> Iterator[tuple[int, int]]:
        """Yield start and end of the stretches that parts cover without a gap. Gaps may hold anything."""
        start = end = 0
        extents = sorted(
            (at, at + length)
            for index, (at, length) in enumerate(self._extents)
            if length and index not in _PARTS_WITH_ZEROS and at + length <= len(self._table)
        )
        for first, last in extents:
            if first > end:
                yield start, end
                start = first
            end = max(end, last)
        yield start, end


def open_word(container: CompoundFile) -> WordDocument | None:
    """Return the document; None for Word 6 and 95, of which only bounds are checked.

    Raise `Corrupt` if it is damaged, `Encrypted` if it is protected by a password, and what `WordDocument` raises.
    """
    stream = container.root.stream("worddocument")
    header = container.read(stream, _HEADER_BYTES) if stream is not None else b""
    if stream is None or len(header) < 0x20:
        raise Corrupt("the document has no text and no header")
    magic, version = struct.unpack_from("<HH", header)
    if magic in _OLD_MAGICS or (magic == _MAGIC and version < _OLD_BELOW):
        if struct.unpack_from("<H", header, 10)[0] & _ENCRYPTED:
            raise Encrypted("the document is protected by a password")
        start, end = struct.unpack_from("<LL", header, 0x18)
        if not start <= end <= stream.size:
            raise Corrupt("the document is damaged: its text lies outside the stream that holds it")
        return None
    if magic != _MAGIC:
        raise Corrupt("the document's header does not begin as those of Word documents do")
    return WordDocument(container, stream, header)


def _piece_table(part: bytes) -> bytes:
    at = 0
    while part[at : at + 1] == b"\1" and at + 3 <= len(part):
        at += 3 + int.from_bytes(part[at + 1 : at + 3], "little")
    length = int.from_bytes(part[at + 1 : at + 5], "little")
    if part[at : at + 1] != b"\2" or at + 5 + length > len(part):
        raise Corrupt("the document is damaged: there is no list of the pieces of its text")
    return part[at + 5 : at + 5 + length]


def _runs_of_page(page: bytes, start: int, entry_bytes: int) -> Iterator[FormattingRun]:
    count = page[-1]
    if not count or 4 + count * (4 + entry_bytes) >= _PAGE:
        raise Corrupt("the document is damaged: a page of its formatting has an impossible number of runs")
    starts = struct.unpack_from(f"<{count + 1}L", page)
    if starts[0] != start or any(first > second for first, second in itertools.pairwise(starts)):
        raise Corrupt("the document is damaged: a page of its formatting belongs to other text than stated")
    for index in range(count):
        at = 2 * page[4 * (count + 1) + entry_bytes * index]
        if not at:
            continue
        if entry_bytes == 1:
            skipped, length = 1, page[at]
        elif page[at]:  # a paragraph has the number of its style in front of the modifiers (2.9.175)
            skipped, length = 3, max(0, 2 * page[at] - 3)
        else:
            skipped, length = 4, max(0, 2 * page[at + 1] - 2)
        if at + skipped + length >= _PAGE:
            raise Corrupt("the document is damaged: a page of its formatting holds less than it states")
        yield FormattingRun(starts[index], starts[index + 1], page[at + skipped : at + skipped + length])


def _check_modifiers(modifiers: bytes) -> None:
    try:
        for _ in parse_modifiers(modifiers):
            pass
    except CutModifier as error:
        raise Corrupt("the document is damaged: a list of formatting ends within an entry") from error


def _check_fonts(part: bytes) -> None:
    if len(part) < 6:
        return
    count, extra = struct.unpack_from("<HH", part)
    at = 4
    if count == _EXTENDED_FONTS:
        count, extra = struct.unpack_from("<HH", part, 2)
        at = 6
    while count and at < len(part):
        at += 1 + part[at] + extra
        count -= 1
    if count or at > len(part):
        raise Corrupt("the document is damaged: its list of fonts ends within a font")


def _is_rising(numbers: Sequence[int]) -> bool:
    return all(first < second for first, second in itertools.pairwise(numbers))
