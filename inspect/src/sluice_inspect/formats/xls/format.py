"""Excel workbooks before Excel 2007 (.xls and its templates), in compound files."""
# As with XLSX, a workbook is blank without a visible value, or when every sheet with values has column headings alone.
# Pictures that show something, charts, shapes and comments are content. Hidden sheets are not read.

import struct
from collections.abc import Mapping, Sequence
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.format import Examination, Family, Format, named
from sluice_inspect.formats.xls.cells import SheetCells, SheetEntry, WorkbookGlobals, visible_rows
from sluice_inspect.formats.xls.facts import measure_workbook
from sluice_inspect.formats.xls.records import (
    BARE_BEGINNINGS,
    OLD_BEGINNINGS,
    VERSION_5,
    VERSION_8,
    Workbook,
    check_records,
    open_workbook,
)
from sluice_inspect.office.compound import (
    MAGIC,
    CompoundFile,
    check_container,
    content_end,
    is_compound_document,
    make_compound,
)
from sluice_inspect.office.officeart import MAX_PICTURE_BYTES, PictureCheck, has_picture_ink, pictures
from sluice_inspect.report import Encrypted, Limits, Measure, Unsupported
from sluice_inspect.source import Source
from sluice_inspect.text.header_row import is_heading

_BARE: Final = (*OLD_BEGINNINGS, *BARE_BEGINNINGS)
_CLOCK_INTERVAL: Final = 4096


def _examine(source: Source, limits: Limits) -> Examination:
    container: CompoundFile | None = None
    measures: Mapping[str, Measure] = {}
    if not source.head.startswith(_BARE):
        container, measures = check_container(source)
    workbook = open_workbook(source, container)
    if workbook.version not in {0, VERSION_5, VERSION_8}:
        raise Unsupported(f"the workbook is of version {workbook.version:#06x}, which is not known here")
    walk = check_records(workbook, limits.soft_seconds)
    if walk.encryption is not None:
        raise Encrypted("the workbook is protected by a password")
    book: WorkbookGlobals | None = None
    checked = PictureCheck()
    if workbook.version:
        book = WorkbookGlobals.read(workbook)
        data = _drawings(book)
        for picture in pictures(data):
            checked.add(data, picture)
    measures = {
        **measures,
        **checked.measures(),
        "records": walk.records,
        "sheets": walk.sheets,
        **({} if walk.finished else {"partially_checked": True}),
    }
    return Examination(measures, lambda: _blank(workbook, book, limits))


def _blank(workbook: Workbook, book: WorkbookGlobals | None, limits: Limits) -> str | None:
    if not workbook.version:
        book = WorkbookGlobals(sheets=[SheetEntry(0, is_hidden=False, has_cells=True)])
    elif book is None:
        book = WorkbookGlobals.read(workbook)
    shown = [sheet for sheet in book.sheets if not sheet.is_hidden]
    if book.is_encrypted or any(not sheet.has_cells for sheet in shown):
        return None
    headings, has_pictures, deadline = 0, False, Deadline(limits.soft_seconds)
    for entry in shown:
        sheet = SheetCells(workbook.version, book.invisible)
        for count, record in enumerate(workbook.sheet(entry.at)):
            sheet.add(record)
            if sheet.has_content or (count % _CLOCK_INTERVAL == 0 and deadline.has_passed):
                return None
        rows = visible_rows(list(sheet.rows.values()), book.strings)
        if len(rows) > 1 or (rows and not is_heading(rows[0])):
            return None
        headings += len(rows)
        has_pictures |= sheet.has_pictures
    if has_pictures:
        data = _drawings(book)
        found = list(pictures(data))
        # Sheets place a picture, but none was found: it may show anything.
        if not found or any(has_picture_ink(data, picture, limits) for picture in found):
            return None
    if headings:
        return "the workbook has column headings and no row below them"
    return "no sheet of the workbook shows a value or an object"


def _drawings(book: WorkbookGlobals) -> bytes:
    return b"" if sum(map(len, book.drawings)) > MAX_PICTURE_BYTES else b"".join(book.drawings)


def make_workbook(
    sheets: Sequence[bytes], *, before: bytes = b"", hidden: Sequence[int] = (), version: int = 0x0600
) -> bytes:
    """Return a workbook of these sheets. `before` are its own records, `hidden` numbers of sheets."""
    stream = make_stream(sheets, before=before, hidden=hidden, version=version)
    return make_compound({"Workbook" if version == 0x0600 else "Book": stream})


def make_stream(
    sheets: Sequence[bytes], *, before: bytes = b"", hidden: Sequence[int] = (), version: int = 0x0600
) -> bytes:
    """Return the same without its container."""
    bodies = [make_beginning(version, 0x10) + cells + make_record(0x0A) for cells in sheets]
    ending = make_record(0x0A)
    at = len(make_beginning(version, 5)) + len(before) + len(sheets) * len(make_record(0x85, bytes(8))) + len(ending)
    listed = b""
    for number, body in enumerate(bodies):
        listed += make_record(0x85, struct.pack("<LBBBB", at, number in hidden, 0, 0, 0))
        at += len(body)
    return make_beginning(version, 5) + before + listed + ending + b"".join(bodies)


def make_beginning(version: int, substream: int) -> bytes:
    """Return the record that begins a workbook (5), a sheet (16), a chart (32)."""
    return make_record(0x0809, struct.pack("<4H", version, substream, 0, 0) + (bytes(8) if version == 0x0600 else b""))


def make_record(record_type: int, body: bytes = b"") -> bytes:
    """Return one record."""
    return struct.pack("<HH", record_type, len(body)) + body


def make_number(row: int, column: int, value: float, style: int = 0) -> bytes:
    """Return a cell of a number."""
    return make_record(0x0203, struct.pack("<HHHd", row, column, style, value))


def make_label(row: int, column: int, text: str, style: int = 0) -> bytes:
    """Return a cell of a text."""
    return make_record(0x0204, struct.pack("<HHHHB", row, column, style, len(text), 1) + text.encode("utf-16-le"))


FORMAT: Final = Format(
    name="xls",
    family=Family.DOCUMENT,
    content_type="application/vnd.ms-excel",
    extensions=frozenset({"xls", "xlt", "xla"}),
    begins=(*_BARE, MAGIC),
    matches=lambda source: source.head.startswith(_BARE) or is_compound_document(source, "xls"),
    examine=_examine,
    facts=measure_workbook,
    own_facts=frozenset({"encrypted", "sheets"}),
    sample=lambda: make_workbook([make_number(0, 0, 1)]),
    names=named("Excel ({})", "xls xlt") | named("spreadsheet", "application/vnd.ms-excel"),
    content_end=content_end,
    page_extensions=frozenset({"xls", "xlt"}),
    may_be_text=True,
    is_office=True,
)
