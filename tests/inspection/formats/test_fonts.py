import struct

import pytest

from sluice.formats.fonts.font_sample import make_font, make_woff, make_woff2
from sluice.formats.fonts.sfnt import table_checksum
from sluice.formats.kind import Kind
from sluice.formats.kinds import otf, ttf, woff, woff2
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.judging import corpus, judge, needs_corpus

LONG = {b"GPOS": bytes(range(256)) * 30}
TRUETYPE = make_font(tables=LONG)
POSTSCRIPT = make_font(postscript=True, tables=LONG)
FONTS = {
    "ttf": (ttf.KIND, TRUETYPE),
    "otf": (otf.KIND, POSTSCRIPT),
    "woff": (woff.KIND, make_woff(TRUETYPE)),
    "woff2": (woff2.KIND, make_woff2(TRUETYPE)),
}


def glyphs_of_the_web(contours: list[int], *, cut: int = 0) -> bytes:
    counts = struct.pack(f">{len(contours)}h", *contours)
    return struct.pack(">HHHH7L", 0, 0, len(contours), 1, len(counts) + cut, 0, 0, 0, 0, 0, 0) + counts


def collection(*fonts: bytes) -> bytes:
    """Answer a collection: fonts one after the other, their offsets moved."""
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


@pytest.mark.parametrize("name", FONTS)
def test_a_font_is_sound_and_not_blank(name: str) -> None:
    kind, data = FONTS[name]
    judged = judge(kind, data)
    assert judged.recognised
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize("name", FONTS)
@pytest.mark.parametrize("part", range(1, 20))
def test_a_cut_font_is_corrupt(name: str, part: int) -> None:
    kind, data = FONTS[name]
    assert judge(kind, data[: len(data) * part // 20]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("name", ["ttf", "otf", "woff"])
def test_a_changed_byte_is_corrupt(name: str) -> None:
    kind, data = FONTS[name]
    at = len(data) // 2
    assert judge(kind, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]).outcome is Outcome.CORRUPT


def test_a_checksum_that_was_never_counted_is_no_damage() -> None:
    at = TRUETYPE.index(b"GPOS") + 4
    assert judge(ttf.KIND, TRUETYPE[:at] + bytes(4) + TRUETYPE[at + 4 :]).outcome is Outcome.OK


@pytest.mark.parametrize(("tag", "outcome"), [(b"head", Outcome.OK), (b"GPOS", Outcome.CORRUPT)])
def test_small_tables_are_edited_without_their_checksum(tag: bytes, outcome: Outcome) -> None:
    at = TRUETYPE.index(tag) + 4
    assert judge(ttf.KIND, TRUETYPE[:at] + b"\1\2\3\4" + TRUETYPE[at + 4 :]).outcome is outcome


def test_the_sum_of_the_whole_file_does_not_count_in_the_head() -> None:
    head = bytes(range(54))
    assert table_checksum(b"head", head) == table_checksum(b"head", head[:8] + b"\xff" * 4 + head[12:])


def test_every_font_of_a_collection_is_judged() -> None:
    assert judge(ttf.KIND, collection(TRUETYPE, POSTSCRIPT)).outcome is Outcome.OK
    damaged = POSTSCRIPT.replace(bytes(range(100, 140)), bytes(40), 1)
    assert judge(ttf.KIND, collection(TRUETYPE, damaged)).outcome is Outcome.CORRUPT
    assert judge(ttf.KIND, b"ttcf" + bytes(12)).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("data", [b"true story\n", b"\0\1\0\0Standard Jet DB\0", b"OTTO\0\0"])
def test_what_only_begins_as_a_font_is_none(data: bytes) -> None:
    assert not judge(ttf.KIND, data + bytes(200)).recognised
    assert not judge(otf.KIND, data + bytes(200)).recognised


@pytest.mark.parametrize("font", [make_font(b""), make_font(bytes([139, 14]), postscript=True)])
def test_a_font_without_an_outline_is_one_on_purpose(font: bytes) -> None:
    kind = otf.KIND if font.startswith(b"OTTO") else ttf.KIND
    assert judge(kind, font).blank is None
    assert judge(woff.KIND, make_woff(font)).blank is None
    assert judge(woff2.KIND, make_woff2(font)).blank is None


def test_glyphs_in_the_form_of_the_web_are_told() -> None:
    shown = make_woff2(TRUETYPE, {b"glyf": glyphs_of_the_web([0, 1]), b"loca": b""})
    assert judge(woff2.KIND, shown).outcome is Outcome.OK
    cut = make_woff2(TRUETYPE, {b"glyf": glyphs_of_the_web([0, 1], cut=9), b"loca": b""})
    assert judge(woff2.KIND, cut).outcome is Outcome.CORRUPT


def test_tables_that_do_not_unpack_are_corrupt() -> None:
    data = make_woff2(TRUETYPE)
    at = data.index(bytes(range(256)))
    assert judge(woff2.KIND, data[: at - 3] + b"\xff" * 3 + data[at:]).outcome is Outcome.CORRUPT
    assert judge(woff2.KIND, data.replace(b"\x5f\x0f\x3c\xf5", bytes(4))).outcome is Outcome.CORRUPT


def test_a_table_that_unpacks_to_too_much_is_a_bomb() -> None:
    data = make_woff(make_font(tables={b"GPOS": bytes(3_000_000)}))
    assert len(data) < 10_000
    assert judge(woff.KIND, data, Limits(ratio_floor_bytes=1_000_000)).finding is Finding.ARCHIVE_BOMB


@needs_corpus
@pytest.mark.parametrize("kind", [ttf.KIND, otf.KIND, woff.KIND, woff2.KIND], ids=lambda kind: kind.name)
def test_the_intact_files_of_the_corpus_pass(kind: Kind) -> None:
    assert [path.name for path in corpus(kind.name, "valid", "not_blank") if not judge(kind, path.read_bytes()).passes] == []
