"""The text of office documents and books, in the order of their pages."""
# Parts are read as the blank rule reads them. Nothing outside of the file is read: no templates, no linked pictures.

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from sluice_inspect.archives.zip.archive import read_archive
from sluice_inspect.budget import Budget
from sluice_inspect.document_text.extent import Extent
from sluice_inspect.document_text.texts import html_text
from sluice_inspect.formats.doc.document import open_word
from sluice_inspect.formats.epub import page_parts
from sluice_inspect.formats.msg import message_text
from sluice_inspect.formats.opendocument.format import has_encrypted_parts
from sluice_inspect.formats.ppt.presentation import SLIDE_LIST, SLIDES, Presentation
from sluice_inspect.formats.xls.cells import SheetCells, WorkbookGlobals, visible_rows
from sluice_inspect.formats.xls.records import BiffRecord, open_workbook
from sluice_inspect.office.compound import ENCRYPTED, MAGIC, CompoundFile, is_compound_document
from sluice_inspect.office.drawing import relation_of, short_name
from sluice_inspect.office.ooxml import Package
from sluice_inspect.office.zip_documents import open_document
from sluice_inspect.report import Encrypted, Limits, Unsupported
from sluice_inspect.source import Source
from sluice_inspect.text.xmlsafe import StopParsing, XmlTarget

_RECORDS_MOST: Final = 200_000
_MARGINS: Final = ("header", "footer", "footnotes", "endnotes")  # parts of a document beside its body
_DIAGRAM: Final = "diagramdata"  # of the words in a diagram
_PARTS_MOST: Final = 50  # of each kind
_WORD_FIELD: Final = re.compile(r"\x13[^\x13-\x15]*(?:\x14|\x15)")  # the instruction of a field, up to what it shows
_WORD_MARKS: Final = str.maketrans(
    {"\r": "\n", "\x0b": "\n", "\x0c": "\n", "\x07": "\t", "\x15": "", "\x01": "", "\x08": ""}
)
_NUMBER, _SHORT_NUMBER, _SHORT_NUMBERS, _FORMULAS = 0x0203, 0x027E, 0x00BD, frozenset({0x0006, 0x0206, 0x0406})
_NO_NUMBER: Final = b"\xff\xff"
_DOUBLE_END, _SHORT_END = 14, 10
_TEXT_CHARS, _TEXT_BYTES = 0x0FA0, 0x0FA8


class _Text(XmlTarget):
    """Keeps the text of parts until there is enough. Elements are known by their names without their namespace."""

    shown: frozenset[str] | None = None  # elements whose text is shown; None: of all
    muted: frozenset[str] = frozenset()
    ends: Mapping[str, str] = {}  # what stands behind an element
    begins: Mapping[str, str] = {}  # and what in its place
    cells: frozenset[str] = frozenset()  # of tables: the last line of one ends with a tab

    def __init__(self, most: int) -> None:
        self.most = most
        self.parts: list[str] = []
        self.size = 0
        self._open: list[str] = []
        self._muted = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = self.name_of(tag, attributes)
        self._open.append(name)
        self._muted += name in self.muted
        if name in self.begins:
            self.add(self.begins[name])

    def end(self, _tag: str) -> None:
        name = self._open.pop()
        self._muted -= name in self.muted
        if name in self.cells and self.parts[-1:] == ["\n"]:
            self.parts.pop()
        if name in self.ends:
            self.add(self.ends[name])

    def data(self, text: str) -> None:
        if self.shown is None or (self._open and self._open[-1] in self.shown):
            self.add(text)

    def name_of(self, tag: str, _attributes: Mapping[str, str]) -> str:
        return tag.rpartition("}")[2]

    def add(self, text: str) -> None:
        if not self._muted:
            self.parts.append(text)
            self.size += len(text)
            if self.is_full:
                raise StopParsing

    @property
    def is_full(self) -> bool:
        """Whether there is enough text."""
        return self.size > self.most


