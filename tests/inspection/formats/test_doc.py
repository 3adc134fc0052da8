"""Word 97 documents: integrity, encryption and blankness."""

import io
import struct

import pytest

from sluice_inspect.formats.doc.format import FORMAT, make_word
from sluice_inspect.office.compound import make_compound
from sluice_inspect.report import Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.inspection.formats.office_packages import picture
from tests.rows import each_row

HIDDEN = b"\x3c\x08\x01"
WHITE = b"\x70\x68\xff\xff\xff\x00"
YELLOW_SHADING = b"\x71\xca\x0a\x00\x00\x00\xff\xff\xff\x00\x00\x00\x00"
WHITE_SHADING = b"\x71\xca\x0a\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00"
BOTTOM_BORDER = b"\x50\xc6\x08\x00\x00\x00\x00\x04\x01\x00\x00"
NO_BOTTOM_BORDER = b"\x50\xc6\x08\x00\x00\x00\xff\x00\x00\x00\x00"
DOCUMENT = make_word("A letter to the world.\r" * 40)
FORMATTED = make_word("Some text.\r", runs=[(4, WHITE), (7, HIDDEN)])


def embedded(content: bytes) -> bytes:
    """Return one PNG as Word stores pictures in the text."""
    blip = struct.pack("<HHL", 0x6E00, 0xF01E, 17 + len(content)) + bytes(17) + content
    header = struct.pack("<LHH", 68 + len(blip), 68, 0x64).ljust(68, b"\0")
    return header + blip


def changed(data: bytes, old: bytes, new: bytes) -> bytes:
    assert old in data
    return data.replace(old, new, 1)


def test_document_is_sound_and_not_blank() -> None:
    result = examine_bytes(FORMAT, DOCUMENT)
    assert result.recognised
    assert result.outcome is Outcome.OK
    assert result.blank is None


