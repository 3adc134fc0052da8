"""Previews of pictures: the right pixels for every mode, orientation and size."""

from typing import Any

import numpy as np
import pytest
from PIL import Image

from sluice_inspect.previews.preview import draw_preview
from sluice_inspect.report import Unsupported
from sluice_inspect.source import MemoryBacked
from tests.inspection.formats import heif_samples
from tests.inspection.formats.image_samples import animated, encoded, png_chunk, with_chunk
from tests.inspection.formats.tiff_samples import grey_page, tiff_of_pages
from tests.rows import each_row

_HALF_CLEAR = Image.new("RGBA", (40, 20), (255, 0, 0, 128))
_CLEAR_PALETTE = Image.new("P", (40, 20), 1)
_CLEAR_PALETTE.putpalette([0, 0, 0, 0, 0, 255])


def _drawn(content: bytes, name: str, side: int = 200) -> Image.Image:
    with MemoryBacked(content) as source:
        drawing = draw_preview(source, name, side)
    assert (drawing.kind, drawing.picture.mode) == ("picture", "RGB")
    return drawing.picture


def _deep(level: int) -> Image.Image:
    return Image.fromarray(np.full((20, 40), level, dtype=np.uint16))


@each_row(
    ("name", "content", "colour"),
    [
        ("opacity.png", encoded(_HALF_CLEAR, "PNG"), (255, 127, 127)),
        ("opacity.webp", encoded(_HALF_CLEAR, "WEBP", lossless=True), (255, 127, 127)),
        ("clear palette.png", encoded(_CLEAR_PALETTE, "PNG", transparency=1), (255, 255, 255)),
        ("palette.gif", encoded(_CLEAR_PALETTE, "GIF"), (0, 0, 255)),
        ("one bit.tiff", encoded(Image.new("1", (40, 20), 1), "TIFF", compression="group4"), (255, 255, 255)),
        ("16 bits.png", encoded(_deep(0x8000), "PNG"), (127, 127, 127)),
        ("dark 16 bits.tiff", encoded(_deep(200), "TIFF"), (0, 0, 0)),
        ("float.tiff", encoded(Image.new("F", (40, 20), 0.5), "TIFF"), (127, 127, 127)),
        ("cmyk.jpg", encoded(Image.new("CMYK", (40, 20), (0, 255, 255, 0)), "JPEG"), (254, 0, 0)),
        ("cmyk.tiff", encoded(Image.new("CMYK", (40, 20), (0, 255, 255, 0)), "TIFF"), (255, 0, 0)),
        ("lab.tiff", encoded(Image.new("LAB", (40, 20), (128, 0, 0)), "TIFF"), (128, 128, 128)),
        (
            "damaged text.png",
            with_chunk(encoded(Image.new("RGB", (40, 20), "red"), "PNG"), png_chunk(b"tEXt", b"a\0x", good=False)),
            (255, 0, 0),
        ),
        (
            "empty segment.jpg",
            b"\xff\xd8\xff\xe0\0\x02" + encoded(Image.new("L", (40, 20), 90), "JPEG")[2:],
            (90, 90, 90),
        ),
        (
            "animated.gif",
            animated([Image.new("RGB", (40, 20), "red"), Image.new("RGB", (40, 20), "blue")], "GIF"),
            (255, 0, 0),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_colours_are_those_that_the_picture_shows_over_white(
    name: str, content: bytes, colour: tuple[int, int, int]
) -> None:
    picture = _drawn(content, name)
    assert picture.size == (40, 20)
    found = picture.getpixel((20, 10))
    assert isinstance(found, tuple)
    assert max(abs(a - b) for a, b in zip(found, colour, strict=True)) <= 3, found


@each_row("plugin", ["JPEG", "PNG", "WEBP", "TIFF", "AVIF", "HEIF"])
@each_row("orientation", [1, 3, 6, 8, 5])
def test_picture_is_upright(plugin: str, orientation: int) -> None:
    upright = Image.new("RGB", (96, 48), "white")
    upright.paste("red", (0, 0, 48, 24))
    stored = {
        1: upright,
        3: upright.transpose(Image.Transpose.ROTATE_180),
        6: upright.transpose(Image.Transpose.ROTATE_90),
        8: upright.transpose(Image.Transpose.ROTATE_270),
        5: upright.transpose(Image.Transpose.TRANSPOSE),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = heif_samples.heic(stored, exif=exif.tobytes()) if plugin == "HEIF" else encoded(stored, plugin, exif=exif)
    picture = _drawn(content, f"a.{plugin.lower()}")
    assert picture.size == (96, 48)
    corners = [picture.getpixel(place) for place in ((12, 12), (80, 12), (12, 40), (80, 40))]
    assert [isinstance(corner, tuple) and corner[1] < 100 for corner in corners] == [True, False, False, False]


@each_row(
    ("size", "side", "expected"),
    [((1001, 750), 200, (200, 150)), ((9000, 1), 200, (200, 1)), ((7, 5), 200, (7, 5))],
    ids=str,
)
@each_row(("plugin", "mode"), [("JPEG", "RGB"), ("PNG", "P"), ("JPEG2000", "RGB")])
def test_picture_is_made_smaller_and_never_larger(
    plugin: str, mode: str, size: tuple[int, int], side: int, expected: tuple[int, int]
) -> None:
    picture = Image.linear_gradient("L").resize(size).convert("RGB").convert(mode)
    options: dict[str, Any] = {"irreversible": True, "quality_layers": [10]} if plugin == "JPEG2000" else {}
    small = _drawn(encoded(picture, plugin, **options), "a.bin", side)
    assert small.size == expected
    rendered = np.asarray(small.convert("L").resize((16, 16), Image.Resampling.BOX), dtype=np.int16)
    original = np.asarray(picture.convert("L").resize((16, 16), Image.Resampling.BOX), dtype=np.int16)
    assert np.abs(rendered - original).mean() < 5


def test_planes_of_16_bits_are_not_drawn() -> None:
    planes = grey_page(16, 8, offsets=(8, 264, 520), lengths=(256, 256, 256))
    planes = {**planes, 258: (3, [16] * 3), 262: (3, [2]), 277: (3, [3]), 284: (3, [2])}
    content = tiff_of_pages(planes, data=b"\x80\0" * 384)
    with MemoryBacked(content) as source, pytest.raises(Unsupported):  # Pillow's picture would be noise
        draw_preview(source, "planes.tiff", 200)