class _WordText(_Text):
    shown = frozenset({"w:t", "a:t", "m:t"})
    muted = frozenset({"?:Fallback"})  # the same again, for older readers
    ends: Mapping[str, str] = {"w:p": "\n", "w:tc": "\t", "w:tr": "\n", "a:p": "\n"}
    cells = frozenset({"w:tc"})
    begins: Mapping[str, str] = {"w:tab": "\t", "w:br": "\n", "w:cr": "\n"}

    def name_of(self, tag: str, _attributes: Mapping[str, str]) -> str:
        return short_name(tag)


class _SlideText(_Text):
    shown = frozenset({"a:t"})
    muted = frozenset({"?:Fallback"})
    ends: Mapping[str, str] = {"a:p": "\n", "a:tc": "\t", "a:tr": "\n"}
    cells = frozenset({"a:tc"})
    begins: Mapping[str, str] = {"a:br": "\n"}

    def name_of(self, tag: str, _attributes: Mapping[str, str]) -> str:
        return short_name(tag)


class _OpenDocumentText(_Text):
    shown = frozenset({"p", "h", "span", "a", "list-item"})
    muted = frozenset({"tracked-changes"})
    ends: Mapping[str, str] = {"p": "\n", "h": "\n", "table-cell": "\t", "table-row": "\n", "page": "\n"}
    cells = frozenset({"table-cell"})
    begins: Mapping[str, str] = {"tab": "\t", "line-break": "\n", "s": " "}


class _SheetText(_OpenDocumentText):
    ends: Mapping[str, str] = {"p": "\n", "table-cell": "\t", "table-row": "\n", "table": "\n"}


class _BookText(_Text):
    muted = frozenset({"head", "script", "style", "template"})
    ends: Mapping[str, str] = dict.fromkeys(("p", "h1", "h2", "h3", "h4", "h5", "h6", "div", "li", "tr", "title"), "\n")
    begins: Mapping[str, str] = {"br": "\n", "td": "\t"}

    def data(self, text: str) -> None:
        if text.strip() or (self.parts and not self.parts[-1].endswith(("\n", " "))):
            self.add(re.sub(r"\s+", " ", text))


class _SlideOrder(XmlTarget):
    def __init__(self, most: int) -> None:
        self._most = most
        self.relations: list[str] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if short_name(tag) == "p:sldId" and len(self.relations) < self._most:
            self.relations.append(relation_of(attributes, "id"))


class _SheetOrder(XmlTarget):
    def __init__(self, most: int) -> None:
        self._most = most
        self.relations: list[tuple[str, str]] = []

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        is_hidden = attributes.get("state", "visible") != "visible"
        if short_name(tag) == "s:sheet" and not is_hidden and len(self.relations) < self._most:
            self.relations.append((attributes.get("name", ""), relation_of(attributes, "id")))


class _Cells(XmlTarget):
    """The first rows of a sheet; shared texts as their number."""

    def __init__(self, extent: Extent) -> None:
        self._extent = extent
        self._size = 0
        self.rows: list[list[str | int]] = []
        self._type = ""
        self._value = ""
        self._is_value = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = short_name(tag)
        if name == "s:row":
            if len(self.rows) >= self._extent.rows or self._size > self._extent.characters:
                raise StopParsing
            self.rows.append([])
        elif name == "s:c":
            self._type, self._value = attributes.get("t", ""), ""
        self._is_value = name in {"s:v", "s:t"}

    def end(self, tag: str) -> None:
        self._is_value = False
        if short_name(tag) == "s:c" and self.rows and len(self.rows[-1]) < self._extent.cells:
            self._size += len(self._value)
            is_shared = self._type == "s" and self._value.isdecimal()
            self.rows[-1].append(int(self._value[:9]) if is_shared else self._value)

    def data(self, text: str) -> None:
        if self._is_value:
            self._value += text[: self._extent.characters]


class _SharedTexts(XmlTarget):
    def __init__(self, wanted: Iterable[int], most: int) -> None:
        self._left = most
        self.texts = dict.fromkeys(wanted, "")
        self._last = max(self.texts, default=-1)
        self._number = -1
        self._is_text = False

    def start(self, tag: str, _attributes: Mapping[str, str]) -> None:
        name = short_name(tag)
        if name == "s:si":
            self._number += 1
            if self._number > self._last:
                raise StopParsing
        self._is_text = name == "s:t"

    def end(self, _tag: str) -> None:
        self._is_text = False

    def data(self, text: str) -> None:
        if self._is_text and self._number in self.texts:
            self.texts[self._number] += text[: self._left]
            self._left -= min(self._left, len(text))


