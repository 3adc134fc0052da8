"""Makes small binary workbooks: the sample of the kind. Writes what `biff.py` reads, and no more."""

import struct
from collections.abc import Sequence

from sluice.formats.office.compound_sample import make_compound


def make_workbook(sheets: Sequence[bytes], *, before: bytes = b"", hidden: Sequence[int] = (), version: int = 0x0600) -> bytes:
    """Answer a workbook of sheets made of these records; `before` are records of the workbook itself, `hidden` numbers of sheets."""
    stream = make_stream(sheets, before=before, hidden=hidden, version=version)
    return make_compound({"Workbook" if version == 0x0600 else "Book": stream})  # noqa: PLR2004  (the version of Excel 97)


def make_stream(sheets: Sequence[bytes], *, before: bytes = b"", hidden: Sequence[int] = (), version: int = 0x0600) -> bytes:
    """Answer the same without its container."""
    bodies = [begin(version, 0x10) + cells + record(0x0A) for cells in sheets]
    at = len(begin(version, 5)) + len(before) + len(sheets) * len(record(0x85, bytes(8))) + len(record(0x0A))
    listed = b""
    for number, body in enumerate(bodies):
        listed += record(0x85, struct.pack("<LBBBB", at, number in hidden, 0, 0, 0))
        at += len(body)
    return begin(version, 5) + before + listed + record(0x0A) + b"".join(bodies)


def begin(version: int, what: int) -> bytes:
    """Answer the record that begins a workbook (5), a sheet (16), a chart (32)."""
    return record(0x0809, struct.pack("<HHHH", version, what, 0, 0) + (bytes(8) if version == 0x0600 else b""))  # noqa: PLR2004  (as above)


def record(kind: int, body: bytes = b"") -> bytes:
    """Answer one record."""
    return struct.pack("<HH", kind, len(body)) + body


def number(row: int, column: int, value: float, style: int = 0) -> bytes:
    """Answer a cell of a number."""
    return record(0x0203, struct.pack("<HHHd", row, column, style, value))


def label(row: int, column: int, text: str, style: int = 0) -> bytes:
    """Answer a cell of a text."""
    return record(0x0204, struct.pack("<HHHHB", row, column, style, len(text), 1) + text.encode("utf-16-le"))
