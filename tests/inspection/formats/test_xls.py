"""Excel 97 workbooks: integrity, encryption and blankness."""

import struct
from collections.abc import Sequence
from functools import partial

from sluice_inspect.formats.xls.format import (
    FORMAT,
    make_beginning,
    make_label,
    make_number,
    make_record,
    make_stream,
    make_workbook,
)
from sluice_inspect.report import Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.office_packages import picture
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
ROWS = b"".join(make_number(row, column, row * column) for row in range(60) for column in range(10))
NUMBER = make_number(0, 0, 1)
WHITE_FONT = make_record(0x31, struct.pack("<HHH", 200, 0, 9) + bytes(10))
WHITE_STYLE = WHITE_FONT + make_record(0xE0, struct.pack("<HH", 0, 0) + bytes(16))
HIDING_NUMBERS = make_record(0x41E, struct.pack("<HHB", 200, 3, 0) + b";;;")
HIDING_STYLE = HIDING_NUMBERS + make_record(0xE0, struct.pack("<HH", 0, 200) + bytes(16))
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


SPLIT_TEXT = make_record(0xFC, struct.pack("<LLHB", 1, 1, 5, 1) + "to".encode("utf-16-le")) + make_record(
    0x3C, b"\0rn!"
)


@each_row(
    ("case", "data"),
    [
        ("sixty rows", book(ROWS)),
        ("text split between two records", book(shared_cell(0, 0, 0), before=SPLIT_TEXT)),
        ("stream of Excel 5", make_stream([NUMBER], version=0x0500)),
        ("stream of Excel 97", make_stream([NUMBER], version=0x0600)),
        ("the default password", locked(struct.pack("<HHH", 0, 1, 0x9A0A))),
        ("zeros after the last sheet", make_stream([ROWS]) + bytes(900)),
        ("zeros after a number", book(struct.pack("<HH", 0x0203, 18) + make_number(0, 1, 7)[4:] + bytes(4), ROWS)),
        ("miscounted texts", book(shared_cell(0, 0, 1), ROWS, before=shared(["one", "two"], stated=3))),
    ],
)
def test_workbook_is_sound_and_not_blank(case: str, data: bytes) -> None:
    assert examine(data) == Examined(recognised=True, outcome=Outcome.OK)


