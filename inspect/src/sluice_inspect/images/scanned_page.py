"""The blank rule for an empty page as a scanner or phone leaves it: uneven light, dark edges, holes, folds, staples."""
# `blank.py` takes a page for content when something stands out. Here the page is modelled: what is smooth is light,
# what lies in a known place in a known shape is a trace of handling. Both are subtracted, and what is left is judged by
# `blank.py` again, in full resolution. Whatever the model does not explain is content.
#
# Lengths are in millimetres of a page whose longer side is 297; on smaller paper they are up to 1.4 times as long.

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from sluice_inspect.images.views import Levels, PictureView, max_over_channels

_Mask = NDArray[np.bool_]
_Line = NDArray[np.float32]

_LONGER: Final = 297.0
_SIDE: Final = 1188  # pixels of the longer side at which the page is modelled: 4 in a millimetre
_LEAST_LONGER, _LEAST_SHORTER = 400, 280  # smaller pictures are no scans
_MOST_ASPECT: Final = 2.3
_GRAIN: Final = 2.0  # millimetres of a cell of the background
_WINDOW: Final = 7  # cells whose median is the background
_RICH: Final = 0.2  # share of cells off the background that no empty page has
_RICH_PIXELS: Final = 0.08  # the same of pixels, once edges, folds and holes are explained
_FILL: Final = 160.0  # level of the page when its light is subtracted

_OFF: Final = 6.0  # levels off the background from which a difference is examined, if noise is below a fifth of it
_EDGE_MOST: Final = 0.1  # share of a side up to which the dark edge of a scan reaches
_BLEEDING: Final = 20.0  # levels by which the text of the other side is seen at most
_LEFT: Final = 0.02  # share of the marks that may be left when the text of the other side is subtracted
_FOLDS: Final = (1 / 4, 1 / 3, 1 / 2, 2 / 3, 3 / 4)


@dataclass(slots=True)
class _Page:
    """A page at the scale of the model: what it shows, and what of it is explained."""

    levels: Levels
    background: Levels
    surface: Levels  # the same as a smooth surface throughout
    scale: float  # pixels in a millimetre
    noise: float
    quantum: float  # levels between neighbouring levels of a page that was compressed heavily
    grey_quantum: float  # the same without its colours
    masked: _Mask  # what is explained by its shape and place
    folds: list[tuple[bool, _Line]]

    @property
    def off(self) -> NDArray[np.float32]:
        """The largest difference of a channel to the background, nothing where it is explained."""
        worst = max_over_channels(np.abs(self.levels - self.background))
        worst[self.masked] = 0
        return worst

    @property
    def threshold(self) -> float:
        return max(_OFF, 5 * self.noise, 1.2 * self.quantum if self.quantum >= 2 else 0.0)


def may_be_page(size: tuple[int, int]) -> bool:
    """Return whether a picture has the size and shape of a scanned page."""
    longer, shorter = max(size), min(size)
    return longer >= _LEAST_LONGER and shorter >= _LEAST_SHORTER and longer <= _MOST_ASPECT * shorter


def without_traces(image: Image.Image, view: PictureView) -> PictureView | None:
    """Return the view of an empty page without its light and traces of handling; None if more than that is on it."""
    page = _page(view)
    if page is None:
        return None
    tables: dict[int, list[int]] = getattr(image, "quantization", None) or {}
    steps = [table[0] / 8 for _, table in sorted(tables.items()) if table]  # between the means of blocks of a JPEG
    if steps:
        page.grey_quantum = max(page.grey_quantum, steps[0])
        page.quantum = max(page.quantum, steps[0], 1.77 * max(steps))  # colours are weighted in RGB
    _model_edges(page)
    _model_folds(page)
    _mask_handling(page)
    if (page.off > 2 * page.threshold).mean() > _RICH_PIXELS:
        return None
    unexplained = _unexplained(page)
    if unexplained and not _absorb_bleeding(page, unexplained):
        return None
    if not _is_light(page, is_blotched=bool(unexplained)):
        return None
    return _corrected(page, view)


