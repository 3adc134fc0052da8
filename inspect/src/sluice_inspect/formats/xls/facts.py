"""What a workbook has besides its cells: sheets, and links and names that start or load something."""

import struct
from collections.abc import Iterator
from typing import Final

from sluice_inspect.facts.ole import LOADING_NAME, measure_compound, read_stream
from sluice_inspect.report import FactSheet
from sluice_inspect.subject import Subject

_SHEET, _SUPPORTING_BOOK, _OLD_SUPPORTING_BOOK, _ENCRYPTION, _END = 0x0085, 0x01AE, 0x0017, 0x002F, 0x000A
_NAME: Final = 0x0018
_RECORD: Final = struct.Struct("<HH")
_RECORDS_MOST: Final = 2_000_000
_MACRO_SHEET: Final = 1
_OWN_BOOK, _ADD_IN = 0x0401, 0x3A01
_DDE_SEPARATOR: Final = 0x03  # between the program and its topic ([MS-XLS] 2.5.277)


def measure_workbook(subject: Subject, sheet: FactSheet) -> None:
    """Add sheets, encryption and flags. Raise `InspectionError` if the container cannot be read."""
    container = measure_compound(subject, sheet)
    sheets = 0
    for record_type, body in _records(read_stream(container, sheet, "workbook", "book")):
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
