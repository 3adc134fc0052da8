"""Excel 97 workbooks: integrity, encryption and blankness."""

import struct
from collections.abc import Sequence

import pytest

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
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.office_packages import picture
from tests.rows import each_row

ROWS = b"".join(make_number(row, column, row * column) for row in range(60) for column in range(10))
WHITE_STYLE = (
    make_record(0x31, struct.pack("<HHH", 200, 0, 9) + bytes(10))
    + make_record(0xE0, struct.pack("<HH", 0, 0) + bytes(16))
)  # fmt: skip
HIDING_STYLE = make_record(0x41E, struct.pack("<HHB", 200, 3, 0) + b";;;") + make_record(
    0xE0, struct.pack("<HH", 0, 200) + bytes(16)
)
PICTURE, CHART, COMMENT, BUTTON_OF_FILTER = 8, 5, 0x19, 0x14


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


def test_workbook_is_sound_and_not_blank() -> None:
    result = examine_bytes(FORMAT, book(ROWS))
    assert result.recognised
    assert result.outcome is Outcome.OK
    assert result.blank is None


@each_row("part", range(1, 20))
def test_truncated_workbook_is_corrupt(part: int) -> None:
    data = book(ROWS)
    assert examine_bytes(FORMAT, data[: len(data) * part // 20]).outcome is Outcome.CORRUPT


@each_row(
    "cells",
    [
        pytest.param(bytes(400), id="zeros"),
        pytest.param(struct.pack("<HH", 0x4711, 0), id="unknown record"),
        pytest.param(struct.pack("<HH", 0x0203, 9999) + bytes(9999), id="record too long"),
        pytest.param(make_number(0, 300, 1), id="column out of range"),
        pytest.param(make_record(0x0203, bytes(13)), id="number too short"),
        pytest.param(make_record(0x0203, bytes(14) + b"more"), id="number too long"),
        pytest.param(make_record(0x0A), id="end too early"),
        pytest.param(make_beginning(0x600, 0x20), id="chart without an end"),
        pytest.param(shared_cell(0, 0, 2), id="text that does not exist"),
    ],
)
def test_invalid_records_are_corrupt(cells: bytes) -> None:
    result = examine_bytes(FORMAT, book(cells, ROWS, before=shared(["one", "two"])))
    assert result.outcome is Outcome.CORRUPT
    assert result.detail


def test_missing_or_truncated_shared_strings_are_corrupt() -> None:
    assert (
        examine_bytes(FORMAT, book(shared_cell(0, 0, 2), ROWS, before=shared(["one", "two"], stated=3))).outcome
        is Outcome.CORRUPT
    )
    damaged = shared(["one", "two"])
    assert examine_bytes(FORMAT, book(before=make_record(0xFC, damaged[4:-1]))).outcome is Outcome.CORRUPT


def test_zeros_after_a_number_record_pass() -> None:
    longer = struct.pack("<HH", 0x0203, 18) + make_number(0, 1, 7)[4:] + bytes(4)
    assert examine_bytes(FORMAT, book(longer, ROWS)).passes


def test_miscounted_shared_strings_pass() -> None:
    assert examine_bytes(FORMAT, book(shared_cell(0, 0, 1), ROWS, before=shared(["one", "two"], stated=3))).passes


def test_wrong_sheet_offset_is_corrupt() -> None:
    data = book(ROWS)
    at = data.index(struct.pack("<HH", 0x85, 8)) + 4
    assert examine_bytes(FORMAT, data[:at] + b"\x07" + data[at + 1 :]).outcome is Outcome.CORRUPT


def test_zeros_after_the_last_sheet_pass() -> None:
    assert examine_bytes(FORMAT, make_stream([ROWS]) + bytes(900)).outcome is Outcome.OK


def test_text_split_between_two_records_passes() -> None:
    texts = make_record(0xFC, struct.pack("<LLHB", 1, 1, 5, 1) + "to".encode("utf-16-le")) + make_record(
        0x3C, b"\x00rn!"
    )
    result = examine_bytes(FORMAT, book(shared_cell(0, 0, 0), before=texts))
    assert result.outcome is Outcome.OK
    assert result.blank is None


@each_row("version", [0x0500, 0x0600])
def test_workbook_without_its_container_is_checked(version: int) -> None:
    result = examine_bytes(FORMAT, make_stream([make_number(0, 0, 1)], version=version))
    assert result.recognised
    assert result.outcome is Outcome.OK
    assert result.blank is None


@each_row("beginning", [make_record(0x09, bytes(4)), make_record(0x0209, bytes(6)), make_record(0x0409, bytes(6))])
def test_sheet_of_an_early_excel_is_checked(beginning: bytes) -> None:
    text = make_record(0x04, struct.pack("<HH", 0, 0) + bytes(3) + b"\x02hi")
    assert examine_bytes(FORMAT, beginning + text + make_record(0x0A)).outcome is Outcome.OK
    assert examine_bytes(FORMAT, beginning + text + make_record(0x0A)).blank is None
    assert examine_bytes(FORMAT, beginning + make_record(0x0A)).blank
    assert examine_bytes(FORMAT, beginning + text).outcome is Outcome.CORRUPT


@each_row("lock", [struct.pack("<HHH", 0, 1, 2), struct.pack("<HHH", 1, 1, 1) + bytes(48), b"\1\0\2\0\2\0" + bytes(9)])
def test_password_protected_workbook_is_encrypted(lock: bytes) -> None:
    assert (
        examine_bytes(FORMAT, book(make_record(0x0203, b"?" * 14), before=make_record(0x2F, lock))).outcome
        is Outcome.ENCRYPTED
    )


def test_workbook_with_the_default_password_is_not_encrypted() -> None:
    result = examine_bytes(
        FORMAT, book(make_record(0x0203, b"?" * 14), before=make_record(0x2F, struct.pack("<HHH", 0, 1, 0x9A0A)))
    )
    assert result.outcome is Outcome.OK
    assert result.blank is None


@each_row(
    "cells",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(make_label(0, 0, " \u00a0\u200b"), id="spaces"),
        pytest.param(make_record(0x0201, bytes(6)), id="a coloured cell"),
        pytest.param(
            make_record(0x06, bytes(6) + b"\x03" + bytes(5) + b"\xff\xff" + bytes(8)),
            id="a formula giving an empty text",
        ),
        pytest.param(
            make_record(0x7D, struct.pack("<HHHHH", 0, 3, 0, 0, 1)) + make_number(0, 2, 1), id="a hidden column"
        ),
        pytest.param(make_record(0x0208, bytes(12) + b"\x20\0\0\0") + make_number(0, 2, 1), id="a hidden row"),
        pytest.param(drawn_object(BUTTON_OF_FILTER, 0x100), id="the button of a filter"),
        pytest.param(make_label(0, 0, "Name") + make_label(0, 1, "Date"), id="column headings"),
        pytest.param(shared_cell(0, 0, 0) + shared_cell(0, 1, 1), id="shared column headings"),
    ],
)
def test_sheet_without_visible_content_is_blank(cells: bytes) -> None:
    assert examine_bytes(FORMAT, book(cells, before=shared(["Name", "Price"]))).blank


@each_row(
    "cells",
    [
        pytest.param(make_number(4, 4, 0), id="zero"),
        pytest.param(make_label(0, 0, "x"), id="a letter"),
        pytest.param(
            make_label(0, 0, "Name") + make_label(0, 1, "Date") + make_label(1, 0, "x"), id="headings and a row"
        ),
        pytest.param(make_record(0x06, bytes(14) + bytes(8)), id="a formula giving a number"),
        pytest.param(
            make_record(0x06, bytes(6) + b"\3" + bytes(5) + b"\xff\xff" + bytes(6) + b"\7\0\x1e\1\0\x1e\1\0\3"),
            id="a formula without a calculated value",
        ),
        pytest.param(
            make_record(0x06, bytes(12) + b"\xff\xff" + bytes(8)) + make_record(0x207, b"\1\0\0x"),
            id="a formula giving a text",
        ),
        pytest.param(
            make_record(0x0208, bytes(12) + b"\x20\0\0\0") + make_record(0x9D, b"\1\0") + make_number(0, 2, 1),
            id="a filtered row",
        ),
        pytest.param(drawn_object(CHART), id="a chart"),
        pytest.param(drawn_object(COMMENT) + make_record(0x1C, bytes(12)), id="a comment"),
        pytest.param(drawn_object(PICTURE), id="a missing picture"),
    ],
)
def test_sheet_with_visible_content_is_not_blank(cells: bytes) -> None:
    assert examine_bytes(FORMAT, book(cells)).blank is None


def test_cells_hidden_by_their_style_are_blank() -> None:
    assert examine_bytes(FORMAT, book(make_number(0, 0, 1), before=WHITE_STYLE)).blank
    assert examine_bytes(FORMAT, book(make_number(0, 0, 1), before=HIDING_STYLE)).blank
    assert examine_bytes(FORMAT, book(make_number(0, 0, 1, style=1), before=WHITE_STYLE)).blank is None


def test_hidden_sheets_are_blank_and_visible_ones_are_not() -> None:
    assert examine_bytes(FORMAT, make_workbook([b"", make_number(0, 0, 1)], hidden=[1])).blank
    assert examine_bytes(FORMAT, make_workbook([b"", make_number(0, 0, 1)])).blank is None


def test_one_damaged_picture_among_others_is_forgiven_and_two_are_not() -> None:
    whole = picture(shows=True).getvalue()
    damaged = whole[:40] + bytes([whole[40] ^ 1]) + whole[41:]
    assert examine_bytes(FORMAT, book(ROWS, before=drawing(damaged) + drawing(whole))).passes
    assert examine_bytes(FORMAT, book(ROWS, before=drawing(damaged) + drawing(damaged))).outcome is Outcome.CORRUPT


@each_row("shows", [True, False])
def test_picture_is_content_only_when_it_is_not_blank(*, shows: bool) -> None:
    before = drawing(picture(shows=shows).getvalue())
    assert (examine_bytes(FORMAT, book(drawn_object(PICTURE), before=before)).blank is None) is shows
