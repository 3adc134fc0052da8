"""HEIC: integrity, limits and blankness."""

import io
from collections.abc import Iterable

import pillow_heif
import pytest
from PIL import Image, ImageDraw

from sluice_inspect.formats.heif import hevc
from sluice_inspect.formats.heif.heic import FORMAT
from sluice_inspect.report import Limits, Outcome
from tests.inspection.formats.examining import Row, cuts, examine_bytes, source_of, verdicts
from tests.inspection.formats.heif_samples import box, heic, item_file
from tests.inspection.formats.image_samples import chess_board, plain_picture

GOOD = heic(chess_board(128, 16).convert("RGB"))


def gradient(side: int = 256) -> Image.Image:
    return Image.merge("RGB", [Image.linear_gradient("L").resize((side, side)).rotate(turn) for turn in (0, 90, 180)])


@verdicts(FORMAT)
def test_every_picture_gets_its_verdict() -> Iterable[Row]:
    yield "good", GOOD, "ok"
    yield "bytes after the last box", GOOD + b"\x00\x00\x0b\x01SEFHxxxxxxxxxxxx", "ok"
    for mode in ("L", "RGB", "RGBA"):
        yield f"mode {mode}", heic(chess_board().convert(mode)), "ok"
    for chroma in ("420", "422", "444"):
        yield f"chroma {chroma}", heic(gradient(), chroma=chroma), "ok"
    pillow_heif.from_bytes("RGB;16", (64, 64), bytes(range(256)) * 96).save(deep := io.BytesIO(), quality=60)
    yield "ten bits per sample", deep.getvalue(), "ok"
    page = Image.new("RGB", (600, 600), "white")
    tiles = [heic(picture, tile_size=128) for picture in (gradient(300), page.resize((300, 300)))]
    ImageDraw.Draw(page).text((500, 500), "word", fill=0)
    tiles.append(heic(page, tile_size=128))
    assert all(b"grid" in data for data in tiles)
    yield "tiles", tiles[0], "ok"
    yield "empty tiles", tiles[1], "blank"
    yield "word in one tile", tiles[2], "ok"
    yield "even pictures of two colours", heic([Image.new("RGB", (64, 64), each) for each in ("white", "black")]), "ok"
    clear = gradient().convert("RGBA")
    clear.putalpha(0)
    yield "fully transparent", heic(clear), "blank"
    yield "empty", heic(plain_picture(200, 150).convert("RGB")), "blank"
    yield from cuts(GOOD, 0.1, 0.5, 0.95, 0.999)
    half = (len(GOOD) + GOOD.index(b"mdat")) // 2
    yield "zeros", GOOD[:half] + bytes(40) + GOOD[half + 40 :], "corrupt", "zeros"
    yield "no list of items", GOOD.replace(b"meta", b"mexa"), "corrupt", "no list"
    past_the_end = item_file(b"hvc1", b"x" * 100)[:-10].replace(b"mdat", b"zzzz")
    yield "item past the end", past_the_end, "corrupt", "ends at byte"
    for version in (3, 4):
        yield f"list of version {version}", item_file(b"hvc1", b"x" * 50, infos=version), "corrupt"
    for version in (0, 1, 2):
        yield f"protected, {version}", item_file(b"hvc1", b"x" * 50, protected=True, infos=version), "encrypted"
    for coding in (b"unci", b"j2k1", b"vvc1"):
        yield f"{coding!r}", item_file(coding, b"x" * 50), "unsupported"
    compact = box(b"ftyp", b"mif3", bytes(4), b"heic") + box(b"mini", bytes(30))
    yield "compact header", compact, "unsupported"
    yield "too many pixels to decode", item_file(b"hvc1", b"x", size=(30_000, 30_000)), "image_too_large"
    yield "too many pixels", GOOD, "image_too_large", Limits(max_pixels=100)
    picture = heic(gradient(512), quality=90)
    for seed in range(8):
        damaged = bytearray(picture)
        for place in range(picture.index(b"mdat") + 40 + seed * 37, len(picture) - 8, 64):
            damaged[place] ^= 0x55
        yield f"changed pixels that decode, {seed}", bytes(damaged), "corrupt"


def test_decoder_returns_the_encoded_colours() -> None:
    red = heic(Image.new("RGB", (64, 64), (200, 40, 40)), quality=90)
    with source_of(red) as source:
        start = red.index(b"hvcC")
        config = red[start + 4 : start - 4 + int.from_bytes(red[start - 4 : start], "big")]
        data = source.read_at(red.index(b"mdat") + 4, len(red))
        levels = hevc.decode_picture(hevc.parse_nal_units(config, data), (64, 64)).getpixel((30, 30))
    assert isinstance(levels, tuple)
    assert max(abs(a - b) for a, b in zip(levels, (200, 40, 40), strict=True)) < 12


def test_only_the_container_is_checked_without_the_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hevc, "_LIBRARY", None)
    result = examine_bytes(FORMAT, GOOD)
    assert (result.outcome, "not installed" in result.detail) == (Outcome.UNSUPPORTED, True)
    assert examine_bytes(FORMAT, GOOD[:-20]).outcome is Outcome.CORRUPT
