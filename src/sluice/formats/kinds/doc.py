"""Word documents of before 2007 (.doc, .dot): what of them a reader sees. Their structure is read by `compound` and `word_binary`.

As with DOCX, headers and footers do not count, nor does text that is hidden, or white where nothing is shaded; notes, comments and text
boxes count. A picture in the text counts when it shows something, all else that is drawn counts. Word 6 and 95 are never blank.
"""

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.office.compound import CompoundFile
from sluice.formats.office.compound_family import open_container, recognises
from sluice.formats.office.officeart import HEADER, PICTURES_MOST, Record, check_picture, picture_shows, pictures, records
from sluice.formats.office.word_binary import Piece, WordText, open_word
from sluice.formats.office.word_properties import draws_line, hides, shades, walk, whitens
from sluice.formats.office.word_sample import make_word
from sluice.formats.office.word_table import CHARACTERS, PARAGRAPHS
from sluice.formats.source import Source
from sluice.formats.text.plaintext import INVISIBLE
from sluice.formats.verdict import Limits, Measure, TooComplex, Unsupported

_FIRST_WORDS: Final = (b"\xdb\xa5-\0", b"\xfe7\0\x1c", b"\xfe7\0#", b"1\xbe\0\0\0\xab")
"""What Word 2, Word for Mac 4 and 5, and Word for DOS begin with, which are no compound files."""
_NOT_SEEN: Final = (2, 7)
"""Parts of the text that do not count: headers, and the text boxes in them."""
_TOKENS: Final = re.compile("[\x01\x08\x13\x14\x15]|[^\x01\x08\x13\x14\x15]+")
_PICTURE, _DRAWN, _FIELD, _RESULT, _FIELD_END = "\x01", "\x08", "\x13", "\x14", "\x15"
_FIRM_HYPHEN: Final = {0x1E: "-"}
"""A control character that shows."""
_SHOWN_FIELDS: Final = re.compile(
    r"\s*(?:FORMCHECKBOX|FORMDROPDOWN|SYMBOL|EQ|MACROBUTTON|GOTOBUTTON|AUTONUM|LISTNUM)", re.IGNORECASE
)
"""Fields that show something although they have no result."""
_RUNS_MOST: Final = 100_000
_PICTURE_HEADER: Final = struct.Struct("<lHH")
_LINKED: Final = 0x66


