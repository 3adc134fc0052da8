"""The blank rule for one decoded picture: would a reader see anything on it?"""
# A picture is blank if it is one smooth background plus noise. Content is searched for at three scales, and faint
# content is compared with the picture's own noise: fog is content, a lens cap's grain is not. In doubt: not blank.

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from PIL import Image

from sluice_inspect.images.scanned_page import may_be_page, shows_scene, without_traces
from sluice_inspect.images.views import (
    BAND_PIXELS,
    DIM_SPAN,
    MARGIN_FROM,
    Levels,
    PictureView,
    bands,
    channel_extremes,
    is_one_colour,
    max_over_channels,
    views,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GRID: Final = 32
_CELL_MIN: Final = 8
_CELL_MAX: Final = 256
_PATCH: Final = 16

# Levels between the brightest and the darkest cell of the grid. More is not the lighting of an empty page. It equals
# DIM_SPAN: dim deep samples are stretched to exactly that, and must not be judged by it.
_PLAIN_SPAN: Final = DIM_SPAN
# The same for small pictures with almost no noise, which no scanner or camera made.
_DRAWN_SPAN: Final = 16.0
_DRAWN_NOISE: Final = 1.0
# The same after a smooth surface (shading, vignette) is subtracted.
_UNEVEN_SPAN: Final = 10.0
# Standard deviation of a channel's levels, three times what the noise of a camera makes. No empty page is so rough.
_PLAIN_SPREAD: Final = 60.0
_SPREAD_PIXELS_MOST: Final = 256 * 256  # a larger picture is not measured as a whole
# This many pixels off by `_STRONG` levels in a window of 16 x 16 are content: a dot of 4 x 4 is, a dust speck is not.
_STRONG: Final = 30.0
_STRONG_PIXELS: Final = 14
# This many faint pixels mark a spot of 4 x 4. This many marked spots in 8 x 8 are content: a speck with JPEG ringing
# marks fewer, a short word more.
_FAINT: Final = 8.0
_FAINT_PIXELS: Final = 2
_SPOT: Final = 4
_SPOT_WINDOW: Final = 8
_MARKED_SPOTS: Final = 9
_NOISE_FACTOR: Final = 5.5
NOISE_MAX: Final = 20.0  # no camera leaves more noise than this on an empty frame
_FAINT_NOISE: Final = 3.0  # levels of noise that a reader does not see
# On a background without any noise, which no scanner made, this many pixels are a mark unless the picture is grey with
# two levels alone, as a scan that was made black and white, with its dust.
_DRAWN_PIXELS: Final = 4
# This many blocks off among 5 x 5 are content: a speck shifts at most four, a stroke of 40 pixels five.
_BLOCK: Final = 8
_BLOCK_SPAN: Final = 4.0
_SHIFTED_BLOCKS: Final = 5
# Pixels beyond which grain no longer resembles itself, including the blocks of JPEG's subsampled colours.
_LAG_FROM: Final = 17


@dataclass(frozen=True, slots=True)
class _Background:
    """What is measured of a view cell by cell. Noise is in levels; the tail is in standard deviations."""

    middles: Levels
    noise: float  # standard deviation, the median over the grid
    noise_spread: float  # how many times as noisy the noisiest cells are
    noise_tail: float  # largest deviation, in all but 2 % of the cells
    centres_x: NDArray[np.float32]
    centres_y: NDArray[np.float32]


def picture_is_blank(image: Image.Image, *, is_page: bool = False, is_scan: bool = True) -> bool:
    """Return whether a reader would see nothing on one frame. In doubt return False. Needs some 30 MB of memory.

    `is_page`: the picture is a page as rendered, whose scan may have been smoothed. `is_scan`: it may be a scan.
    """
    return is_one_colour(image) or shows_nothing(image, is_page=is_page, is_scan=is_scan)


def shows_nothing(image: Image.Image, *, is_page: bool = False, is_scan: bool = True) -> bool:
    """Return the same as `picture_is_blank` for a picture that is known to have more than one colour.

    A transparent picture is judged over white and over black, and is blank only if both are.
    """
    is_scan = is_scan and _may_be_scan(image)
    if any(_has_content(view, is_page=is_page) for view in views(image)):
        return is_scan and is_empty_scan(image, is_page=is_page)
    if not is_scan:
        return True
    if any(_has_content(view, is_page=is_page) for view in views(image, with_margin=True)):
        return is_empty_scan(image, is_page=is_page)  # a word in the margin, or the shadows of a scanner
    return not shows_scene(image)


def is_empty_scan(image: Image.Image, *, is_page: bool = False) -> bool:
    """Return whether a picture is an empty page with nothing but what scanning and handling leave on it."""
    if not _may_be_scan(image):
        return False
    rest = without_traces(image, is_page=is_page)
    return rest is not None and not _has_content(rest, is_page=is_page)


def _may_be_scan(image: Image.Image) -> bool:
    return may_be_page(image.size) and image.mode in {"L", "RGB", "P"} and not image.has_transparency_data


def _has_content(view: PictureView, *, is_page: bool) -> bool:
    # From cheap to expensive; most pictures are decided by the first two questions.
    means = _cell_means(view)
    if means is None:
        return True
    if view.width * view.height <= _SPREAD_PIXELS_MOST:
        levels = view.rows(0, view.height)
        if any(float(levels[..., channel].std()) > _PLAIN_SPREAD * view.opacity for channel in range(levels.shape[2])):
            return True
    background = _measure_background(view)
    if view.opacity < 1 and background.noise > max(_FAINT_NOISE, NOISE_MAX * view.opacity):
        return True
    is_small = max(view.width, view.height) < MARGIN_FROM
    if background.noise < _DRAWN_NOISE and is_small and _span(means) > _DRAWN_SPAN:
        return True
    uneven = _without_shading(means)
    if _span(uneven) > max(_UNEVEN_SPAN, 8 * _neighbour_deviation(uneven)):
        return True
    is_drawn = not is_page and background.noise_tail == 0 and not np.ptp(background.middles, axis=(0, 1)).any()
    return _stands_out(view, background, is_drawn=is_drawn) or _has_pattern(view, background)


def _span(levels: Levels) -> float:
    return float(np.ptp(levels, axis=(0, 1)).max())


def _cell_means(view: PictureView) -> Levels | None:
    """Return the mean of every grid cell, or None as soon as they differ by more than any lighting of an empty page."""
    strips: list[Image.Image] = []
    columns = len(_edges(view.width)) - 1
    extremes: list[tuple[float, float]] = []
    for rows in _strips(view):
        strip = view.band(int(rows[0]), int(rows[-1])).resize((columns, len(rows) - 1), Image.Resampling.BOX)
        strips.append(strip)
        found = channel_extremes(strip)
        extremes = [
            (min(low, lower), max(high, higher))
            for (low, high), (lower, higher) in zip(extremes or found, found, strict=True)
        ]
        if any(high - low > _PLAIN_SPAN for low, high in extremes):
            return None
    return np.concatenate([np.asarray(strip, dtype=np.float32).reshape(strip.height, columns, -1) for strip in strips])


def _measure_background(view: PictureView) -> _Background:
    columns, lines = (_edges(side) for side in (view.width, view.height))
    parts = [_cell_samples(view.rows(int(rows[0]), int(rows[-1])), rows - rows[0], columns) for rows in _strips(view)]
    middles, stds, tails = (np.concatenate(values) for values in zip(*parts, strict=True))
    noise = float(np.median(stds))
    return _Background(
        middles=middles,
        noise=noise,
        noise_spread=float(np.percentile(stds, 98)) / max(noise, 0.5),
        noise_tail=float(np.percentile(tails, 98)),
        centres_x=_centres(columns),
        centres_y=_centres(lines),
    )


def _strips(view: PictureView) -> Iterator[NDArray[np.int64]]:
    """Yield the row edges of the grid's lines, as many lines at a time as make a band."""
    lines = _edges(view.height)
    if view.width * view.height <= BAND_PIXELS:
        yield lines
        return
    lines_per_band = max(1, BAND_PIXELS // view.width // int(np.diff(lines).max()))
    for first in range(0, len(lines) - 1, lines_per_band):
        yield lines[first : first + lines_per_band + 1]


@lru_cache(64)
def _edges(side: int) -> NDArray[np.int64]:
    cells = max(1, side // _CELL_MAX, min(_GRID, side // _CELL_MIN))
    edges = np.linspace(0, side, cells + 1).astype(np.int64)
    edges.setflags(write=False)
    return edges


def _centres(edges: NDArray[np.int64]) -> Levels:
    return ((edges[:-1] + edges[1:] - 1) / 2).astype(np.float32)


def _cell_samples(band: Levels, lines: NDArray[np.int64], columns: NDArray[np.int64]) -> tuple[Levels, Levels, Levels]:
    """Return by cell: the middle of a sparse sample; standard and largest deviation of its centre."""
    sparse = np.sort(
        _cell_pixels(band, lines, columns, lambda size, count: (np.arange(count) * size) // count, _CELL_MIN), axis=3
    )
    quarter = sparse.shape[3] // 4
    middles = sparse[..., quarter : sparse.shape[3] - quarter].mean(axis=3)
    centres = _cell_pixels(band, lines, columns, lambda size, count: (size - count) // 2 + np.arange(count), _PATCH)
    off = centres - centres.mean(axis=3, keepdims=True)
    stds = np.sqrt(np.square(off).mean(axis=3))
    tails = np.abs(off).max(axis=3) / np.maximum(stds, 0.5)
    return middles, stds.max(axis=2), tails.max(axis=2)


def _cell_pixels(
    band: Levels,
    lines: NDArray[np.int64],
    columns: NDArray[np.int64],
    positions: Callable[[int, int], NDArray[np.int64]],
    count: int,
) -> Levels:
    down, across = (min(count, int(np.diff(edges).min())) for edges in (lines, columns))
    y = np.concatenate([start + positions(int(size), down) for start, size in zip(lines, np.diff(lines), strict=False)])
    x = np.concatenate(
        [start + positions(int(size), across) for start, size in zip(columns, np.diff(columns), strict=False)]
    )
    picked = band[np.ix_(y, x)].reshape(len(lines) - 1, down, len(columns) - 1, across, -1).transpose(0, 2, 4, 1, 3)
    cells: Levels = picked.reshape(*picked.shape[:3], down * across)
    return cells


def _without_shading(means: Levels) -> Levels:
    """Subtract the best-fitting quadratic surface from a grid of means."""
    lines, columns, channels = means.shape
    y, x = (axis.ravel() for axis in np.mgrid[-1 : 1 : lines * 1j, -1 : 1 : columns * 1j])
    terms = np.stack([np.ones_like(x), x, y, x * y, x * x, y * y], axis=1)
    flat = means.reshape(-1, channels).astype(np.float64)
    surface = terms @ np.linalg.lstsq(terms, flat, rcond=None)[0]
    rest: Levels = (flat - surface).reshape(means.shape).astype(np.float32)
    return rest


def _neighbour_deviation(grid: Levels) -> float:
    """Return the standard deviation by which neighbours in a grid differ by chance."""
    # A slope is not chance: each step is compared with the next.
    along = 1 if grid.shape[1] >= grid.shape[0] else 0
    order = min(2, grid.shape[along] - 1)
    steps = np.abs(np.diff(grid, n=order, axis=along))
    # The variance of n-th differences of noise is that of the noise times 1, 2, 6; 1.4826 turns a median of absolute
    # values into a standard deviation.
    spread = (1.0, 2.0, 6.0)[order]
    return float(1.4826 * np.median(steps, axis=(0, 1)).max() / np.sqrt(spread)) if order > 0 else 0.0


def _stands_out(view: PictureView, background: _Background, *, is_drawn: bool) -> bool:
    """Return whether pixels, or blocks of them, differ from the background around them by more than noise does."""
    # The noise of a sensor is the same everywhere and without outliers.
    is_grain = background.noise <= NOISE_MAX and background.noise_spread < 1.6 and background.noise_tail < 6.5
    strong = max(_STRONG, _NOISE_FACTOR * background.noise) if is_grain else _STRONG
    faint = max(_FAINT, _NOISE_FACTOR * background.noise)
    least = max(1, min(_STRONG_PIXELS, view.width * view.height // 8192))
    surface = _background_surface(view, background)
    blocks, marked = [], []
    strokes: list[NDArray[np.int32]] = []
    for start, band in bands(view, 2 * _BLOCK):
        difference = band - surface(start, band.shape[0])
        off = max_over_channels(np.abs(difference))
        # The last line of the band before is kept, since a stroke may cross from one band into the next.
        strokes = [*strokes[-1:], _count_in_squares(_BLOCK, off > strong)]
        largest = _largest_window_sum(np.concatenate(strokes), 2)
        is_coloured = is_drawn and largest >= _DRAWN_PIXELS and (band.shape[2] > 1 or len(np.unique(band)) > 2)
        if largest >= least or is_coloured:
            return True
        marked.append(_count_in_squares(_SPOT, off > faint) >= _FAINT_PIXELS)
        blocks.append(_block_means(difference))
    if _largest_window_sum(np.concatenate(marked), _SPOT_WINDOW) >= _MARKED_SPOTS:
        return True
    return _blocks_stand_out(np.concatenate(blocks), background)


def _background_surface(view: PictureView, background: _Background) -> Callable[[int, int], Levels]:
    """Return the local background of any band: cell medians without lone cells, interpolated between their centres."""
    smooth = _median_of_neighbours(background.middles)
    across = np.arange(view.width, dtype=np.float32)
    wide = np.stack(
        [np.stack([np.interp(across, background.centres_x, channel) for channel in line.T], axis=1) for line in smooth]
    ).astype(np.float32)  # cell rows x width x channels

    def band(start: int, height: int) -> Levels:
        position = np.interp(np.arange(start, start + height), background.centres_y, np.arange(len(wide)))
        above = position.astype(np.int64)
        share = (position - above).astype(np.float32)[:, None, None]
        mixed: Levels = np.empty((height, *wide.shape[1:]), np.float32)
        for cell in range(int(above[0]), int(above[-1]) + 1):
            first, last = np.searchsorted(above, (cell, cell + 1))
            rows = mixed[first:last]
            np.multiply(wide[cell], 1 - share[first:last], out=rows)
            rows += wide[min(cell + 1, len(wide) - 1)] * share[first:last]
        return mixed

    return band


def _median_of_neighbours(grid: Levels) -> Levels:
    lines, columns = grid.shape[:2]
    padded = np.pad(grid, ((1, 1), (1, 1), (0, 0)), mode="edge")
    around = [padded[y : y + lines, x : x + columns] for y in range(3) for x in range(3)]
    middle: Levels = np.median(np.stack(around), axis=0).astype(np.float32)
    return middle


def _count_in_squares(size: int, marked: NDArray[np.bool_]) -> NDArray[np.int32]:
    height, width = (-(-side // size) * size for side in marked.shape)
    padded = np.zeros((height, width), dtype=np.uint8)
    padded[: marked.shape[0], : marked.shape[1]] = marked
    rows = padded.reshape(height // size, size, width).sum(axis=1, dtype=np.uint8)
    counts: NDArray[np.int32] = rows.reshape(height // size, -1, size).sum(axis=2, dtype=np.int32)
    return counts


def _largest_window_sum(counts: NDArray[np.int32] | NDArray[np.bool_], side: int) -> int:
    if not counts.any():
        return 0
    padded = np.pad(counts.astype(np.int32), side - 1)
    lines, columns = (length + side - 1 for length in counts.shape)
    return int(np.max(sum(padded[y : y + lines, x : x + columns] for y in range(side) for x in range(side))))


def _block_means(difference: Levels) -> Levels:
    lines, columns, channels = difference.shape[0] // _BLOCK, difference.shape[1] // _BLOCK, difference.shape[2]
    whole = (
        difference[: lines * _BLOCK, : columns * _BLOCK].reshape(lines, _BLOCK, columns * _BLOCK * channels).sum(axis=1)
    )
    means: Levels = whole.reshape(lines, columns, _BLOCK, channels).sum(axis=2) / _BLOCK**2
    return means


def _blocks_stand_out(blocks: Levels, background: _Background) -> bool:
    """Return whether a few neighbouring blocks differ, or blocks differ everywhere by more than grain allows."""
    if blocks.size == 0:
        return False
    usual = 1.4826 * float(np.median(np.abs(blocks), axis=(0, 1)).max())
    if usual > max(3.0, 0.4 * background.noise):
        return True
    return _largest_window_sum(max_over_channels(np.abs(blocks)) > max(_BLOCK_SPAN, 6 * usual), 5) >= _SHIFTED_BLOCKS


def _has_pattern(view: PictureView, background: _Background) -> bool:
    """Return whether apparent grain repeats itself: a weave, a halftone screen, fine print everywhere."""
    if background.noise < 2.0:
        return False
    side = min(256, view.width, view.height)
    lag_most = min(64, side // 3)
    if lag_most <= _LAG_FROM:
        return False
    top, left = (view.height - side) // 2, (view.width - side) // 2
    crop = (view.rows(top, top + side) - _background_surface(view, background)(top, side))[:, left : left + side]
    crop = crop - crop.mean(axis=(0, 1))
    # Autocorrelation by way of the power spectrum; the padding to twice the side keeps it from wrapping around.
    power = np.abs(np.fft.fft2(crop, s=(2 * side, 2 * side), axes=(0, 1))) ** 2
    correlation = np.fft.ifft2(power, axes=(0, 1)).real
    correlation /= np.maximum(correlation[0, 0], 1e-9)
    near = np.zeros(correlation.shape[:2], dtype=bool)
    near[:_LAG_FROM, :_LAG_FROM] = True
    return bool(np.abs(correlation[:lag_most, :lag_most][~near[:lag_most, :lag_most]]).max() > 0.25)
