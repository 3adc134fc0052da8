"""How legible pictures are: sharpness and exposure, skew and height of text, on small drawn pages."""

import io
from typing import Any

from PIL import Image, ImageFilter

from sluice_inspect import inspect_file
from sluice_inspect.images.legibility import measure_legibility
from sluice_inspect.report import Limits
from tests.inspection.facts.test_pictures import PLUGINS
from tests.inspection.formats.image_samples import chess_board, encoded, noise_field, plain_picture, text_page
from tests.rows import each_row

NAMES = {"sharpness", "exposure", "skew", "text_height"}


def measured(picture: Image.Image) -> dict[str, Any]:
    return dict(measure_legibility(picture))


def blurred(picture: Image.Image, deviation: float) -> Image.Image:
    return picture.filter(ImageFilter.GaussianBlur(deviation))


def test_page_is_the_less_sharp_the_more_it_is_blurred() -> None:
    found = [measured(blurred(text_page(), deviation))["sharpness"] for deviation in (0, 1, 2, 3, 6)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 85
    assert found[3] < 30


def test_page_that_was_moved_in_one_direction_is_not_sharp() -> None:
    page = text_page()
    moved = [page.filter(ImageFilter.Kernel((5, 5), kernel, 5)) for kernel in (_line(across=True), _line(across=False))]
    twice = [picture.filter(ImageFilter.Kernel((5, 5), _line(across=n == 0), 5)) for n, picture in enumerate(moved)]
    assert all(measured(picture)["sharpness"] < measured(page)["sharpness"] - 25 for picture in twice)


def _line(*, across: bool) -> list[int]:
    return [int((n // 5 if across else n % 5) == 2) for n in range(25)]


def test_sharpness_depends_on_neither_light_nor_size() -> None:
    for deviation in (0, 2):
        page = blurred(text_page(1200, 1500, size=33), deviation)
        dim = page.point([level // 3 for level in range(256)])
        large = blurred(text_page(2400, 3000, size=66), 2 * deviation)
        found = [measured(picture)["sharpness"] for picture in (page, dim, large)]
        assert max(found) - min(found) <= 20, found


@each_row("degrees", [0, 7, -12, 30, 95])
def test_skew_is_the_angle_to_the_nearest_side(degrees: int) -> None:
    turned = text_page(1000, 1000).rotate(degrees, Image.Resampling.BICUBIC, fillcolor=235)
    assert abs(measured(turned)["skew"] - abs((degrees + 45) % 90 - 45) * 10) <= 10


@each_row("size", [14, 22, 36])
def test_text_height_is_that_of_small_letters(size: int) -> None:
    found = measured(text_page(1400, 1400, size=size))["text_height"]
    assert 0.35 * size <= found <= 0.75 * size


def test_soft_edges_of_letters_that_look_smaller_than_they_are_are_sharp() -> None:
    receipt = blurred(
        text_page(size=14), 0.8
    )  # as thermal printers make them; columns of digits look like small letters
    assert measured(receipt)["sharpness"] > 70


def test_white_text_on_black_is_measured_likewise() -> None:
    found = measured(text_page(ink=240, paper=10))
    assert found["sharpness"] > 80
    assert found["skew"] <= 10


def test_exposure_is_the_brightness_of_the_paper() -> None:
    assert measured(text_page(paper=204))["exposure"] == 80
    assert measured(text_page(paper=51, ink=5))["exposure"] == 20


def test_picture_without_lines_of_text_has_neither_skew_nor_text_height() -> None:
    noise = Image.fromarray(noise_field(600, 600, 128, 40).clip(0, 255).astype("uint8"))
    for picture in (blurred(noise, 3), chess_board(600, 75), plain_picture(600, 600)):
        assert measured(picture).keys() == {"sharpness", "exposure"}
    assert measured(plain_picture(600, 600))["sharpness"] == 0


@each_row("extension", PLUGINS)
def test_facts_are_measured_only_if_they_are_asked_for(extension: str) -> None:
    data = encoded(text_page(400, 400), PLUGINS[extension])
    asked, others = (
        inspect_file(io.BytesIO(data), filename=f"a.{extension}", limits=Limits(legibility=legibility)).facts
        for legibility in (True, False)
    )
    assert asked.keys() - others.keys() == NAMES


@each_row("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "F"])
def test_picture_of_any_mode_and_shape_is_measured_or_not(mode: str) -> None:
    for size in ((1, 1), (48, 48), (47, 3000), (9000, 48), (50, 700), (2100, 300)):
        picture = text_page(*size).convert("L" if mode in {"I;16", "F"} else mode)
        facts = measured(picture.convert(mode) if mode == "F" else picture)
        assert bool(facts) == (min(size) >= 48 and mode != "F")
