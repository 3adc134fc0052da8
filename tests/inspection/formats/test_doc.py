"""Word 97 documents: integrity, encryption and blankness."""

import struct
from functools import partial

from sluice_inspect.formats.doc.format import FORMAT, make_word
from sluice_inspect.office.compound import make_compound
from sluice_inspect.report import Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.inspection.formats.office_packages import picture
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
HIDDEN = b"\x3c\x08\x01"
WHITE = b"\x70\x68\xff\xff\xff\x00"
YELLOW_SHADING = b"\x71\xca\x0a\x00\x00\x00\xff\xff\xff\x00\x00\x00\x00"
WHITE_SHADING = b"\x71\xca\x0a\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00"
BOTTOM_BORDER = b"\x50\xc6\x08\x00\x00\x00\x00\x04\x01\x00\x00"
NO_BOTTOM_BORDER = b"\x50\xc6\x08\x00\x00\x00\xff\x00\x00\x00\x00"
DOCUMENT = make_word("A letter to the world.\r" * 40)
FORMATTED = make_word("Some text.\r", runs=[(4, WHITE), (7, HIDDEN)])
LETTERS = DOCUMENT.index("world.\rA letter".encode("utf-16-le"))


def embedded(content: bytes) -> bytes:
    """Return one PNG as Word stores pictures in the text."""
    blip = struct.pack("<HHL", 0x6E00, 0xF01E, 17 + len(content)) + bytes(17) + content
    header = struct.pack("<LHH", 68 + len(blip), 68, 0x64).ljust(68, b"\0")
    return header + blip


def changed(data: bytes, old: bytes, new: bytes) -> bytes:
    assert old in data
    return data.replace(old, new, 1)


def word_95(length: int) -> bytes:
    header = struct.pack("<2H6xH12x2L", 0xA5DC, 104, 0, 1024, 2000)
    return make_compound({"WordDocument": header.ljust(length, b"x")})


@each_row("part", range(1, 20))
def test_truncated_document_is_corrupt(part: int) -> None:
    assert examine(DOCUMENT) == Examined(recognised=True, outcome=Outcome.OK)
    assert examine(DOCUMENT[: len(DOCUMENT) * part // 20]).outcome is Outcome.CORRUPT


@each_row(
    ("case", "old", "new"),
    [
        ("magic", b"\xec\xa5\xc1\x00", b"\xec\xff\xc1\x00"),
        ("no piece table", b"\x02" + struct.pack("<L", 16), b"\x03" + struct.pack("<L", 16)),
        ("text past the end", struct.pack("<HLH", 0, 1024, 0), struct.pack("<HLH", 0, 999_999, 0)),
        ("too little text", struct.pack("<3L", 16, 0, 11), struct.pack("<3L", 16, 0, 5)),
        ("page past the end", struct.pack("<3L", 1024, 1046, 3), struct.pack("<3L", 1024, 1046, 999)),
        ("invalid page", struct.pack("<3L", 1024, 1046, 3), struct.pack("<3L", 1024, 1046, 1)),
        ("truncated modifiers", b"\x06" + WHITE, b"\x05" + WHITE),
    ],
)
def test_broken_structure_is_corrupt(case: str, old: bytes, new: bytes) -> None:
    result = examine(changed(FORMATTED, old, new))
    assert (result.outcome, bool(result.detail)) == (Outcome.CORRUPT, True)


@each_row(
    ("case", "data", "outcome"),
    [
        ("zeros in the text", DOCUMENT[:LETTERS] + bytes(600) + DOCUMENT[LETTERS + 600 :], Outcome.CORRUPT),
        ("no table", changed(DOCUMENT, "1Table".encode("utf-16-le"), "9Table".encode("utf-16-le")), Outcome.CORRUPT),
        ("invalid summary",
         make_compound({"WordDocument": bytes(2000), "\x05SummaryInformation": bytes(300)}), Outcome.CORRUPT),
        (
            "password",
            changed(DOCUMENT, b"\xec\xa5\xc1\x00" + bytes(6) + b"\x00\x12", b"\xec\xa5\xc1\x00" + bytes(6) + b"\x00\x13"),
            Outcome.ENCRYPTED,
        ),
        ("Word 95", word_95(3000), Outcome.OK),
        ("Word 95 that ends within its text", word_95(1500), Outcome.CORRUPT),
        ("Word 2", b"\xdb\xa5-\0" + b"x" * 500, Outcome.UNSUPPORTED),
    ],
)  # fmt: skip
def test_damaged_locked_or_older_document_gets_its_outcome(case: str, data: bytes, outcome: Outcome) -> None:
    assert examine(data).verdict is outcome


YELLOW_CELL, WHITE_CELL = (
    b"\x12\xd6\x0a" + bytes(3) + b"\xff" + rgb + bytes(3) for rgb in (b"\xff\xff\0", b"\xff" * 3)
)


@each_row(
    ("case", "data", "blank"),
    [
        *((text, make_word(text), True) for text in ("\r", "\r\r\x0c\r", " \u00a0\u200b\t\r", "\x07\x07\x07\r")),
        ("field of a page number", make_word("\x13 PAGEREF x \x14\x15\r"), True),
        *((text, make_word(text), False) for text in (".\r", "\x1e\r", "\r" * 5000 + "0\r", "\x08\r")),
        ("result of a field", make_word("\x13 PAGE \x147\x15\r"), False),
        ("field to tick", make_word("\x13 FORMCHECKBOX \x15\r"), False),
        ("header", make_word("\rACME\r\r", lengths=(1, 0, 6)), True),
        ("footnote", make_word("\rnote\r\r", lengths=(1, 6, 0)), False),
        ("hidden text", make_word("secret\r", runs=[(6, HIDDEN), (1, b"")]), True),
        ("hidden and other text", make_word("secret!\r", runs=[(6, HIDDEN), (2, b"")]), False),
        ("white text", make_word("white\r", runs=[(6, WHITE)]), True),
        ("white text on white", make_word("white\r", runs=[(6, WHITE + WHITE_SHADING)]), True),
        ("white text on yellow", make_word("white\r", runs=[(6, WHITE + YELLOW_SHADING)]), False),
        ("border", make_word("\r", paragraph=BOTTOM_BORDER), False),
        ("no border", make_word("\r", paragraph=NO_BOTTOM_BORDER), True),
        ("yellow cell", make_word("\r", paragraph=YELLOW_CELL), False),
        ("white cell", make_word("\r", paragraph=WHITE_CELL), True),
        ("missing picture", make_word("\x01\r"), False),
        ("picture", make_word("\x01\r", data=embedded(picture(shows=True).getvalue())), False),
        ("blank picture", make_word("\x01\r", data=embedded(picture(shows=False).getvalue())), True),
    ],
)
def test_document_is_blank_when_nothing_in_it_is_visible(case: str, data: bytes, *, blank: bool) -> None:
    assert bool(examine(data).blank) is blank


def test_one_damaged_picture_among_others_is_forgiven_and_two_are_not() -> None:
    whole = embedded(picture(shows=True).getvalue())
    damaged = whole[:130] + bytes([whole[130] ^ 1]) + whole[131:]
    assert examine(make_word("words \x01\r", data=damaged + whole)).passes
    assert examine(make_word("words \x01\r", data=damaged + damaged)).outcome is Outcome.CORRUPT
