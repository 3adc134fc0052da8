import io

import pillow_heif
import pytest
from PIL import Image, ImageDraw

from sluice.formats.images import hevc
from sluice.formats.images.heif_sample import sample_heic
from sluice.formats.kinds.heic import KIND
from sluice.formats.verdict import Finding, Limits, Outcome
from tests.formats.heifs import box, heic, item_file
from tests.formats.images import board, plain
from tests.formats.judging import corpus, judge, needs_corpus, source_of

GOOD = heic(board(128, 16).convert("RGB"))


def gradient(side: int = 256) -> Image.Image:
    return Image.merge("RGB", [Image.linear_gradient("L").resize((side, side)).rotate(turn) for turn in (0, 90, 180)])


def test_a_good_picture_passes() -> None:
    judged = judge(KIND, GOOD)
    assert judged.passes
    assert judged.blank is None


def test_the_sample_passes_and_has_content() -> None:
    judged = judge(KIND, sample_heic())
    assert judged.outcome is Outcome.OK
    assert judged.blank is None


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
def test_every_mode_passes(mode: str) -> None:
    assert judge(KIND, heic(board().convert(mode))).outcome is Outcome.OK


@pytest.mark.parametrize("chroma", ["420", "422", "444"])
def test_every_share_of_colours_passes(chroma: str) -> None:
    assert judge(KIND, heic(gradient(), chroma=chroma)).outcome is Outcome.OK


def test_ten_bits_a_sample_pass() -> None:
    deep = pillow_heif.from_bytes("RGB;16", (64, 64), bytes(range(256)) * 96)
    file = io.BytesIO()
    deep.save(file, quality=60)
    assert judge(KIND, file.getvalue()).outcome is Outcome.OK


def test_the_decoder_answers_the_colours_that_were_coded() -> None:
    red = heic(Image.new("RGB", (64, 64), (200, 40, 40)), quality=90)
    with source_of(red) as source:
        start = red.index(b"hvcC")
        config = red[start + 4 : start - 4 + int.from_bytes(red[start - 4 : start], "big")]
        data = source.read_at(red.index(b"mdat") + 4, len(red))
        levels = hevc.decode(hevc.nal_units(config, data), (64, 64)).getpixel((30, 30))
    assert isinstance(levels, tuple)
    assert max(abs(a - b) for a, b in zip(levels, (200, 40, 40), strict=True)) < 12


def test_a_picture_of_tiles_is_put_together() -> None:
    tiled = heic(gradient(300), tile_size=128)
    assert b"grid" in tiled
    assert judge(KIND, tiled).outcome is Outcome.OK
    assert judge(KIND, tiled).blank is None


def test_an_empty_picture_is_blank() -> None:
    assert judge(KIND, heic(plain(200, 150).convert("RGB"))).blank
    assert judge(KIND, heic(Image.new("RGB", (300, 300), "white"), tile_size=128)).blank


def test_a_word_in_one_tile_is_content() -> None:
    page = Image.new("RGB", (600, 600), "white")
    ImageDraw.Draw(page).text((500, 500), "word", fill=0)
    assert judge(KIND, heic(page, tile_size=128)).blank is None


def test_a_fully_transparent_picture_is_blank() -> None:
    clear = gradient().convert("RGBA")
    clear.putalpha(0)
    assert judge(KIND, heic(clear)).blank


def test_empty_pictures_of_different_colours_are_not_blank() -> None:
    assert judge(KIND, heic([Image.new("RGB", (64, 64), colour) for colour in ("white", "black")])).blank is None


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.95, 0.999])
def test_a_truncated_picture_is_corrupt(kept: float) -> None:
    assert judge(KIND, GOOD[: int(len(GOOD) * kept)]).outcome is Outcome.CORRUPT


@pytest.mark.parametrize("seed", range(8))
def test_changed_bytes_of_the_pixels_are_found_though_they_decode(seed: int) -> None:
    picture = heic(gradient(512), quality=90)
    start = picture.index(b"mdat") + 40 + seed * 37
    damaged = bytearray(picture)
    for place in range(start, len(picture) - 8, 64):
        damaged[place] ^= 0x55
    assert judge(KIND, bytes(damaged)).outcome is Outcome.CORRUPT


def test_zeroed_pixels_are_corrupt() -> None:
    half = (len(GOOD) + GOOD.index(b"mdat")) // 2
    judged = judge(KIND, GOOD[:half] + bytes(40) + GOOD[half + 40 :])
    assert "zeros" in judged.detail


def test_a_missing_list_of_pictures_is_corrupt() -> None:
    assert "no list" in judge(KIND, GOOD.replace(b"meta", b"mexa")).detail


def test_an_item_that_lies_behind_the_end_is_corrupt() -> None:
    data = item_file(b"hvc1", b"x" * 100)
    assert "ends at byte" in judge(KIND, data[:-10].replace(b"mdat", b"zzzz")).detail


def test_too_many_pixels_are_refused_before_they_are_decoded() -> None:
    assert judge(KIND, item_file(b"hvc1", b"x", size=(30_000, 30_000))).finding is Finding.IMAGE_TOO_LARGE


def test_a_picture_larger_than_it_declares_is_refused_too() -> None:
    assert judge(KIND, GOOD, Limits(max_pixels=100)).finding is Finding.IMAGE_TOO_LARGE


@pytest.mark.parametrize("coding", [b"unci", b"j2k1", b"vvc1"])
def test_other_codings_are_unsupported(coding: bytes) -> None:
    assert judge(KIND, item_file(coding, b"x" * 50)).outcome is Outcome.UNSUPPORTED


def test_a_protected_picture_is_encrypted() -> None:
    assert judge(KIND, item_file(b"hvc1", b"x" * 50, protected=True)).outcome is Outcome.ENCRYPTED


@pytest.mark.parametrize("version", [1, 2])
def test_later_versions_of_the_list_of_items_are_read(version: int) -> None:
    assert judge(KIND, item_file(b"hvc1", b"x" * 50, protected=True, infos=version)).outcome is Outcome.ENCRYPTED
    assert judge(KIND, item_file(b"hvc1", b"x" * 50, infos=version + 2)).outcome is Outcome.CORRUPT


def test_a_compact_header_is_unsupported() -> None:
    assert judge(KIND, box(b"ftyp", b"mif3", bytes(4), b"heic") + box(b"mini", bytes(30))).outcome is Outcome.UNSUPPORTED


def test_bytes_behind_the_last_box_are_forgiven() -> None:
    assert judge(KIND, GOOD + b"\x00\x00\x0b\x01SEFHxxxxxxxxxxxx").passes


def test_without_the_decoder_the_container_alone_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hevc, "_LIBRARY", None)
    judged = judge(KIND, GOOD)
    assert judged.outcome is Outcome.UNSUPPORTED
    assert "not installed" in judged.detail
    assert judge(KIND, GOOD[:-20]).outcome is Outcome.CORRUPT


@needs_corpus
def test_the_intact_files_of_the_corpus_pass() -> None:
    assert [path.name for path in corpus("heic", "valid", "not_blank") if not judge(KIND, path.read_bytes()).passes] == []


@needs_corpus
def test_the_damaged_files_of_the_corpus_do_not_pass() -> None:
    assert [path.name for path in corpus("heic", "corrupt", "bomb") if judge(KIND, path.read_bytes()).passes] == []
