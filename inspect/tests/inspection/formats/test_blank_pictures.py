"""The blank rule for pictures: noise, shading and dust are blank, any mark is not."""

import io
import tracemalloc
from collections.abc import Iterable
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from sluice_inspect.images.blank import picture_is_blank
from tests.inspection.formats.image_samples import chess_board, encoded, grey_picture, noise_field, noise_picture
from tests.rows import every_row
from tests.run_length import LONG_RUN

PAGE = (1240, 1754)
PAGES = ((827, 1170), PAGE) if LONG_RUN else ((827, 1170),)


def paper_with_text(
    text: str, width: int, height: int, *, size: int, contrast: float = 150, noise: float = 0.0
) -> Image.Image:
    """Return near-white paper with one text that is `contrast` levels darker."""
    mask = Image.new("L", (width, height), 0)
    ImageDraw.Draw(mask).text((width // 3, height // 3), text, fill=255, font_size=size)
    paper = noise_field(width, height, 240, noise) if noise else np.full((height, width), 240, dtype=np.float32)
    return grey_picture(paper - np.asarray(mask, dtype=np.float32) / 255 * contrast)


def recompressed(image: Image.Image, plugin: str, quality: int) -> Image.Image:
    return Image.open(io.BytesIO(encoded(image.convert("RGB"), plugin, quality=quality)))


def with_box(
    page: Image.Image, left: int, top: int, size: tuple[int, int], colour: int | str | tuple[int, ...] = 0
) -> Image.Image:
    ImageDraw.Draw(page).rectangle((left, top, left + size[0] - 1, top + size[1] - 1), fill=colour)
    return page


def random_pixels(width: int, height: int, alpha: int) -> Image.Image:
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, 4), dtype=np.uint8)
    pixels[..., 3] = alpha
    return Image.fromarray(pixels)


def hills(width: int, height: int, level: float, noise: float) -> Image.Image:
    waves = 12 * np.sin(np.arange(width, dtype=np.float32) / 60)[None, :]
    return grey_picture(noise_field(width, height, level, noise) + waves)


def fog(*, has_hills: bool) -> Image.Image:
    y, x = np.mgrid[0:480, 0:640] / 90
    shapes = (np.sin(x + np.sin(y)) * 7).astype(np.float32)
    return grey_picture(noise_field(640, 480, 200, 2) + shapes * has_hills)


def scan_with(trace: str) -> Image.Image:
    page = noise_field(827, 1170, 250 if trace == "shading" else 248, 2 if trace == "shading" else 1.5)
    if trace == "shading":
        page += np.linspace(0, -25, 827, dtype=np.float32)[None, :]
    elif trace == "dust":
        for number in range(12):
            top, left = 60 + number * 83, 50 + number * 57
            page[top : top + 2, left : left + 3] -= 120
    else:
        page[:, :14] -= 120
    return grey_picture(page)


def deep(levels: NDArray[np.floating[Any]], top: int) -> Iterable[Image.Image]:
    """Yield levels from 0 to 1 as samples of 16 bits up to `top`, and as floats."""
    yield Image.fromarray(np.clip(levels * top, 0, 65535).astype(np.uint16))
    yield Image.fromarray(levels * top / 65535)


