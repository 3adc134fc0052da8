"""TrueType, OpenType, WOFF and WOFF2: integrity and limits."""

import struct
from collections.abc import Iterable

from sluice_inspect.formats.fonts.sample import make_font, make_woff, make_woff2, table_checksum
from sluice_inspect.formats.fonts.sfnt import OTF, TTF
from sluice_inspect.formats.fonts.webfont import WOFF, WOFF2
from sluice_inspect.report import Limits
from tests.inspection.formats.examining import Row, cuts, examine_bytes, replaced, verdicts
from tests.rows import each_row

LONG = {b"GPOS": bytes(range(256)) * 30}
TRUETYPE = make_font(tables=LONG)
POSTSCRIPT = make_font(postscript=True, tables=LONG)
EMPTY, EMPTY_POSTSCRIPT = make_font(b""), make_font(bytes([139, 14]), postscript=True)


def transformed(*, cut: int = 0) -> bytes:
    counts = struct.pack(">2h", 0, 1)
    glyphs = struct.pack(">HHHH7L", 0, 0, 2, 1, len(counts) + cut, 0, 0, 0, 0, 0, 0) + counts
    return make_woff2(TRUETYPE, {b"glyf": glyphs, b"loca": b""})


def collection(*fonts: bytes) -> bytes:
    """Return a collection: the fonts in sequence, with adjusted offsets."""
    start, body = 12 + 4 * len(fonts), b""
    places = []
    for font in fonts:
        places.append(start + len(body))
        count = int.from_bytes(font[4:6], "big")
        entries = b"".join(
            struct.pack(">4sLLL", tag, checksum, offset + places[-1], length)
            for tag, checksum, offset, length in struct.iter_unpack(">4sLLL", font[12 : 12 + 16 * count])
        )
        body += font[:12] + entries + font[12 + 16 * count :]
    return b"ttcf" + struct.pack(">LL", 0x10000, len(fonts)) + struct.pack(f">{len(fonts)}L", *places) + body


def with_wrong_checksums(font: bytes, *tags: bytes) -> bytes:
    """Return a font in which the checksums of these tables are those of other data."""
    for tag in tags:
        at = font.index(tag) + 4
        font = font[:at] + b"\1\2\3\4" + font[at + 4 :]
    return font


GRAPHITE = make_font(tables={tag: bytes(range(64)) for tag in (b"Feat", b"Glat", b"Gloc", b"Silf", b"name")})
# The compiler of Graphite adds its tables to a finished font, and to its names.
COMPILED = with_wrong_checksums(GRAPHITE, b"Feat", b"Glat", b"Gloc", b"Silf", b"name")


def damages(font: bytes) -> Iterable[Row]:
    yield "good", font, "ok"
    yield from cuts(font)
    at = len(font) // 2
    yield "changed byte", font[:at] + bytes([font[at] ^ 1]) + font[at + 1 :], "corrupt"


@verdicts(TTF)
def test_every_truetype_font_gets_its_verdict() -> Iterable[Row]:
    yield from damages(TRUETYPE)
    yield "no outlines", EMPTY, "ok"
    at = TRUETYPE.index(b"GPOS") + 4
    yield "no checksum of a table", TRUETYPE[:at] + bytes(4) + TRUETYPE[at + 4 :], "ok"
    yield "wrong checksum of a table that is edited alone", with_wrong_checksums(TRUETYPE, b"head"), "ok"
    yield "wrong checksum of another table", with_wrong_checksums(TRUETYPE, b"GPOS"), "corrupt"
    yield "wrong checksums of all tables of Graphite and of the names", COMPILED, "ok"
    yield "and of one more", with_wrong_checksums(COMPILED, b"maxp"), "corrupt"
    yield "wrong checksums of some tables of Graphite", with_wrong_checksums(GRAPHITE, b"Silf", b"Glat"), "corrupt"
    yield "and of the only one", with_wrong_checksums(make_font(tables={b"Silf": bytes(9)}), b"Silf"), "corrupt"
    yield "collection", collection(TRUETYPE, POSTSCRIPT), "ok"
    damaged = replaced(POSTSCRIPT, bytes(range(100, 140)), bytes(40))
    yield "damaged font of a collection", collection(TRUETYPE, damaged), "corrupt"
    yield "empty collection", b"ttcf" + bytes(12), "corrupt"


@verdicts(OTF)
def test_every_opentype_font_gets_its_verdict() -> Iterable[Row]:
    yield from damages(POSTSCRIPT)
    yield "no outlines", EMPTY_POSTSCRIPT, "ok"


@verdicts(WOFF)
def test_every_woff_font_gets_its_verdict() -> Iterable[Row]:
    yield from damages(make_woff(TRUETYPE))
    for font in (EMPTY, EMPTY_POSTSCRIPT):
        yield f"no outlines {font[:4]!r}", make_woff(font), "ok"
    yield "wrong checksum of a table that is edited alone", make_woff(with_wrong_checksums(TRUETYPE, b"head")), "ok"
    yield "wrong checksums of all tables of Graphite and of the names", make_woff(COMPILED), "ok"
    yield "wrong checksum of another table", make_woff(with_wrong_checksums(TRUETYPE, b"GPOS")), "corrupt"
    bomb = make_woff(make_font(tables={b"GPOS": bytes(3_000_000)}))
    assert len(bomb) < 10_000
    yield "table that unpacks to too much", bomb, "archive_bomb", Limits(ratio_floor_bytes=1_000_000)


@verdicts(WOFF2)
def test_every_woff2_font_gets_its_verdict() -> Iterable[Row]:
    whole = make_woff2(TRUETYPE)
    yield "good", whole, "ok"
    yield from cuts(whole)
    for font in (EMPTY, EMPTY_POSTSCRIPT):
        yield f"no outlines {font[:4]!r}", make_woff2(font), "ok"
    yield "transformed glyphs", transformed(), "ok"
    yield "cut glyphs", transformed(cut=9), "corrupt"
    at = whole.index(bytes(range(256)))
    yield "tables that do not unpack", whole[: at - 3] + b"\xff" * 3 + whole[at:], "corrupt"
    yield "no magic of the head", replaced(whole, b"\x5f\x0f\x3c\xf5", bytes(4)), "corrupt"


@each_row("data", [b"true story\n", b"\0\1\0\0Standard Jet DB\0", b"OTTO\0\0"])
def test_data_that_only_begins_like_a_font_is_not_recognised(data: bytes) -> None:
    assert not examine_bytes(TTF, data + bytes(200)).recognised
    assert not examine_bytes(OTF, data + bytes(200)).recognised


def test_head_checksum_ignores_the_file_checksum_field() -> None:
    head = bytes(range(54))
    assert table_checksum(b"head", head) == table_checksum(b"head", head[:8] + b"\xff" * 4 + head[12:])