def _word(source: Source, limits: Limits, extent: Extent) -> str:
    package = _package(source, limits)
    text = _WordText(extent.characters)
    if package.main is None:
        return ""
    package.read(package.main, text)
    for kind in (_DIAGRAM, *(_MARGINS if extent.has_margins else ())):
        for part in islice(package.related(package.main, kind), _PARTS_MOST):
            if not text.is_full:
                text.parts.append("\n")
                package.read(part, text)
    return "".join(text.parts)


def _slides(source: Source, limits: Limits, extent: Extent) -> str:
    package = _package(source, limits)
    if package.main is None:
        return ""
    order, text = _SlideOrder(extent.pages), _SlideText(extent.characters)
    package.read(package.main, order)
    relations = package.relations(package.main)
    ordered = [relations[each].target for each in order.relations if each in relations]
    for slide in ordered or islice(package.related(package.main, "slide"), extent.pages):
        if text.is_full:
            break
        package.read(slide, text)
        for diagram in islice(package.related(slide, _DIAGRAM), _PARTS_MOST):
            if not text.is_full:
                package.read(diagram, text)
        text.parts.append("\n")
    return "".join(text.parts)


def _workbook(source: Source, limits: Limits, extent: Extent) -> str:
    package = _package(source, limits)
    main = package.main
    if main is None or not package.is_xml(main):
        raise Unsupported("the cells of a binary workbook are not read")
    order, lines, left = _SheetOrder(extent.sheets), list[str](), extent.characters
    package.read(main, order)
    for name, relation in order.relations:
        found = package.relations(main).get(relation)
        if found is None or found.target not in package.parts:
            continue
        cells = _Cells(extent)
        package.read(found.target, cells)
        wanted = (cell for row in cells.rows for cell in row if isinstance(cell, int))
        shared = _SharedTexts(wanted, extent.characters)
        for part in package.related(main, "sharedstrings") if shared.texts else ():
            package.read(part, shared)
        lines.append(name)
        for row in cells.rows:
            shown = [shared.texts[cell] if isinstance(cell, int) else cell for cell in row]
            left -= sum(map(len, shown)) + len(shown)  # the same long text may be in every cell
            if left < 0:
                break
            lines.append("\t".join(shown))
        if len(lines) > extent.rows or left < 0:
            break
        lines.append("")
    return "\n".join(lines)


def _package(source: Source, limits: Limits) -> Package:
    if is_compound_document(source, ENCRYPTED):
        raise Encrypted("the document is protected by a password")
    return Package(source.cached(read_archive, limits), limits, Budget(limits, packed_bytes=source.size))


def _open_document(source: Source, limits: Limits, extent: Extent) -> str:
    return _open_document_text(source, limits, extent, _OpenDocumentText(extent.characters))


def _open_sheets(source: Source, limits: Limits, extent: Extent) -> str:
    return _open_document_text(source, limits, extent, _SheetText(extent.characters))


def _open_document_text(source: Source, limits: Limits, extent: Extent, text: _Text) -> str:
    document = open_document(source, limits)
    if has_encrypted_parts(document):
        raise Encrypted("the document is protected by a password")
    document.read("content.xml", text)
    if extent.has_margins and not text.is_full and document.has("styles.xml"):
        document.read("styles.xml", text)  # which has the headers and footers
    return "".join(text.parts)


def _book(source: Source, limits: Limits, extent: Extent) -> str:
    document, text = open_document(source, limits), _BookText(extent.characters)
    for part in page_parts(document):
        if text.is_full:
            break
        document.read(part, text)
    return "".join(text.parts)


def _old_word(source: Source, _limits: Limits, extent: Extent) -> str:
    word = open_word(CompoundFile(source))
    if word is None:
        raise Unsupported("the text of documents of Word 6 and 95 is not read")
    text, left = "", min(extent.characters, word.lengths[0])
    for piece in word.pieces:
        count = min(piece.length, left)
        letters = word.read(piece.offset, count * piece.width)
        text += letters.decode("cp1252" if piece.width == 1 else "utf-16-le", "replace")
        left -= count
        if left <= 0:
            break
    return _WORD_FIELD.sub("", text).translate(_WORD_MARKS)


