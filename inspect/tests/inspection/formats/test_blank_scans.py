"""The blank rule for scans: what scanners, phones and hands leave on an empty page is blank, and any mark on it is not."""

import io
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from sluice_inspect import inspect
from sluice_inspect.images.blank import picture_is_blank
from tests.inspection.formats import scan_judging
from tests.inspection.formats.image_samples import animated, grey_picture, noise_field
from tests.inspection.formats.scan_samples import BLANK_KINDS, CONTENT_KINDS, draw_scan
from tests.rows import each_row
from tests.run_length import LONG_RUN

_Levels = NDArray[np.float32]


def empty_page() -> _Levels:
    """Return a sheet of A4 at 60 dots to the inch."""
    return noise_field(496, 702, 235, 1.2)


def with_edge_shadow(page: _Levels) -> _Levels:
    across = np.arange(page.shape[1], dtype=np.float32)
    shaded: _Levels = page * (1 - 0.7 / (1 + np.exp(np.clip((across - 24) / 3, -30, 30)))).astype(np.float32)
    return shaded


def with_lamp(page: _Levels) -> _Levels:
    return page - np.linspace(0, 80, page.shape[0], dtype=np.float32)[:, None]


def with_fold(page: _Levels) -> _Levels:
    distance = np.arange(page.shape[0], dtype=np.float32) - page.shape[0] / 2
    folded: _Levels = page * (1 - 0.12 * np.exp(-((distance / 1.8) ** 2))).astype(np.float32)[:, None]
    return folded


def with_holes(page: _Levels, *places: tuple[int, int]) -> _Levels:
    y, x = np.mgrid[0 : page.shape[0], 0 : page.shape[1]]
    for left, top in places:
        page = np.where(np.hypot(x - left, y - top) < 7.2, 60, page).astype(np.float32)
    return page


def with_word(page: _Levels, left: int, top: int) -> _Levels:
    mask = Image.new("L", (page.shape[1], page.shape[0]), 0)
    ImageDraw.Draw(mask).text((left, top), "see 7", fill=255, font_size=11)
    return page - np.asarray(mask, dtype=np.float32) * np.float32(90 / 255)


# Seeds of small pages.
BLANK_SEEDS = {
    "edge_shadow": 32, "lid_border": 3, "uneven_lamp": 0, "punch_holes": 3, "folds": 2, "staples": 1, "bleed_through": 4,
    "heavy_jpeg": 2, "streaks": 6, "crumpled": 33, "hand_shadow": 2, "phone_shadow": 1, "vignette": 0, "dust": 54, "spiral_pad": 3,
    "crossfolds": 2, "turned_corner": 2, "bleed_box": 1, "mixed": 8, "lens_cap": 12, "palette": 2, "pages": 1, "phone_photo": 37,
}  # fmt: skip
CONTENT_SEEDS = {
    "pencil": 0, "signature": 1, "stamp": 2, "page_number": 8, "word": 2, "tick": 4, "faint_text": 2, "rule": 2, "bullet": 7,
    "corner_word": 3, "ruled": 0, "squared": 3, "dotted": 0, "headed": 2, "dark_mode": 4, "sky": 1, "wall": 4, "fog": 6,
    "snow": 1, "night": 3, "horizon": 4, "stars": 0, "underexposed": 0, "receipt": 1, "tiny_letters": 0,
}  # fmt: skip


_drawn = lru_cache(1)(draw_scan)


# The other kinds are among the examples that a short run of `test_blank_examples.py` judges, or drawn in a test below.
SHORT_BLANK = ("edge_shadow", "uneven_lamp", "dust", "palette", "phone_photo")
SHORT_CONTENT = ("page_number", "pencil", "sky", "fog", "night")


def outcome_of(kind: str, seed: int, plugin: str = "JPEG") -> str:
    drawn = _drawn(kind, seed)
    plugin = "PNG" if drawn.image.mode == "P" else "PDF" if drawn.more else plugin
    return inspect(io.BytesIO(drawn.encoded(plugin)), filename=f"scan.{plugin.lower()}").outcome


@each_row("kind", BLANK_KINDS if LONG_RUN else SHORT_BLANK)
def test_empty_page_with_traces_of_scanning_is_blank(kind: str) -> None:
    assert outcome_of(kind, BLANK_SEEDS[kind]) == "blank"
    if kind in {"uneven_lamp", "folds"} or (LONG_RUN and kind in {"edge_shadow", "punch_holes"}):
        assert outcome_of(kind, BLANK_SEEDS[kind], "PDF") == "blank"


