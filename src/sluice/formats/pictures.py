"""Would a reader see anything on this picture? The blank rule for one decoded image; decoding and file formats live elsewhere.

A picture is blank when it is one smooth background plus noise. Content is looked for at three scales, and faint content is weighed
against the noise that the picture itself shows, so that fog is seen and the grain of a lens cap is not. In doubt: not blank.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Levels = NDArray[np.float32]
"""Brightness by (row, column, channel), 0 black to 255 full."""

_MARGIN: Final = 0.02
"""Share of each side that is not looked at, from `_MARGIN_FROM` pixels up: scanners leave shadows there."""
_MARGIN_FROM: Final = 400
_GRID: Final = 32
_CELL_MIN: Final = 8
_CELL_MAX: Final = 256
_PATCH: Final = 16
_BAND_PIXELS: Final = 1_000_000

_PLAIN_SPAN: Final = 40.0
"""Levels between the brightest and the darkest of the page's coarse means: more is no lighting of an empty page."""
_UNEVEN_SPAN: Final = 10.0
"""The same after a smooth surface (shading, vignette) was taken away."""
_STRONG: Final = 30.0
_STRONG_PIXELS: Final = 14
"""So many pixels off by `_STRONG` levels in a window of 16 x 16 are content: a dot of 4 x 4 is, a dust speck is not."""
_FAINT: Final = 8.0
_FAINT_PIXELS: Final = 24
_NOISE_FACTOR: Final = 5.5
_NOISE_MAX: Final = 20.0
"""No camera leaves more noise than this on an empty frame."""
_BLOCK: Final = 8
_BLOCK_SPAN: Final = 4.0
_BLOCKS_TOGETHER: Final = 3
_STRETCH_FROM: Final = 0.25
_LAG_FROM: Final = 10
"""Pixels beyond which grain no longer resembles itself, JPEG blocks included."""


@dataclass(frozen=True, slots=True)
class _View:
    """A picture as it looks on one backdrop, read in bands: a whole one as numbers would not fit into memory."""

    width: int
    height: int
    rows: Callable[[int, int], Levels]


@dataclass(frozen=True, slots=True)
class _Ground:
    """The coarse look of a view: means and medians by grid cell, and the noise that most places share."""

    means: Levels
    medians: Levels
    noise: float
    noise_spread: float
    noise_tail: float
    centres_x: NDArray[np.float32]
    centres_y: NDArray[np.float32]


def picture_is_blank(image: Image.Image) -> bool:
    """Answer whether a reader would see nothing on `image`: one frame, decoded or decodable. In doubt the answer is False.

    Transparent pictures are looked at over white and over black, and are blank only if both are. Needs some 30 MB beside the
    decoded image, whatever its size. Raises what Pillow raises when the pixels do not decode.
    """
    return not any(_shows_something(view) for view in _views(image))


def _views(image: Image.Image) -> Iterator[_View]:
    width, height = image.size
    left, top = (round(side * _MARGIN) if side >= _MARGIN_FROM else 0 for side in (width, height))
    right = width - left

    def view(read: Callable[[Image.Image], Levels]) -> _View:
        def rows(start: int, stop: int) -> Levels:
            return read(image.crop((left, top + start, right, top + stop)))

        return _View(right - left, height - 2 * top, rows)

    if image.mode[0] in "IF":
        yield from _deep_views(view(_as_numbers))
    elif image.has_transparency_data:
        yield from (view(_over(backdrop)) for backdrop in (255.0, 0.0))
    else:
        yield view(_opaque)


def _opaque(band: Image.Image) -> Levels:
    plain = band.convert("L" if band.mode in {"1", "L"} else "RGB")
    return np.asarray(plain, dtype=np.float32).reshape(plain.height, plain.width, -1)


def _over(backdrop: float) -> Callable[[Image.Image], Levels]:
    def read(band: Image.Image) -> Levels:
        pixels = np.asarray(band.convert("RGBA"), dtype=np.float32)
        alpha = pixels[..., 3:] / 255.0
        levels: Levels = pixels[..., :3] * alpha + np.float32(backdrop) * (1 - alpha)
        return levels

    return read


def _as_numbers(band: Image.Image) -> Levels:
    numbers = np.nan_to_num(np.asarray(band, dtype=np.float32), posinf=0.0, neginf=0.0)
    return numbers.reshape(band.height, band.width, 1)


def _deep_views(raw: _View) -> Iterator[_View]:
    """Scale 16-bit, 32-bit and float samples: by their nominal range, then, for what is dim there, by their own."""
    low, high = _extremes(raw)
    nominal = next((top for top in (1.0, 255.0, 65535.0) if high <= top and low >= 0), max(high - low, 1e-30))
    base = low if low < 0 else 0.0

    def scaled(zero: float, full: float) -> _View:
        return _View(raw.width, raw.height, lambda start, stop: (raw.rows(start, stop) - np.float32(zero)) * np.float32(255 / full))

    yield scaled(base, nominal)
    if _STRETCH_FROM < (high - low) * 255 / nominal < _PLAIN_SPAN:
        yield scaled(low, (high - low) * 255 / _PLAIN_SPAN)