@each_row("part", range(1, 20))
def test_truncated_workbook_is_corrupt(part: int) -> None:
    data = book(ROWS)
    assert examine(data[: len(data) * part // 20]).outcome is Outcome.CORRUPT


@each_row(
    ("case", "cells"),
    [
        ("zeros", bytes(400)),
        ("unknown record", struct.pack("<HH", 0x4711, 0)),
        ("record too long", struct.pack("<HH", 0x0203, 9999) + bytes(9999)),
        ("column out of range", make_number(0, 300, 1)),
        ("number too short", make_record(0x0203, bytes(13))),
        ("number too long", make_record(0x0203, bytes(14) + b"more")),
        ("end too early", make_record(0x0A)),
        ("chart without an end", make_beginning(0x600, 0x20)),
        ("text that does not exist", shared_cell(0, 0, 2)),
    ],
)
def test_invalid_records_are_corrupt(case: str, cells: bytes) -> None:
    result = examine(book(cells, ROWS, before=shared(["one", "two"])))
    assert (result.outcome, bool(result.detail)) == (Outcome.CORRUPT, True)


def test_missing_or_truncated_texts_and_a_wrong_offset_are_corrupt() -> None:
    missing = book(shared_cell(0, 0, 2), ROWS, before=shared(["one", "two"], stated=3))
    truncated = book(before=make_record(0xFC, shared(["one", "two"])[4:-1]))
    at = book(ROWS).index(struct.pack("<HH", 0x85, 8)) + 4
    misplaced = book(ROWS)[:at] + b"\x07" + book(ROWS)[at + 1 :]
    assert [examine(data).outcome for data in (missing, truncated, misplaced)] == [Outcome.CORRUPT] * 3


@each_row("beginning", [make_record(0x09, bytes(4)), make_record(0x0209, bytes(6)), make_record(0x0409, bytes(6))])
def test_sheet_of_an_early_excel_is_checked(beginning: bytes) -> None:
    text = make_record(0x04, struct.pack("<HH", 0, 0) + bytes(3) + b"\x02hi")
    result = examine(beginning + text + make_record(0x0A))
    assert (result.outcome, result.blank) == (Outcome.OK, None)
    assert examine(beginning + make_record(0x0A)).blank
    assert examine(beginning + text).outcome is Outcome.CORRUPT


@each_row("lock", [struct.pack("<HHH", 0, 1, 2), struct.pack("<HHH", 1, 1, 1) + bytes(48), b"\1\0\2\0\2\0" + bytes(9)])
def test_password_protected_workbook_is_encrypted(lock: bytes) -> None:
    assert examine(locked(lock)).outcome is Outcome.ENCRYPTED


@each_row(
    ("case", "cells"),
    [
        ("nothing", b""),
        ("spaces", make_label(0, 0, " \u00a0\u200b")),
        ("a coloured cell", make_record(0x0201, bytes(6))),
        ("a formula giving no text", make_record(0x06, bytes(6) + b"\x03" + bytes(5) + b"\xff\xff" + bytes(8))),
        ("a hidden column", make_record(0x7D, struct.pack("<HHHHH", 0, 3, 0, 0, 1)) + make_number(0, 2, 1)),
        ("a hidden row", HIDDEN_ROW + make_number(0, 2, 1)),
        ("the button of a filter", drawn_object(BUTTON_OF_FILTER, 0x100)),
        ("column headings", make_label(0, 0, "Name") + make_label(0, 1, "Date")),
        ("shared column headings", shared_cell(0, 0, 0) + shared_cell(0, 1, 1)),
    ],
)
def test_sheet_without_visible_content_is_blank(case: str, cells: bytes) -> None:
    assert examine(book(cells, before=shared(["Name", "Price"]))).blank


UNCALCULATED = bytes(6) + b"\3" + bytes(5) + b"\xff\xff" + bytes(6) + b"\7\0\x1e\1\0\x1e\1\0\3"


@each_row(
    ("case", "cells"),
    [
        ("zero", make_number(4, 4, 0)),
        ("a letter", make_label(0, 0, "x")),
        ("headings and a row", make_label(0, 0, "Name") + make_label(0, 1, "Date") + make_label(1, 0, "x")),
        ("a formula giving a number", make_record(0x06, bytes(14) + bytes(8))),
        ("a formula without a calculated value", make_record(0x06, UNCALCULATED)),
        ("a formula giving a text",
         make_record(0x06, bytes(12) + b"\xff\xff" + bytes(8)) + make_record(0x207, b"\1\0\0x")),
        ("a filtered row", HIDDEN_ROW + make_record(0x9D, b"\1\0") + make_number(0, 2, 1)),
        ("a chart", drawn_object(CHART)),
        ("a comment", drawn_object(COMMENT) + make_record(0x1C, bytes(12))),
        ("a missing picture", drawn_object(PICTURE)),
    ],
)  # fmt: skip
def test_sheet_with_visible_content_is_not_blank(case: str, cells: bytes) -> None:
    assert examine(book(cells)).blank is None


def test_cells_hidden_by_their_style_or_sheet_are_blank() -> None:
    assert examine(book(NUMBER, before=WHITE_STYLE)).blank
    assert examine(book(NUMBER, before=HIDING_STYLE)).blank
    assert examine(book(make_number(0, 0, 1, style=1), before=WHITE_STYLE)).blank is None
    assert examine(make_workbook([b"", NUMBER], hidden=[1])).blank
    assert examine(make_workbook([b"", NUMBER])).blank is None


def test_one_damaged_picture_among_others_is_forgiven_and_two_are_not() -> None:
    whole = picture(shows=True).getvalue()
    damaged = whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]
    assert examine(book(ROWS, before=drawing(damaged) + drawing(whole))).passes
    assert examine(book(ROWS, before=drawing(damaged) + drawing(damaged))).outcome is Outcome.CORRUPT


@each_row("shows", [True, False])
def test_picture_is_content_only_when_it_is_not_blank(*, shows: bool) -> None:
    before = drawing(picture(shows=shows).getvalue())
    assert (examine(book(drawn_object(PICTURE), before=before)).blank is None) is shows
