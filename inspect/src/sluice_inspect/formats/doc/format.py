"""Word documents before Word 2007 (.doc, .dot). Word 6 and 95 are never blank."""
# As with DOCX, the blank rule leaves out headers and footers, hidden text, and white text where nothing is shaded;
# notes, comments and text boxes count. A picture in the text counts when it shows something, other drawings always.

import re
import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sluice_inspect.format import Examination, Family, Format, named
from sluice_inspect.formats.doc.document import CHARACTERS, PARAGRAPHS, TextPiece, WordDocument, open_word
from sluice_inspect.formats.doc.facts import measure_word
from sluice_inspect.formats.doc.modifiers import draws_line, hides, parse_modifiers, shades, whitens
from sluice_inspect.office.compound import (
    MAGIC,
    CompoundFile,
    check_container,
    content_end,
    is_compound_document,
    make_compound,
)
from sluice_inspect.office.officeart import (
    HEADER,
    MAX_PICTURE_BYTES,
    PictureCheck,
    Record,
    has_picture_ink,
    pictures,
    records,
)
from sluice_inspect.report import Limits, TooComplex, Unsupported
from sluice_inspect.source import Source
from sluice_inspect.text.plaintext import INVISIBLE

# What Word 2, Word for Mac 4 and 5, and Word for DOS begin with. Their files are not compound files.
_ANCIENT_BEGINNINGS: Final = (b"\xdb\xa5-\0", b"\xfe7\0\x1c", b"\xfe7\0#", b"1\xbe\0\0\0\xab")
_UNCOUNTED_PARTS: Final = (2, 7)  # headers, and the text boxes in them
_TOKENS: Final = re.compile("[\x01\x08\x13\x14\x15]|[^\x01\x08\x13\x14\x15]+")
_PICTURE, _DRAWN, _FIELD, _RESULT, _FIELD_END = "\x01", "\x08", "\x13", "\x14", "\x15"
_NON_BREAKING_HYPHEN: Final = {0x1E: "-"}  # the one control character that shows
# Fields that show something although they have no result.
_SHOWN_FIELDS: Final = re.compile(
    r"\s*(?:FORMCHECKBOX|FORMDROPDOWN|SYMBOL|EQ|MACROBUTTON|GOTOBUTTON|AUTONUM|LISTNUM)", re.IGNORECASE
)
_MAX_RUNS: Final = 100_000
_PICTURE_HEADER: Final = struct.Struct("<lHH")
_LINKED: Final = 0x66

_TEXT_AT: Final = 1024
_PAGE: Final = 512
_PAIRS: Final = 0x5D


def _examine(source: Source, limits: Limits) -> Examination:
    if source.head.startswith(_ANCIENT_BEGINNINGS):
        raise Unsupported("the document was written by a Word of before 1993, whose files cannot be judged here")
    container, measures = check_container(source)
    word = open_word(container)
    if word is None:
        return Examination({**measures, "partially_checked": True})
    word.check_text()
    word.check_table()
    inline = _read_inline_pictures(container)
    checked = PictureCheck()
    for picture in inline.records:
        checked.add(inline.data, picture)
    _check_floating_pictures(word, checked)
    measures = {**measures, **checked.measures(), "characters": word.lengths[0], **word.check_formatting(limits)}
    return Examination(measures, lambda: _blank(word, inline, limits))


@dataclass(frozen=True, slots=True)
class _InlinePictures:
    data: bytes
    records: Sequence[Record]


def _read_inline_pictures(container: CompoundFile) -> _InlinePictures:
    entry = container.root.stream("data")
    if entry is None or entry.size > MAX_PICTURE_BYTES:
        return _InlinePictures(b"", ())
    data = container.read(entry)
    found: list[Record] = []
    at = 0
    while at + _PICTURE_HEADER.size <= len(data):
        length, header, mode = _PICTURE_HEADER.unpack_from(data, at)
        if length < _PICTURE_HEADER.size:
            break
        # A linked picture has its name, with a length in front, between the header and the records.
        start = at + header + (1 + data[at + header] if mode == _LINKED and at + header < len(data) else 0)
        found.extend(pictures(data, start, min(at + length, len(data))))
        at += length
    return _InlinePictures(data, found)