def _old_workbook(source: Source, _limits: Limits, extent: Extent) -> str:
    workbook = open_workbook(source, CompoundFile(source) if source.head.startswith(MAGIC) else None)
    if not workbook.version:
        raise Unsupported("the cells of workbooks of Excel 4 and older are not read")
    book = WorkbookGlobals.read(workbook)
    if book.is_encrypted:
        raise Encrypted("the workbook is protected by a password")
    lines: list[str] = []
    for entry in [each for each in book.sheets if not each.is_hidden and each.has_cells][: extent.sheets]:
        sheet = SheetCells(workbook.version, book.invisible)
        for count, record in enumerate(workbook.sheet(entry.at)):
            if count > _RECORDS_MOST or len(sheet.rows) > extent.rows:
                break
            sheet.add(record)
            for row, number in _numbers(record):
                sheet.rows.setdefault(row, []).append(f"{number:.10g}")
        lines += ["\t".join(row) for row in visible_rows(list(sheet.rows.values()), book.strings)]
        lines.append("")
    return "\n".join(lines)


def _numbers(record: BiffRecord) -> Iterator[tuple[int, float]]:
    """Yield row and value of the numbers in a record ([MS-XLS] 2.4.180, 2.4.220, 2.4.175 and 2.4.127)."""
    body = record.body
    row = int.from_bytes(body[:2], "little")
    if record.type == _NUMBER or (record.type in _FORMULAS and body[12:14] != _NO_NUMBER):
        if len(body) >= _DOUBLE_END:
            yield row, struct.unpack_from("<d", body, 6)[0]
    elif record.type == _SHORT_NUMBER and len(body) >= _SHORT_END:
        yield row, _short_number(int.from_bytes(body[6:10], "little", signed=True))
    elif record.type == _SHORT_NUMBERS:
        for at in range(6, len(body) - 5, 6):
            yield row, _short_number(int.from_bytes(body[at : at + 4], "little", signed=True))


def _short_number(coded: int) -> float:
    """Return a number in 30 bits ([MS-XLS] 2.5.217): a whole one or the upper bits of a double, perhaps hundredfold."""
    value: float = coded >> 2
    if not coded & 2:
        value = struct.unpack("<d", bytes(4) + (coded & 0xFFFFFFFC).to_bytes(4, "little"))[0]
    return value / 100 if coded & 1 else value


def _old_slides(source: Source, _limits: Limits, extent: Extent) -> str:
    presentation = Presentation(CompoundFile(source))
    outline = [
        record
        for found in presentation.document()
        if found.type == SLIDE_LIST and found.instance == SLIDES
        for record in presentation.inside(found)
    ]
    shapes = (record for slide in presentation.listed(SLIDES) for record in presentation.walk(slide))
    lines: list[str] = []
    size = 0
    for count, record in enumerate((*outline, *shapes)):
        if record.type in {_TEXT_CHARS, _TEXT_BYTES}:
            encoding = "utf-16-le" if record.type == _TEXT_CHARS else "latin-1"
            lines.append(
                presentation.body(record).decode(encoding, "replace").replace("\r", "\n").replace("\x0b", "\n")
            )
            size += len(lines[-1])
        if size > extent.characters or count > _RECORDS_MOST:
            break
    return "\n".join(lines)


def _message(source: Source, _limits: Limits, extent: Extent) -> str:
    subject, body, page = message_text(CompoundFile(source))
    return f"Subject: {subject}\n\n{body if body.strip() else html_text(page, extent.characters)}"


READERS: Final[Mapping[str, Callable[[Source, Limits, Extent], str]]] = {
    "doc": _old_word,
    "docx": _word,
    "epub": _book,
    "msg": _message,
    "odp": _open_document,
    "ods": _open_sheets,
    "odt": _open_document,
    "ppt": _old_slides,
    "pptx": _slides,
    "xls": _old_workbook,
    "xlsx": _workbook,
}
