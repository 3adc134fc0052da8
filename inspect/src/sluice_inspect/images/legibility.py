"""How well a person could read a picture of a document: its sharpness and exposure, and the skew and size of its text.

Measured only when a rule asks. All but a rough search for lines of text is done on a few tiles, so that the cost hardly
grows with the picture.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sluice_inspect.catalogue import FactValue

    Floats: TypeAlias = NDArray[np.float32]
    Box: TypeAlias = tuple[int, int, int, int]

_MODES: Final = frozenset({"1", "L", "LA", "P", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr"})
_SIDE_LEAST: Final = 48  # pixels: a smaller picture is an icon
_ROUGH_SIDE: Final = 2000  # pixels of the longer side at most in which text is searched for
_TILE: Final = 128
_TILES_MOST: Final = 32
_PAPER_PERCENTILE: Final = 95

# Lines of text: rows of ink with gaps between them, in the direction in which they differ most.
_CONTRAST_LEAST: Final = 12.0  # levels between the paper and the ink of a tile
_COARSE_DEGREES: Final = np.arange(-45.0, 135.0, 3.0)
_FINE_DEGREES: Final = np.arange(-4.5, 4.6, 1.5)
_POINTS_MOST: Final = 16_000
_STROKE_WINDOW: Final = 7  # pixels: nothing wider is a stroke of a letter
_RULING: Final = 0.7  # of a row
_INK_LEAST: Final = 0.02  # of a row with letters
_GAP_MOST: Final = 0.3  # ink between two lines, as a share of that in a line
_PEAK_LEAST: Final = 2.0  # contrast of rows along the lines, as a multiple of that along any angle
_TEXT_TILES_LEAST: Final = 3
_TEXT_SHARE_LEAST: Final = 0.2  # of the tiles that have any contrast
_TEXT_SHARE_ENOUGH: Final = 0.4
_FAINT: Final = 0.3  # contrast of strokes beside the most in the picture
_BETTER: Final = 2.5  # times as many tiles with lines in the picture at another scale
_DEGREES_APART_MOST: Final = 2.0
_LETTER_LEAST, _LETTER_MOST = 3.5, 11.0  # pixels of small letters that a tile shows as lines

# Edges are compared with the letters, so that neither the size of the picture nor that of its text matters.
_LETTER_SCALE: Final = 12  # pixels to which small letters are reduced, at least
_LETTERS_OF_PAGE: Final = 150  # small letters of ordinary size that are as high as the longer side of a page
_EDGE_TILE: Final = 96
_EDGE_TILES_MOST: Final = 24
_EDGE_WINDOW: Final = 16
_WIDTH_MOST: Final = 6.0  # pixels that can be measured in the window
_ONE_WAY: Final = 0.3  # contrast across the edges of rulings alone, as a share of that along them
_SHARPEST: Final = 1.3  # pixels from dark to bright at an edge that is as sharp as the pixels allow
# Letters taken for smaller ones than they are, as columns of a receipt are, must not make sharp edges look blurred.
_SHARP_LETTER: Final = 13.5  # pixels: edges are compared with letters of this size at least
_HALF_SHARP: Final = 0.35  # of a letter from dark to bright: the sharpness of 50


@dataclass(frozen=True, slots=True)
class _Text:
    """The lines of text that were found: their angle, the height of their small letters in pixels, where they are."""

    degrees: float
    letter: float
    share: float  # of the tiles with any strokes
    centres: list[tuple[float, float]]


def measure_legibility(image: Image.Image) -> dict[str, FactValue]:
    """Return the facts `sharpness` and `exposure`, and of a picture with lines of text `skew` and `text_height`.

    Return nothing for a picture that is too small to be one of a document, and for samples that are no colours.
    """
    if min(image.size) < _SIDE_LEAST or image.mode not in _MODES:
        return {}
    if image.mode in {"1", "P"}:
        image = image.convert("L")  # they cannot be reduced as they are
    scale = max(1, -(-max(image.size) // _ROUGH_SIDE))
    rough = _grey(image.reduce(scale) if scale > 1 else image)
    half, quarter = rough.reduce(2), rough.reduce(4)
    paper = float(np.percentile(np.asarray(quarter), _PAPER_PERCENTILE))
    facts: dict[str, FactValue] = {"exposure": round(paper / 2.55)}
    text: _Text | None = None
    for level, factor in ((half, 2), (rough, 1), (quarter, 4)):  # most photos of pages end with the first
        found = _find_text(np.asarray(level), scale * factor)
        if found is not None and (text is None or found.share > _BETTER * text.share):
            text = found
        if text is not None and text.share > _TEXT_SHARE_ENOUGH:
            break
    if text is None:
        letter = max(image.size) / _LETTERS_OF_PAGE
        centres = _contrasting(np.asarray(half), scale * 2)
        facts["sharpness"] = _sharpness(image, letter, centres, is_text=False)
    else:
        facts["skew"] = round(abs(text.degrees) * 10)
        facts["text_height"] = round(text.letter)
        facts["sharpness"] = _sharpness(image, text.letter, text.centres, is_text=True)
    return facts


def _grey(part: Image.Image) -> Image.Image:
    if part.has_transparency_data:
        page = Image.new("RGBA", part.size, (255, 255, 255, 255))
        page.alpha_composite(part.convert("RGBA"))
        part = page
    return part.convert("L")


def _tiles(levels: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], list[tuple[int, int]]]:
    """Return the tiles of a map with the highest levels, and their left upper corners."""
    height, width = levels.shape
    tile_height, tile_width = min(_TILE, height), min(_TILE, width)
    rows, columns = height // tile_height, width // tile_width
    top, left = (height - rows * tile_height) // 2, (width - columns * tile_width) // 2
    inner = levels[top : top + rows * tile_height, left : left + columns * tile_width]
    blocks = inner.reshape(rows, tile_height, columns, tile_width).transpose(0, 2, 1, 3)
    flat = blocks.reshape(-1, tile_height, tile_width)
    chosen = np.argsort(flat[:, ::3, ::3].sum(axis=(1, 2)))[::-1][:_TILES_MOST]
    corners = [(left + int(n % columns) * tile_width, top + int(n // columns) * tile_height) for n in chosen]
    return flat[chosen], corners


def _strokes(levels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return by how much each pixel is darker than what surrounds it on both sides, or brighter if most strokes are."""
    dark = _opened(levels, np.maximum, np.minimum) - levels
    bright = levels - _opened(levels, np.minimum, np.maximum)
    return dark if dark.sum(dtype=np.int64) >= bright.sum(dtype=np.int64) else bright


