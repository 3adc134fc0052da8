"""Excel 97 workbooks: integrity, encryption and blankness."""

import struct
from collections.abc import Iterable, Sequence

from sluice_inspect.formats.xls.format import (
    FORMAT,
    make_beginning,
    make_label,
    make_number,
    make_record,
    make_stream,
    make_workbook,
)
from tests.inspection.formats.examining import Row, cuts, verdicts
from tests.inspection.formats.office_packages import picture

ROWS = b"".join(make_number(row, column, row * column) for row in range(60) for column in range(10))
NUMBER = make_number(0, 0, 1)
PICTURE, CHART, COMMENT, BUTTON_OF_FILTER = 8, 5, 0x19, 0x14
HIDDEN_ROW = make_record(0x0208, bytes(12) + b"\x20\0\0\0")


def shared(texts: Sequence[str], *, stated: int | None = None) -> bytes:
    strings = b"".join(struct.pack("<HB", len(text), 1) + text.encode("utf-16-le") for text in texts)
    return make_record(0xFC, struct.pack("<LL", len(texts), len(texts) if stated is None else stated) + strings)


def shared_cell(row: int, column: int, index: int) -> bytes:
    return make_record(0xFD, struct.pack("<HHHL", row, column, 0, index))


def drawn_object(object_type: int, flags: int = 0) -> bytes:
    return make_record(0x5D, struct.pack("<HHHHH", 0x15, 0x12, object_type, 1, flags) + bytes(12) + bytes(4))


def drawing(content: bytes) -> bytes:
    blip = struct.pack("<HHL", 0x6E00, 0xF01E, 17 + len(content)) + bytes(17) + content
    return make_record(0xEB, struct.pack("<HHL", 0xF, 0xF000, len(blip)) + blip)


def book(*cells: bytes, before: bytes = b"") -> bytes:
    return make_workbook([b"".join(cells)], before=before)


def locked(lock: bytes) -> bytes:
    return book(make_record(0x0203, b"?" * 14), before=make_record(0x2F, lock))


ONE_AND_TWO = shared(["one", "two"], stated=3)


@verdicts(FORMAT)
def test_sound_damaged_or_locked_workbook_gets_its_verdict() -> Iterable[Row]:
    yield "sixty rows", book(ROWS), "ok"
    yield from cuts(book(ROWS))
    split = make_record(0xFC, struct.pack("<LLHB", 1, 1, 5, 1) + "to".encode("utf-16-le"))
    yield "text in two records", book(shared_cell(0, 0, 0), before=split + make_record(0x3C, b"\0rn!")), "ok"
    yield "stream of Excel 5", make_stream([NUMBER], version=0x0500), "ok"
    yield "stream of Excel 97", make_stream([NUMBER], version=0x0600), "ok"
    yield "zeros after the last sheet", make_stream([ROWS]) + bytes(900), "ok"
    longer = struct.pack("<HH", 0x0203, 18) + make_number(0, 1, 7)[4:] + bytes(4)
    yield "zeros after a number", book(longer, ROWS), "ok"
    yield "miscounted texts", book(shared_cell(0, 0, 1), ROWS, before=ONE_AND_TWO), "ok"
    for case, cells in {
        "zeros": bytes(400),
        "unknown record": struct.pack("<HH", 0x4711, 0),
        "record too long": struct.pack("<HH", 0x0203, 9999) + bytes(9999),
        "column out of range": make_number(0, 300, 1),
        "number too short": make_record(0x0203, bytes(13)),
        "number too long": make_record(0x0203, bytes(14) + b"more"),
        "end too early": make_record(0x0A),
        "chart without an end": make_beginning(0x600, 0x20),
        "text that does not exist": shared_cell(0, 0, 2),
    }.items():
        yield case, book(cells, ROWS, before=shared(["one", "two"])), "corrupt", " "
    yield "missing text", book(shared_cell(0, 0, 2), ROWS, before=ONE_AND_TWO), "corrupt"
    yield "truncated texts", book(before=make_record(0xFC, shared(["one", "two"])[4:-1])), "corrupt"
    at = book(ROWS).index(struct.pack("<HH", 0x85, 8)) + 4
    yield "wrong offset", book(ROWS)[:at] + b"\x07" + book(ROWS)[at + 1 :], "corrupt"
    for kind, size in ((0x09, 4), (0x0209, 6), (0x0409, 6)):
        beginning, end = make_record(kind, bytes(size)), make_record(0x0A)
        text = make_record(0x04, struct.pack("<HH", 0, 0) + bytes(3) + b"\x02hi")
        yield f"sheet of an early Excel {kind}", beginning + text + end, "ok"
        yield f"empty sheet of an early Excel {kind}", beginning + end, "blank"
        yield f"sheet of an early Excel without an end {kind}", beginning + text, "corrupt"
    for lock in (struct.pack("<HHH", 0, 1, 2), struct.pack("<HHH", 1, 1, 1) + bytes(48), b"\1\0\2\0\2\0" + bytes(9)):
        yield f"password {lock!r}", locked(lock), "encrypted"
    whole = picture(shows=True).getvalue()
    damaged = whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]
    yield "one damaged picture of two", book(ROWS, before=drawing(damaged) + drawing(whole)), "ok"
    yield "two damaged pictures", book(ROWS, before=drawing(damaged) + drawing(damaged)), "corrupt"


