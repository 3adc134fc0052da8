"""TrueType, OpenType, WOFF and WOFF2: integrity and limits."""

import struct

from sluice_inspect.formats.fonts.sample import make_font, make_woff, make_woff2, table_checksum
from sluice_inspect.formats.fonts.sfnt import OTF, TTF
from sluice_inspect.formats.fonts.webfont import WOFF, WOFF2
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes
from tests.rows import each_row

LONG = {b"GPOS": bytes(range(256)) * 30}
TRUETYPE = make_font(tables=LONG)
POSTSCRIPT = make_font(postscript=True, tables=LONG)
FONTS = {
    "ttf": (TTF, TRUETYPE),
    "otf": (OTF, POSTSCRIPT),
    "woff": (WOFF, make_woff(TRUETYPE)),
    "woff2": (WOFF2, make_woff2(TRUETYPE)),
}


def transformed_glyphs(contours: list[int], *, cut: int = 0) -> bytes:
    counts = struct.pack(f">{len(contours)}h", *contours)
    return struct.pack(">HHHH7L", 0, 0, len(contours), 1, len(counts) + cut, 0, 0, 0, 0, 0, 0) + counts


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


@each_row("name", FONTS)
def test_font_is_sound_and_corrupt_when_truncated(name: str) -> None:
    format_, data = FONTS[name]
    assert examine_bytes(format_, data) == Examined(recognised=True, outcome=Outcome.OK)
    for part in range(1, 20):
        assert examine_bytes(format_, data[: len(data) * part // 20]).outcome is Outcome.CORRUPT, part


@each_row("name", ["ttf", "otf", "woff"])
def test_changed_byte_is_corrupt(name: str) -> None:
    format_, data = FONTS[name]
    at = len(data) // 2
    assert examine_bytes(format_, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]).outcome is Outcome.CORRUPT


@each_row(
    ("tag", "checksum", "outcome"),
    [(b"GPOS", bytes(4), Outcome.OK), (b"head", b"\1\2\3\4", Outcome.OK), (b"GPOS", b"\1\2\3\4", Outcome.CORRUPT)],
)
def test_wrong_checksum_is_corrupt_only_in_large_tables(tag: bytes, checksum: bytes, outcome: Outcome) -> None:
    at = TRUETYPE.index(tag) + 4
    assert examine_bytes(TTF, TRUETYPE[:at] + checksum + TRUETYPE[at + 4 :]).outcome is outcome


def test_head_checksum_ignores_the_file_checksum_field() -> None:
    head = bytes(range(54))
    assert table_checksum(b"head", head) == table_checksum(b"head", head[:8] + b"\xff" * 4 + head[12:])


def test_every_font_of_a_collection_is_checked() -> None:
    assert examine_bytes(TTF, collection(TRUETYPE, POSTSCRIPT)).outcome is Outcome.OK
    damaged = POSTSCRIPT.replace(bytes(range(100, 140)), bytes(40), 1)
    assert examine_bytes(TTF, collection(TRUETYPE, damaged)).outcome is Outcome.CORRUPT
    assert examine_bytes(TTF, b"ttcf" + bytes(12)).outcome is Outcome.CORRUPT


@each_row("data", [b"true story\n", b"\0\1\0\0Standard Jet DB\0", b"OTTO\0\0"])
def test_data_that_only_begins_like_a_font_is_not_recognised(data: bytes) -> None:
    assert not examine_bytes(TTF, data + bytes(200)).recognised
    assert not examine_bytes(OTF, data + bytes(200)).recognised


@each_row("font", [make_font(b""), make_font(bytes([139, 14]), postscript=True)])
def test_font_without_outlines_is_not_blank(font: bytes) -> None:
    format_ = OTF if font.startswith(b"OTTO") else TTF
    assert examine_bytes(format_, font).blank is None
    assert examine_bytes(WOFF, make_woff(font)).blank is None
    assert examine_bytes(WOFF2, make_woff2(font)).blank is None


def test_transformed_woff2_glyphs_are_checked() -> None:
    shown = make_woff2(TRUETYPE, {b"glyf": transformed_glyphs([0, 1]), b"loca": b""})
    assert examine_bytes(WOFF2, shown).outcome is Outcome.OK
    cut = make_woff2(TRUETYPE, {b"glyf": transformed_glyphs([0, 1], cut=9), b"loca": b""})
    assert examine_bytes(WOFF2, cut).outcome is Outcome.CORRUPT


def test_tables_that_do_not_unpack_are_corrupt() -> None:
    data = make_woff2(TRUETYPE)
    at = data.index(bytes(range(256)))
    assert examine_bytes(WOFF2, data[: at - 3] + b"\xff" * 3 + data[at:]).outcome is Outcome.CORRUPT
    assert examine_bytes(WOFF2, data.replace(b"\x5f\x0f\x3c\xf5", bytes(4))).outcome is Outcome.CORRUPT


def test_table_that_unpacks_to_too_much_is_a_bomb() -> None:
    data = make_woff(make_font(tables={b"GPOS": bytes(3_000_000)}))
    assert len(data) < 10_000
    assert examine_bytes(WOFF, data, Limits(ratio_floor_bytes=1_000_000)).finding is Finding.ARCHIVE_BOMB