def _opened(levels: NDArray[np.uint8], first: np.ufunc, second: np.ufunc) -> NDArray[np.uint8]:
    result = np.pad(levels, _STROKE_WINDOW - 1, mode="edge")
    for extreme in (first, second):
        size = 1
        while size < _STROKE_WINDOW:
            step = min(size, _STROKE_WINDOW - size)
            result = extreme(result[:-step], result[step:])
            result = extreme(result[:, :-step], result[:, step:])
            size += step
    return result


def _find_text(levels: NDArray[np.uint8], scale: int) -> _Text | None:
    """Return the text of a picture that is reduced by `scale`, if its small letters are of a size that tiles show."""
    if min(levels.shape) < _SIDE_LEAST:
        return None
    blocks, corners = _tiles(_strokes(levels))
    count, height, width = blocks.shape
    span = np.percentile(blocks[:, ::2, ::2].reshape(count, -1), 97, axis=1)
    ink = (blocks > 0.45 * span[:, None, None]) & (span[:, None, None] >= _CONTRAST_LEAST)
    radius = min(height, width) / 2
    across, down = np.arange(width) - (width - 1) / 2, np.arange(height) - (height - 1) / 2
    ink &= np.square(down)[:, None] + np.square(across) < radius**2  # a disc is as wide in all directions
    tile, y, x = np.nonzero(ink)
    if not len(tile):
        return None
    # Off the grid of pixels, which by itself makes rows at some angles: by multiples of the golden ratio.
    jitter = (np.arange(len(tile)) * 0.6180339887 % 1 - 0.5).astype(np.float32)
    x, y = across.astype(np.float32)[x] + jitter[::-1], down.astype(np.float32)[y] + jitter
    bins = 2 * int(radius + 2)
    chords = 2 * np.sqrt(np.maximum(radius**2 - np.square(np.arange(bins) - bins / 2 + 0.5), (radius / 3) ** 2))

    every = max(1, len(tile) // _POINTS_MOST)
    tile, x, y = tile[::every], x[::every], y[::every]
    offset = (tile * bins).astype(np.int32)

    def rows(degrees: NDArray[np.float64] | float) -> Floats:
        """Return the ink of each tile by rows that are turned by an angle, as a share of a full row."""
        angles = np.broadcast_to(np.radians(np.asarray(degrees, np.float32)), count)[tile]
        row = y * np.cos(angles) - x * np.sin(angles) + np.float32(bins / 2)
        counts = np.bincount(offset + row.astype(np.int32), minlength=count * bins)
        shares: Floats = (counts.reshape(count, bins) * (every / chords)).astype(np.float32)
        return shares

    one = (every / chords).astype(np.float32)  # what one point adds to a row
    scores = np.stack([_contrast_of_rows(rows(degrees), one) for degrees in _COARSE_DEGREES])
    usual = np.maximum(np.median(scores, axis=0), float(one.mean()) / 2)
    total = np.log(scores / usual + 0.1).sum(axis=1).reshape(2, -1)
    with_ink = len(np.unique(tile))
    best: _Text | None = None
    for coarse in _COARSE_DEGREES.reshape(2, -1)[(0, 1), np.argmax(total, axis=1)]:
        # Letters below each other, as in a table, look like lines in the other direction.
        middle = coarse
        for _ in range(3):
            fine = np.stack([_contrast_of_rows(rows(middle + each), one) for each in _FINE_DEGREES])
            at = int(np.argmax(np.log(fine / usual + 0.1).sum(axis=1)))
            if 0 < at < len(_FINE_DEGREES) - 1:
                break
            middle += _FINE_DEGREES[at]
        turn = middle + _FINE_DEGREES[np.argmax(fine, axis=0)]
        is_lined = fine.max(axis=0) > _PEAK_LEAST * usual
        found = {n: _lines(each) for n, each in enumerate(rows(turn)) if is_lined[n]}
        found = {n: heights for n, heights in found.items() if len(heights)}
        if len(found) < max(min(_TEXT_TILES_LEAST, with_ink), _TEXT_SHARE_LEAST * with_ink):
            continue
        degrees = turn[list(found)]
        letter = float(np.median(np.concatenate(list(found.values()))))
        share = len(found) / with_ink
        is_grain = np.median(span[list(found)]) < _FAINT * span.max()  # of a table beside the letters of the page
        is_text = (
            not is_grain
            and np.median(np.abs(degrees - np.median(degrees))) <= _DEGREES_APART_MOST
            and _LETTER_LEAST <= letter <= _LETTER_MOST
        )
        if is_text and (best is None or share > best.share):
            centres = [((corners[n][0] + width / 2) * scale, (corners[n][1] + height / 2) * scale) for n in found]
            best = _Text((float(degrees.mean()) + 45) % 90 - 45, letter * scale, share, centres)
    return best


def _contrast_of_rows(rows: Floats, one: Floats) -> Floats:
    """Return by tile how much near rows differ, without what the number of points makes of chance."""
    steps = np.square(rows[:, 2:] - rows[:, :-2]).sum(axis=1) - 2 * (rows * one).sum(axis=1)
    contrast: Floats = np.maximum(0, steps) / np.maximum(0.1, rows.sum(axis=1))
    return contrast


def _lines(rows: Floats) -> Floats:
    """Return the heights of the lines of text in the rows of a tile; empty if it shows less than three."""
    smooth = np.convolve(np.where(rows > _RULING, 0, rows), (0.25, 0.5, 0.25), "same")
    filled = smooth[smooth > _INK_LEAST]
    none = np.empty(0, np.float32)
    if len(filled) < 3 * _LETTER_LEAST:
        return none
    dense = float(np.percentile(filled, 75))
    is_line = np.concatenate([[False], smooth > dense / 2, [False]])
    edges = np.flatnonzero(is_line[1:] != is_line[:-1]).reshape(-1, 2)
    if len(edges) < 3:
        return none
    heights = edges[:, 1] - edges[:, 0]
    edges = edges[(heights >= 2) & (heights >= 0.55 * np.percentile(heights, 80))]
    if len(edges) < 3:
        return none
    gaps = [float(smooth[end:start].min()) for end, start in zip(edges[:-1, 1], edges[1:, 0], strict=True)]
    if np.median(gaps) > _GAP_MOST * dense:
        return none
    found: Floats = (edges[:, 1] - edges[:, 0]).astype(np.float32)
    return found


def _contrasting(levels: NDArray[np.uint8], scale: int) -> list[tuple[float, float]]:
    """Return the middles of the tiles with the most contrast between neighbours."""
    steps = np.zeros_like(levels)
    np.abs(levels[:, 2:].astype(np.int16) - levels[:, :-2], out=steps[:, 1:-1], casting="unsafe")
    blocks, corners = _tiles(steps)
    _, height, width = blocks.shape
    return [((left + width / 2) * scale, (top + height / 2) * scale) for left, top in corners[:_EDGE_TILES_MOST]]


def _sharpness(image: Image.Image, letter: float, centres: list[tuple[float, float]], *, is_text: bool) -> int:
    """Return how narrow edges are beside small letters, from 0 to 100; 0 if there is no edge."""
    scale = max(1, min(int(letter // _LETTER_SCALE), min(image.size) // (2 * _EDGE_WINDOW)))
    centres = centres[:: max(1, len(centres) // _EDGE_TILES_MOST)][:_EDGE_TILES_MOST]
    while True:
        widths = np.sort(_edge_widths(np.stack([_cut(image, centre, scale) for centre in centres])))
        typical = float(widths[len(widths) // (2 if is_text else 4)])
        if typical < _WIDTH_MOST or min(image.size) < 2 * _EDGE_TILE * scale:
            break
        scale *= 2  # blurred: wider than the window, or hidden in the noise
    if np.isinf(typical):
        return 0
    share = math.sqrt(max(0.0, typical**2 - _SHARPEST**2)) * scale / max(letter, _SHARP_LETTER)
    return round(100 / (1 + (share / _HALF_SHARP) ** 2))


def _cut(image: Image.Image, centre: tuple[float, float], scale: int) -> Floats:
    """Return a tile of the picture around a point, reduced."""
    side = min(_EDGE_TILE * scale, *(size // scale * scale for size in image.size))
    left, top = (
        int(min(max(0, middle - side / 2), most - side)) for middle, most in zip(centre, image.size, strict=True)
    )
    box = left, top, left + side, top + side
    part = image.reduce(scale, box) if scale > 1 else image.crop(box)
    return np.asarray(_grey(part), dtype=np.float32)


def _edge_widths(tiles: Floats) -> Floats:
    """Return by tile how many pixels its edges take from dark to bright; infinite if none differs from noise.

    Of the two directions it is the one in which they take more: a picture that was moved is blurred in one.
    """
    spans, slopes, noise = zip(*(_edges(each) for each in (tiles, tiles.transpose(0, 2, 1))), strict=True)
    span, slope = np.maximum(*spans), np.minimum(*slopes)
    one_way = np.minimum(*spans) < _ONE_WAY * span  # rulings, which say nothing of the other direction
    if one_way.all():
        slope = np.maximum(*slopes)
    else:
        span, slope, noise = span[~one_way], slope[~one_way], tuple(each[~one_way] for each in noise)
    noise_slope = 2.8 * np.maximum(*noise)  # the largest step of noise in a window
    is_seen = (span >= _CONTRAST_LEAST) & (slope > 2 * noise_slope)
    return np.where(is_seen, span / np.maximum(slope, 0.01), np.inf).astype(np.float32)


def _edges(tiles: Floats) -> tuple[NDArray[np.float64], Floats, NDArray[np.float64]]:
    """Return by tile the contrast of edges across its rows, how steep they are, and the noise of a step."""
    rows = (tiles[:, :-2] + 2 * tiles[:, 1:-1] + tiles[:, 2:]) / 4
    steps = np.abs(np.diff(rows, axis=2))
    low, high, steepest, reach = rows, rows, steps, 1
    while reach < _EDGE_WINDOW:  # each turn doubles the window
        low = np.minimum(low[..., :-reach], low[..., reach:])
        high = np.maximum(high[..., :-reach], high[..., reach:])
        steepest = np.maximum(steepest[..., :-reach], steepest[..., reach:])
        reach *= 2
    count = min(high.shape[2], steepest.shape[2])
    span = (high - low)[..., :count].reshape(len(tiles), -1)
    strong = np.percentile(span[:, ::3], 95, axis=1)
    is_edge = span >= 0.6 * strong[:, None]
    steepest = np.where(is_edge, steepest[..., :count].reshape(span.shape), np.nan)
    noise = np.percentile(steps[:, ::2].reshape(len(tiles), -1), 20, axis=1) / 0.36
    return strong, np.nanmedian(steepest[:, ::3], axis=1), noise