@each_row("kind", CONTENT_KINDS if LONG_RUN else SHORT_CONTENT)
def test_mark_on_a_scan_and_photo_are_not_blank(kind: str) -> None:
    assert outcome_of(kind, CONTENT_SEEDS[kind]) == "ok"
    if kind == "pencil" or (LONG_RUN and kind in {"word", "page_number"}):
        assert outcome_of(kind, CONTENT_SEEDS[kind], "PDF") == "ok"


# Traces that are drawn otherwise: a lid in lines, streaks that end, a table of the back; corners are below.
SCORED = [("lid_border", 100), ("streaks", 103), ("bleed_box", 111)]


@each_row(("kind", "seed"), SCORED if LONG_RUN else SCORED[:1])
def test_trace_as_it_is_drawn_for_scoring_is_blank(kind: str, seed: int) -> None:
    data = scan_judging.draw(kind, seed).encoded("JPEG")
    assert inspect(io.BytesIO(data), filename="scan.jpg").outcome == "blank"


def test_line_or_word_on_a_crumpled_page_is_not_blank() -> None:
    scan = draw_scan("crumpled", BLANK_SEEDS["crumpled"]).image.convert("L")
    assert picture_is_blank(scan)
    level, lined, written = int(np.median(np.asarray(scan))), scan.copy(), scan.copy()
    ImageDraw.Draw(lined).line((200, 200, 200, 260), fill=level - 45, width=2)
    ImageDraw.Draw(written).text((125, 250), "see 7", fill=level - 45, font_size=14)
    assert not picture_is_blank(lined)
    assert not picture_is_blank(written)


def test_line_from_the_edge_is_a_streak_and_a_line_within_the_page_is_none() -> None:
    for top, blank in ((0, True), (120, False)):
        page = empty_page()
        page[top : top + 180, 240:241] -= 60
        assert picture_is_blank(grey_picture(page)) is blank


def test_line_of_tiny_letters_beside_the_edge_is_no_streak() -> None:
    assert not picture_is_blank(scan_judging.draw("tiny_letters", 13003).image)


def test_word_on_a_corner_that_is_folded_over_is_not_blank() -> None:
    scan = scan_judging.draw("turned_corner", 103).image.convert("L").reduce(2)
    assert picture_is_blank(scan)
    ImageDraw.Draw(scan).text((scan.width - 73, 42), "see 7", fill=60, font_size=10)
    assert not picture_is_blank(scan)


def test_dots_at_regular_distances_are_print_and_the_same_at_random_ones_are_dust() -> None:
    random = np.random.default_rng(1)
    for regular in (True, False):
        page = empty_page()
        for top in range(36, 684, 54):
            for left in range(36, 480, 54):
                y, x = (top, left) if regular else (int(random.integers(18, 684)), int(random.integers(18, 480)))
                page[y : y + 2, x : x + 2] -= 90
        assert picture_is_blank(grey_picture(page)) is not regular


@each_row(("trace", "place"), [(with_edge_shadow, (13, 300)), (with_lamp, (180, 540)), (with_fold, (180, 346))])
def test_trace_is_blank_and_a_word_within_it_is_not(
    trace: Callable[[_Levels], _Levels], place: tuple[int, int]
) -> None:
    assert picture_is_blank(grey_picture(trace(empty_page())))
    assert not picture_is_blank(grey_picture(with_word(trace(empty_page()), *place)))


@each_row("places", [[(28, 256)], [(28, 256), (28, 360)], [(240, 256), (240, 446)], [(28, 256), (54, 446)]])
def test_spots_are_blank_only_where_a_punch_makes_them(places: list[tuple[int, int]]) -> None:
    assert not picture_is_blank(grey_picture(with_holes(empty_page(), *places)))
    if len(places) == 1:
        assert picture_is_blank(grey_picture(with_holes(empty_page(), (28, 256), (28, 446))))


def test_page_number_is_no_staple_between_its_holes() -> None:
    assert not picture_is_blank(scan_judging.draw("page_number", 50004).image.convert("L"))


def test_page_number_at_the_middle_of_the_foot_is_no_pair_of_holes() -> None:
    assert not picture_is_blank(scan_judging.draw("page_number", 13002).image.convert("L"))


