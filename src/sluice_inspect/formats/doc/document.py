"""Reads Word's binary format ([MS-DOC], Word 97 and later): header, piece table, formatting. What of it a reader sees is known by the kind.

Every structure followed here is one that all readers need: where text lies, and the pages on which its formatting is kept.
"""

import itertools
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sluice.formats.budget import Deadline
from sluice.formats.office.compound import CompoundFile, Entry
from sluice.formats.office.officeart import store_places
from sluice.formats.office.word_properties import Overrun, walk
from sluice.formats.office.word_table import CHARACTERS, DRAWINGS, PARAGRAPHS, PIECES, WordTable
from sluice.formats.verdict import Corrupt, Encrypted, Limits

_MAGIC: Final = 0xA5EC
_OLD_MAGICS: Final = frozenset({0xA5DC, 0xA697, 0xA698, 0xA699})
"""Word 6 and 95, western and east Asian."""
_OLD_BELOW: Final = 0xC1
_ENCRYPTED: Final = 0x0100
_TABLE_1: Final = 0x0200
_HEADER_BYTES: Final = 0x9A
_COUNTS: Final = (14, 22)
"""How many short and long values the header has, in every version."""
_PAIRS_LEAST: Final = 0x5D

_PAGE: Final = 512
_PAGE_NUMBER: Final = 0x3FFFFF
_BYTE_WIDE: Final = 0x40000000
_CHUNK: Final = 256 * 1024
_ZEROS: Final = re.compile(rb"\0{512}")
"""Text has no zeros; a writer may leave some, a disk that failed leaves sectors of them."""
_TABLE_MOST: Final = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that lies in one stretch: from `first` on, in characters of the document, and from `offset` on, in the stream."""

    first: int
    length: int
    offset: int
    width: int
    """Bytes of a character: 1 (Windows-1252) or 2."""


@dataclass(frozen=True, slots=True)
class Run:
    """Text of one formatting, by its bytes in the stream."""

    start: int
    end: int
    modifiers: bytes


class WordText:
    """The streams of one document, and where in them things are. Raises `Encrypted`, or `Corrupt` for what no reader can follow."""

    def __init__(self, container: CompoundFile, stream: Entry, header: bytes) -> None:
        self._stream = container.open(stream)
        self.size = stream.size
        flags: int = struct.unpack_from("<H", header, 10)[0]
        if flags & _ENCRYPTED:
            raise Encrypted("the document is protected by a password")
        if len(header) < _HEADER_BYTES or (header[0x20], header[0x3E]) != _COUNTS:
            raise Corrupt("the document's header is damaged: it has other parts than such headers have")
        pairs: int = struct.unpack_from("<H", header, 0x98)[0]
        if pairs < _PAIRS_LEAST or _HEADER_BYTES + 8 * pairs > self.size:
            raise Corrupt("the document's header is damaged: it is shorter than such headers are")
        self.lengths: tuple[int, ...] = struct.unpack_from("<8L", header, 0x4C)
        """Characters of the main text, footnotes, headers, macros, comments, endnotes, text boxes, text boxes in headers."""
        table = container.root.stream("1table" if flags & _TABLE_1 else "0table")
        if table is None or table.size > _TABLE_MOST:
            raise Corrupt("the document has no table of where its text is")
        self._table = WordTable(container.read(table), self.read(_HEADER_BYTES, 8 * pairs))
        self.pieces = self._read_pieces()

    def text(self, piece: Piece) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes of a piece in chunks, each with its place in the stream."""
        end = piece.offset + piece.length * piece.width
        for offset in range(piece.offset, end, _CHUNK):
            yield offset, self.read(offset, min(_CHUNK, end - offset))

    def check_text(self) -> None:
        """Raise `Corrupt` where a stretch of the text is zeros."""
        for piece in self.pieces:
            for _, chunk in self.text(piece):
                if _ZEROS.search(chunk):
                    raise Corrupt("the document is damaged: a stretch of its text is nothing but zeros")

    def check_table(self) -> None:
        """Raise `Corrupt` where the table of the document's parts is none, or the properties of a section are none."""
        self._table.check()
        for place in self._table.sections():
            length = int.from_bytes(self.read(place, 2), "little")
            properties = self.read(place + 2, length)
            if len(properties) < length:
                raise Corrupt(
                    "the document is damaged: the properties of a section lie behind the end of the stream that holds them"
                )
            _check_modifiers(properties)

    def check_formatting(self, limits: Limits) -> Mapping[str, bool]:
        """Read all pages of formatting; raises `Corrupt` where one is none. Answers a measure when the time was over before the end."""
        deadline = Deadline(limits.soft_seconds)
        for kind in (CHARACTERS, PARAGRAPHS):
            for run in self.runs(kind):
                if deadline.has_passed:
                    return {"partially_checked": True}
                _check_modifiers(run.modifiers)
        return {}

    def floating_pictures(self) -> Iterator[int]:
        """Yield where pictures beside the text lie in the document's stream."""
        return (place for place in store_places(self._table.part(DRAWINGS)) if place is not None)

    def runs(self, kind: int) -> Iterator[Run]:
        """Yield the formatting of characters or paragraphs. Raises `Corrupt` where its pages are none."""
        what = "the document is damaged: a page of its formatting"
        places = self._table.part(kind)
        count = (len(places) - 4) // 8
        if count < 1:
            return
        starts = struct.unpack_from(f"<{count + 1}L", places)
        if not _rises(starts):
            raise Corrupt(f"{what} lies out of order")
        for start, number in zip(starts, struct.unpack_from(f"<{count}L", places, 4 * (count + 1)), strict=False):
            page = self.read((number & _PAGE_NUMBER) * _PAGE, _PAGE)
            if len(page) < _PAGE:
                raise Corrupt(f"{what} lies behind the end of the text")
            yield from _runs_of(page, start, 1 if kind == CHARACTERS else 13, what)

    def read(self, offset: int, length: int) -> bytes:
        """Answer bytes of the document's stream."""
        self._stream.seek(offset)
        return self._stream.read(length)

    def _read_pieces(self) -> Sequence[Piece]:
        table = _piece_table(self._table.part(PIECES))
        count = (len(table) - 4) // 12
        if count < 1 or (len(table) - 4) % 12:
            raise Corrupt("the document is damaged: the list of the pieces of its text has no whole entry")
        firsts = struct.unpack_from(f"<{count + 1}L", table)
        if firsts[0] or not _rises(firsts):
            raise Corrupt("the document is damaged: the pieces of its text lie out of order")
        if firsts[-1] < sum(self.lengths) or firsts[-1] > 2 * self.size:
            raise Corrupt("the document is damaged: the pieces of its text are not as long as the text")
        pieces = []
        for index, (first, following) in enumerate(itertools.pairwise(firsts)):
            place: int = struct.unpack_from("<2xL2x", table, 4 * (count + 1) + 8 * index)[0]
            width = 1 if place & _BYTE_WIDE else 2
            offset = (place & ~_BYTE_WIDE) // (3 - width)
            if offset + (following - first) * width > self.size:
                raise Corrupt("the document is damaged: part of its text lies behind the end of the stream that holds it")
            pieces.append(Piece(first, following - first, offset, width))
        return pieces


