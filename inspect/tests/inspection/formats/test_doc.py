"""Word 97 documents: integrity, encryption and blankness."""

import struct
from collections.abc import Iterable
from itertools import pairwise

from sluice_inspect.formats.doc.format import FORMAT, make_word
from sluice_inspect.office.compound import make_compound
from tests.inspection.formats.examining import Row, cuts, replaced, verdicts
from tests.inspection.formats.office_packages import picture

HIDDEN = b"\x3c\x08\x01"
WHITE = b"\x70\x68\xff\xff\xff\x00"
DOCUMENT = make_word("A letter to the world.\r" * 40)


def embedded(content: bytes) -> bytes:
    """Return one PNG as Word stores pictures in the text."""
    blip = struct.pack("<HHL", 0x6E00, 0xF01E, 17 + len(content)) + bytes(17) + content
    return struct.pack("<LHH", 68 + len(blip), 68, 0x64).ljust(68, b"\0") + blip


def word_95(length: int) -> bytes:
    header = struct.pack("<2H6xH12x2L", 0xA5DC, 104, 0, 1024, 2000)
    return make_compound({"WordDocument": header.ljust(length, b"x")})


@verdicts(FORMAT)
def test_damaged_locked_or_older_document_gets_its_verdict() -> Iterable[Row]:
    yield "good", DOCUMENT, "ok"
    yield from cuts(DOCUMENT)
    formatted = make_word("Some text.\r", runs=[(4, WHITE), (7, HIDDEN)])
    for case, old, new in (
        ("magic", b"\xec\xa5\xc1\x00", b"\xec\xff\xc1\x00"),
        ("no piece table", b"\x02" + struct.pack("<L", 16), b"\x03" + struct.pack("<L", 16)),
        ("text past the end", struct.pack("<HLH", 0, 1024, 0), struct.pack("<HLH", 0, 999_999, 0)),
        ("too little text", struct.pack("<3L", 16, 0, 11), struct.pack("<3L", 16, 0, 5)),
        ("page past the end", struct.pack("<3L", 1024, 1046, 3), struct.pack("<3L", 1024, 1046, 999)),
        ("invalid page", struct.pack("<3L", 1024, 1046, 3), struct.pack("<3L", 1024, 1046, 1)),
        ("truncated modifiers", b"\x06" + WHITE, b"\x05" + WHITE),
    ):
        yield case, replaced(formatted, old, new), "corrupt", " "
    letters = DOCUMENT.index("world.\rA letter".encode("utf-16-le"))
    yield "zeros in the text", DOCUMENT[:letters] + bytes(600) + DOCUMENT[letters + 600 :], "corrupt"
    yield "no table", replaced(DOCUMENT, "1Table".encode("utf-16-le"), "9Table".encode("utf-16-le")), "corrupt"
    summary = make_compound({"WordDocument": bytes(2000), "\x05SummaryInformation": bytes(300)})
    yield "invalid summary", summary, "corrupt"
    head = b"\xec\xa5\xc1\x00" + bytes(6)
    yield "password", replaced(DOCUMENT, head + b"\x00\x12", head + b"\x00\x13"), "encrypted"
    yield "Word 95", word_95(3000), "ok"
    yield "Word 95 that ends within its text", word_95(1500), "corrupt"
    yield "Word 2", b"\xdb\xa5-\0" + b"x" * 500, "unsupported"


def with_formatting_pages(stated: tuple[int, int, int], *ends: int) -> bytes:
    """Return a document with two pages of formatting in its text, as its list states them and as they do themselves."""
    pages = b"".join(struct.pack("<2L", *pair).ljust(511, b"\0") + b"\1" for pair in pairwise(ends))
    data = bytearray(make_word(pages.decode("utf-16-le")))
    room = data.index(bytes(500), data.index(b"\x12\0\x0f\0\x0a\0")) + 8  # in the table, among zeros
    data[room : room + 20] = struct.pack("<5L", *stated, 2, 3)
    places = data.index(struct.pack("<LL", 50, 12))  # the list of pages follows the 50 bytes of the style sheet
    table = data.index(b"\x12\0\x0f\0\x0a\0")
    data[places : places + 8] = struct.pack("<LL", room - table, 20)
    return bytes(data)