def _page(view: PictureView) -> _Page | None:
    factor = max(1.0, max(view.width, view.height) / _SIDE)
    width, height = round(view.width / factor), round(view.height / factor)
    levels = _reduced(view, width, height)
    scale = max(width, height) / _LONGER
    cell = max(2, round(_GRAIN * scale))
    rows, columns = height // cell, width // cell
    blocks = levels[: rows * cell, : columns * cell].reshape(rows, cell, columns, cell, -1).transpose(0, 2, 4, 1, 3)
    grid = np.median(blocks.reshape(rows, columns, levels.shape[2], -1), axis=3).astype(np.float32)
    surface = _surface(grid)
    half = _WINDOW // 2
    padded = np.pad(grid - surface, ((half, half), (half, half), (0, 0)), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, (_WINDOW, _WINDOW), axis=(0, 1))
    smooth = surface + np.median(windows, axis=(3, 4)).astype(np.float32)
    if (max_over_channels(np.abs(grid - smooth)) > 2 * _OFF).mean() > _RICH:
        return None
    steps = np.diff(levels, axis=1)
    noise = float(1.4826 * np.median(np.abs(steps - np.median(steps))) / math.sqrt(2))
    return _Page(
        levels,
        background=_resized(smooth, width, height),
        surface=_resized(surface, width, height),
        scale=scale,
        noise=max(noise, 0.5),
        quantum=_quantum(levels),
        grey_quantum=_quantum(levels.mean(axis=2, keepdims=True)),
        masked=np.zeros((height, width), dtype=bool),
        folds=[],
    )


def _surface(grid: Levels) -> Levels:
    """Return the surface of the fourth degree that fits a grid best, without its outermost cells and what is off it."""
    rows, columns, channels = grid.shape
    y, x = (axis.ravel() for axis in np.mgrid[-1 : 1 : rows * 1j, -1 : 1 : columns * 1j])
    terms = _powers(x, y)
    values = grid.reshape(-1, channels).astype(np.float64)
    used = np.maximum(np.abs(x), np.abs(y)) < 1 - 2 * _EDGE_MOST
    for _ in range(3):
        surface = terms @ _fitted(terms[used], values[used])
        off = np.abs(values - surface).max(axis=1)
        used &= off <= max(4.0, 3 * float(np.median(off[used])))
        if used.sum() < 60:
            break
    fitted: Levels = surface.reshape(grid.shape).astype(np.float32)
    return fitted