def open_word(container: CompoundFile) -> WordText | None:
    """Answer the text of a document, None for Word 6 and 95, of which just the bounds are known here. Raises as `WordText` does."""
    stream = container.root.stream("worddocument")
    header = container.read(stream, _HEADER_BYTES) if stream is not None else b""
    if stream is None or len(header) < 0x20:  # noqa: PLR2004  (up to where text ends)
        raise Corrupt("the document has no text and no header")
    magic, version = struct.unpack_from("<HH", header)
    if magic in _OLD_MAGICS or (magic == _MAGIC and version < _OLD_BELOW):
        _check_old(header, stream.size)
        return None
    if magic != _MAGIC:
        raise Corrupt("the document's header does not begin as those of Word documents do")
    return WordText(container, stream, header)


def _check_old(header: bytes, size: int) -> None:
    if struct.unpack_from("<H", header, 10)[0] & _ENCRYPTED:
        raise Encrypted("the document is protected by a password")
    start, end = struct.unpack_from("<LL", header, 0x18)
    if not start <= end <= size:
        raise Corrupt("the document is damaged: its text lies behind the end of the stream that holds it")


def _piece_table(part: bytes) -> bytes:
    at = 0
    while part[at : at + 1] == b"\1" and at + 3 <= len(part):
        at += 3 + int.from_bytes(part[at + 1 : at + 3], "little")
    length = int.from_bytes(part[at + 1 : at + 5], "little")
    if part[at : at + 1] != b"\2" or at + 5 + length > len(part):
        raise Corrupt("the document is damaged: there is no list of the pieces of its text")
    return part[at + 5 : at + 5 + length]


def _runs_of(page: bytes, start: int, entry_bytes: int, what: str) -> Iterator[Run]:
    count = page[-1]
    if not count or 4 + count * (4 + entry_bytes) >= _PAGE:
        raise Corrupt(f"{what} is no such page")
    starts = struct.unpack_from(f"<{count + 1}L", page)
    if starts[0] != start or any(first > second for first, second in itertools.pairwise(starts)):
        raise Corrupt(f"{what} is not the one of its text")
    for index in range(count):
        at = 2 * page[4 * (count + 1) + entry_bytes * index]
        if not at:
            continue
        skipped, length = (1, page[at]) if entry_bytes == 1 else _paragraph_length(page, at)
        if at + skipped + length >= _PAGE:
            raise Corrupt(f"{what} holds less than it states")
        yield Run(starts[index], starts[index + 1], page[at + skipped : at + skipped + length])


def _paragraph_length(page: bytes, at: int) -> tuple[int, int]:
    """Answer where the modifiers of a paragraph begin, behind the number of its style, and their length."""
    if page[at]:
        return 3, max(0, 2 * page[at] - 3)
    return 4, max(0, 2 * page[at + 1] - 2)


def _check_modifiers(modifiers: bytes) -> None:
    try:
        for _ in walk(modifiers):
            pass
    except Overrun as error:
        raise Corrupt("the document is damaged: a list of formatting ends within an entry") from error


def _rises(numbers: Sequence[int]) -> bool:
    return all(first < second for first, second in itertools.pairwise(numbers))