def _extremes(view: _View) -> tuple[float, float]:
    bands = [(float(band.min()), float(band.max())) for _, band in _bands(view, 1)]
    return min(low for low, _ in bands), max(high for _, high in bands)


def _bands(view: _View, multiple: int) -> Iterator[tuple[int, Levels]]:
    """Answer the view from top to bottom as (first row, levels), each band a multiple of `multiple` rows high but the last."""
    height = max(1, _BAND_PIXELS // view.width // multiple) * multiple
    for start in range(0, view.height, height):
        yield start, view.rows(start, min(view.height, start + height))


def _shows_something(view: _View) -> bool:
    ground = _ground(view)
    if ground is None:
        return True
    if _span(_without_shading(ground.means)) > max(_UNEVEN_SPAN, 8 * ground.noise / _CELL_MIN):
        return True
    return _stands_out(view, ground) or _has_pattern(view, ground)


def _span(levels: Levels) -> float:
    return float(np.ptp(levels, axis=(0, 1)).max())


def _ground(view: _View) -> _Ground | None:
    """Measure the coarse look, or answer None as soon as the page is plainly not plain."""
    columns, lines = (_edges(side) for side in (view.width, view.height))
    together = max(1, _BAND_PIXELS // view.width // int(np.diff(lines).max()))
    parts: list[tuple[Levels, ...]] = []
    for first in range(0, len(lines) - 1, together):
        rows = lines[first : first + together + 1]
        band = view.rows(int(rows[0]), int(rows[-1]))
        parts.append((_cell_means(band, rows - rows[0], columns), *_cell_samples(band, rows - rows[0], columns)))
        if _span(np.concatenate([part[0] for part in parts])) > _PLAIN_SPAN:
            return None
    means, medians, stds, tails = (np.concatenate(values) for values in zip(*parts, strict=True))
    noise = float(np.median(stds))
    return _Ground(
        means=means,
        medians=medians,
        noise=noise,
        noise_spread=float(np.percentile(stds, 98)) / max(noise, 0.5),
        noise_tail=float(np.percentile(tails, 98)),
        centres_x=_centres(columns),
        centres_y=_centres(lines),
    )


def _edges(side: int) -> NDArray[np.int64]:
    cells = max(1, side // _CELL_MAX, min(_GRID, side // _CELL_MIN))
    return np.linspace(0, side, cells + 1).astype(np.int64)


def _centres(edges: NDArray[np.int64]) -> Levels:
    return ((edges[:-1] + edges[1:] - 1) / 2).astype(np.float32)


def _cell_means(band: Levels, lines: NDArray[np.int64], columns: NDArray[np.int64]) -> Levels:
    sums = np.add.reduceat(np.add.reduceat(band, columns[:-1], axis=1), lines[:-1], axis=0)
    areas = np.outer(np.diff(lines), np.diff(columns))[..., None]
    means: Levels = (sums / areas).astype(np.float32)
    return means


def _cell_samples(band: Levels, lines: NDArray[np.int64], columns: NDArray[np.int64]) -> tuple[Levels, Levels, Levels]:
    """Answer, by cell: the median of a sparse sample; standard deviation and largest deviation (in such) of its middle."""
    sparse = _gathered(band, lines, columns, lambda size, count: (np.arange(count) * size) // count, _CELL_MIN)
    medians = np.median(sparse, axis=(1, 3))
    patches = _gathered(band, lines, columns, lambda size, count: (size - count) // 2 + np.arange(count), _PATCH)
    stds = patches.std(axis=(1, 3))
    tails = np.abs(patches - patches.mean(axis=(1, 3), keepdims=True)).max(axis=(1, 3)) / np.maximum(stds, 0.5)
    return medians.astype(np.float32), stds.max(axis=2), tails.max(axis=2)


def _gathered(
    band: Levels,
    lines: NDArray[np.int64],
    columns: NDArray[np.int64],
    places: Callable[[int, int], NDArray[np.int64]],
    count: int,
) -> Levels:
    """Answer `count` x `count` pixels of every cell as (line, y, column, x, channel)."""
    down, across = (min(count, int(np.diff(edges).min())) for edges in (lines, columns))
    y = np.concatenate([start + places(int(size), down) for start, size in zip(lines, np.diff(lines), strict=False)])
    x = np.concatenate([start + places(int(size), across) for start, size in zip(columns, np.diff(columns), strict=False)])
    picked: Levels = band[np.ix_(y, x)].reshape(len(lines) - 1, down, len(columns) - 1, across, -1)
    return picked


def _without_shading(means: Levels) -> Levels:
    """Take the best-fitting quadratic surface away from a grid of means."""
    lines, columns, channels = means.shape
    y, x = (axis.ravel() for axis in np.mgrid[-1 : 1 : lines * 1j, -1 : 1 : columns * 1j])
    terms = np.stack([np.ones_like(x), x, y, x * y, x * x, y * y], axis=1)
    flat = means.reshape(-1, channels).astype(np.float64)
    surface = terms @ np.linalg.lstsq(terms, flat, rcond=None)[0]
    rest: Levels = (flat - surface).reshape(means.shape).astype(np.float32)
    return rest


def _stands_out(view: _View, ground: _Ground) -> bool:
    """Answer whether pixels, or blocks of them, differ from the ground around them by more than noise does."""
    strong = _STRONG if not _is_grain(ground) else max(_STRONG, _NOISE_FACTOR * ground.noise)
    faint = max(_FAINT, _NOISE_FACTOR * ground.noise)
    area = view.width * view.height
    least = max(1, min(_STRONG_PIXELS, area // 1024))
    backdrop = _backdrop(view, ground)
    blocks = []
    for start, band in _bands(view, 2 * _BLOCK):
        difference = band - backdrop(start, band.shape[0])
        off = np.abs(difference).max(axis=2)
        if _crowd(off > strong) >= least or _crowd(off > faint) >= max(least, _FAINT_PIXELS * least // _STRONG_PIXELS):
            return True
        blocks.append(_block_means(difference))
    return _blocks_stand_out(np.concatenate(blocks), ground)


def _is_grain(ground: _Ground) -> bool:
    """Answer whether the roughness is that of sensor noise: everywhere alike and without outliers."""
    return ground.noise <= _NOISE_MAX and ground.noise_spread < 1.6 and ground.noise_tail < 6.5  # noqa: PLR2004  (measured bounds of noise in 16 x 16 pixels)


def _backdrop(view: _View, ground: _Ground) -> Callable[[int, int], Levels]:
    """Answer the local ground for any band: cell medians, rid of lone cells, interpolated between the cells' centres."""
    smooth = _median_of_neighbours(ground.medians)
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


def _crowd(marked: NDArray[np.bool_]) -> int:
    """Answer the largest number of marked pixels in any window of 16 x 16, windows half overlapping."""
    if not marked.any():
        return 0
    height, width = (-(-side // _BLOCK) * _BLOCK for side in marked.shape)
    padded = np.zeros((height + _BLOCK, width + _BLOCK), dtype=np.uint8)
    padded[: marked.shape[0], : marked.shape[1]] = marked
    counts = padded.reshape(padded.shape[0] // _BLOCK, _BLOCK, -1, _BLOCK).sum(axis=(1, 3), dtype=np.int32)
    windows = counts[:-1, :-1] + counts[1:, :-1] + counts[:-1, 1:] + counts[1:, 1:]
    return int(windows.max())


def _block_means(difference: Levels) -> Levels:
    lines, columns = difference.shape[0] // _BLOCK, difference.shape[1] // _BLOCK
    whole = difference[: lines * _BLOCK, : columns * _BLOCK]
    means: Levels = whole.reshape(lines, _BLOCK, columns, _BLOCK, difference.shape[2]).mean(axis=(1, 3))
    return means


def _blocks_stand_out(blocks: Levels, ground: _Ground) -> bool:
    """Answer whether a few neighbouring 8 x 8 blocks differ together, or the blocks differ all over more than grain allows."""
    if blocks.size == 0:
        return False
    usual = 1.4826 * float(np.median(np.abs(blocks), axis=(0, 1)).max())
    if usual > max(3.0, 0.4 * ground.noise):
        return True
    marked = np.abs(blocks).max(axis=2) > max(_BLOCK_SPAN, 6 * usual)
    if not marked.any():
        return False
    padded = np.pad(marked.astype(np.int32), 1)
    lines, columns = marked.shape
    together = sum(padded[y : y + lines, x : x + columns] for y in range(3) for x in range(3))
    return int(np.max(together)) >= _BLOCKS_TOGETHER


def _has_pattern(view: _View, ground: _Ground) -> bool:
    """Answer whether what looks like grain repeats itself: a weave, a screen, fine print all over."""
    if ground.noise < 2.0:  # noqa: PLR2004  (a pattern of under two levels is dithering)
        return False
    side = min(256, view.width, view.height)
    reach = min(64, side // 3)
    if reach <= 2 * _BLOCK:
        return False
    top, left = (view.height - side) // 2, (view.width - side) // 2
    crop = view.rows(top, top + side)[:, left : left + side]
    crop = crop - crop.mean(axis=(0, 1))
    power = np.abs(np.fft.fft2(crop, s=(2 * side, 2 * side), axes=(0, 1))) ** 2
    likeness = np.fft.ifft2(power, axes=(0, 1)).real
    likeness /= np.maximum(likeness[0, 0], 1e-9)
    near = np.zeros(likeness.shape[:2], dtype=bool)
    near[:_LAG_FROM, :_LAG_FROM] = True
    return bool(np.abs(likeness[:reach, :reach][~near[:reach, :reach]]).max() > 0.25)  # noqa: PLR2004  (grain repeats by chance to under 0.1)
