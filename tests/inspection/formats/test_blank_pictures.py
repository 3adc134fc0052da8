"""The blank rule for pictures: noise, shading and dust are blank, any mark is not."""

import io
import tracemalloc

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from sluice_inspect.images.blank import picture_is_blank
from tests.inspection.formats.image_samples import chess_board, encoded, grey_picture, noise_field, noise_picture
from tests.rows import each_row

SIZES = [(640, 480), (1240, 1754)]


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


@each_row("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "I", "I;16", "F"])
def test_one_colour_is_blank_in_every_mode_and_a_chess_board_in_none(mode: str) -> None:
    assert picture_is_blank(Image.new(mode, (80, 60)))
    if mode not in {"LA", "I;16"}:
        assert not picture_is_blank(chess_board().convert(mode))


@each_row("size", [(1, 1), (1, 13), (7, 3), (33, 500)])
def test_any_size_can_be_blank(size: tuple[int, int]) -> None:
    assert picture_is_blank(Image.new("RGB", size, "white"))


@each_row("noise", [0.7, 2, 5, 9])
@each_row("level", [4, 128, 235, 253])
def test_noise_alone_is_blank(noise: float, level: int) -> None:
    assert picture_is_blank(noise_picture(640, 480, level, noise))


@each_row("levels", [(200, 60, 40), (10, 120, 250), (250, 250, 5)])
@each_row("size", [(58, 58), (200, 300), (640, 480)])
def test_noise_in_a_strong_colour_is_blank(size: tuple[int, int], levels: tuple[int, int, int]) -> None:
    channels = [noise_picture(*size, level, 5, seed) for seed, level in enumerate(levels)]
    assert picture_is_blank(Image.merge("RGB", channels))


@each_row(("plugin", "quality"), [("JPEG", 95), ("JPEG", 50), ("WEBP", 80)])
def test_compressed_noise_is_blank(plugin: str, quality: int) -> None:
    assert picture_is_blank(recompressed(noise_picture(640, 480, 20, 5), plugin, quality))


def test_shading_dust_and_a_shadow_in_the_margin_of_a_scan_are_blank() -> None:
    shading = np.linspace(0, -25, 827, dtype=np.float32)[None, :]
    assert picture_is_blank(grey_picture(noise_field(827, 1170, 250, 2) + shading))
    dusty, shadowed = noise_field(827, 1170, 248, 1.5), noise_field(827, 1170, 248, 1.5)
    for number in range(12):
        top, left = 60 + number * 83, 50 + number * 57
        dusty[top : top + 2, left : left + 3] -= 120
    assert picture_is_blank(grey_picture(dusty))
    shadowed[:, :14] -= 120
    assert picture_is_blank(grey_picture(shadowed))


@each_row("mode", ["1", "L"])
def test_dust_on_a_scan_of_two_levels_is_blank(mode: str) -> None:
    page = Image.new(mode, (1240, 1754), "white")
    for number in range(9):
        with_box(page, 90 + 100 * number, 100 + 150 * number, (3, 2))
    assert picture_is_blank(page)


def test_faint_shapes_without_edges_are_not_blank() -> None:
    hills = 12 * np.sin(np.arange(800, dtype=np.float32) / 60)[None, :]
    picture = grey_picture(noise_field(800, 600, 200, 1.5) + hills)
    assert not picture_is_blank(picture)
    assert not picture_is_blank(recompressed(picture, "JPEG", 70))
    assert not picture_is_blank(Image.linear_gradient("L"))


def test_fog_is_not_blank_and_its_noise_is() -> None:
    y, x = np.mgrid[0:480, 0:640] / 90
    hills = (np.sin(x + np.sin(y)) * 7).astype(np.float32)
    fog = noise_field(640, 480, 200, 2)
    assert not picture_is_blank(grey_picture(fog + hills))
    assert picture_is_blank(grey_picture(fog))


def test_colours_under_full_transparency_are_blank() -> None:
    assert picture_is_blank(random_pixels(80, 60, 0))


@each_row("alpha", [60, 128, 200])
@each_row("size", [(80, 60), (640, 480)])
def test_texture_under_partial_transparency_is_not_blank(alpha: int, size: tuple[int, int]) -> None:
    assert not picture_is_blank(random_pixels(*size, alpha))


def test_one_colour_with_a_texture_of_transparency_is_not_blank() -> None:
    pixels = np.zeros((480, 640, 4), dtype=np.uint8)
    pixels[..., 3] = np.random.default_rng(1).integers(0, 120, (480, 640))
    assert not picture_is_blank(Image.fromarray(pixels))


@each_row("alpha", [60, 128, 255])
def test_grain_under_partial_transparency_is_blank(alpha: int) -> None:
    grain = noise_picture(640, 480, 128, 4)
    assert picture_is_blank(Image.merge("LA", (grain, Image.new("L", grain.size, alpha))))


@each_row("ink", [0, 255])
def test_word_of_any_colour_on_transparency_is_not_blank(ink: int) -> None:
    page = Image.new("LA", (200, 100), (ink, 0))
    ImageDraw.Draw(page).text((40, 40), "word", fill=(ink, 255))
    assert not picture_is_blank(page)


@each_row("size", [(300, 200), *SIZES])
def test_one_dot_is_not_blank_at_any_size(size: tuple[int, int]) -> None:
    left, top = size[0] // 2, size[1] // 2
    assert not picture_is_blank(with_box(Image.new("L", size, 255), left, top, (4, 4)))
    if size in SIZES:
        assert not picture_is_blank(with_box(Image.new("RGB", size, "white"), left, top, (2, 2), (31, 119, 180)))


@each_row("size", [(827, 1170), (1240, 1754)])
@each_row("contrast", [20, 40, 150])
def test_faint_page_number_is_not_blank(size: tuple[int, int], contrast: float) -> None:
    assert not picture_is_blank(paper_with_text("Page 7", *size, size=size[1] // 60, contrast=contrast))


def test_faint_pencil_line_on_a_noisy_scan_is_not_blank() -> None:
    page = Image.fromarray(noise_field(1240, 1754, 246, 2))
    ImageDraw.Draw(page).line((300, 500, 480, 620), fill=220, width=2)
    assert not picture_is_blank(grey_picture(np.asarray(page)))


@each_row(("period", "depth"), [(2, 4), (4, 4), (7, 5), (12, 6)])
def test_fine_pattern_is_not_blank(period: int, depth: int) -> None:
    y, x = np.mgrid[0:400, 0:400]
    weave = ((x // (period // 2) + y // (period // 2)) % 2) * 2.0 - 1
    assert not picture_is_blank(grey_picture(200 + weave * depth + noise_field(400, 400, 0, 1)))


def test_single_pixel_in_an_icon_and_red_on_green_of_equal_brightness_are_not_blank() -> None:
    assert not picture_is_blank(with_box(Image.new("L", (32, 32), 255), 20, 9, (1, 1)))
    assert not picture_is_blank(with_box(Image.new("RGB", (200, 200), (0, 100, 0)), 80, 80, (41, 41), (196, 0, 0)))


@each_row("top", [300, 4095, 65535])
def test_deep_samples_in_any_range_are_blank_only_without_content(top: int) -> None:
    ink = np.asarray(paper_with_text("Scan", 300, 200, size=40), dtype=np.float32) / 255
    assert not picture_is_blank(Image.fromarray((ink * top).astype(np.uint16)))
    assert not picture_is_blank(Image.fromarray(ink * top / 65535))
    if top < 65535:
        noise: NDArray[np.float32] = np.clip(noise_field(300, 200, 0.2, 0.01) * top, 0, 65535)
        assert picture_is_blank(Image.fromarray(noise.astype(np.uint16)))
        assert picture_is_blank(Image.fromarray(noise / 65535))


def test_float_picture_with_infinity_and_nan_is_not_blank() -> None:
    levels = np.full((60, 80), 0.5, dtype=np.float32)
    levels[3, 3], levels[4, 4] = np.inf, np.nan
    assert not picture_is_blank(Image.fromarray(levels))


def test_memory_stays_bounded_on_a_large_page() -> None:
    page = Image.new("L", (6000, 8000), 255)
    tracemalloc.start()
    assert picture_is_blank(page)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100 * 1024**2
