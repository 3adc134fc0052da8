import struct
from collections.abc import Sequence

import pytest

from sluice.formats.kinds.xls import KIND
from sluice.formats.office.biff_sample import begin, label, make_stream, make_workbook, number, record
from sluice.formats.verdict import Outcome
from tests.formats.judging import corpus, judge, needs_corpus
from tests.formats.packages import picture

ROWS = b"".join(number(row, column, row * column) for row in range(60) for column in range(10))
WHITE_STYLE = (
    record(0x31, struct.pack("<HHH", 200, 0, 9) + bytes(10))
    + record(0xE0, struct.pack("<HH", 0, 0) + bytes(16))
)  # fmt: skip
HIDING_STYLE = record(0x41E, struct.pack("<HHB", 200, 3, 0) + b";;;") + record(0xE0, struct.pack("<HH", 0, 200) + bytes(16))
PICTURE, CHART, COMMENT, BUTTON_OF_FILTER = 8, 5, 0x19, 0x14


def shared(texts: Sequence[str], *, stated: int | None = None) -> bytes:
    strings = b"".join(struct.pack("<HB", len(text), 1) + text.encode("utf-16-le") for text in texts)
    return record(0xFC, struct.pack("<LL", len(texts), len(texts) if stated is None else stated) + strings)


def shared_cell(row: int, column: int, index: int) -> bytes:
    return record(0xFD, struct.pack("<HHHL", row, column, 0, index))


def thing(what: int, flags: int = 0) -> bytes:
    return record(0x5D, struct.pack("<HHHHH", 0x15, 0x12, what, 1, flags) + bytes(12) + bytes(4))


def drawing(content: bytes) -> bytes:
    blip = struct.pack("<HHL", 0x6E00, 0xF01E, 17 + len(content)) + bytes(17) + content
    return record(0xEB, struct.pack("<HHL", 0xF, 0xF000, len(blip)) + blip)


def book(*cells: bytes, before: bytes = b"") -> bytes:
    return make_workbook([b"".join(cells)], before=before)


def test_a_workbook_is_sound_and_not_blank() -> None:
    judged = judge(KIND, book(ROWS))
    assert judged.recognised
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize("part", range(1, 20))
def test_a_cut_workbook_is_corrupt(part: int) -> None:
    data = book(ROWS)
    assert judge(KIND, data[: len(data) * part // 20]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param(bytes(400), id="zeros"),
        pytest.param(struct.pack("<HH", 0x4711, 0), id="no such record"),
        pytest.param(struct.pack("<HH", 0x0203, 9999) + bytes(9999), id="record too long"),
        pytest.param(number(0, 300, 1), id="column that no sheet has"),
        pytest.param(record(0x0203, bytes(13)), id="number too short"),
        pytest.param(record(0x0203, bytes(14) + b"more"), id="number too long"),
        pytest.param(record(0x0A), id="end too early"),
        pytest.param(begin(0x600, 0x20), id="chart without an end"),
        pytest.param(shared_cell(0, 0, 2), id="text that does not exist"),
    ],
)
def test_records_that_do_not_fit_are_corrupt(cells: bytes) -> None:
    judged = judge(KIND, book(cells, ROWS, before=shared(["one", "two"])))
    assert judged.outcome is Outcome.CORRUPT
    assert judged.detail


def test_shared_texts_that_a_cell_misses_or_that_are_torn_are_corrupt() -> None:
    assert judge(KIND, book(shared_cell(0, 0, 2), ROWS, before=shared(["one", "two"], stated=3))).outcome is Outcome.CORRUPT
    torn = shared(["one", "two"])
    assert judge(KIND, book(before=record(0xFC, torn[4:-1]))).outcome is Outcome.CORRUPT


def test_zeros_behind_a_number_pass_as_readers_take_them() -> None:
    longer = struct.pack("<HH", 0x0203, 18) + number(0, 1, 7)[4:] + bytes(4)
    assert judge(KIND, book(longer, ROWS)).passes


def test_shared_texts_that_were_miscounted_pass_as_readers_take_them() -> None:
    assert judge(KIND, book(shared_cell(0, 0, 1), ROWS, before=shared(["one", "two"], stated=3))).passes


def test_a_sheet_in_another_place_is_corrupt() -> None:
    data = book(ROWS)
    at = data.index(struct.pack("<HH", 0x85, 8)) + 4
    assert judge(KIND, data[:at] + b"\x07" + data[at + 1 :]).outcome is Outcome.CORRUPT


def test_zeros_behind_the_last_sheet_are_padding() -> None:
    assert judge(KIND, make_stream([ROWS]) + bytes(900)).outcome is Outcome.OK


