import io
import struct

import pytest

from sluice.formats.kinds.doc import KIND
from sluice.formats.office.compound_sample import make_compound
from sluice.formats.office.word_sample import make_word
from sluice.formats.verdict import Outcome
from tests.formats.judging import corpus, judge, needs_corpus
from tests.formats.packages import picture

HIDDEN = b"\x3c\x08\x01"
WHITE = b"\x70\x68\xff\xff\xff\x00"
YELLOW_BEHIND = b"\x71\xca\x0a\x00\x00\x00\xff\xff\xff\x00\x00\x00\x00"
WHITE_BEHIND = b"\x71\xca\x0a\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00"
LINE_BELOW = b"\x50\xc6\x08\x00\x00\x00\x00\x04\x01\x00\x00"
NO_LINE_BELOW = b"\x50\xc6\x08\x00\x00\x00\xff\x00\x00\x00\x00"
DOCUMENT = make_word("A letter to the world.\r" * 40)
FORMATTED = make_word("Some text.\r", runs=[(4, WHITE), (7, HIDDEN)])


def embedded(content: bytes) -> bytes:
    """Answer data of one PNG as Word stores pictures in the text."""
    blip = struct.pack("<HHL", 0x6E00, 0xF01E, 17 + len(content)) + bytes(17) + content
    header = struct.pack("<LHH", 68 + len(blip), 68, 0x64).ljust(68, b"\0")
    return header + blip


def changed(data: bytes, old: bytes, new: bytes) -> bytes:
    assert old in data
    return data.replace(old, new, 1)


def test_a_document_is_sound_and_not_blank() -> None:
    judged = judge(KIND, DOCUMENT)
    assert judged.recognised
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize("part", range(1, 20))
def test_a_cut_document_is_corrupt(part: int) -> None:
    assert judge(KIND, DOCUMENT[: len(DOCUMENT) * part // 20]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(b"\xec\xa5\xc1\x00", b"\xec\xff\xc1\x00", id="magic"),
        pytest.param(b"\x02" + struct.pack("<L", 16), b"\x03" + struct.pack("<L", 16), id="no piece table"),
        pytest.param(struct.pack("<HLH", 0, 1024, 0), struct.pack("<HLH", 0, 999_999, 0), id="text behind the end"),
        pytest.param(struct.pack("<3L", 16, 0, 11), struct.pack("<3L", 16, 0, 5), id="too little text"),
        pytest.param(struct.pack("<3L", 1024, 1046, 3), struct.pack("<3L", 1024, 1046, 999), id="page behind the end"),
        pytest.param(struct.pack("<3L", 1024, 1046, 3), struct.pack("<3L", 1024, 1046, 1), id="page that is none"),
        pytest.param(b"\x06" + WHITE, b"\x05" + WHITE, id="modifiers cut"),
    ],
)
def test_a_structure_that_leads_nowhere_is_corrupt(old: bytes, new: bytes) -> None:
    judged = judge(KIND, changed(FORMATTED, old, new))
    assert judged.outcome is Outcome.CORRUPT
    assert judged.detail


def test_zeros_in_the_text_are_corrupt() -> None:
    letters = "world.\rA letter".encode("utf-16-le")
    at = DOCUMENT.index(letters)
    assert judge(KIND, DOCUMENT[:at] + bytes(600) + DOCUMENT[at + 600 :]).outcome is Outcome.CORRUPT


def test_a_missing_table_is_corrupt() -> None:
    assert judge(KIND, changed(DOCUMENT, "1Table".encode("utf-16-le"), "9Table".encode("utf-16-le"))).outcome is Outcome.CORRUPT


def test_a_summary_that_is_none_is_corrupt() -> None:
    assert (
        judge(KIND, make_compound({"WordDocument": bytes(2000), "\x05SummaryInformation": bytes(300)})).outcome is Outcome.CORRUPT
    )


def test_a_document_behind_a_password_is_encrypted() -> None:
    locked = changed(DOCUMENT, b"\xec\xa5\xc1\x00" + bytes(6) + b"\x00\x12", b"\xec\xa5\xc1\x00" + bytes(6) + b"\x00\x13")
    assert judge(KIND, locked).outcome is Outcome.ENCRYPTED