def _fitted(terms: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors by which terms fit values best."""
    # By the normal equations: they are few, and well conditioned between -1 and 1.
    return np.asarray(np.linalg.lstsq(terms.T @ terms, terms.T @ values, rcond=None)[0], dtype=np.float64)


def _powers(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([x**a * y**b for a in range(5) for b in range(5 - a)], axis=1)


def _resized(grid: Levels, width: int, height: int) -> Levels:
    planes = (Image.fromarray(np.ascontiguousarray(grid[..., channel])) for channel in range(grid.shape[2]))
    plane: Levels = np.stack(
        [np.asarray(one.resize((width, height), Image.Resampling.BICUBIC)) for one in planes], axis=2
    )
    return plane


def _quantum(levels: Levels) -> float:
    """Return the distance of the few levels that heavy compression leaves on a page; 0 if there are many."""
    largest = 0.0
    for channel in range(levels.shape[2]):
        counts = np.bincount(levels[..., channel].round().astype(np.int64).ravel(), minlength=256)
        common = np.flatnonzero(counts > 0.004 * counts.sum())
        peaks = [level for level in common if counts[level] == counts[max(0, level - 2) : level + 3].max()]
        if len(peaks) > 1 and counts[peaks].sum() > 0.6 * counts.sum():
            largest = max(largest, float(np.median(np.diff(peaks))))
    return largest if largest >= 3 else 0.0


def _reduced(view: PictureView, width: int, height: int) -> Levels:
    """Return the whole view in a smaller size, read in bands."""
    rows = max(1, 1_000_000 // max(1, view.width))
    strips = []
    edges = [*range(0, height, max(1, round(rows * height / view.height))), height]
    for top, bottom in pairwise(edges):
        start, stop = (round(line * view.height / height) for line in (top, bottom))
        band = view.band(start, stop).resize((width, bottom - top), Image.Resampling.BOX)
        strips.append(np.asarray(band, dtype=np.float32).reshape(bottom - top, width, -1))
    return np.concatenate(strips)


# The dark edges of a scan, and folds: their brightness is the same all along a line


def _rotations(page: _Page) -> Iterator[tuple[Levels, Levels, _Mask]]:
    """Yield levels, background and mask, turned so that each edge of the page is on top. Changes reach the page."""
    for turn in range(4):
        yield np.rot90(page.levels, turn), np.rot90(page.background, turn), np.rot90(page.masked, turn)


def _model_edges(page: _Page) -> None:
    depths = []
    for turn, (levels, background, masked) in enumerate(_rotations(page)):
        most = int(_EDGE_MOST * levels.shape[0])
        off = max_over_channels(np.abs(levels[:most] - np.rot90(page.surface, turn)[:most])) > max(8.0, page.threshold)
        window = max(3, round(8 * page.scale))
        smooth = _smoothed(off.astype(np.float32), window) > 0.5  # a shadow is there all along, letters are not
        near = round(2.5 * page.scale)
        starts = smooth[:near].any(axis=0)
        depths.append(0)
        if starts.mean() < 0.25:  # less is the shadow of a neighbouring edge
            continue
        depth = np.where(starts, np.where(smooth, np.arange(1, most + 1)[:, None], 0).max(axis=0), 0).astype(np.float32)
        line = _straightened(depth, page.scale)
        _subtract_along(page.scale, (levels, background, masked), line, (-most, round(5 * page.scale)))
        depths[-1] = round(float(np.percentile(line, 98)) + 4.5 * page.scale)
    for turn, (_, _, masked) in enumerate(_rotations(page)):
        masked[: max(1, round(1.5 * page.scale))] = True
        # Where two edges meet, neither is the same all along.
        if depths[turn] and depths[(turn - 1) % 4]:
            masked[: depths[turn], : depths[(turn - 1) % 4]] = True


def _straightened(depth: _Line, scale: float) -> _Line:
    """Return a line through depths without what sticks out of it."""
    window = max(3, round(20 * scale)) | 1
    padded = np.pad(depth, window // 2, mode="edge")
    line: _Line = np.median(np.lib.stride_tricks.sliding_window_view(padded, window), axis=1).astype(np.float32)
    return line


def _smoothed(plane: NDArray[np.float32], window: int) -> NDArray[np.float32]:
    """Return running means along the rows."""
    total = np.cumsum(np.pad(plane, ((0, 0), (window // 2 + 1, window - window // 2 - 1)), mode="edge"), axis=1)
    means: NDArray[np.float32] = ((total[:, window:] - total[:, :-window]) / window).astype(np.float32)
    return means


def _subtract_along(scale: float, planes: tuple[Levels, Levels, _Mask], line: _Line, reach: tuple[int, int]) -> None:
    """Make the brightness that is usual at each distance from a line across the page the background there.

    What is there only here and there, such as a word in the shadow, still differs from it.
    """
    levels, background, masked = planes
    height, width = levels.shape[:2]
    offsets = np.arange(reach[0], reach[1] + 1)
    rows = np.rint(line)[None, :].astype(np.int64) + offsets[:, None]
    inside = (rows >= 0) & (rows < height)
    rows = np.clip(rows, 0, height - 1)
    columns = np.broadcast_to(np.arange(width), rows.shape)
    values = np.where(inside[..., None], levels[rows, columns], np.nan)
    count = max(2, round(width / (18 * scale)))
    edges = np.linspace(0, width, count + 1).astype(np.int64)
    with np.errstate(all="ignore"):
        middles = np.stack([_nan_median(values[:, left:right]) for left, right in pairwise(edges)], axis=1)
    centres = (edges[:-1] + edges[1:]) / 2
    usual = np.empty_like(values)
    for row in range(len(offsets)):
        for channel in range(levels.shape[2]):
            known = ~np.isnan(middles[row, :, channel])
            usual[row, :, channel] = (
                np.interp(np.arange(width), centres[known], middles[row, known, channel]) if known.any() else np.nan
            )
    valid = inside & ~np.isnan(usual[..., 0])
    background[rows[valid], columns[valid]] = usual[valid]
    # A sharp transition is a matter of single pixels.
    slope = max_over_channels(np.abs(np.diff(usual, axis=0, append=usual[-1:])))
    steep = _grown_down(np.nan_to_num(slope) > 6, max(2, round(0.6 * scale))) & valid
    masked[rows[steep], columns[steep]] = True


def _nan_median(values: Levels) -> NDArray[np.float32]:
    known = ~np.isnan(values[..., 0])
    enough = known.mean(axis=1) > 0.3
    middle = np.full((values.shape[0], values.shape[2]), np.nan, dtype=np.float32)
    if enough.any():
        middle[enough] = np.nanmedian(values[enough], axis=1)
    return middle


def _grown_down(mask: _Mask, by: int) -> _Mask:
    """Return a mask that reaches `by` rows further up and down."""
    padded = np.pad(mask, ((by, by), (0, 0)))
    grown: _Mask = np.asarray(np.lib.stride_tricks.sliding_window_view(padded, 2 * by + 1, axis=0).any(axis=2))
    return grown


def _model_folds(page: _Page) -> None:
    for is_turned, (levels, background, masked) in zip((False, True), _rotations(page), strict=False):
        found: list[float] = []
        for share in _FOLDS:
            line = _fold_line(page, levels, background, share)
            if line is None or any(abs(float(line.mean()) - other) < 8 * page.scale for other in found):
                continue
            found.append(float(line.mean()))
            reach = round(10 * page.scale)
            _subtract_along(page.scale, (levels, background, masked), line, (-reach, reach))
            page.folds.append((is_turned, line))


def _fold_line(page: _Page, levels: Levels, background: Levels, share: float) -> _Line | None:
    """Return the rows of a fold near a share of the height: a faint straight line that reaches both edges."""
    height, width = levels.shape[:2]
    middle, reach = share * height, round(0.025 * height + 1.5 * page.scale)
    top = max(0, round(middle) - reach)
    band = (levels - background)[top : round(middle) + reach].mean(axis=2)
    count = max(8, round(width / (7 * page.scale)))
    edges = np.linspace(0, width, count + 1).astype(np.int64)
    means = np.stack([np.median(band[:, a:b], axis=1) for a, b in pairwise(edges)], axis=1)
    means = np.abs(means - np.median(means, axis=0))
    rows = means.argmax(axis=0)
    depths = means.max(axis=0)
    places = (np.arange(count) + 0.5) / count
    seen = depths > max(1.5, 1.2 * page.noise)
    if seen.mean() < 0.6:
        return None
    # A line through the most pairs, as the darkest rows of some chunks are other marks.
    best, line = 0, np.zeros(count)
    for left in np.flatnonzero(seen)[: count // 3 : 2]:
        for right in np.flatnonzero(seen)[-(count // 3) :: 2]:
            if right <= left:
                continue
            slope = (rows[right] - rows[left]) / (places[right] - places[left])
            guess = rows[left] + slope * (places - places[left])
            near = int((seen & (np.abs(rows - guess) <= 1.0 * page.scale)).sum())
            if near > best and abs(slope) < 4 * page.scale:
                best, line = near, guess
    on_line = seen & (np.abs(rows - line) <= 1.0 * page.scale)
    reaches = max(2, count // 12)
    if best < 0.6 * count or on_line[:reaches].sum() < reaches - 1 or on_line[-reaches:].sum() < reaches - 1:
        return None
    if float(np.median(depths[on_line])) > 75:  # a drawn line
        return None
    slope, start = np.polyfit(places[on_line], rows[on_line], 1)
    fold: _Line = (top + start + slope * (np.arange(width) + 0.5) / width).astype(np.float32)
    return fold


# Holes and staples


@dataclass(frozen=True, slots=True)
class _Part:
    """Connected marks; its box and centre are in millimetres."""

    cells: NDArray[np.int64]  # rows and columns of the grid of half millimetres
    left: float
    top: float
    right: float
    bottom: float
    contrast: float

    @property
    def size(self) -> int:
        return len(self.cells)

    @property
    def centre(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.bottom - self.top


_CELL: Final = 0.5  # millimetres
_CELLS_MOST: Final = 40_000


def _parts(page: _Page) -> list[_Part]:
    """Return what stands out of the background, in connected parts. Too much of it is one part."""
    off = page.off
    step = max(1, round(_CELL * page.scale))
    rows, columns = -(-off.shape[0] // step), -(-off.shape[1] // step)
    padded = np.zeros((rows * step, columns * step), dtype=np.float32)
    padded[: off.shape[0], : off.shape[1]] = off
    # place by place within the cells, as along planes
    places = [padded[y::step, x::step] for y in range(step) for x in range(step)]
    strongest = reduce(np.maximum, places)
    counts = sum((place > page.threshold).astype(np.uint8) for place in places)
    marked = (counts >= min(2, step * step)) | (strongest > 2 * page.threshold)
    unit = step / page.scale
    found = np.argwhere(marked)
    if len(found) > _CELLS_MOST:
        return [_part(found, strongest, unit)]
    left = {(int(y), int(x)) for y, x in found}
    parts = []
    while left:
        stack = [left.pop()]
        cells = []
        while stack:
            y, x = stack.pop()
            cells.append((y, x))
            for near in ((y + dy, x + dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)):
                if near in left:
                    left.remove(near)
                    stack.append(near)
        parts.append(_part(np.array(cells), strongest, unit))
    return parts


def _unexplained(page: _Page) -> list[_Part]:
    """Return the parts that are beyond doubt; small and faint ones are judged in full resolution."""
    return [part for part in _parts(page) if part.size > 2 and (part.size > 8 or part.contrast > 2 * page.threshold)]


def _part(cells: NDArray[np.int64], strongest: NDArray[np.float32], unit: float) -> _Part:
    (top, left), (bottom, right) = cells.min(axis=0), cells.max(axis=0) + 1
    contrast = float(np.percentile(strongest[cells[:, 0], cells[:, 1]], 90))
    return _Part(cells, left * unit, top * unit, right * unit, bottom * unit, contrast)


def _mask_handling(page: _Page) -> None:
    height, width = (side / page.scale for side in page.masked.shape)
    parts = [part for part in _parts(page) if part.size > 1]
    for part in (*_holes(parts, width, height), *_staples(parts, width, height)):
        pad = 1.5
        top, bottom = (round((line + sign * pad) * page.scale) for line, sign in ((part.top, -1), (part.bottom, 1)))
        left, right = (round((line + sign * pad) * page.scale) for line, sign in ((part.left, -1), (part.right, 1)))
        page.masked[max(0, top) : bottom, max(0, left) : right] = True


def _holes(parts: list[_Part], width: float, height: float) -> list[_Part]:
    """Return the punched holes: round, alike, in a line along an edge, and symmetric about the middle of that edge."""
    round_ones = [
        part
        for part in parts
        if 3.5 <= part.width <= 13
        and 3.5 <= part.height <= 13
        and 0.7 < part.width / part.height < 1.4
        and part.size * _CELL**2 > 0.3 * part.width * part.height
    ]
    holes = []
    for along, across, length, depth in ((1, 0, height, width), (0, 1, width, height)):
        for near in (False, True):
            row = [
                part for part in round_ones if 4 < (depth - part.centre[across] if near else part.centre[across]) < 24
            ]
            for part in row:
                mirrored = length - part.centre[along]
                if any(
                    abs(other.centre[along] - mirrored) < 0.06 * length
                    and abs(other.centre[across] - part.centre[across]) < 4
                    and 0.7 < other.width / part.width < 1.4
                    and (other is not part or len(row) % 2 == 1)
                    for other in row
                ) and len(row) in {2, 3, 4, 6}:
                    holes.append(part)
    return holes


def _staples(parts: list[_Part], width: float, height: float) -> list[_Part]:
    """Return the staples and their holes: short straight lines, or two dots as far apart, near a corner of the page."""
    staples: list[_Part] = []
    for right in (False, True):
        for low in (False, True):
            corner = [
                part
                for part in parts
                if (width - part.left if right else part.right) < 34
                and (height - part.top if low else part.bottom) < 34
            ]
            if len(corner) > 4:
                continue
            dots = [part for part in corner if max(part.width, part.height) <= 3 and part.contrast > 25]
            cut = [
                dot
                for dot in dots
                if min(width - dot.right if right else dot.left, height - dot.bottom if low else dot.top) < 7
                and 0.6 < dot.width / dot.height < 1.7
            ]  # the other hole may lie outside of what was scanned
            if len(dots) == 1 and cut:
                staples += cut
            if len(dots) == 2 and 6 < math.dist(dots[0].centre, dots[1].centre) < 21:
                staples += dots
            staples += [part for part in corner if part.contrast > 40 and _is_straight(part)]
    return staples


def _is_straight(part: _Part) -> bool:
    points = part.cells * _CELL
    centred = points - points.mean(axis=0)
    long, short = np.sqrt(np.maximum(np.linalg.eigvalsh(np.cov(centred.T))[::-1], 1e-6)) * math.sqrt(12)
    return bool(6 <= long <= 21 and short < 2.6 and short < 0.25 * long)


# What is plausible as light, and what shines through


def _is_light(page: _Page, *, is_blotched: bool) -> bool:
    """Return whether the background is a page under some lamp: grey or of one tint, bright, and smooth throughout."""
    step = max(1, round(4 * page.scale))
    grid = page.background[step // 2 :: step, step // 2 :: step]
    rows, columns = grid.shape[:2]
    border = max(1, round(0.11 * min(rows, columns)))
    y, x = (axis.ravel() for axis in np.mgrid[-1 : 1 : rows * 1j, -1 : 1 : columns * 1j])
    inner = np.zeros((rows, columns), dtype=bool)
    inner[border:-border, border:-border] = True
    grey = grid.mean(axis=2)
    values, used = grey.ravel().astype(np.float64), inner.ravel()
    low, high = (float(np.percentile(values[used], share)) for share in (1, 99))
    span = high - low
    if span > 40:
        if high < 150 or low < 0.35 * high or span > 140:
            return False
        if grid.shape[2] == 3:
            tint = grid[inner] / np.maximum(grid[inner].mean(axis=1, keepdims=True), 1)
            if float(np.ptp(np.median(tint, axis=0))) > 0.25:
                return False
            if float(np.percentile(np.abs(tint - np.median(tint, axis=0)), 97)) > 0.03 + (
                page.quantum / 150 if page.quantum >= 3 else 0
            ):
                return False
    terms = list(_powers(x, y).T)
    height, width = page.masked.shape
    for is_turned, line in page.folds:
        # A page that is turned to the left has its right edge on top.
        place, other, length = (-x, y, width) if is_turned else (y, x, height)
        where = np.interp((other + 1) / 2 * (len(line) - 1), np.arange(len(line)), line) / length * 2 - 1
        distance = (place - where) * length / 2 / page.scale
        terms += [np.sign(distance), np.sign(distance) * np.exp(-np.abs(distance) / 12), np.exp(-np.abs(distance) / 12)]
        used = used & (np.abs(distance) > 11)
    matrix = np.stack(terms, axis=1)
    rest = values - matrix @ _fitted(matrix[used], values[used])
    return float(np.percentile(np.abs(rest[used]), 98)) <= max(6.0 if is_blotched else 1.6, 0.05 * span) + (
        0.5 * page.grey_quantum if page.grey_quantum >= 3 else 0
    )


def _absorb_bleeding(page: _Page, parts: list[_Part]) -> bool:
    """Take for background what shines through from the other side: faint, blurred lines of text all over the page."""
    if len(parts) < 20 or np.percentile([part.contrast for part in parts], 95) > _BLEEDING:
        return False
    rest = page.levels - page.background
    rest[page.masked] = 0
    blurred = _blurred(rest, max(1, round(0.5 * page.scale)))
    marked = page.off > page.threshold
    is_darker = rest.min(axis=2) < -0.5 * page.threshold
    if float(np.median(page.background)) < 150 or is_darker[marked].mean() < 0.97:
        return False
    # What the paper blurred has no edges: little is left without its own blur.
    edges = float(np.sqrt(max(np.square((rest - _blurred(rest, 1))[marked]).mean() - page.noise**2, 0.0)))
    if edges > 0.3 * float(np.abs(rest[marked]).max(axis=1).mean()):
        return False
    page.background += np.clip(blurred, -1.3 * _BLEEDING, 0)
    # What little is left is judged in full resolution.
    return sum(part.size for part in _unexplained(page)) <= _LEFT * sum(part.size for part in parts)


def _blurred(levels: Levels, by: int) -> Levels:
    """Return means over squares that reach `by` pixels in each direction."""
    side = 2 * by + 1
    total = np.cumsum(np.pad(levels, ((by + 1, by), (by, by), (0, 0)), mode="edge"), axis=0, dtype=np.float64)
    total = np.cumsum(np.pad(total[side:] - total[:-side], ((0, 0), (1, 0), (0, 0))), axis=1)
    means: Levels = ((total[:, side:] - total[:, :-side]) / side**2).astype(np.float32)
    return means


def _corrected(page: _Page, view: PictureView) -> PictureView:
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
        if page.quantum >= 2:
            rest = np.sign(rest) * np.maximum(np.abs(rest) - 0.8 * page.quantum, 0)
        rest[np.asarray(covered.resize(size, Image.Resampling.BILINEAR, box=box)) > 0] = 0
        pixels = np.clip(rest + _FILL, 0, 255).round().astype(np.uint8)
        return Image.fromarray(pixels if pixels.shape[2] > 1 else pixels[..., 0])

    return PictureView(view.width, view.height, band)