def test_a_text_may_be_torn_between_two_records() -> None:
    texts = record(0xFC, struct.pack("<LLHB", 1, 1, 5, 1) + "to".encode("utf-16-le")) + record(0x3C, b"\x00rn!")
    judged = judge(KIND, book(shared_cell(0, 0, 0), before=texts))
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize("version", [0x0500, 0x0600])
def test_a_workbook_without_its_container_is_judged(version: int) -> None:
    judged = judge(KIND, make_stream([number(0, 0, 1)], version=version))
    assert judged.recognised
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize("beginning", [record(0x09, bytes(4)), record(0x0209, bytes(6)), record(0x0409, bytes(6))])
def test_a_sheet_of_an_early_excel_is_judged(beginning: bytes) -> None:
    text = record(0x04, struct.pack("<HH", 0, 0) + bytes(3) + b"\x02hi")
    assert judge(KIND, beginning + text + record(0x0A)).outcome is Outcome.OK
    assert judge(KIND, beginning + text + record(0x0A)).blank is None
    assert judge(KIND, beginning + record(0x0A)).blank
    assert judge(KIND, beginning + text).outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    "lock", [struct.pack("<HHH", 0, 1, 2), struct.pack("<HHH", 1, 1, 1) + bytes(48), b"\1\0\2\0\2\0" + bytes(9)]
)
def test_a_workbook_behind_a_password_is_encrypted(lock: bytes) -> None:
    assert judge(KIND, book(record(0x0203, b"?" * 14), before=record(0x2F, lock))).outcome is Outcome.ENCRYPTED


def test_a_workbook_that_everyone_may_open_is_not_encrypted() -> None:
    judged = judge(KIND, book(record(0x0203, b"?" * 14), before=record(0x2F, struct.pack("<HHH", 0, 1, 0x9A0A))))
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(label(0, 0, " \u00a0\u200b"), id="spaces"),
        pytest.param(record(0x0201, bytes(6)), id="a coloured cell"),
        pytest.param(record(0x06, bytes(6) + b"\x03" + bytes(5) + b"\xff\xff" + bytes(8)), id="a formula giving an empty text"),
        pytest.param(record(0x7D, struct.pack("<HHHHH", 0, 3, 0, 0, 1)) + number(0, 2, 1), id="a hidden column"),
        pytest.param(record(0x0208, bytes(12) + b"\x20\0\0\0") + number(0, 2, 1), id="a hidden row"),
        pytest.param(thing(BUTTON_OF_FILTER, 0x100), id="the button of a filter"),
        pytest.param(label(0, 0, "Name") + label(0, 1, "Date"), id="column headings"),
        pytest.param(shared_cell(0, 0, 0) + shared_cell(0, 1, 1), id="shared column headings"),
    ],
)
def test_a_sheet_that_shows_nothing_is_blank(cells: bytes) -> None:
    assert judge(KIND, book(cells, before=shared(["Name", "Price"]))).blank


@pytest.mark.parametrize(
    "cells",
    [
        pytest.param(number(4, 4, 0), id="zero"),
        pytest.param(label(0, 0, "x"), id="a letter"),
        pytest.param(label(0, 0, "Name") + label(0, 1, "Date") + label(1, 0, "x"), id="headings and a row"),
        pytest.param(record(0x06, bytes(14) + bytes(8)), id="a formula giving a number"),
        pytest.param(
            record(0x06, bytes(6) + b"\3" + bytes(5) + b"\xff\xff" + bytes(6) + b"\7\0\x1e\1\0\x1e\1\0\3"),
            id="a formula not reckoned yet",
        ),
        pytest.param(record(0x06, bytes(12) + b"\xff\xff" + bytes(8)) + record(0x207, b"\1\0\0x"), id="a formula giving a text"),
        pytest.param(record(0x0208, bytes(12) + b"\x20\0\0\0") + record(0x9D, b"\1\0") + number(0, 2, 1), id="a filtered row"),
        pytest.param(thing(CHART), id="a chart"),
        pytest.param(thing(COMMENT) + record(0x1C, bytes(12)), id="a comment"),
        pytest.param(thing(PICTURE), id="a picture that is not found"),
    ],
)
def test_a_sheet_that_shows_something_is_not_blank(cells: bytes) -> None:
    assert judge(KIND, book(cells)).blank is None


def test_what_a_style_hides_does_not_count() -> None:
    assert judge(KIND, book(number(0, 0, 1), before=WHITE_STYLE)).blank
    assert judge(KIND, book(number(0, 0, 1), before=HIDING_STYLE)).blank
    assert judge(KIND, book(number(0, 0, 1, style=1), before=WHITE_STYLE)).blank is None


def test_a_hidden_sheet_does_not_count_and_each_shown_one_does() -> None:
    assert judge(KIND, make_workbook([b"", number(0, 0, 1)], hidden=[1])).blank
    assert judge(KIND, make_workbook([b"", number(0, 0, 1)])).blank is None


@pytest.mark.parametrize("shows", [True, False])
def test_a_picture_counts_when_it_shows_something(*, shows: bool) -> None:
    before = drawing(picture(shows=shows).getvalue())
    assert (judge(KIND, book(thing(PICTURE), before=before)).blank is None) is shows


@needs_corpus
def test_the_corpus_is_judged_as_labelled() -> None:
    assert [path.name for path in corpus("xls", "valid", "not_blank") if not judge(KIND, path.read_bytes()).passes] == []
    assert [path.name for path in corpus("xls", "blank") if not judge(KIND, path.read_bytes()).blank] == []
    assert [path.name for path in corpus("xls", "not_blank") if judge(KIND, path.read_bytes()).blank] == []
    locked = corpus("xls", "password_protected")
    assert [path.name for path in locked if judge(KIND, path.read_bytes()).outcome is not Outcome.ENCRYPTED] == []