def _check_floating_pictures(word: WordDocument, checked: PictureCheck) -> None:
    for offset in word.floating_pictures():
        opening = word.read(offset, HEADER.size)
        head = next(records(opening), None)
        if head is not None and head.is_picture:
            length = min(MAX_PICTURE_BYTES, int.from_bytes(opening[4:], "little"))
            floating = opening + word.read(offset + HEADER.size, length)
            checked.add(floating, next(records(floating)))


def _blank(word: WordDocument, inline: _InlinePictures, limits: Limits) -> str | None:
    formatting = _read_formatting(word)
    ink = _TextInk(formatting)
    if formatting.has_line or any(ink.is_in(word, piece) for piece in _counted_pieces(word)):
        return None
    if ink.has_picture and (
        # A picture that is placed but not found may show anything.
        not inline.records or any(has_picture_ink(inline.data, picture, limits) for picture in inline.records)
    ):
        return None
    return "the document shows no text, picture, shape or table line"


@dataclass(frozen=True, slots=True)
class _Formatting:
    """The stretches of text that are not visible, by bytes of the stream, and whether a line or an area is drawn."""

    starts: Sequence[int]
    ends: Sequence[int]
    has_line: bool

    def hides(self, offset: int) -> bool:
        index = bisect_right(self.starts, offset) - 1
        return index >= 0 and offset < self.ends[index]


def _read_formatting(word: WordDocument) -> _Formatting:
    hidden: list[tuple[int, int]] = []
    white: list[tuple[int, int]] = []
    has_line = has_shade = False
    for table in (CHARACTERS, PARAGRAPHS):
        for count, run in enumerate(word.runs(table)):
            if count > _MAX_RUNS:
                raise TooComplex("the document has too many runs of formatting to find out what they hide")
            for code, operand in parse_modifiers(run.modifiers):
                if hides(code, operand):
                    hidden.append((run.start, run.end))
                elif whitens(code, operand):
                    white.append((run.start, run.end))
                is_shade = shades(code, operand)
                # A paragraph or a cell shows its colour even where it is empty.
                has_line |= draws_line(code, operand) or (is_shade and table == PARAGRAPHS)
                has_shade |= is_shade
    spans = sorted(hidden if has_shade else hidden + white)
    return _Formatting([start for start, _ in spans], [end for _, end in spans], has_line)


def _counted_pieces(word: WordDocument) -> Iterator[TextPiece]:
    first = 0
    for part, length in enumerate(word.lengths):
        if part not in _UNCOUNTED_PARTS and length:
            for piece in word.pieces:
                start, end = max(first, piece.first), min(first + length, piece.first + piece.length)
                if start < end:
                    offset = piece.offset + (start - piece.first) * piece.width
                    yield TextPiece(start, end - start, offset, piece.width)
        first += length


class _TextInk:
    """Reads text until some of it shows. The instructions of fields are not text."""

    def __init__(self, formatting: _Formatting) -> None:
        self.has_picture = False
        self._formatting = formatting
        self._fields: list[bool] = []  # for each open field, whether its result has begun

    def is_in(self, word: WordDocument, piece: TextPiece) -> bool:
        encoding = "cp1252" if piece.width == 1 else "utf-16-le"
        for offset, chunk in word.text(piece):
            text = chunk.decode(encoding, "replace").translate(_NON_BREAKING_HYPHEN)
            for token in _TOKENS.finditer(text):
                if self._is_visible(token.group(), offset + token.start() * piece.width, piece.width):
                    return True
        return False

    def _is_visible(self, token: str, offset: int, width: int) -> bool:
        if token == _FIELD:
            self._fields.append(False)
        elif token in {_RESULT, _FIELD_END}:
            if self._fields:
                self._fields.pop()
                if token == _RESULT:
                    self._fields.append(True)
        elif not all(self._fields):
            return _SHOWN_FIELDS.match(token) is not None
        elif token == _DRAWN:
            return True
        elif token == _PICTURE:
            self.has_picture |= not self._formatting.hides(offset)
        elif token.strip(INVISIBLE):
            return any(
                letter not in INVISIBLE and not self._formatting.hides(offset + index * width)
                for index, letter in enumerate(token)
            )
        return False