@verdicts(FORMAT)
def test_sheet_is_blank_when_nothing_on_it_is_visible() -> Iterable[Row]:
    for case, cells in {
        "nothing": b"",
        "spaces": make_label(0, 0, " \u00a0\u200b"),
        "a coloured cell": make_record(0x0201, bytes(6)),
        "a formula giving no text": make_record(0x06, bytes(6) + b"\x03" + bytes(5) + b"\xff\xff" + bytes(8)),
        "a hidden column": make_record(0x7D, struct.pack("<HHHHH", 0, 3, 0, 0, 1)) + make_number(0, 2, 1),
        "a hidden row": HIDDEN_ROW + make_number(0, 2, 1),
        "the button of a filter": drawn_object(BUTTON_OF_FILTER, 0x100),
        "column headings": make_label(0, 0, "Name") + make_label(0, 1, "Date"),
        "shared column headings": shared_cell(0, 0, 0) + shared_cell(0, 1, 1),
    }.items():
        yield case, book(cells, before=shared(["Name", "Price"])), "blank"
    uncalculated = bytes(6) + b"\3" + bytes(5) + b"\xff\xff" + bytes(6) + b"\7\0\x1e\1\0\x1e\1\0\3"
    text_result = make_record(0x06, bytes(12) + b"\xff\xff" + bytes(8)) + make_record(0x207, b"\1\0\0x")
    for case, cells in {
        "zero": make_number(4, 4, 0),
        "a letter": make_label(0, 0, "x"),
        "headings and a row": make_label(0, 0, "Name") + make_label(0, 1, "Date") + make_label(1, 0, "x"),
        "a formula giving a number": make_record(0x06, bytes(14) + bytes(8)),
        "a formula without a calculated value": make_record(0x06, uncalculated),
        "a formula giving a text": text_result,
        "a filtered row": HIDDEN_ROW + make_record(0x9D, b"\1\0") + make_number(0, 2, 1),
        "a chart": drawn_object(CHART),
        "a comment": drawn_object(COMMENT) + make_record(0x1C, bytes(12)),
        "a missing picture": drawn_object(PICTURE),
    }.items():
        yield case, book(cells), "ok"
    style = make_record(0xE0, struct.pack("<HH", 0, 0) + bytes(16))
    white = make_record(0x31, struct.pack("<HHH", 200, 0, 9) + bytes(10)) + style
    yield "white number", book(NUMBER, before=white), "blank"
    yield "number of another style", book(make_number(0, 0, 1, style=1), before=white), "ok"
    hiding = make_record(0x41E, struct.pack("<HHB", 200, 3, 0) + b";;;")
    hiding += make_record(0xE0, struct.pack("<HH", 0, 200) + bytes(16))
    yield "hidden number", book(NUMBER, before=hiding), "blank"
    yield "number on a hidden sheet", make_workbook([b"", NUMBER], hidden=[1]), "blank"
    yield "number on the second sheet", make_workbook([b"", NUMBER]), "ok"
    for shows, word in ((True, "ok"), (False, "blank")):
        yield f"picture {word}", book(drawn_object(PICTURE), before=drawing(picture(shows=shows).getvalue())), word
