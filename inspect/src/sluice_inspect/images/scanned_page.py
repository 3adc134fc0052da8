"""The blank rule for an empty page as a scanner or phone leaves it: uneven light, dark edges, holes, folds, staples."""
# `blank.py` takes a page for content when something stands out. Here the page is modelled: what is smooth is light,
# what lies in a known place in a known shape is a trace of handling. Both are subtracted, and what is left is judged by
# `blank.py` again, in full resolution. Whatever the model does not explain is content.
#
# Lengths are in millimetres of a page whose longer side is 297; on smaller paper they are up to 1.4 times as long.

from __future__ import annotations

from typing import Final

import numpy as np
from PIL import Image

from sluice_inspect.images.page_bleeding import absorb_bleeding
from sluice_inspect.images.page_creases import Plane, find_creases, has_long_marks, mask_creases, mask_ends
from sluice_inspect.images.page_dust import is_grid
from sluice_inspect.images.page_light import FACET, FACET_FAINT, SCENE, is_crumpled_paper, is_lit_paper
from sluice_inspect.images.page_lines import has_horizon, model_corners, model_edges, model_lines
from sluice_inspect.images.page_marks import mask_handling
from sluice_inspect.images.page_model import PAPER, Page, blurred, follow_soft_light, read_page, shows_other_side
from sluice_inspect.images.page_parts import CELL, Part, parts_of, unexplained
from sluice_inspect.images.page_punches import mask_punched
from sluice_inspect.images.views import Levels, PictureView

_LEAST_LONGER, _LEAST_SHORTER = 400, 280  # smaller pictures are no scans
_MOST_ASPECT: Final = 2.3
_RICH_PIXELS: Final = 0.08  # the same of pixels, once edges, folds and holes are explained
_FILL: Final = 160.0  # level of the page when its light is subtracted
_LEFT_LIGHT: Final = 15.0  # levels of the light that is left when edges and folds are explained
_DIM: Final = 75.0  # level of the background below which a picture shows no page that can be judged as one
_BLACK: Final = 5.0  # the same below which nothing can be darker
_PIXEL: Final = 2.5  # millimetres of a bright pixel and what compression makes of it
_PIXELS: Final = 20
_STARS: Final = 18  # fewer bright spots are pixels of the sensor
_STARS_MOST: Final = 500
_DARK_LEAST: Final = 1.2  # levels by which a stroke is darker than a dark page
_DARKEST: Final = 16.0, 2.0  # level of a page on which a stroke is darker by more, and by how much
_DARK_NOISE: Final = 6.5  # the same in standard deviations of its grain
_DARK_GRAIN: Final = 0.15  # levels of grain that compression has not removed
_DARK_PART: Final = 0.1  # the same as a share of what is around it
_DARK_SHARE: Final = 0.07  # share of five millimetres that strokes take
_STROKE: Final = 40.0  # levels of a stroke that is too small to stand out in full resolution, at least
_SPECK: Final = 1.2  # millimetres, with the cells at its border, up to which a mark is no stroke
_DRAWN: Final = 0.98  # share of pixels that equal their neighbour, which no scanner leaves


def may_be_page(size: tuple[int, int]) -> bool:
    """Return whether a picture has the size and shape of a scanned page."""
    longer, shorter = max(size), min(size)
    return longer >= _LEAST_LONGER and shorter >= _LEAST_SHORTER and longer <= _MOST_ASPECT * shorter


def without_traces(image: Image.Image, *, is_page: bool) -> PictureView | None:
    """Return the view of an empty page without its light and traces of handling; None if more than that is on it.

    `is_page`: the picture is a page as rendered, whose scan may have been smoothed.
    """
    if not is_page and _is_drawn(image):
        return None
    step = _palette_step(image) if image.mode == "P" else 0.0
    shown = image.convert("RGB") if image.mode == "P" else image
    view = PictureView(shown.width, shown.height, lambda start, stop: shown.crop((0, start, shown.width, stop)))
    tables: dict[int, list[int]] = getattr(image, "quantization", None) or {}
    compressed = [table[0] / 8 for _, table in sorted(tables.items()) if table]  # between the means of blocks of a JPEG
    page = read_page(view, compressed or [step])
    if page is None:
        return None
    if float(np.median(page.background)) < _DIM:
        return _corrected(page, view) if _shows_darkness(page) else None
    creases = find_creases(page, page.background) if has_long_marks(page) else None
    model_edges(page, is_crumpled=creases is not None)
    if creases is None:  # whose parts at a corner look like a turned one
        model_corners(page)
    mask_punched(page)
    if not model_lines(page) or has_horizon(page):
        return None
    if creases is not None:
        mask_creases(page, creases)
    background = page.background
    follow_soft_light(page, _LEFT_LIGHT)
    mask_handling(page)
    if creases is not None:
        mask_ends(page, creases)
    if (page.off > 2 * page.threshold).mean() > _RICH_PIXELS:
        return None
    is_text = shows_other_side(page)
    marks = _marks_on_lit_paper(page, creases, background, is_text=is_text)
    if marks is None or not absorb_bleeding(page, marks, is_text=is_text):
        return None
    return _corrected(page, view)


def _marks_on_lit_paper(page: Page, creases: Plane | None, background: Levels, *, is_text: bool) -> list[Part] | None:
    """Return what is unexplained, without the creases if the page turns out to have faint ones; None on no lit paper.

    `background`: the background before soft light was followed, which takes one side of such a crease for its own.
    """
    marks = unexplained(page)
    if creases is not None:
        return marks if is_crumpled_paper(page, FACET) else None
    if is_lit_paper(page, is_text=is_text):
        return marks
    # Faint creases leave few marks, but the parts between them are not evenly lit, either.
    creases = find_creases(page, background) if is_crumpled_paper(page, FACET_FAINT) else None
    if creases is None:
        return None
    mask_creases(page, creases)
    mask_ends(page, creases)
    return unexplained(page)