def blank_pictures() -> Iterable[tuple[object, Image.Image]]:
    for mode in ("1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "I", "I;16", "F"):
        yield f"one colour in mode {mode}", Image.new(mode, (80, 60))
    for size in ((1, 1), (1, 13), (7, 3), (33, 500)):
        yield f"size {size}", Image.new("RGB", size, "white")
    noises, levels_of_paper = (0.7, 2, 5, 9), (4, 128, 235, 253)
    for noise, level in (product if LONG_RUN else zip)(noises, levels_of_paper):
        yield f"noise {noise} at {level}", noise_picture(480, 400, level, noise)
    for size, levels in product(((58, 58), (200, 300), (480, 400)), ((200, 60, 40), (10, 120, 250), (250, 250, 5))):
        channels = [noise_picture(*size, level, 5, seed) for seed, level in enumerate(levels)]
        yield f"noise in the colour {levels} {size}", Image.merge("RGB", channels)
    for plugin, quality in (("JPEG", 95), ("JPEG", 50), ("WEBP", 80)):
        yield f"noise in {plugin} {quality}", recompressed(noise_picture(480, 400, 20, 5), plugin, quality)
    for trace in ("shading", "dust", "shadow in the margin"):
        yield trace, scan_with(trace)
    for mode in ("1", "L"):
        page = Image.new(mode, PAGE, "white")
        for number in range(9):
            with_box(page, 90 + 90 * number, 100 + 150 * number, (3, 2))
        yield f"dust of two levels in mode {mode}", page
    yield "noise of fog", fog(has_hills=False)
    yield "colours under full transparency", random_pixels(80, 60, 0)
    grain = noise_picture(640, 480, 128, 4)
    for alpha in (60, 128, 255):
        yield f"grain under transparency of {alpha}", Image.merge("LA", (grain, Image.new("L", grain.size, alpha)))
    for top in (300, 4095):
        for picture in deep(noise_field(300, 200, 0.2, 0.01), top):
            yield f"deep noise up to {top} in mode {picture.mode}", picture


def content_pictures() -> Iterable[tuple[object, Image.Image]]:
    for mode in ("1", "L", "P", "RGB", "RGBA", "CMYK", "I", "F"):
        yield f"chess board in mode {mode}", chess_board().convert(mode)
    yield "hills", hills(640, 420, 200, 1.5)
    yield "hills in JPEG", recompressed(hills(800, 600, 200, 1.5), "JPEG", 70)
    yield "gradient", Image.linear_gradient("L")
    yield "fog", fog(has_hills=True)
    for size, alpha in product(((80, 60), (640, 480)), (60, 128, 200)):
        yield f"texture under transparency of {alpha} {size}", random_pixels(*size, alpha)
    pixels = np.zeros((480, 640, 4), dtype=np.uint8)
    pixels[..., 3] = np.random.default_rng(1).integers(0, 120, (480, 640))
    yield "texture of transparency", Image.fromarray(pixels)
    for ink in (0, 255):
        page = Image.new("LA", (200, 100), (ink, 0))
        ImageDraw.Draw(page).text((40, 40), "word", fill=(ink, 255))
        yield f"word of {ink} on transparency", page
    for size in ((300, 200), (640, 480), PAGE):
        middle = (size[0] // 2, size[1] // 2)
        yield f"dot {size}", with_box(Image.new("L", size, 255), *middle, (4, 4))
        if size != (300, 200):
            yield f"coloured dot {size}", with_box(Image.new("RGB", size, "white"), *middle, (2, 2), (31, 119, 180))
    for size, contrast in product(PAGES, (20, 40, 150)):
        page_number = paper_with_text("Page 7", *size, size=size[1] // 60, contrast=contrast)
        yield f"page number of {contrast} {size}", page_number
    pencil = Image.fromarray(noise_field(*PAGE, 246, 2))
    ImageDraw.Draw(pencil).line((300, 500, 480, 620), fill=220, width=2)
    yield "faint pencil line on a noisy scan", grey_picture(np.asarray(pencil))
    y, x = np.mgrid[0:400, 0:400]
    for period, depth in ((2, 4), (4, 4), (7, 5), (12, 6)):
        weave = ((x // (period // 2) + y // (period // 2)) % 2) * 2.0 - 1
        yield f"fine pattern {period}", grey_picture(200 + weave * depth + noise_field(400, 400, 0, 1))
    yield "pixel in an icon", with_box(Image.new("L", (32, 32), 255), 20, 9, (1, 1))
    green = Image.new("RGB", (200, 200), (0, 100, 0))
    yield "red on green of equal brightness", with_box(green, 80, 80, (41, 41), (196, 0, 0))
    ink_levels = np.asarray(paper_with_text("Scan", 300, 200, size=40), dtype=np.float32) / 255
    for top in (300, 4095, 65535):
        for picture in deep(ink_levels, top):
            yield f"deep text up to {top} in mode {picture.mode}", picture
    unbounded = np.full((60, 80), 0.5, dtype=np.float32)
    unbounded[3, 3], unbounded[4, 4] = np.inf, np.nan
    yield "infinity and no number", Image.fromarray(unbounded)


def test_noise_shading_and_dust_are_blank_and_any_mark_is_not() -> None:
    with every_row() as row:
        for case, picture in blank_pictures():
            with row(case):
                assert picture_is_blank(picture)
        for case, picture in content_pictures():
            with row(case):
                assert not picture_is_blank(picture)


def test_memory_stays_bounded_on_a_large_page() -> None:
    page = Image.new("L", (6000, 8000), 255)
    tracemalloc.start()
    assert picture_is_blank(page)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * 1024**2
