"""Would a reader see anything on this picture? The blank rule for one decoded image; decoding and file formats live elsewhere.

A picture is blank when it is one smooth background plus noise. Content is looked for at three scales, and faint content is weighed
against the noise that the picture itself shows, so that fog is seen and the grain of a lens cap is not. In doubt: not blank.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sluice.formats.images.picture_views import (
    BAND_PIXELS,
    DIM_SPAN,
    MARGIN_FROM,
    Levels,
    View,
    bands,
    ends_of,
    is_one_colour,
    views,
)

_GRID: Final = 32
_CELL_MIN: Final = 8
_CELL_MAX: Final = 256
_PATCH: Final = 16

_PLAIN_SPAN: Final = DIM_SPAN
"""Levels between the brightest and the darkest of the page's coarse means: more is no lighting of an empty page. Dim deep samples, stretched
to just as much, are not judged by it."""
_DRAWN_SPAN: Final = 16.0
"""The same for small pictures with next to no noise, which no scanner or camera made."""
_DRAWN_NOISE: Final = 1.0
_UNEVEN_SPAN: Final = 10.0
"""The same after a smooth surface (shading, vignette) was taken away."""
_PLAIN_SPREAD: Final = 60.0
"""Standard deviation of a channel's levels, thrice what the noise of a camera makes: no empty page is so rough. To ask costs little where there is little."""
_ASKED_PIXELS: Final = 256 * 256
_STRONG: Final = 30.0
_STRONG_PIXELS: Final = 14
"""So many pixels off by `_STRONG` levels in a window of 16 x 16 are content: a dot of 4 x 4 is, a dust speck is not."""
_FAINT: Final = 8.0
_FAINT_PIXELS: Final = 2
"""So many faint pixels mark a spot of 4 x 4."""
_SPOT: Final = 4
_SPOTS_ACROSS: Final = 8
_SPOTS_TOGETHER: Final = 9
"""So many marked spots among 8 x 8 are content: a speck with its JPEG ringing marks fewer, a short word more."""
_NOISE_FACTOR: Final = 5.5
_NOISE_MAX: Final = 20.0
"""No camera leaves more noise than this on an empty frame."""
_BLOCK: Final = 8
_BLOCK_SPAN: Final = 4.0
_BLOCKS_TOGETHER: Final = 5
"""So many blocks off among 5 x 5 are content: a speck shifts at most four, a stroke of 40 pixels five."""
_LAG_FROM: Final = 17
"""Pixels beyond which grain no longer resembles itself, the blocks of JPEG's halved colours included."""


@dataclass(frozen=True, slots=True)
class _Ground:
    """The coarse look of a view: the middle levels by grid cell, and the noise that most places share."""

    middles: Levels
    noise: float
    """Standard deviation in levels, the median over the grid."""
    noise_spread: float
    """How many times as noisy the noisiest places are."""
    noise_tail: float
    """Largest deviation in standard deviations, in all but the oddest places."""
    centres_x: NDArray[np.float32]
    centres_y: NDArray[np.float32]


def picture_is_blank(image: Image.Image) -> bool:
    """Answer whether a reader would see nothing on `image`: one frame, decoded or decodable. In doubt the answer is False.

    Transparent pictures are looked at over white and over black, and are blank only if both are. Needs some 30 MB beside the
    decoded image, whatever its size. Raises what Pillow raises when the pixels do not decode.
    """
    return is_one_colour(image) or not any(_shows_something(view) for view in views(image))


def _shows_something(view: View) -> bool:
    means = _means(view)
    if means is None or _is_plainly_rough(view):
        return True
    ground = _ground(view)
    if ground.noise < _DRAWN_NOISE and max(view.width, view.height) < MARGIN_FROM and _span(means) > _DRAWN_SPAN:
        return True
    uneven = _without_shading(means)
    if _span(uneven) > max(_UNEVEN_SPAN, 8 * _unlikeness(uneven)):
        return True
    return _stands_out(view, ground) or _has_pattern(view, ground)


