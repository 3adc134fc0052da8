"""HEIC: integrity, limits and blankness."""

import io
from functools import partial

import pillow_heif
import pytest
from PIL import Image, ImageDraw

from sluice_inspect.formats.heif import hevc
from sluice_inspect.formats.heif.heic import FORMAT
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.formats.examining import Examined, examine_bytes, source_of
from tests.inspection.formats.heif_samples import box, heic, item_file
from tests.inspection.formats.image_samples import chess_board, plain_picture
from tests.rows import each_row

examine = partial(examine_bytes, FORMAT)
GOOD = heic(chess_board(128, 16).convert("RGB"))
HALF = (len(GOOD) + GOOD.index(b"mdat")) // 2


def gradient(side: int = 256) -> Image.Image:
    return Image.merge("RGB", [Image.linear_gradient("L").resize((side, side)).rotate(turn) for turn in (0, 90, 180)])


def deep() -> bytes:
    file = io.BytesIO()
    pillow_heif.from_bytes("RGB;16", (64, 64), bytes(range(256)) * 96).save(file, quality=60)
    return file.getvalue()


def page_with_a_word() -> Image.Image:
    page = Image.new("RGB", (600, 600), "white")
    ImageDraw.Draw(page).text((500, 500), "word", fill=0)
    return page


@each_row(
    ("case", "data"),
    lambda: [
        ("good", GOOD),
        ("bytes after the last box", GOOD + b"\x00\x00\x0b\x01SEFHxxxxxxxxxxxx"),
        *((f"mode {mode}", heic(chess_board().convert(mode))) for mode in ("L", "RGB", "RGBA")),
        *((f"chroma {chroma}", heic(gradient(), chroma=chroma)) for chroma in ("420", "422", "444")),
        ("ten bits per sample", deep()),
        ("tiles", heic(gradient(300), tile_size=128)),
        ("word in one tile", heic(page_with_a_word(), tile_size=128)),
        ("even pictures of two colours", heic([Image.new("RGB", (64, 64), colour) for colour in ("white", "black")])),
    ],
)
def test_picture_passes_and_is_not_blank(case: str, data: bytes) -> None:
    assert (b"grid" in data) is ("tile" in case)
    assert examine(data) == Examined(recognised=True, outcome=Outcome.OK)


def test_empty_or_fully_transparent_picture_is_blank() -> None:
    clear = gradient().convert("RGBA")
    clear.putalpha(0)
    assert examine(heic(clear)).blank
    assert examine(heic(plain_picture(200, 150).convert("RGB"))).blank
    assert examine(heic(Image.new("RGB", (300, 300), "white"), tile_size=128)).blank


def test_decoder_returns_the_encoded_colours() -> None:
    red = heic(Image.new("RGB", (64, 64), (200, 40, 40)), quality=90)
    with source_of(red) as source:
        start = red.index(b"hvcC")
        config = red[start + 4 : start - 4 + int.from_bytes(red[start - 4 : start], "big")]
        data = source.read_at(red.index(b"mdat") + 4, len(red))
        levels = hevc.decode_picture(hevc.parse_nal_units(config, data), (64, 64)).getpixel((30, 30))
    assert isinstance(levels, tuple)
    assert max(abs(a - b) for a, b in zip(levels, (200, 40, 40), strict=True)) < 12


def test_changed_pixel_bytes_are_corrupt_although_they_decode() -> None:
    picture = heic(gradient(512), quality=90)
    for seed in range(8):
        damaged = bytearray(picture)
        for place in range(picture.index(b"mdat") + 40 + seed * 37, len(picture) - 8, 64):
            damaged[place] ^= 0x55
        assert examine(bytes(damaged)).outcome is Outcome.CORRUPT, seed


@each_row(
    ("case", "data", "detail"),
    [
        *((f"cut at {kept}", GOOD[: int(len(GOOD) * kept)], "") for kept in (0.1, 0.5, 0.95, 0.999)),
        ("zeros", GOOD[:HALF] + bytes(40) + GOOD[HALF + 40 :], "zeros"),
        ("no list of items", GOOD.replace(b"meta", b"mexa"), "no list"),
        ("item past the end", item_file(b"hvc1", b"x" * 100)[:-10].replace(b"mdat", b"zzzz"), "ends at byte"),
        ("list of version 3", item_file(b"hvc1", b"x" * 50, infos=3), ""),
        ("list of version 4", item_file(b"hvc1", b"x" * 50, infos=4), ""),
    ],
)
def test_truncated_or_damaged_picture_is_corrupt(case: str, data: bytes, detail: str) -> None:
    result = examine(data)
    assert result.outcome is Outcome.CORRUPT
    assert detail in result.detail


@each_row(
    ("case", "data", "outcome"),
    [
        *((coding, item_file(coding, b"x" * 50), Outcome.UNSUPPORTED) for coding in (b"unci", b"j2k1", b"vvc1")),
        ("compact header", box(b"ftyp", b"mif3", bytes(4), b"heic") + box(b"mini", bytes(30)), Outcome.UNSUPPORTED),
        *(
            (infos, item_file(b"hvc1", b"x" * 50, protected=True, infos=infos), Outcome.ENCRYPTED)
            for infos in (0, 1, 2)
        ),
    ],
)
def test_other_coding_is_unsupported_and_protected_picture_encrypted(
    case: object, data: bytes, outcome: Outcome
) -> None:
    assert examine(data).outcome is outcome


def test_too_many_pixels_are_refused_before_decoding() -> None:
    assert examine(item_file(b"hvc1", b"x", size=(30_000, 30_000))).finding is Finding.IMAGE_TOO_LARGE
    assert examine(GOOD, Limits(max_pixels=100)).finding is Finding.IMAGE_TOO_LARGE


def test_only_the_container_is_checked_without_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hevc, "_LIBRARY", None)
    result = examine(GOOD)
    assert result.outcome is Outcome.UNSUPPORTED
    assert "not installed" in result.detail
    assert examine(GOOD[:-20]).outcome is Outcome.CORRUPT