def test_word_95_is_judged_by_its_bounds_alone() -> None:
    header = struct.pack("<2H6xH12x2L", 0xA5DC, 104, 0, 1024, 2000)
    assert judge(KIND, make_compound({"WordDocument": header.ljust(3000, b"x")})).outcome is Outcome.OK
    assert judge(KIND, make_compound({"WordDocument": header.ljust(1500, b"x")})).outcome is Outcome.CORRUPT


def test_word_2_cannot_be_judged() -> None:
    judged = judge(KIND, b"\xdb\xa5-\0" + b"x" * 500)
    assert judged.recognised
    assert judged.outcome is Outcome.UNSUPPORTED


@pytest.mark.parametrize("text", ["\r", "\r\r\x0c\r", " \u00a0\u200b\t\r", "\x07\x07\x07\r", "\x13 PAGEREF x \x14\x15\r"])
def test_a_document_without_a_visible_character_is_blank(text: str) -> None:
    assert judge(KIND, make_word(text)).blank


@pytest.mark.parametrize(
    "text", [".\r", "\x1e\r", "\r" * 5000 + "0\r", "\x13 PAGE \x147\x15\r", "\x08\r", "\x13 FORMCHECKBOX \x15\r"]
)
def test_one_mark_is_content(text: str) -> None:
    assert judge(KIND, make_word(text)).blank is None


def test_a_header_does_not_count_but_a_footnote_does() -> None:
    assert judge(KIND, make_word("\rACME\r\r", lengths=(1, 0, 6))).blank
    assert judge(KIND, make_word("\rnote\r\r", lengths=(1, 6, 0))).blank is None


def test_hidden_text_is_no_content_unless_there_is_more() -> None:
    assert judge(KIND, make_word("secret\r", runs=[(6, HIDDEN), (1, b"")])).blank
    assert judge(KIND, make_word("secret!\r", runs=[(6, HIDDEN), (2, b"")])).blank is None


def test_white_text_is_content_where_something_is_shaded() -> None:
    assert judge(KIND, make_word("white\r", runs=[(6, WHITE)])).blank
    assert judge(KIND, make_word("white\r", runs=[(6, WHITE + WHITE_BEHIND)])).blank
    assert judge(KIND, make_word("white\r", runs=[(6, WHITE + YELLOW_BEHIND)])).blank is None


def test_a_line_is_content() -> None:
    assert judge(KIND, make_word("\r", paragraph=LINE_BELOW)).blank is None
    assert judge(KIND, make_word("\r", paragraph=NO_LINE_BELOW)).blank


def test_a_coloured_cell_is_content_though_it_is_empty() -> None:
    yellow, white = (b"\x12\xd6\x0a" + bytes(3) + b"\xff" + colour + bytes(3) for colour in (b"\xff\xff\0", b"\xff\xff\xff"))
    assert judge(KIND, make_word("\r", paragraph=yellow)).blank is None
    assert judge(KIND, make_word("\r", paragraph=white)).blank


@pytest.mark.parametrize("shows", [True, False])
def test_a_picture_counts_when_it_shows_something(*, shows: bool) -> None:
    data = embedded(picture(shows=shows).getvalue())
    assert (judge(KIND, make_word("\x01\r", data=data)).blank is None) is shows


def test_a_picture_that_is_not_found_is_content() -> None:
    assert judge(KIND, make_word("\x01\r")).blank is None


def test_a_picture_made_by_another_tool_counts_as_its_bytes_do() -> None:
    file = io.BytesIO(picture(shows=True).getvalue())
    assert judge(KIND, make_word("\x01\r", data=embedded(file.read()))).blank is None


@needs_corpus
def test_the_corpus_is_judged_as_labelled() -> None:
    assert [path.name for path in corpus("doc", "valid", "not_blank") if not judge(KIND, path.read_bytes()).passes] == []
    assert [path.name for path in corpus("doc", "blank") if not judge(KIND, path.read_bytes()).blank] == []
    assert [path.name for path in corpus("doc", "not_blank") if judge(KIND, path.read_bytes()).blank] == []
    locked = corpus("doc", "password_protected")
    assert [path.name for path in locked if judge(KIND, path.read_bytes()).outcome is not Outcome.ENCRYPTED] == []