@each_row("part", range(1, 20))
def test_truncated_document_is_corrupt(part: int) -> None:
    assert examine_bytes(FORMAT, DOCUMENT[: len(DOCUMENT) * part // 20]).outcome is Outcome.CORRUPT


@each_row(
    ("old", "new"),
    [
        pytest.param(b"\xec\xa5\xc1\x00", b"\xec\xff\xc1\x00", id="magic"),
        pytest.param(b"\x02" + struct.pack("<L", 16), b"\x03" + struct.pack("<L", 16), id="no piece table"),
        pytest.param(struct.pack("<HLH", 0, 1024, 0), struct.pack("<HLH", 0, 999_999, 0), id="text past the end"),
        pytest.param(struct.pack("<3L", 16, 0, 11), struct.pack("<3L", 16, 0, 5), id="too little text"),
        pytest.param(struct.pack("<3L", 1024, 1046, 3), struct.pack("<3L", 1024, 1046, 999), id="page past the end"),
        pytest.param(struct.pack("<3L", 1024, 1046, 3), struct.pack("<3L", 1024, 1046, 1), id="invalid page"),
        pytest.param(b"\x06" + WHITE, b"\x05" + WHITE, id="truncated modifiers"),
    ],
)
def test_broken_structure_is_corrupt(old: bytes, new: bytes) -> None:
    result = examine_bytes(FORMAT, changed(FORMATTED, old, new))
    assert result.outcome is Outcome.CORRUPT
    assert result.detail


def test_zeros_in_the_text_are_corrupt() -> None:
    letters = "world.\rA letter".encode("utf-16-le")
    at = DOCUMENT.index(letters)
    assert examine_bytes(FORMAT, DOCUMENT[:at] + bytes(600) + DOCUMENT[at + 600 :]).outcome is Outcome.CORRUPT


def test_missing_table_is_corrupt() -> None:
    assert (
        examine_bytes(FORMAT, changed(DOCUMENT, "1Table".encode("utf-16-le"), "9Table".encode("utf-16-le"))).outcome
        is Outcome.CORRUPT
    )


def test_invalid_summary_stream_is_corrupt() -> None:
    assert (
        examine_bytes(
            FORMAT, make_compound({"WordDocument": bytes(2000), "\x05SummaryInformation": bytes(300)})
        ).outcome
        is Outcome.CORRUPT
    )


def test_password_protected_document_is_encrypted() -> None:
    locked = changed(
        DOCUMENT, b"\xec\xa5\xc1\x00" + bytes(6) + b"\x00\x12", b"\xec\xa5\xc1\x00" + bytes(6) + b"\x00\x13"
    )
    assert examine_bytes(FORMAT, locked).outcome is Outcome.ENCRYPTED


def test_word_95_is_checked_by_its_bounds_only() -> None:
    header = struct.pack("<2H6xH12x2L", 0xA5DC, 104, 0, 1024, 2000)
    assert examine_bytes(FORMAT, make_compound({"WordDocument": header.ljust(3000, b"x")})).outcome is Outcome.OK
    assert examine_bytes(FORMAT, make_compound({"WordDocument": header.ljust(1500, b"x")})).outcome is Outcome.CORRUPT


def test_word_2_is_unsupported() -> None:
    result = examine_bytes(FORMAT, b"\xdb\xa5-\0" + b"x" * 500)
    assert result.recognised
    assert result.outcome is Outcome.UNSUPPORTED


@each_row("text", ["\r", "\r\r\x0c\r", " \u00a0\u200b\t\r", "\x07\x07\x07\r", "\x13 PAGEREF x \x14\x15\r"])
def test_document_without_a_visible_character_is_blank(text: str) -> None:
    assert examine_bytes(FORMAT, make_word(text)).blank


@each_row("text", [".\r", "\x1e\r", "\r" * 5000 + "0\r", "\x13 PAGE \x147\x15\r", "\x08\r", "\x13 FORMCHECKBOX \x15\r"])
def test_one_visible_mark_is_not_blank(text: str) -> None:
    assert examine_bytes(FORMAT, make_word(text)).blank is None


def test_header_alone_is_blank_and_footnote_is_not() -> None:
    assert examine_bytes(FORMAT, make_word("\rACME\r\r", lengths=(1, 0, 6))).blank
    assert examine_bytes(FORMAT, make_word("\rnote\r\r", lengths=(1, 6, 0))).blank is None


def test_hidden_text_is_blank_unless_other_text_is_visible() -> None:
    assert examine_bytes(FORMAT, make_word("secret\r", runs=[(6, HIDDEN), (1, b"")])).blank
    assert examine_bytes(FORMAT, make_word("secret!\r", runs=[(6, HIDDEN), (2, b"")])).blank is None


def test_white_text_is_blank_unless_it_is_shaded() -> None:
    assert examine_bytes(FORMAT, make_word("white\r", runs=[(6, WHITE)])).blank
    assert examine_bytes(FORMAT, make_word("white\r", runs=[(6, WHITE + WHITE_SHADING)])).blank
    assert examine_bytes(FORMAT, make_word("white\r", runs=[(6, WHITE + YELLOW_SHADING)])).blank is None


def test_visible_border_is_not_blank() -> None:
    assert examine_bytes(FORMAT, make_word("\r", paragraph=BOTTOM_BORDER)).blank is None
    assert examine_bytes(FORMAT, make_word("\r", paragraph=NO_BOTTOM_BORDER)).blank


def test_empty_coloured_cell_is_not_blank() -> None:
    yellow, white = (
        b"\x12\xd6\x0a" + bytes(3) + b"\xff" + colour + bytes(3) for colour in (b"\xff\xff\0", b"\xff\xff\xff")
    )
    assert examine_bytes(FORMAT, make_word("\r", paragraph=yellow)).blank is None
    assert examine_bytes(FORMAT, make_word("\r", paragraph=white)).blank


@each_row("shows", [True, False])
def test_picture_is_content_only_when_it_is_not_blank(*, shows: bool) -> None:
    data = embedded(picture(shows=shows).getvalue())
    assert (examine_bytes(FORMAT, make_word("\x01\r", data=data)).blank is None) is shows


def test_one_damaged_picture_among_others_is_forgiven_and_two_are_not() -> None:
    whole = embedded(picture(shows=True).getvalue())
    damaged = whole[:130] + bytes([whole[130] ^ 1]) + whole[131:]
    assert examine_bytes(FORMAT, make_word("words \x01\r", data=damaged + whole)).passes
    assert examine_bytes(FORMAT, make_word("words \x01\r", data=damaged + damaged)).outcome is Outcome.CORRUPT


def test_missing_picture_counts_as_content() -> None:
    assert examine_bytes(FORMAT, make_word("\x01\r")).blank is None


def test_embedded_png_with_content_is_not_blank() -> None:
    file = io.BytesIO(picture(shows=True).getvalue())
    assert examine_bytes(FORMAT, make_word("\x01\r", data=embedded(file.read()))).blank is None
