"""Excel workbooks of before 2007 (.xls and its templates): what of them a reader sees. Records are read by `biff`, cells by `biff_cells`.

As with XLSX: blank without a visible value, or with column headings alone on every sheet that has any; pictures that show something,
charts, shapes, comments are content; sheets that are hidden are not looked at. Sheets of Excel 2 to 4 stand alone in their file.
"""

from collections.abc import Mapping
from typing import Final

from sluice.formats.budget import Deadline
from sluice.formats.kind import Kind
from sluice.formats.office import compound_family
from sluice.formats.office.biff import BARE_BEGINNINGS, OLD_BEGINNINGS, VERSION_5, VERSION_8, Workbook, open_workbook, walk
from sluice.formats.office.biff_cells import Globals, SheetLook, SheetPlace, texts_of
from sluice.formats.office.biff_password import opens_without_asking
from sluice.formats.office.biff_sample import make_workbook, number
from sluice.formats.office.compound import CompoundFile
from sluice.formats.office.compound_family import open_container
from sluice.formats.office.officeart import PICTURES_MOST, check_picture, picture_shows, pictures
from sluice.formats.source import Source
from sluice.formats.text.header_row import is_heading
from sluice.formats.verdict import Encrypted, Limits, Measure, Unsupported

_BARE: Final = (*OLD_BEGINNINGS, *BARE_BEGINNINGS)
_LOOK_AT_CLOCK: Final = 4096


def recognises(source: Source) -> bool:
    """Whether the content is a workbook, in its container or without one."""
    return source.head.startswith(_BARE) or compound_family.recognises(source, "xls")


def check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Judge the container and all records in it."""
    container: CompoundFile | None = None
    measures: Mapping[str, Measure] = {}
    if not source.head.startswith(_BARE):
        container, measures = open_container(source)
    workbook = open_workbook(source, container)
    if workbook.version not in {0, VERSION_5, VERSION_8}:
        raise Unsupported(f"the workbook is of version {workbook.version:#06x}, which is not known here")
    walked = walk(workbook, limits.soft_seconds)
    if walked.locked is not None and not opens_without_asking(walked.locked):
        raise Encrypted("the workbook is protected by a password")
    if walked.locked is None and workbook.version:
        _check_pictures(workbook)
    return {
        **measures,
        "records": walked.records,
        "sheets": walked.sheets,
        **({} if walked.finished else {"partially_checked": True}),
        **({} if walked.locked is None else {"open_password": True}),
    }


def blank(source: Source, limits: Limits) -> str | None:
    """Answer that no shown sheet has a visible value or object, or that all there is are column headings."""
    workbook = open_workbook(source, None if source.head.startswith(_BARE) else CompoundFile(source))
    book = Globals.read(workbook) if workbook.version else Globals(sheets=[SheetPlace(0, is_hidden=False, is_cells=True)])
    shown = [sheet for sheet in book.sheets if not sheet.is_hidden]
    if book.is_locked or any(not sheet.is_cells for sheet in shown):
        return None
    headings, has_pictures, deadline = 0, False, Deadline(limits.soft_seconds)
    for sheet in shown:
        look = _look_at(workbook, sheet, book.invisible, deadline)
        if look is None or look.has_content:
            return None
        rows = texts_of(list(look.rows.values()), book.strings)
        if len(rows) > 1 or (rows and not is_heading(rows[0])):
            return None
        headings += len(rows)
        has_pictures |= look.has_pictures
    if has_pictures and _has_shown_picture(book, limits):
        return None
    return (
        "the workbook has column headings and no row below them"
        if headings
        else "no sheet of the workbook shows a value or an object"
    )


def _look_at(workbook: Workbook, sheet: SheetPlace, invisible: set[int], deadline: Deadline) -> SheetLook | None:
    """Answer what a sheet holds, as far as it takes to know that it is not blank; None when the time is over."""
    look = SheetLook(workbook.version, invisible)
    for count, record in enumerate(workbook.part(sheet.at)):
        look.see(record)
        if look.has_content:
            break
        if count % _LOOK_AT_CLOCK == 0 and deadline.has_passed:
            return None
    return look


def _check_pictures(workbook: Workbook) -> None:
    data = _drawings(Globals.read(workbook))
    for picture in pictures(data):
        check_picture(data, picture)


def _has_shown_picture(book: Globals, limits: Limits) -> bool:
    """Whether a picture of the workbook shows something. Where none is found, what the sheets place is unknown: yes."""
    data = _drawings(book)
    found = list(pictures(data))
    return not found or any(picture_shows(data, picture, limits) for picture in found)


def _drawings(book: Globals) -> bytes:
    return b"" if sum(map(len, book.drawings)) > PICTURES_MOST else b"".join(book.drawings)


KIND: Final = Kind(
    name="xls",
    content_type="application/vnd.ms-excel",
    extensions=frozenset({"xls", "xlt", "xla"}),
    recognises=recognises,
    check=check,
    sample=lambda: make_workbook([number(0, 0, 1)]),
    blank=blank,
)
