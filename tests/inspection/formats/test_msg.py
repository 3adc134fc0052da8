"""Outlook messages: integrity and blankness."""

import struct
import zlib
from functools import partial

import pytest

from sluice_inspect.formats.msg import FORMAT, make_message, make_storage, unpack_rtf
from sluice_inspect.office.compound import Tree, make_compound
from sluice_inspect.report import Corrupt, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
SUBJECT, BODY, RTF, HTML, DATA = 0x0037, 0x1000, 0x1009, 0x1013, 0x3701
MESSAGE = make_message(
    {SUBJECT: "Greetings", BODY: "Words of a letter. " * 200, 0x0017: 1}, [{DATA: bytes(range(256)) * 20}]
)


def as_packed(content: bytes, size: int) -> bytes:
    checksum = zlib.crc32(content, 0xFFFFFFFF) ^ 0xFFFFFFFF
    return struct.pack("<LLLL", len(content) + 12, size, 0x75465A4C, checksum) + content


def packed_rtf(text: bytes) -> bytes:
    """Return Rich Text as Outlook stores it, with every character as a literal."""
    return as_packed(b"".join(b"\0" + text[at : at + 8] for at in range(0, len(text), 8)), len(text))


def changed(data: bytes, old: bytes, new: bytes) -> bytes:
    assert old in data
    return data.replace(old, new, 1)


@each_row("part", range(1, 20))
def test_truncated_message_is_corrupt(part: int) -> None:
    assert examine(MESSAGE) == Examined(recognised=True, outcome=Outcome.OK)
    assert examine(MESSAGE[: len(MESSAGE) * part // 20]).outcome is Outcome.CORRUPT


@each_row(
    ("case", "old", "new"),
    [
        ("property that is missing", struct.pack("<HH", 0x1F, SUBJECT), struct.pack("<HH", 0x1F, 0x9999)),
        ("type that does not exist", struct.pack("<HH", 3, 0x0017), struct.pack("<HH", 0, 0x0017)),
        ("length", struct.pack("<HHLL", 0x1F, SUBJECT, 6, 20), struct.pack("<HHLL", 0x1F, SUBJECT, 6, 99)),
        ("zeros in a text", "a letter. Words".encode("utf-16-le"), bytes(30)),
    ],
)
def test_properties_that_contradict_their_list_are_corrupt(case: str, old: bytes, new: bytes) -> None:
    result = examine(changed(MESSAGE, old, new))
    assert (result.outcome, bool(result.detail)) == (Outcome.CORRUPT, True)


def with_attachment(tree: Tree) -> bytes:
    return make_compound({**make_storage({SUBJECT: "outer"}, 32), "__attach_version1.0_#00000000": tree})


def around(inner: Tree) -> Tree:
    return {**make_storage({}, 8), "__substg1.0_3701000D": inner}


def nested(levels: int) -> bytes:
    tree: Tree = make_storage({}, 24)
    for _ in range(levels):
        tree = {**make_storage({}, 24), "__attach_version1.0_#00000000": around(tree)}
    return make_compound({**tree, **make_storage({SUBJECT: "x"}, 32)})


INNER: Tree = make_storage({SUBJECT: "inner"}, 24)
PACKED = packed_rtf(rb"{\rtf1 Some words.}")


@each_row(
    ("case", "data", "outcome"),
    [
        ("attachment without a list of properties", with_attachment({"__substg1.0_37010102": b"x"}), Outcome.CORRUPT),
        ("embedded message", with_attachment(around(INNER)), Outcome.OK),
        ("damaged embedded message",
         with_attachment(around({**INNER, "__properties_version1.0": bytes(40)})), Outcome.CORRUPT),
        ("forty levels", nested(40), Outcome.TOO_COMPLEX),
        ("formatted text with a wrong checksum", make_message({RTF: PACKED[:-2] + b"?}"}), Outcome.CORRUPT),
    ],
)  # fmt: skip
def test_attachments_and_formatted_text_are_checked(case: str, data: bytes, outcome: Outcome) -> None:
    assert examine(data).outcome is outcome


def test_compressed_rtf_is_unpacked_and_its_checksum_verified() -> None:
    assert unpack_rtf(PACKED) == rb"{\rtf1 Some words.}"
    assert unpack_rtf(struct.pack("<LLLL", 12 + 9, 9, 0x414C454D, 0) + rb"{\rtf1 x}") == rb"{\rtf1 x}"
    from_dictionary = as_packed(b"\x01" + struct.pack(">H", 0 << 4 | 4) + b"1}" + b"\0" * 5, 8)
    assert unpack_rtf(from_dictionary)[:8] == rb"{\rtf1" + b"1}"
    with pytest.raises(Corrupt):
        unpack_rtf(PACKED[:-2] + b"?}")


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
    assert bool(examine(message).blank) is blank