Runs = Sequence[tuple[int, bytes]]  # how many characters, and their modifiers


def make_word(
    text: str, *, runs: Runs = (), paragraph: bytes = b"", lengths: Sequence[int] = (), data: bytes = b""
) -> bytes:
    """Return a document with this text and formatting; by default all is main text. `lengths` as in `WordDocument`."""
    letters = text.encode("utf-16-le")
    pages_at = -(-(_TEXT_AT + len(letters)) // _PAGE)
    ends, text_end = [_TEXT_AT], _TEXT_AT
    for count, _ in runs or [(len(text), b"")]:
        text_end += 2 * count
        ends.append(text_end)
    characters = _make_page(ends, [bytes([len(each)]) + each if each else b"" for _, each in runs or [(0, b"")]], 1)
    body = b"\0\0" + paragraph
    entry = bytes([0, (len(body) + 1) // 2]) + body + bytes(len(body) % 2)
    paragraphs = _make_page([_TEXT_AT, text_end], [entry], 13)
    table, pairs = b"", bytearray(8 * _PAIRS)
    pieces = struct.pack("<2LHLH", 0, len(text), 0, _TEXT_AT, 0)
    for index, part in {
        1: b"\x12\0" + struct.pack("<9H", 15, 10, 1, 0x5B, 15, 0, 0, 0, 0) + bytes(30),
        12: struct.pack("<3L", _TEXT_AT, text_end, pages_at),
        13: struct.pack("<3L", _TEXT_AT, text_end, pages_at + 1),
        31: bytes(500),
        33: b"\2" + struct.pack("<L", len(pieces)) + pieces,
    }.items():
        struct.pack_into("<LL", pairs, 8 * index, len(table), len(part))
        table += part
    header = bytearray(0x9A)
    struct.pack_into("<2H6xH", header, 0, 0xA5EC, 0xC1, 0x1200)
    struct.pack_into("<H", header, 0x20, 14)
    struct.pack_into("<H", header, 0x3E, 22)
    struct.pack_into("<8L", header, 0x4C, *(*lengths, *[0] * 8)[:8] if lengths else (len(text), 0, 0, 0, 0, 0, 0, 0))
    struct.pack_into("<H", header, 0x98, _PAIRS)
    stream = (bytes(header) + bytes(pairs)).ljust(_TEXT_AT, b"\0") + letters
    stream = stream.ljust(pages_at * _PAGE, b"\0") + characters + paragraphs
    return make_compound({"WordDocument": stream, "1Table": table, **({"Data": data} if data else {})})


def _make_page(ends: Sequence[int], entries: Sequence[bytes], entry_bytes: int) -> bytes:
    """Return a page of formatting: ends of runs, positions of modifiers, and these, from the end of the page on."""
    count, body, at = len(entries), b"", _PAGE - 2
    index = b""
    for entry in entries:
        at -= len(entry) + len(entry) % 2 if entry else 0
        body = entry + bytes(len(entry) % 2) + body
        index += bytes([at // 2 if entry else 0]).ljust(entry_bytes, b"\0")
    head = struct.pack(f"<{count + 1}L", *ends) + index
    return head.ljust(at, b"\0") + body + bytes([0, count])


FORMAT: Final = Format(
    name="doc",
    family=Family.DOCUMENT,
    content_type="application/msword",
    extensions=frozenset({"doc", "dot"}),
    begins=(*_ANCIENT_BEGINNINGS, MAGIC),
    matches=lambda source: source.head.startswith(_ANCIENT_BEGINNINGS) or is_compound_document(source, "doc"),
    examine=_examine,
    facts=measure_word,
    own_facts=frozenset({"encrypted", "pages"}),
    sample=lambda: make_word("Sluice\r"),
    names=named("Word ({})", "doc dot") | named("document", "application/msword"),
    content_end=content_end,
    page_extensions=frozenset({"doc", "dot"}),
    may_be_text=True,
    is_office=True,
)
