"""Outlook messages: integrity and blankness."""

import struct
import zlib

import pytest

from sluice_inspect.formats.msg import FORMAT, make_message, make_storage, unpack_rtf
from sluice_inspect.office.compound import Tree, make_compound
from sluice_inspect.report import Corrupt, Outcome
from tests.inspection.formats.examining import examine_bytes
from tests.rows import each_row

SUBJECT, BODY, RTF, HTML, DATA = 0x0037, 0x1000, 0x1009, 0x1013, 0x3701
MESSAGE = make_message(
    {SUBJECT: "Greetings", BODY: "Words of a letter. " * 200, 0x0017: 1}, [{DATA: bytes(range(256)) * 20}]
)


def packed_rtf(text: bytes) -> bytes:
    """Return Rich Text as Outlook stores it, with every character as a literal."""
    content = b"".join(b"\0" + text[at : at + 8] for at in range(0, len(text), 8))
    checksum = zlib.crc32(content, 0xFFFFFFFF) ^ 0xFFFFFFFF
    return struct.pack("<LLLL", len(content) + 12, len(text), 0x75465A4C, checksum) + content


def changed(data: bytes, old: bytes, new: bytes) -> bytes:
    assert old in data
    return data.replace(old, new, 1)


def test_message_is_sound_and_not_blank() -> None:
    result = examine_bytes(FORMAT, MESSAGE)
    assert result.recognised
    assert result.outcome is Outcome.OK
    assert result.blank is None


@each_row("part", range(1, 20))
def test_truncated_message_is_corrupt(part: int) -> None:
    assert examine_bytes(FORMAT, MESSAGE[: len(MESSAGE) * part // 20]).outcome is Outcome.CORRUPT


@each_row(
    ("case", "old", "new"),
    [
        ("property that is missing", struct.pack("<HH", 0x1F, SUBJECT), struct.pack("<HH", 0x1F, 0x9999)),
        ("type that does not exist", struct.pack("<HH", 3, 0x0017), struct.pack("<HH", 0, 0x0017)),
        ("another length", struct.pack("<HHLL", 0x1F, SUBJECT, 6, 20), struct.pack("<HHLL", 0x1F, SUBJECT, 6, 99)),
        ("zeros in a text", "a letter. Words".encode("utf-16-le"), bytes(30)),
    ],
)
def test_properties_that_contradict_their_list_are_corrupt(case: str, old: bytes, new: bytes) -> None:
    result = examine_bytes(FORMAT, changed(MESSAGE, old, new))
    assert result.outcome is Outcome.CORRUPT
    assert result.detail


def test_missing_list_of_properties_is_corrupt() -> None:
    tree = make_storage({SUBJECT: "x"}, 32)
    bare: Tree = {**tree, "__attach_version1.0_#00000000": {"__substg1.0_37010102": b"x"}}
    assert examine_bytes(FORMAT, make_compound(bare)).outcome is Outcome.CORRUPT


def test_embedded_message_is_checked() -> None:
    inner = make_storage({SUBJECT: "inner"}, 24)
    attachment: Tree = {**make_storage({}, 8), "__substg1.0_3701000D": inner}
    outer: Tree = {**make_storage({SUBJECT: "outer"}, 32), "__attach_version1.0_#00000000": attachment}
    assert examine_bytes(FORMAT, make_compound(outer)).outcome is Outcome.OK
    damaged = {**inner, "__properties_version1.0": bytes(40)}
    attachment = {**make_storage({}, 8), "__substg1.0_3701000D": damaged}
    assert (
        examine_bytes(FORMAT, make_compound({**outer, "__attach_version1.0_#00000000": attachment})).outcome
        is Outcome.CORRUPT
    )


def test_endlessly_nested_messages_are_too_complex() -> None:
    tree: Tree = make_storage({}, 24)
    for _ in range(40):
        tree = {
            **make_storage({}, 24),
            "__attach_version1.0_#00000000": {**make_storage({}, 8), "__substg1.0_3701000D": tree},
        }
    item: Tree = {**tree, **make_storage({SUBJECT: "x"}, 32)}
    assert examine_bytes(FORMAT, make_compound(item)).outcome is Outcome.TOO_COMPLEX


def test_compressed_rtf_is_unpacked() -> None:
    assert unpack_rtf(packed_rtf(rb"{\rtf1 Some words.}")) == rb"{\rtf1 Some words.}"
    stored = struct.pack("<LLLL", 12 + 9, 9, 0x414C454D, 0) + rb"{\rtf1 x}"
    assert unpack_rtf(stored) == rb"{\rtf1 x}"


def test_references_into_the_preset_dictionary_are_followed() -> None:
    content = b"\x01" + struct.pack(">H", 0 << 4 | 4) + b"1}" + b"\0" * 5
    checksum = zlib.crc32(content, 0xFFFFFFFF) ^ 0xFFFFFFFF
    packed = struct.pack("<LLLL", len(content) + 12, 8, 0x75465A4C, checksum) + content
    assert unpack_rtf(packed)[:8] == rb"{\rtf1" + b"1}"


def test_compressed_rtf_with_a_wrong_checksum_is_corrupt() -> None:
    packed = packed_rtf(rb"{\rtf1 Some words.}")
    with pytest.raises(Corrupt):
        unpack_rtf(packed[:-2] + b"?}")
    assert examine_bytes(FORMAT, make_message({RTF: packed[:-2] + b"?}"})).outcome is Outcome.CORRUPT


@each_row(
    ("case", "message", "blank"),
    [
        ("nothing", make_message({}), True),
        ("spaces", make_message({SUBJECT: " ", BODY: "\u00a0\r\n\u200b"}), True),
        ("an empty page", make_message({HTML: b"<html><body>&nbsp;</body></html>"}), True),
        ("an empty formatted text", make_message({RTF: packed_rtf(rb"{\rtf1\par}")}), True),
        ("an attachment without content", make_message({}, [{0x3707: "name.txt"}]), True),
        ("a subject", make_message({SUBJECT: "x"}), False),
        ("a body", make_message({BODY: "."}), False),
        ("a page", make_message({HTML: b"<p>x</p>"}), False),
        ("a formatted text", make_message({RTF: packed_rtf(rb"{\rtf1 x}")}), False),
        ("an attachment", make_message({}, [{DATA: b"x"}]), False),
        ("a contact", make_message({}, item_class="IPM.Contact"), False),
    ],
)
def test_item_is_blank_when_nothing_in_it_is_visible(case: str, message: bytes, *, blank: bool) -> None:
    assert bool(examine_bytes(FORMAT, message).blank) is blank