@verdicts(FORMAT)
def test_pages_of_formatting_count_by_what_they_state_if_they_follow_each_other() -> Iterable[Row]:
    yield "as listed", with_formatting_pages((1024, 1100, 2048), 1024, 1100, 2048), "ok"
    yield "listed by half", with_formatting_pages((512, 550, 1024), 1024, 1100, 2048), "ok"
    yield "second page of other text", with_formatting_pages((1024, 1100, 2048), 1024, 1090, 2048), "ok"
    damaged = with_formatting_pages((1024, 1100, 2048), 1024, 1100, 2048)
    second = struct.pack("<2L", 1100, 2048) + bytes(64)
    yield "second page elsewhere", replaced(damaged, second, struct.pack("<2L", 9100, 9900) + bytes(64)), "corrupt"


@verdicts(FORMAT)
def test_document_is_blank_when_nothing_in_it_is_visible() -> Iterable[Row]:
    for text in ("\r", "\r\r\x0c\r", " \u00a0\u200b\t\r", "\x07\x07\x07\r", "\x13 PAGEREF x \x14\x15\r"):
        yield repr(text), make_word(text), "blank"
    for text in (".\r", "\x1e\r", "\r" * 5000 + "0\r", "\x08\r", "\x13 PAGE \x147\x15\r", "\x13 FORMCHECKBOX \x15\r"):
        yield repr(text[-20:]), make_word(text), "ok"
    yield "header", make_word("\rACME\r\r", lengths=(1, 0, 6)), "blank"
    yield "footnote", make_word("\rnote\r\r", lengths=(1, 6, 0)), "ok"
    yield "hidden text", make_word("secret\r", runs=[(6, HIDDEN), (1, b"")]), "blank"
    yield "hidden and other text", make_word("secret!\r", runs=[(6, HIDDEN), (2, b"")]), "ok"
    yield "white text", make_word("white\r", runs=[(6, WHITE)]), "blank"
    on_white, on_yellow = (b"\x71\xca\x0a\0\0\0\xff\xff\xff%b\0\0\0" % blue for blue in (b"\xff", b"\0"))
    yield "white text on white", make_word("white\r", runs=[(6, WHITE + on_white)]), "blank"
    yield "white text on yellow", make_word("white\r", runs=[(6, WHITE + on_yellow)]), "ok"
    border, no_border = (b"\x50\xc6\x08\0\0\0%b\0" % style for style in (b"\0\4\1\0", b"\xff\0\0\0"))
    yield "border", make_word("\r", paragraph=border), "ok"
    yield "no border", make_word("\r", paragraph=no_border), "blank"
    yellow, white = (b"\x12\xd6\x0a" + bytes(3) + b"\xff" + rgb + bytes(3) for rgb in (b"\xff\xff\0", b"\xff" * 3))
    yield "yellow cell", make_word("\r", paragraph=yellow), "ok"
    yield "white cell", make_word("\r", paragraph=white), "blank"
    yield "missing picture", make_word("\x01\r"), "ok"
    yield "picture", make_word("\x01\r", data=embedded(picture(shows=True).getvalue())), "ok"
    yield "blank picture", make_word("\x01\r", data=embedded(picture(shows=False).getvalue())), "blank"
    whole = embedded(picture(shows=True).getvalue())
    damaged = whole[:130] + bytes([whole[130] ^ 1]) + whole[131:]
    yield "one damaged picture of two", make_word("words \x01\r", data=damaged + whole), "ok"
    yield "two damaged pictures", make_word("words \x01\r", data=damaged + damaged), "corrupt"
