import struct
import zlib

import pytest

from sluice.formats.kinds.msg import KIND
from sluice.formats.office.compound_sample import Tree, make_compound
from sluice.formats.office.mapi import unpack_rtf
from sluice.formats.office.msg_sample import make_message, storage
from sluice.formats.verdict import Corrupt, Outcome
from tests.formats.judging import corpus, judge, needs_corpus

SUBJECT, BODY, RTF, HTML, DATA = 0x0037, 0x1000, 0x1009, 0x1013, 0x3701
MESSAGE = make_message({SUBJECT: "Greetings", BODY: "Words of a letter. " * 200, 0x0017: 1}, [{DATA: bytes(range(256)) * 20}])


def packed_rtf(text: bytes) -> bytes:
    """Answer Rich Text as Outlook stores it, with every character for itself."""
    content = b"".join(b"\0" + text[at : at + 8] for at in range(0, len(text), 8))
    checksum = zlib.crc32(content, 0xFFFFFFFF) ^ 0xFFFFFFFF
    return struct.pack("<LLLL", len(content) + 12, len(text), 0x75465A4C, checksum) + content


def changed(data: bytes, old: bytes, new: bytes) -> bytes:
    assert old in data
    return data.replace(old, new, 1)


def test_a_message_is_sound_and_not_blank() -> None:
    judged = judge(KIND, MESSAGE)
    assert judged.recognised
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize("part", range(1, 20))
def test_a_cut_message_is_corrupt(part: int) -> None:
    assert judge(KIND, MESSAGE[: len(MESSAGE) * part // 20]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(struct.pack("<HH", 0x1F, SUBJECT), struct.pack("<HH", 0x1F, 0x9999), id="property that is missing"),
        pytest.param(struct.pack("<HH", 3, 0x0017), struct.pack("<HH", 0, 0x0017), id="type that does not exist"),
        pytest.param(struct.pack("<HHLL", 0x1F, SUBJECT, 6, 20), struct.pack("<HHLL", 0x1F, SUBJECT, 6, 99), id="another length"),
        pytest.param("a letter. Words".encode("utf-16-le"), bytes(30), id="zeros in a text"),
    ],
)
def test_properties_that_are_not_as_listed_are_corrupt(old: bytes, new: bytes) -> None:
    judged = judge(KIND, changed(MESSAGE, old, new))
    assert judged.outcome is Outcome.CORRUPT
    assert judged.detail


def test_a_missing_list_of_properties_is_corrupt() -> None:
    tree = storage({SUBJECT: "x"}, 32)
    bare: Tree = {**tree, "__attach_version1.0_#00000000": {"__substg1.0_37010102": b"x"}}
    assert judge(KIND, make_compound(bare)).outcome is Outcome.CORRUPT


def test_a_message_within_a_message_is_judged_too() -> None:
    inner = storage({SUBJECT: "inner"}, 24)
    attachment: Tree = {**storage({}, 8), "__substg1.0_3701000D": inner}
    outer: Tree = {**storage({SUBJECT: "outer"}, 32), "__attach_version1.0_#00000000": attachment}
    assert judge(KIND, make_compound(outer)).outcome is Outcome.OK
    damaged = {**inner, "__properties_version1.0": bytes(40)}
    attachment = {**storage({}, 8), "__substg1.0_3701000D": damaged}
    assert judge(KIND, make_compound({**outer, "__attach_version1.0_#00000000": attachment})).outcome is Outcome.CORRUPT


def test_messages_within_messages_without_end_are_too_complex() -> None:
    tree: Tree = storage({}, 24)
    for _ in range(40):
        tree = {**storage({}, 24), "__attach_version1.0_#00000000": {**storage({}, 8), "__substg1.0_3701000D": tree}}
    item: Tree = {**tree, **storage({SUBJECT: "x"}, 32)}
    assert judge(KIND, make_compound(item)).outcome is Outcome.TOO_COMPLEX


def test_formatted_text_is_unpacked() -> None:
    assert unpack_rtf(packed_rtf(rb"{\rtf1 Some words.}")) == rb"{\rtf1 Some words.}"
    stored = struct.pack("<LLLL", 12 + 9, 9, 0x414C454D, 0) + rb"{\rtf1 x}"
    assert unpack_rtf(stored) == rb"{\rtf1 x}"


def test_references_into_the_preset_are_followed() -> None:
    content = b"\x01" + struct.pack(">H", 0 << 4 | 4) + b"1}" + b"\0" * 5
    checksum = zlib.crc32(content, 0xFFFFFFFF) ^ 0xFFFFFFFF
    packed = struct.pack("<LLLL", len(content) + 12, 8, 0x75465A4C, checksum) + content
    assert unpack_rtf(packed)[:8] == rb"{\rtf1" + b"1}"


def test_formatted_text_with_a_wrong_checksum_is_corrupt() -> None:
    packed = packed_rtf(rb"{\rtf1 Some words.}")
    with pytest.raises(Corrupt):
        unpack_rtf(packed[:-2] + b"?}")
    assert judge(KIND, make_message({RTF: packed[:-2] + b"?}"})).outcome is Outcome.CORRUPT


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(make_message({}), id="nothing"),
        pytest.param(make_message({SUBJECT: " ", BODY: "\u00a0\r\n\u200b"}), id="spaces"),
        pytest.param(make_message({HTML: b"<html><body>&nbsp;</body></html>"}), id="an empty page"),
        pytest.param(make_message({RTF: packed_rtf(rb"{\rtf1\par}")}), id="an empty formatted text"),
        pytest.param(make_message({}, [{0x3707: "name.txt"}]), id="an attachment without content"),
    ],
)
def test_a_mail_that_shows_nothing_is_blank(message: bytes) -> None:
    assert judge(KIND, message).blank


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(make_message({SUBJECT: "x"}), id="a subject"),
        pytest.param(make_message({BODY: "."}), id="a body"),
        pytest.param(make_message({HTML: b"<p>x</p>"}), id="a page"),
        pytest.param(make_message({RTF: packed_rtf(rb"{\rtf1 x}")}), id="a formatted text"),
        pytest.param(make_message({}, [{DATA: b"x"}]), id="an attachment"),
        pytest.param(make_message({}, what="IPM.Contact"), id="a contact"),
    ],
)
def test_an_item_that_shows_something_is_not_blank(message: bytes) -> None:
    assert judge(KIND, message).blank is None


@needs_corpus
def test_the_corpus_is_judged_as_labelled() -> None:
    assert [path.name for path in corpus("msg", "valid", "not_blank") if not judge(KIND, path.read_bytes()).passes] == []
    assert [path.name for path in corpus("msg", "corrupt") if judge(KIND, path.read_bytes()).outcome is not Outcome.CORRUPT] == []