def _is_drawn(image: Image.Image) -> bool:
    """Return whether a picture has no noise at all, and was not compressed with a loss that removes it."""
    if getattr(image, "quantization", None):
        return False
    left, top = (max(0, side // 2 - 256) for side in image.size)
    middle = np.asarray(image.crop((left, top, min(image.width, left + 512), min(image.height, top + 512))))
    return bool((middle[:, 1:] == middle[:, :-1]).mean() > _DRAWN)


def shows_scene(image: Image.Image) -> bool:
    """Return whether a picture without marks is no page and no lens cap: a horizon, fog, stars, dotted paper."""
    if _is_drawn(image):
        return False
    view = PictureView(image.width, image.height, lambda start, stop: image.crop((0, start, image.width, stop)))
    page = read_page(view, [])
    if page is None:
        return False
    if float(np.median(page.background)) < PAPER:
        return _shows_stars(page) or _shows_dark_writing(page)
    marks = unexplained(page)
    if is_grid(marks):
        return True
    if any(part.contrast >= _STROKE and max(part.width, part.height) > _SPECK for part in marks):
        return without_traces(image, is_page=True) is None  # a stroke of a few pixels, or a speck of dust
    inner = page.background[:: round(4 * page.scale), :: round(4 * page.scale)].mean(axis=2)[3:-3, 3:-3]
    if float(np.ptp(np.percentile(inner, (1, 99)))) < SCENE and not has_horizon(page):
        return False
    model_edges(page)
    return model_lines(page) and (has_horizon(page) or not is_lit_paper(page, is_text=shows_other_side(page)))


def _shows_darkness(page: Page) -> bool:
    """Return whether a dark picture shows nothing but light that leaks in, and some pixels that are always bright."""
    parts = unexplained(page)
    is_small = all(max(part.width, part.height) <= _PIXEL for part in parts)
    return len(parts) <= _PIXELS and is_small and not _shows_stars(page) and not _shows_dark_writing(page)


def _shows_stars(page: Page) -> bool:
    """Return whether there are many bright spots without a colour; those of a sensor have one."""
    bright = page.levels - page.background
    step = max(1, round(CELL * page.scale))
    parts = parts_of(page)
    if not _STARS <= len(parts) <= _STARS_MOST:
        return False
    grey = 0
    for part in parts:
        (top, left), (bottom, right) = part.cells.min(axis=0) * step, (part.cells.max(axis=0) + 1) * step
        sums = bright[top:bottom, left:right].sum(axis=(0, 1))
        grey += bool(sums.min() > 0.75 * sums.max() > 0)
    return grey > 0.9 * len(parts) and float(np.median([part.size for part in parts])) >= 2


def _shows_dark_writing(page: Page) -> bool:
    """Return whether strokes are darker than a page that was photographed with too little light; no grain is."""
    if float(np.median(page.background)) < _BLACK:
        return False
    grey = blurred((page.levels - page.background).mean(axis=2, keepdims=True), 1)[..., 0]
    noise = 1.4826 * float(np.median(np.abs(grey - np.median(grey))))
    darker = _DARKEST[1] if float(np.median(page.background)) < _DARKEST[0] else _DARK_LEAST
    # Where compression has left no grain, its blocks are darker by chance.
    grain = 0.0 if noise > _DARK_GRAIN else 2.2 * page.noise
    least = max(darker, _DARK_NOISE * noise, grain, 1.2 * page.grey_quantum)
    dark = grey < -np.maximum(_DARK_PART * page.background.mean(axis=2), least)
    near = blurred(dark.astype(np.float32)[..., None], round(2.5 * page.scale))[..., 0]
    return bool(near.max(initial=0) > _DARK_SHARE)


def _palette_step(image: Image.Image) -> float:
    """Return the usual distance of neighbours among the colours of a palette that a picture uses."""
    used = np.flatnonzero(np.asarray(image.histogram()[:256]) > 0.002 * image.width * image.height)
    palette = np.asarray(image.getpalette("RGB"), dtype=np.float32).reshape(-1, 3)
    colours = palette[used[used < len(palette)]]
    if len(colours) < 2:
        return 0.0
    distances = np.abs(colours[:, None] - colours[None]).max(axis=2)
    np.fill_diagonal(distances, 255)
    return float(np.median(distances.min(axis=1)))


def _corrected(page: Page, view: PictureView) -> PictureView:
    """Return the view with everything explained subtracted from it."""
    height, width = page.masked.shape
    planes = [Image.fromarray(np.ascontiguousarray(page.background[..., c])) for c in range(page.background.shape[2])]
    covered = Image.fromarray(page.masked.astype(np.uint8) * 255)

    def band(start: int, stop: int) -> Image.Image:
        box = (0, start * height / view.height, width, stop * height / view.height)
        size = (view.width, stop - start)
        light = np.stack(
            [np.asarray(plane.resize(size, Image.Resampling.BILINEAR, box=box)) for plane in planes], axis=2
        )
        rest = view.rows(start, stop) - light
        if page.subdued:
            rest = np.sign(rest) * np.maximum(np.abs(rest) - page.subdued, 0)
        rest[np.asarray(covered.resize(size, Image.Resampling.BILINEAR, box=box)) > 0] = 0
        pixels = np.clip(rest + _FILL, 0, 255).round().astype(np.uint8)
        return Image.fromarray(pixels if pixels.shape[2] > 1 else pixels[..., 0])

    return PictureView(view.width, view.height, band)