def _is_plainly_rough(view: View) -> bool:
    if view.width * view.height > _ASKED_PIXELS:
        return False
    levels = view.rows(0, view.height)
    return any(float(levels[..., channel].std()) > _PLAIN_SPREAD for channel in range(levels.shape[2]))


def _span(levels: Levels) -> float:
    return float(np.ptp(levels, axis=(0, 1)).max())


def _means(view: View) -> Levels | None:
    """Measure the mean of every grid cell, or answer None as soon as the page is plainly not plain."""
    strips: list[Image.Image] = []
    columns = len(_edges(view.width)) - 1
    ends: list[tuple[float, float]] = []
    for rows in _strips(view):
        strip = view.band(int(rows[0]), int(rows[-1])).resize((columns, len(rows) - 1), Image.Resampling.BOX)
        strips.append(strip)
        found = ends_of(strip)
        ends = [(min(low, lower), max(high, higher)) for (low, high), (lower, higher) in zip(ends or found, found, strict=True)]
        if any(high - low > _PLAIN_SPAN for low, high in ends):
            return None
    return np.concatenate([np.asarray(strip, dtype=np.float32).reshape(strip.height, columns, -1) for strip in strips])


def _ground(view: View) -> _Ground:
    columns, lines = (_edges(side) for side in (view.width, view.height))
    parts = [_cell_samples(view.rows(int(rows[0]), int(rows[-1])), rows - rows[0], columns) for rows in _strips(view)]
    middles, stds, tails = (np.concatenate(values) for values in zip(*parts, strict=True))
    noise = float(np.median(stds))
    return _Ground(
        middles=middles,
        noise=noise,
        noise_spread=float(np.percentile(stds, 98)) / max(noise, 0.5),
        noise_tail=float(np.percentile(tails, 98)),
        centres_x=_centres(columns),
        centres_y=_centres(lines),
    )


