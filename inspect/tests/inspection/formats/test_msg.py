"""Outlook messages: integrity and blankness."""

import struct
import zlib
from collections.abc import Iterable

import pytest

from sluice_inspect.formats.msg import FORMAT, make_message, make_storage, unpack_rtf
from sluice_inspect.office.compound import Tree, make_compound
from sluice_inspect.report import Corrupt
from tests.inspection.formats.examining import Row, cuts, replaced, verdicts

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


def with_attachment(tree: Tree) -> bytes:
    return make_compound({**make_storage({SUBJECT: "outer"}, 32), "__attach_version1.0_#00000000": tree})


def around(inner: Tree) -> Tree:
    return {**make_storage({}, 8), "__substg1.0_3701000D": inner}


PACKED = packed_rtf(rb"{\rtf1 Some words.}")


@verdicts(FORMAT)
def test_message_whose_properties_attachments_or_text_are_damaged_is_corrupt() -> Iterable[Row]:
    yield "good", MESSAGE, "ok"
    yield from cuts(MESSAGE)
    for case, old, new in (
        ("property that is missing", struct.pack("<HH", 0x1F, SUBJECT), struct.pack("<HH", 0x1F, 0x9999)),
        ("type that does not exist", struct.pack("<HH", 3, 0x0017), struct.pack("<HH", 0, 0x0017)),
        ("length", struct.pack("<HHLL", 0x1F, SUBJECT, 6, 20), struct.pack("<HHLL", 0x1F, SUBJECT, 6, 99)),
        ("zeros in a text", "a letter. Words".encode("utf-16-le"), bytes(30)),
    ):
        yield case, replaced(MESSAGE, old, new), "corrupt", " "
    yield "attachment without a list of properties", with_attachment({"__substg1.0_37010102": b"x"}), "corrupt"
    inner: Tree = make_storage({SUBJECT: "inner"}, 24)
    yield "embedded message", with_attachment(around(inner)), "ok"
    damaged = with_attachment(around({**inner, "__properties_version1.0": bytes(40)}))
    yield "damaged embedded message", damaged, "corrupt"
    tree: Tree = make_storage({}, 24)
    for _ in range(40):
        tree = {**make_storage({}, 24), "__attach_version1.0_#00000000": around(tree)}
    yield "forty levels", make_compound({**tree, **make_storage({SUBJECT: "x"}, 32)}), "too_complex"
    yield "formatted text with a wrong checksum", make_message({RTF: PACKED[:-2] + b"?}"}), "corrupt"


def test_compressed_rtf_is_unpacked_and_its_checksum_verified() -> None:
    assert unpack_rtf(PACKED) == rb"{\rtf1 Some words.}"
    assert unpack_rtf(struct.pack("<LLLL", 12 + 9, 9, 0x414C454D, 0) + rb"{\rtf1 x}") == rb"{\rtf1 x}"
    from_dictionary = as_packed(b"\x01" + struct.pack(">H", 0 << 4 | 4) + b"1}" + b"\0" * 5, 8)
    assert unpack_rtf(from_dictionary)[:8] == rb"{\rtf1" + b"1}"
    with pytest.raises(Corrupt):
        unpack_rtf(PACKED[:-2] + b"?}")


@verdicts(FORMAT)
def test_item_is_blank_when_nothing_in_it_is_visible() -> Iterable[Row]:
    yield "nothing", make_message({}), "blank"
    yield "spaces", make_message({SUBJECT: " ", BODY: "\u00a0\r\n\u200b"}), "blank"
    yield "an empty page", make_message({HTML: b"<html><body>&nbsp;</body></html>"}), "blank"
    yield "an empty formatted text", make_message({RTF: packed_rtf(rb"{\rtf1\par}")}), "blank"
    yield "an attachment without content", make_message({}, [{0x3707: "name.txt"}]), "blank"
    yield "a subject", make_message({SUBJECT: "x"}), "ok"
    yield "a body", make_message({BODY: "."}), "ok"
    yield "a page", make_message({HTML: b"<p>x</p>"}), "ok"
    yield "a formatted text", make_message({RTF: packed_rtf(rb"{\rtf1 x}")}), "ok"
    yield "an attachment", make_message({}, [{DATA: b"x"}]), "ok"
    yield "a contact", make_message({}, item_class="IPM.Contact"), "ok"
