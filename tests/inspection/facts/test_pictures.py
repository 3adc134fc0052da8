"""Size, frames and pages of pictures are facts, also where the picture is damaged or too large."""

import io

from PIL import Image

from sluice_inspect import inspect_file
from sluice_inspect.report import Finding, Limits, Outcome
from tests.inspection.facts import facts_of, flags_of
from tests.inspection.formats.image_samples import animated, chess_board, encoded, png_header
from tests.rows import each_row

PLUGINS = {"png": "PNG", "jpg": "JPEG", "gif": "GIF", "webp": "WEBP", "bmp": "BMP", "tiff": "TIFF", "avif": "AVIF",
           "jp2": "JPEG2000"}  # fmt: skip
BOARD = chess_board(64).resize((96, 64))
STILL = {"width": 96, "height": 64, "pixels": 6144, "frames": 1, "animated": False}


@each_row("extension", PLUGINS)
def test_picture_has_size_and_one_frame(extension: str) -> None:
    facts = facts_of(encoded(BOARD, PLUGINS[extension]), f"a.{extension}")
    assert {name: facts[name] for name in STILL} == STILL


@each_row("extension", ["png", "gif", "webp"])
def test_animation_has_its_frames(extension: str) -> None:
    frames = [chess_board(64, square) for square in (8, 16, 32)]
    facts = facts_of(animated(frames, PLUGINS[extension]), f"a.{extension}")
    assert (facts["frames"], facts["animated"]) == (3, True)


def test_pages_of_a_tiff_are_no_animation() -> None:
    facts = facts_of(animated([chess_board(), chess_board(64, 16)], "TIFF"), "a.tiff")
    assert (facts["pages"], facts["frames"], facts["animated"]) == (2, 1, False)


@each_row("extension", ["png", "jpg", "gif", "webp", "bmp"])
def test_damaged_picture_has_the_size_of_its_header(extension: str) -> None:
    data = encoded(BOARD, PLUGINS[extension])
    report = inspect_file(io.BytesIO(data[: len(data) * 2 // 3]), filename=f"a.{extension}")
    assert report.integrity is Outcome.CORRUPT
    assert (report.facts["width"], report.facts["height"], report.facts["pixels"]) == (96, 64, 6144)


def test_picture_that_is_too_large_has_its_size() -> None:
    data = encoded(Image.new("L", (300, 200)), "PNG")
    report = inspect_file(io.BytesIO(data), filename="a.png", limits=Limits(max_pixels=1000))
    assert report.finding is Finding.IMAGE_TOO_LARGE
    assert (report.facts["width"], report.facts["height"], report.facts["pixels"]) == (300, 200, 60_000)


def test_size_of_a_bomb_is_read_without_decoding_it() -> None:
    report = inspect_file(io.BytesIO(png_header(60_000, 60_000)), filename="a.png")
    assert report.facts["pixels"] == 3_600_000_000


def test_pictures_have_no_flags_and_are_searched_in_full() -> None:
    assert flags_of(encoded(BOARD, "PNG"), "a.png") == set()
    assert facts_of(encoded(BOARD, "PNG"), "a.png")["flags_complete"] is True
