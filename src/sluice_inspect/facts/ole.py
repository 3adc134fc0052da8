"""What a compound file (old Office documents, Outlook items) has besides its text: macros, objects, links."""

import re
import struct
from collections.abc import Callable, Iterator
from typing import Final

from sluice_inspect.facts.fields import spells_dde
from sluice_inspect.office.compound import CompoundFile, Entry
from sluice_inspect.programs import HEAD_BYTES, attachment_flag
from sluice_inspect.report import FactSheet
from sluice_inspect.source import MemoryBacked
from sluice_inspect.subject import Subject

_MACRO_STORAGES: Final = frozenset({"_vba_project_cur", "macros", "vba", "_vba_project"})
_EMBEDDED_SHEET: Final = re.compile(r"(?:mbd|lnk)[0-9a-f]{8}")
_NATIVE: Final = "\x01ole10native"
_OBJECT_POOL: Final = "objectpool"
_STREAM_BYTES: Final = 64 * 1024**2
_SUMMARY: Final = "\x05summaryinformation"
_PAGE_COUNT: Final = 14  # [MS-OSHARED] 2.3.3.2.1
_SUMMARY_BYTES: Final = 64 * 1024
_INTEGER: Final = 3

# A field is its mark, its instruction, and another mark ([MS-DOC] 2.8.25); text is in 8 bits or in UTF-16.
_DDE_FIELD: Final = re.compile(rb"\x13[ \x01-\x0c]{0,200}DDE|\x13\0(?:[ \x01-\x0c]\0){0,200}D\0D\0E\0", re.IGNORECASE)
_LINKED_FIELD: Final = re.compile(
    rb"\x13[ ]{0,20}(?:INCLUDE(?:PICTURE|TEXT)?|IMPORT|LINK)\s|"
    rb"\x13\0(?:[ ]\0){0,20}(?:I\0N\0C\0L\0U\0D\0E\0|I\0M\0P\0O\0R\0T\0 \0|L\0I\0N\0K\0 \0)",
    re.IGNORECASE,
)

# Newer functions are called by the names that a workbook declares for them, in 8 or 16 bits.
LOADING_NAME: Final = re.compile(rb"_xlfn\.(?:WEBSERVICE|IMAGE|FILTERXML)(?![A-Z])", re.IGNORECASE)
_SHEET, _SUPPORTING_BOOK, _OLD_SUPPORTING_BOOK, _ENCRYPTION, _END = 0x0085, 0x01AE, 0x0017, 0x002F, 0x000A
_NAME: Final = 0x0018
_RECORD: Final = struct.Struct("<HH")
_RECORDS_MOST: Final = 2_000_000
_MACRO_SHEET: Final = 1
_OWN_BOOK, _ADD_IN = 0x0401, 0x3A01
_DDE_SEPARATOR: Final = 0x03  # between the program and its topic ([MS-XLS] 2.5.277)

# Records of [MS-PPT] by version and instance, type, and length where it is fixed.
_HAS_MACROS: Final = re.compile(rb"\x02\x00\x00\x04\x0c\0\0\0[\s\S]{4}[\x01-\xff]")  # VbaInfoAtom, 2.4.10.2
_EMBEDDED: Final = b"\x0f\x00\xcc\x0f"
_LINKED: Final = b"\x0f\x00\xce\x0f"
_CONTROL: Final = b"\x0f\x00\xee\x0f"

_ATTACHED_NAMES: Final = ("__substg1.0_3707001f", "__substg1.0_3704001f")
_ATTACHED_NAMES_8_BITS: Final = ("__substg1.0_3707001e", "__substg1.0_3704001e")
_ATTACHED_CONTENT: Final = "__substg1.0_37010102"


def measure_ole(subject: Subject, sheet: FactSheet, *, read: Callable[[CompoundFile, FactSheet], None]) -> None:
    """Add pages, sheets or slides, encryption and flags. Raise `InspectionError` if the container cannot be read.

    `read` adds what only the format has.
    """
    if subject.measures:  # the examination read all of it
        sheet.facts["encrypted"] = False
    for name in ("sheets", "slides"):
        count = subject.count(name)
        if count is not None:
            sheet.facts[name] = count
    container = subject.source.cached(CompoundFile)
    _find_in_tree(container, sheet)
    read(container, sheet)


def measure_item(subject: Subject, sheet: FactSheet) -> None:
    """Add the attachments of an Outlook item. Raise `InspectionError` if the container cannot be read."""
    _measure_attachments(subject.source.cached(CompoundFile), sheet)


def measure_object(data: bytes, sheet: FactSheet) -> None:
    """Add the flags of an object that is embedded in a document. Raise `InspectionError` if it is damaged."""
    _find_in_tree(CompoundFile(MemoryBacked(data)), sheet)


