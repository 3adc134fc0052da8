"""HEIC: integrity, limits and blankness."""

import io

import pillow_heif
import pytest
from PIL import Image, ImageDraw

from sluice_inspect.formats.heif import hevc
from sluice_inspect.formats.heif.heic import FORMAT
from sluice_inspect.formats.heif.sample import sample_heic
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import examine_bytes, source_of
from tests.inspection.formats.heif_samples import box, heic, item_file
from tests.inspection.formats.image_samples import chess_board, plain_picture
from tests.rows import each_row

GOOD = heic(chess_board(128, 16).convert("RGB"))


def gradient(side: int = 256) -> Image.Image:
    return Image.merge("RGB", [Image.linear_gradient("L").resize((side, side)).rotate(turn) for turn in (0, 90, 180)])


def test_good_picture_passes() -> None:
    result = examine_bytes(FORMAT, GOOD)
    assert result.passes
    assert result.blank is None


def test_sample_passes_and_is_not_blank() -> None:
    result = examine_bytes(FORMAT, sample_heic())
    assert result.outcome is Outcome.OK
    assert result.blank is None


@each_row("mode", ["L", "RGB", "RGBA"])
def test_every_mode_passes(mode: str) -> None:
    assert examine_bytes(FORMAT, heic(chess_board().convert(mode))).outcome is Outcome.OK


@each_row("chroma", ["420", "422", "444"])
def test_every_chroma_subsampling_passes(chroma: str) -> None:
    assert examine_bytes(FORMAT, heic(gradient(), chroma=chroma)).outcome is Outcome.OK


def test_ten_bits_per_sample_pass() -> None:
    deep = pillow_heif.from_bytes("RGB;16", (64, 64), bytes(range(256)) * 96)
    file = io.BytesIO()
    deep.save(file, quality=60)
    assert examine_bytes(FORMAT, file.getvalue()).outcome is Outcome.OK


def test_decoder_returns_the_encoded_colours() -> None:
    red = heic(Image.new("RGB", (64, 64), (200, 40, 40)), quality=90)
    with source_of(red) as source:
        start = red.index(b"hvcC")
        config = red[start + 4 : start - 4 + int.from_bytes(red[start - 4 : start], "big")]
        data = source.read_at(red.index(b"mdat") + 4, len(red))
        levels = hevc.decode_picture(hevc.parse_nal_units(config, data), (64, 64)).getpixel((30, 30))
    assert isinstance(levels, tuple)
    assert max(abs(a - b) for a, b in zip(levels, (200, 40, 40), strict=True)) < 12


def test_tiled_picture_is_assembled() -> None:
    tiled = heic(gradient(300), tile_size=128)
    assert b"grid" in tiled
    assert examine_bytes(FORMAT, tiled).outcome is Outcome.OK
    assert examine_bytes(FORMAT, tiled).blank is None


def test_empty_picture_is_blank() -> None:
    assert examine_bytes(FORMAT, heic(plain_picture(200, 150).convert("RGB"))).blank
    assert examine_bytes(FORMAT, heic(Image.new("RGB", (300, 300), "white"), tile_size=128)).blank


def test_word_in_one_tile_is_not_blank() -> None:
    page = Image.new("RGB", (600, 600), "white")
    ImageDraw.Draw(page).text((500, 500), "word", fill=0)
    assert examine_bytes(FORMAT, heic(page, tile_size=128)).blank is None


def test_fully_transparent_picture_is_blank() -> None:
    clear = gradient().convert("RGBA")
    clear.putalpha(0)
    assert examine_bytes(FORMAT, heic(clear)).blank


def test_empty_pictures_of_different_colours_are_not_blank() -> None:
    assert (
        examine_bytes(FORMAT, heic([Image.new("RGB", (64, 64), colour) for colour in ("white", "black")])).blank is None
    )


@each_row("kept", [0.1, 0.5, 0.95, 0.999])
def test_truncated_picture_is_corrupt(kept: float) -> None:
    assert examine_bytes(FORMAT, GOOD[: int(len(GOOD) * kept)]).outcome is Outcome.CORRUPT


@each_row("seed", range(8))
def test_changed_pixel_bytes_are_corrupt_although_they_decode(seed: int) -> None:
    picture = heic(gradient(512), quality=90)
    start = picture.index(b"mdat") + 40 + seed * 37
    damaged = bytearray(picture)
    for place in range(start, len(picture) - 8, 64):
        damaged[place] ^= 0x55
    assert examine_bytes(FORMAT, bytes(damaged)).outcome is Outcome.CORRUPT


def test_zeroed_pixels_are_corrupt() -> None:
    half = (len(GOOD) + GOOD.index(b"mdat")) // 2
    result = examine_bytes(FORMAT, GOOD[:half] + bytes(40) + GOOD[half + 40 :])
    assert "zeros" in result.detail


def test_missing_item_list_is_corrupt() -> None:
    assert "no list" in examine_bytes(FORMAT, GOOD.replace(b"meta", b"mexa")).detail


def test_item_past_the_end_of_the_file_is_corrupt() -> None:
    data = item_file(b"hvc1", b"x" * 100)
    assert "ends at byte" in examine_bytes(FORMAT, data[:-10].replace(b"mdat", b"zzzz")).detail


def test_too_many_pixels_are_refused_before_decoding() -> None:
    assert examine_bytes(FORMAT, item_file(b"hvc1", b"x", size=(30_000, 30_000))).finding is Finding.IMAGE_TOO_LARGE


def test_picture_over_the_pixel_limit_is_refused() -> None:
    assert examine_bytes(FORMAT, GOOD, Limits(max_pixels=100)).finding is Finding.IMAGE_TOO_LARGE


@each_row("coding", [b"unci", b"j2k1", b"vvc1"])
def test_other_codings_are_unsupported(coding: bytes) -> None:
    assert examine_bytes(FORMAT, item_file(coding, b"x" * 50)).outcome is Outcome.UNSUPPORTED


def test_protected_picture_is_encrypted() -> None:
    assert examine_bytes(FORMAT, item_file(b"hvc1", b"x" * 50, protected=True)).outcome is Outcome.ENCRYPTED


@each_row("version", [1, 2])
def test_later_versions_of_the_item_list_are_read(version: int) -> None:
    assert (
        examine_bytes(FORMAT, item_file(b"hvc1", b"x" * 50, protected=True, infos=version)).outcome is Outcome.ENCRYPTED
    )
    assert examine_bytes(FORMAT, item_file(b"hvc1", b"x" * 50, infos=version + 2)).outcome is Outcome.CORRUPT


def test_compact_header_is_unsupported() -> None:
    assert (
        examine_bytes(FORMAT, box(b"ftyp", b"mif3", bytes(4), b"heic") + box(b"mini", bytes(30))).outcome
        is Outcome.UNSUPPORTED
    )


def test_bytes_after_the_last_box_pass() -> None:
    assert examine_bytes(FORMAT, GOOD + b"\x00\x00\x0b\x01SEFHxxxxxxxxxxxx").passes


def test_only_the_container_is_checked_without_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hevc, "_LIBRARY", None)
    result = examine_bytes(FORMAT, GOOD)
    assert result.outcome is Outcome.UNSUPPORTED
    assert "not installed" in result.detail
    assert examine_bytes(FORMAT, GOOD[:-20]).outcome is Outcome.CORRUPT