def test_line_at_the_middle_that_ends_at_the_margins_and_strokes_across_and_along_a_fold_are_not_blank() -> None:
    page = empty_page()
    page[350:352, 36:-36] -= 25
    assert not picture_is_blank(grey_picture(page))
    folded = Image.fromarray(with_fold(empty_page()))
    ImageDraw.Draw(folded).line((240, 336, 258, 366), fill=190, width=2)
    assert not picture_is_blank(grey_picture(np.asarray(folded)))
    along = with_fold(empty_page())
    along[351:353, 120:280] -= 110
    assert not picture_is_blank(grey_picture(along))


def test_line_on_a_drawn_picture_is_no_streak() -> None:
    page = np.full((600, 800), 255, dtype=np.uint8)
    page[200] = 90
    assert not picture_is_blank(Image.fromarray(page))


def test_word_among_the_holes_of_a_spiral_is_not_blank() -> None:
    scan = draw_scan("spiral_pad", BLANK_SEEDS["spiral_pad"]).image.convert("L")
    ImageDraw.Draw(scan).text((scan.width // 2, scan.height // 2), "see 7", fill=90, font_size=18)
    assert not picture_is_blank(scan)


def test_smooth_gradient_of_colours_is_not_blank() -> None:
    down = np.linspace(0, 1, 600, dtype=np.float32)[:, None, None]
    sky = np.array([80, 130, 215], dtype=np.float32) * (1 - down) + np.array([200, 220, 240], dtype=np.float32) * down
    pixels = np.clip(np.broadcast_to(sky, (600, 800, 3)), 0, 255).astype(np.uint8)
    assert not picture_is_blank(Image.fromarray(pixels))


def test_frames_beyond_those_that_are_modelled_as_scans_are_not_blank() -> None:
    # A page of one colour is among them, and takes no time.
    lit = [grey_picture(with_lamp(noise_field(420, 420, 235, 1.2, seed))) for seed in range(2)]
    pages = [Image.new("L", (420, 420), 195)] * 7 + lit
    few, many = (inspect(io.BytesIO(animated(pages[:count], "TIFF")), filename="scans.tif") for count in (8, 9))
    assert (few.outcome, many.outcome) == ("blank", "ok")


def with_dots(page: _Levels, *places: tuple[int, int]) -> _Levels:
    for left, top in places:
        page[top : top + 5, left : left + 5] -= 130
    return page


@each_row(
    ("dots", "blank"),
    [
        ([(20, 20), (44, 28), (30, 50), (54, 44)], True),  # two staples were pulled out
        ([(20, 20), (44, 28), (30, 50)], False),  # of one of three a second is missing
        ([(20, 20), (26, 20), (32, 20), (38, 20), (44, 20), (50, 20)], False),  # letters
        ([(220, 320), (244, 328), (230, 350), (254, 344)], False),  # in the middle of the page
    ],
    ids=["two staples", "three dots", "a row", "in the middle"],
)
def test_dots_are_the_holes_of_staples_only_in_a_corner_and_in_pairs(
    dots: list[tuple[int, int]], *, blank: bool
) -> None:
    assert picture_is_blank(grey_picture(with_dots(empty_page(), *dots))) is blank


def test_word_as_long_as_a_staple_is_none() -> None:
    data = draw_scan("corner_word", 40005, wide=True).encoded("PDF")
    assert inspect(io.BytesIO(data), filename="scan.pdf").outcome == "ok"


def test_edge_of_a_sheet_before_a_lid_is_blank_and_a_word_beside_it_is_not() -> None:
    y, x = np.mgrid[0:702, 0:496]
    page = (empty_page() - 110 * (np.abs(y - 24 - x / 35) < 0.6)).astype(np.float32)
    assert picture_is_blank(grey_picture(page))
    assert not picture_is_blank(grey_picture(with_word(page, 240, 50)))


def test_holes_of_a_page_that_was_punched_twice_are_blank() -> None:
    places = [(28, 200), (32, 217), (28, 485), (32, 502)]
    assert picture_is_blank(grey_picture(with_holes(empty_page(), *places)))
    assert not picture_is_blank(grey_picture(with_word(with_holes(empty_page(), *places), 24, 340)))


def test_spot_is_light_if_it_has_no_edge_and_a_mark_if_it_has_one() -> None:
    y, x = np.mgrid[0:702, 0:496]
    away = np.hypot(x - 250, y - 300)
    soft, sharp = 40 * np.exp(-((away / 9) ** 2)), 40.0 * (away < 9)
    for spot, blank in ((soft, True), (sharp, False)):
        assert picture_is_blank(grey_picture((empty_page() - spot).astype(np.float32))) is blank