def check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Judge the container, the pieces of the text, and the pages of its formatting."""
    if source.head.startswith(_FIRST_WORDS):
        raise Unsupported("the document was written by a Word of before 1993, whose files cannot be judged here")
    container, measures = open_container(source)
    word = open_word(container)
    if word is None:
        return {**measures, "partially_checked": True}
    word.check_text()
    word.check_table()
    _check_pictures(container, word)
    return {**measures, "characters": word.lengths[0], **word.check_formatting(limits)}


def blank(source: Source, limits: Limits) -> str | None:
    """Answer that neither the text nor its notes, comments and boxes show anything."""
    container = CompoundFile(source)
    word = open_word(container)
    if word is None:
        return None
    look = _Look(_unseen(word))
    if look.unseen.has_line or any(look.shows(word, piece) for piece in _counted(word)):
        return None
    if look.has_picture:
        data, found = _pictures_in_text(container)
        if not found or any(picture_shows(data, picture, limits) for picture in found):
            return None
    return "the document shows no text, picture, shape or table line"


@dataclass(slots=True)
class _Unseen:
    """What the formatting takes off the page, by bytes of the stream, and what it draws."""

    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    has_line: bool = False

    def covers(self, offset: int) -> bool:
        """Whether the character at this byte is not seen."""
        index = bisect_right(self.starts, offset) - 1
        return index >= 0 and offset < self.ends[index]


def _unseen(word: WordText) -> _Unseen:
    hidden: list[tuple[int, int]] = []
    white: list[tuple[int, int]] = []
    has_line = has_shade = False
    for kind in (CHARACTERS, PARAGRAPHS):
        for count, run in enumerate(word.runs(kind)):
            if count > _RUNS_MOST:
                raise TooComplex("the document has too many runs of formatting to look for what they hide")
            for code, operand in walk(run.modifiers):
                if hides(code, operand):
                    hidden.append((run.start, run.end))
                elif whitens(code, operand):
                    white.append((run.start, run.end))
                is_shade = shades(code, operand)
                # A paragraph or a cell has its colour even where it is empty.
                has_line |= draws_line(code, operand) or (is_shade and kind == PARAGRAPHS)
                has_shade |= is_shade
    spans = sorted(hidden if has_shade else hidden + white)
    return _Unseen([start for start, _ in spans], [end for _, end in spans], has_line)


def _counted(word: WordText) -> Iterator[Piece]:
    """Yield the text that counts, in stretches that lie in one place."""
    first = 0
    for part, length in enumerate(word.lengths):
        if part not in _NOT_SEEN and length:
            for piece in word.pieces:
                start, end = max(first, piece.first), min(first + length, piece.first + piece.length)
                if start < end:
                    yield Piece(start, end - start, piece.offset + (start - piece.first) * piece.width, piece.width)
        first += length


class _Look:
    """Reads text until something of it shows. Instructions of fields are no text."""

    def __init__(self, unseen: _Unseen) -> None:
        self.unseen = unseen
        self.has_picture = False
        self._fields: list[bool] = []
        """For each open field, whether its result has begun."""

    def shows(self, word: WordText, piece: Piece) -> bool:
        """Whether this piece has a visible character or something drawn."""
        for offset, chunk in word.text(piece):
            text = chunk.decode("cp1252" if piece.width == 1 else "utf-16-le", "replace").translate(_FIRM_HYPHEN)
            for token in _TOKENS.finditer(text):
                if self._token_shows(token.group(), offset + token.start() * piece.width, piece.width):
                    return True
        return False

    def _token_shows(self, token: str, offset: int, width: int) -> bool:
        if token == _FIELD:
            self._fields.append(False)
        elif token in {_RESULT, _FIELD_END}:
            self._turn(token)
        elif not all(self._fields):
            return _SHOWN_FIELDS.match(token) is not None
        elif token == _DRAWN:
            return True
        elif token == _PICTURE:
            self.has_picture |= not self.unseen.covers(offset)
        elif token.strip(INVISIBLE):
            return any(
                letter not in INVISIBLE and not self.unseen.covers(offset + index * width) for index, letter in enumerate(token)
            )
        return False

    def _turn(self, token: str) -> None:
        if self._fields:
            self._fields.pop()
            if token == _RESULT:
                self._fields.append(True)


def _pictures_in_text(container: CompoundFile) -> tuple[bytes, list[Record]]:
    """Answer the data of a document's pictures, and where in it they are."""
    entry = container.root.stream("data")
    if entry is None or entry.size > PICTURES_MOST:
        return b"", []
    data = container.read(entry)
    found: list[Record] = []
    at = 0
    while at + _PICTURE_HEADER.size <= len(data):
        length, header, mode = _PICTURE_HEADER.unpack_from(data, at)
        if length < _PICTURE_HEADER.size:
            break
        start = at + header + (1 + data[at + header] if mode == _LINKED and at + header < len(data) else 0)
        found.extend(pictures(data, start, min(at + length, len(data))))
        at += length
    return data, found


def _check_pictures(container: CompoundFile, word: WordText) -> None:
    data, found = _pictures_in_text(container)
    for picture in found:
        check_picture(data, picture)
    for place in word.floating_pictures():
        opening = word.read(place, HEADER.size)
        head = next(records(opening), None)
        if head is not None and head.is_picture:
            floating = opening + word.read(place + HEADER.size, min(PICTURES_MOST, int.from_bytes(opening[4:], "little")))
            check_picture(floating, next(records(floating)))


KIND: Final = Kind(
    name="doc",
    content_type="application/msword",
    extensions=frozenset({"doc", "dot"}),
    recognises=lambda source: source.head.startswith(_FIRST_WORDS) or recognises(source, "doc"),
    check=check,
    sample=lambda: make_word("Sluice\r"),
    blank=blank,
)