def _strips(view: View) -> Iterator[NDArray[np.int64]]:
    """Answer the row edges of the grid's lines, as many lines together as make a band."""
    lines = _edges(view.height)
    if view.width * view.height <= BAND_PIXELS:
        yield lines
        return
    together = max(1, BAND_PIXELS // view.width // int(np.diff(lines).max()))
    for first in range(0, len(lines) - 1, together):
        yield lines[first : first + together + 1]


@lru_cache(64)
def _edges(side: int) -> NDArray[np.int64]:
    cells = max(1, side // _CELL_MAX, min(_GRID, side // _CELL_MIN))
    edges = np.linspace(0, side, cells + 1).astype(np.int64)
    edges.setflags(write=False)
    return edges


def _centres(edges: NDArray[np.int64]) -> Levels:
    return ((edges[:-1] + edges[1:] - 1) / 2).astype(np.float32)


def _cell_samples(band: Levels, lines: NDArray[np.int64], columns: NDArray[np.int64]) -> tuple[Levels, Levels, Levels]:
    """Answer, by cell: the middle of a sparse sample; standard deviation and largest deviation (in such) of its centre."""
    sparse = np.sort(_gathered(band, lines, columns, lambda size, count: (np.arange(count) * size) // count, _CELL_MIN), axis=3)
    quarter = sparse.shape[3] // 4
    middles = sparse[..., quarter : sparse.shape[3] - quarter].mean(axis=3)
    centres = _gathered(band, lines, columns, lambda size, count: (size - count) // 2 + np.arange(count), _PATCH)
    off = centres - centres.mean(axis=3, keepdims=True)
    stds = np.sqrt(np.square(off).mean(axis=3))
    tails = np.abs(off).max(axis=3) / np.maximum(stds, 0.5)
    return middles, stds.max(axis=2), tails.max(axis=2)


def _gathered(
    band: Levels,
    lines: NDArray[np.int64],
    columns: NDArray[np.int64],
    places: Callable[[int, int], NDArray[np.int64]],
    count: int,
) -> Levels:
    """Answer `count` x `count` pixels of every cell as (line, column, channel, pixel)."""
    down, across = (min(count, int(np.diff(edges).min())) for edges in (lines, columns))
    y = np.concatenate([start + places(int(size), down) for start, size in zip(lines, np.diff(lines), strict=False)])
    x = np.concatenate([start + places(int(size), across) for start, size in zip(columns, np.diff(columns), strict=False)])
    picked = band[np.ix_(y, x)].reshape(len(lines) - 1, down, len(columns) - 1, across, -1).transpose(0, 2, 4, 1, 3)
    cells: Levels = picked.reshape(*picked.shape[:3], down * across)
    return cells


def _without_shading(means: Levels) -> Levels:
    """Take the best-fitting quadratic surface away from a grid of means."""
    lines, columns, channels = means.shape
    y, x = (axis.ravel() for axis in np.mgrid[-1 : 1 : lines * 1j, -1 : 1 : columns * 1j])
    terms = np.stack([np.ones_like(x), x, y, x * y, x * x, y * y], axis=1)
    flat = means.reshape(-1, channels).astype(np.float64)
    surface = terms @ np.linalg.lstsq(terms, flat, rcond=None)[0]
    rest: Levels = (flat - surface).reshape(means.shape).astype(np.float32)
    return rest


def _unlikeness(grid: Levels) -> float:
    """Answer how much neighbours in a grid differ by chance, as a standard deviation. A slope is no chance: steps are held against the next."""
    along = 1 if grid.shape[1] >= grid.shape[0] else 0
    order = min(2, grid.shape[along] - 1)
    steps = np.abs(np.diff(grid, n=order, axis=along))
    spread = (1.0, 2.0, 6.0)[order]
    return float(1.4826 * np.median(steps, axis=(0, 1)).max() / np.sqrt(spread)) if order > 0 else 0.0


def _stands_out(view: View, ground: _Ground) -> bool:
    """Answer whether pixels, or blocks of them, differ from the ground around them by more than noise does."""
    strong = _STRONG if not _is_grain(ground) else max(_STRONG, _NOISE_FACTOR * ground.noise)
    faint = max(_FAINT, _NOISE_FACTOR * ground.noise)
    least = max(1, min(_STRONG_PIXELS, view.width * view.height // 8192))
    backdrop = _backdrop(view, ground)
    blocks, marked = [], []
    strokes: list[NDArray[np.int32]] = []
    for start, band in bands(view, 2 * _BLOCK):
        difference = band - backdrop(start, band.shape[0])
        off = _worst_channel(np.abs(difference))
        strokes = [*strokes[-1:], _count_by(_BLOCK, off > strong)]
        if _in_windows(np.concatenate(strokes), 2) >= least:
            return True
        marked.append(_count_by(_SPOT, off > faint) >= _FAINT_PIXELS)
        blocks.append(_block_means(difference))
    if _in_windows(np.concatenate(marked), _SPOTS_ACROSS) >= _SPOTS_TOGETHER:
        return True
    return _blocks_stand_out(np.concatenate(blocks), ground)


def _is_grain(ground: _Ground) -> bool:
    """Answer whether the roughness is that of sensor noise: everywhere alike and without outliers."""
    return ground.noise <= _NOISE_MAX and ground.noise_spread < 1.6 and ground.noise_tail < 6.5  # noqa: PLR2004  (measured bounds of noise in 16 x 16 pixels)


def _backdrop(view: View, ground: _Ground) -> Callable[[int, int], Levels]:
    """Answer the local ground for any band: cell medians, rid of lone cells, interpolated between the cells' centres."""
    smooth = _median_of_neighbours(ground.middles)
    across = np.arange(view.width, dtype=np.float32)
    wide = np.stack(
        [[np.interp(across, ground.centres_x, line[:, channel]) for channel in range(line.shape[1])] for line in smooth]
    ).astype(np.float32)  # cell rows x channels x width

    def band(start: int, height: int) -> Levels:
        place = np.interp(np.arange(start, start + height), ground.centres_y, np.arange(len(wide)))
        above = place.astype(np.int64)
        below = np.minimum(above + 1, len(wide) - 1)
        share = (place - above).astype(np.float32)[:, None, None]
        mixed: Levels = (wide[above] * (1 - share) + wide[below] * share).transpose(0, 2, 1)
        return mixed

    return band


def _median_of_neighbours(grid: Levels) -> Levels:
    lines, columns = grid.shape[:2]
    padded = np.pad(grid, ((1, 1), (1, 1), (0, 0)), mode="edge")
    around = [padded[y : y + lines, x : x + columns] for y in range(3) for x in range(3)]
    middle: Levels = np.median(np.stack(around), axis=0).astype(np.float32)
    return middle


def _count_by(size: int, marked: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Count the marked pixels in each square of `size`, those cut off by the right and lower edge included."""
    height, width = (-(-side // size) * size for side in marked.shape)
    whole = np.zeros((height, width), dtype=np.uint8)
    whole[: marked.shape[0], : marked.shape[1]] = marked
    rows = whole.reshape(height // size, size, width).sum(axis=1, dtype=np.uint8)
    counts: NDArray[np.int32] = rows.reshape(height // size, -1, size).sum(axis=2, dtype=np.int32)
    return counts


def _in_windows(counts: NDArray[np.int32] | NDArray[np.bool_], side: int) -> int:
    """Answer the largest sum of `side` x `side` neighbours."""
    if not counts.any():
        return 0
    padded = np.pad(counts.astype(np.int32), side - 1)
    lines, columns = (length + side - 1 for length in counts.shape)
    return int(np.max(sum(padded[y : y + lines, x : x + columns] for y in range(side) for x in range(side))))


def _worst_channel(off: Levels) -> Levels:
    """Answer the largest value over the channels; plane by plane, since numpy is slow along short axes."""
    worst: Levels = reduce(np.maximum, (off[..., channel] for channel in range(off.shape[2])))
    return worst


def _block_means(difference: Levels) -> Levels:
    lines, columns, channels = difference.shape[0] // _BLOCK, difference.shape[1] // _BLOCK, difference.shape[2]
    whole = difference[: lines * _BLOCK, : columns * _BLOCK].reshape(lines, _BLOCK, columns * _BLOCK * channels).sum(axis=1)
    means: Levels = whole.reshape(lines, columns, _BLOCK, channels).sum(axis=2) / _BLOCK**2
    return means


def _blocks_stand_out(blocks: Levels, ground: _Ground) -> bool:
    """Answer whether a few neighbouring 8 x 8 blocks differ together, or the blocks differ all over more than grain allows."""
    if blocks.size == 0:
        return False
    usual = 1.4826 * float(np.median(np.abs(blocks), axis=(0, 1)).max())
    if usual > max(3.0, 0.4 * ground.noise):
        return True
    return _in_windows(_worst_channel(np.abs(blocks)) > max(_BLOCK_SPAN, 6 * usual), 5) >= _BLOCKS_TOGETHER


def _has_pattern(view: View, ground: _Ground) -> bool:
    """Answer whether what looks like grain repeats itself: a weave, a screen, fine print all over."""
    if ground.noise < 2.0:  # noqa: PLR2004  (a pattern of under two levels is dithering)
        return False
    side = min(256, view.width, view.height)
    reach = min(64, side // 3)
    if reach <= _LAG_FROM:
        return False
    top, left = (view.height - side) // 2, (view.width - side) // 2
    crop = (view.rows(top, top + side) - _backdrop(view, ground)(top, side))[:, left : left + side]
    crop = crop - crop.mean(axis=(0, 1))
    power = np.abs(np.fft.fft2(crop, s=(2 * side, 2 * side), axes=(0, 1))) ** 2
    likeness = np.fft.ifft2(power, axes=(0, 1)).real
    likeness /= np.maximum(likeness[0, 0], 1e-9)
    near = np.zeros(likeness.shape[:2], dtype=bool)
    near[:_LAG_FROM, :_LAG_FROM] = True
    return bool(np.abs(likeness[:reach, :reach][~near[:reach, :reach]]).max() > 0.25)  # noqa: PLR2004  (grain repeats by chance to under 0.1)