def _find_in_tree(container: CompoundFile, sheet: FactSheet) -> None:
    for path, entry in container.root.walk():
        name, parent = entry.name.lower(), path.lower().rpartition("/")[0]
        if name in _MACRO_STORAGES:
            sheet.flags.add("macro")
        elif name == _NATIVE:
            sheet.flags |= {"package", "object.ole"}
        elif not entry.is_stream and (parent == _OBJECT_POOL or (not parent and _EMBEDDED_SHEET.fullmatch(name))):
            sheet.flags.add("object.ole")


def read_word(container: CompoundFile, sheet: FactSheet) -> None:
    """Add what only a text has: pages, fields."""
    pages = _page_count(container)
    if pages:
        sheet.facts["pages"] = pages
    text = _read(container, sheet, "worddocument")
    if _DDE_FIELD.search(text) or spells_dde(text.replace(b"\0", b"").decode("latin-1")):
        sheet.flags.add("dde")
    if _LINKED_FIELD.search(text):
        sheet.flags.add("link.external")


def read_slides(container: CompoundFile, sheet: FactSheet) -> None:
    """Add what only a presentation has."""
    data = _read(container, sheet, "powerpoint document")
    if _HAS_MACROS.search(data):
        sheet.flags.add("macro")
    for mark, flag in ((_EMBEDDED, "object.ole"), (_LINKED, "link.external"), (_CONTROL, "object.activex")):
        if mark in data:
            sheet.flags.add(flag)


def read_workbook(container: CompoundFile, sheet: FactSheet) -> None:
    """Add what only a workbook has: sheets, formulas."""
    sheets = 0
    for record_type, body in _records(_read(container, sheet, "workbook", "book")):
        if record_type == _ENCRYPTION:  # what follows is not readable
            sheet.complete = False
        elif record_type == _SHEET and len(body) > 5:
            sheets += 1
            if body[5] & 0x0F == _MACRO_SHEET:
                sheet.flags.add("macro.sheet")
        elif record_type == _SUPPORTING_BOOK and len(body) > 4:
            _add_link(int.from_bytes(body[:2], "little"), body[2:4], body[4:], sheet)
        elif record_type == _NAME and LOADING_NAME.search(body.replace(b"\0", b"")):
            sheet.flags.add("link.external")
        elif record_type == _OLD_SUPPORTING_BOOK and _DDE_SEPARATOR in body[1:]:
            sheet.flags.add("dde")
    sheet.facts.setdefault("sheets", sheets)


def _add_link(sheets: int, name_length: bytes, name: bytes, sheet: FactSheet) -> None:
    if int.from_bytes(name_length, "little") in {_OWN_BOOK, _ADD_IN}:
        return
    letters = name[1:].replace(b"\0", b"")
    if not sheets and _DDE_SEPARATOR in letters:
        sheet.flags.add("dde")
    elif letters:
        sheet.flags.add("link.external")


def _records(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the records of the workbook itself, up to those of its first sheet."""
    at = 0
    for _ in range(_RECORDS_MOST):
        if at + _RECORD.size > len(data):
            return
        record_type, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        yield record_type, data[at : at + length]
        at += length
        if record_type == _END:
            return


def _read(container: CompoundFile, sheet: FactSheet, *names: str) -> bytes:
    entry = container.root.stream(*names)
    if entry is None:
        sheet.complete = False
        return b""
    sheet.complete &= entry.size <= _STREAM_BYTES
    return container.read(entry, _STREAM_BYTES)


def _page_count(container: CompoundFile) -> int:
    """Return the pages that the summary states ([MS-OLEPS] 2.21), 0 if it does not."""
    entry = container.root.stream(_SUMMARY)
    data = b"" if entry is None else container.read(entry, _SUMMARY_BYTES)
    try:
        start: int = struct.unpack_from("<L", data, 44)[0]
        count = min(struct.unpack_from("<L", data, start + 4)[0], 1000)
        for index in range(count):
            number, offset = struct.unpack_from("<LL", data, start + 8 + 8 * index)
            if number == _PAGE_COUNT:
                value_type, value = struct.unpack_from("<Ll", data, start + offset)
                return max(0, value) if value_type == _INTEGER else 0
    except struct.error:
        return 0
    return 0


def _measure_attachments(container: CompoundFile, sheet: FactSheet) -> None:
    attachments = [
        entry
        for name, entry in container.root.children.items()
        if name.startswith("__attach_version1.0_") and not entry.is_stream
    ]
    sheet.facts["attachments"] = len(attachments)
    for entry in attachments:
        content = entry.stream(_ATTACHED_CONTENT)
        head = b"" if content is None else container.read(content, HEAD_BYTES)
        sheet.flags.add(attachment_flag(_attached_name(container, entry), head))


def _attached_name(container: CompoundFile, attachment: Entry) -> str:
    for names, encoding in ((_ATTACHED_NAMES, "utf-16-le"), (_ATTACHED_NAMES_8_BITS, "latin-1")):
        entry = attachment.stream(*names)
        if entry is not None:
            return container.read(entry, 1024).decode(encoding, "replace").rstrip("\0")
    return ""
