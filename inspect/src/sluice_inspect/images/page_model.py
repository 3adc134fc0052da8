"""A scanned page as numbers: its levels at one scale, its background, and what of it is explained."""
# Lengths are in millimetres of a page whose longer side is 297; on smaller paper they are up to 1.4 times as long.

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from PIL import Image

from sluice_inspect.images.views import Levels, PictureView, max_over_channels

if TYPE_CHECKING:
    from numpy.typing import NDArray

Mask: TypeAlias = "NDArray[np.bool_]"
Line: TypeAlias = "NDArray[np.float32]"
_LONGER: Final = 297.0
_SIDE: Final = 1188  # pixels of the longer side at which the page is modelled: 4 in a millimetre
_SHARP: Final = 1.1  # millimetres around a pixel whose mean it is compared with
_GRAIN: Final = 2.0  # millimetres of a cell of the background
_WINDOW: Final = 7  # cells that the background is taken from
_PAPER_SHARE: Final = 65  # per cent of them that may be darker: holes along an edge
_RICH: Final = 0.2  # share of cells off the background that no empty page has
_QUANTUM_MOST: Final = 8.0  # levels between two levels of a page, unless its compression states more; more is print
_OFF: Final = 6.0  # levels off the background from which a difference is examined, if noise is below a fifth of it
_SPREAD_90: Final = 2.1  # standard deviations of noise below which the largest of three channels is in 90 % of pixels
_SPREAD_MOST: Final = 3.0  # levels of such noise; more is print
EDGE_MOST: Final = 0.1  # share of a side up to which the dark edge of a scan reaches
POWERS: Final = [(a, b) for a in range(5) for b in range(5 - a)]
_BLOTCHED: Final = 1.15  # times as rough as its noise, at the width of strokes
_LINED: Final = 2.5  # times as rough as along its lines is a page of text across them
_TRACE: Final = 2.0  # levels, without noise, of the text of the other side
_TRACES_LEAST: Final = 0.005  # share of the page that it takes
_TRACE_EDGES: Final = 0.45  # share of these levels that its edges have: the paper blurs it
_TRACE_DEEP: Final = 6.0  # levels of its darkest part that may as well be faint text of this side
_TRACE_EDGES_DEEP: Final = 0.32
CELLS_LEAST: Final = 60
PAPER: Final = 110.0  # level of the background below which no page is seen


@dataclass(slots=True)
class Page:
    """A page at the scale of the model: what it shows, and what of it is explained."""

    levels: Levels
    background: Levels
    surface: Levels  # the same as a smooth surface throughout
    scale: float  # pixels in a millimetre
    noise: float
    quantum: float  # levels between neighbouring levels of a page that was compressed heavily
    grey_quantum: float  # the same without its colours
    subdued: float  # levels that are taken off all that is left: of compression, and of the text of the other side
    masked: Mask  # what is explained by its shape and place
    folds: list[tuple[bool, Line]]

    @property
    def off(self) -> NDArray[np.float32]:
        """The largest difference of a channel to the background, nothing where it is explained."""
        return self.off_in(np.s_[:, :])

    def off_in(self, box: tuple[slice, slice]) -> NDArray[np.float32]:
        """Return the same for a box of the page alone."""
        worst = max_over_channels(np.abs(self.levels[box] - self.background[box]))
        worst[self.masked[box]] = 0
        return worst

    @property
    def threshold(self) -> float:
        """Levels off the background from which a difference is a mark."""
        return max(_OFF, 5 * self.noise, 1.2 * self.quantum if self.quantum >= 2 else 0.0)


def read_page(view: PictureView, compressed: list[float]) -> Page | None:
    """Return a page at the scale of the model; None if too much is on it.

    `compressed`: the steps between levels that compression left, of grey and then of colours.
    """
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
    smooth = surface + np.percentile(windows, _PAPER_SHARE, axis=(3, 4)).astype(np.float32)
    if (max_over_channels(np.abs(grid - smooth)) > 2 * _OFF).mean() > _RICH:
        return None
    steps = np.diff(levels, axis=1)
    noise = max(0.5, float(1.4826 * np.median(np.abs(steps - np.median(steps))) / math.sqrt(2)))
    quantum, grey_quantum = _quantum(levels), _quantum(levels.mean(axis=2, keepdims=True))
    for number, step in enumerate(compressed):
        quantum = max(quantum, step * (1.77 if number else 1.0))  # colours are weighted in RGB
        grey_quantum = max(grey_quantum, step) if number == 0 else grey_quantum
    page = Page(
        levels,
        background=_resized(smooth, width, height),
        surface=_resized(surface, width, height),
        scale=scale,
        noise=noise,
        quantum=quantum,
        grey_quantum=grey_quantum,
        subdued=0.8 * quantum if quantum >= 2 else 0.0,
        masked=np.zeros((height, width), dtype=bool),
        folds=[],
    )
    follow_soft_light(page)
    # Compression leaves the noise in some blocks only: the median of steps does not show it.
    spread = float(np.percentile(max_over_channels(np.abs(page.levels - page.background)), 90)) / _SPREAD_90
    page.noise = max(page.noise, min(spread, _SPREAD_MOST))
    return page


def follow_soft_light(page: Page, most: float = math.inf) -> None:
    """Make what has no sharp edge, and is at most `most` off it, the background: light, and shadows of hands."""
    # A stroke, and the edge of anything drawn, differs from the mean of two millimetres around it; a shadow does not.
    rest = page.levels - page.background
    rest[page.masked] = 0
    sharp = max_over_channels(np.abs(rest - blurred(rest, round(_SHARP * page.scale)))) > page.threshold
    far = (~(sharp | page.masked)).astype(np.float32)[..., None]
    far = (blurred(far, max(1, round(0.75 * page.scale))) > 0.999).astype(np.float32)
    share = blurred(far, round(2 * page.scale))
    near = blurred(rest * far, round(2 * page.scale)) / np.maximum(share, 0.01)
    is_soft = (share > 0.08) & (max_over_channels(np.abs(near)) <= most)[..., None]
    page.background = np.where(is_soft, page.background + near, page.background).astype(np.float32)


def _surface(grid: Levels) -> Levels:
    """Return the surface of the fourth degree that fits a grid best, without its outermost cells and what is off it."""
    rows, columns, channels = grid.shape
    y, x = (axis.ravel() for axis in np.mgrid[-1 : 1 : rows * 1j, -1 : 1 : columns * 1j])
    terms = powers(x, y)
    values = grid.reshape(-1, channels).astype(np.float64)
    used = np.maximum(np.abs(x), np.abs(y)) < 1 - 2 * EDGE_MOST
    for _ in range(3):
        surface = terms @ fitted(terms[used], values[used])
        off = np.abs(values - surface).max(axis=1)
        used &= off <= max(4.0, 3 * float(np.median(off[used])))
        if used.sum() < 60:
            break
    smooth: Levels = surface.reshape(grid.shape).astype(np.float32)
    return smooth


def fitted(terms: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors by which terms fit values best."""
    # By the normal equations: they are few, and well conditioned between -1 and 1.
    return np.asarray(np.linalg.lstsq(terms.T @ terms, terms.T @ values, rcond=None)[0], dtype=np.float64)


def powers(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the terms of a smooth surface at each place."""
    return np.stack([*(x**a * y**b for a, b in POWERS), (x * x + y * y) ** 3], axis=1)  # the last is of lenses


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
    return largest if 3 <= largest <= _QUANTUM_MOST else 0.0


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


def rotations(page: Page) -> Iterator[tuple[Levels, Levels, Mask]]:
    """Yield levels, background and mask, turned so that each edge of the page is on top. Changes reach the page."""
    for turn in range(4):
        yield np.rot90(page.levels, turn), np.rot90(page.background, turn), np.rot90(page.masked, turn)


def greatest_around(plane: NDArray[np.float32], by: int) -> NDArray[np.float32]:
    """Return the largest of each value and those up to `by` rows away."""
    greatest = np.pad(plane, ((by, by), (0, 0)), mode="edge")
    size, window = 1, 2 * by + 1
    while 2 * size <= window:
        greatest, size = np.maximum(greatest[:-size], greatest[size:]), 2 * size
    rest = window - size
    return np.maximum(greatest[:-rest], greatest[rest:]) if rest else greatest


def shows_other_side(page: Page) -> bool:
    """Return whether text of the other side shines through: faint lines all over the page, blurred by the paper."""
    rest = page.levels - page.background
    rest[page.masked] = 0
    by = max(1, round(0.5 * page.scale))
    smooth = blurred(rest, by).mean(axis=2)
    spread = float(np.square(smooth).mean() ** 0.5)
    if spread <= _BLOTCHED * max(0.35, 1.6 * page.noise / (2 * by + 1)):
        return False
    along, across = sorted(_roughness(rest.mean(axis=(1 - axis, 2)), page.scale) for axis in (0, 1))
    if across < _LINED * along:
        return False
    seen, plain = np.abs(smooth) > _TRACE, (np.abs(smooth) < _TRACE / 2) & ~page.masked
    if seen.mean() < _TRACES_LEAST or not plain.any():
        return False
    fine = np.square(max_over_channels(np.abs(rest - blurred(rest, 1))))
    edges = math.sqrt(max(float(fine[seen].mean() - fine[plain].mean()), 0.0))
    most = _TRACE_EDGES if float(np.percentile(smooth, 1)) > -_TRACE_DEEP else _TRACE_EDGES_DEEP
    return edges <= most * float(np.abs(smooth[seen]).mean())


def _roughness(profile: NDArray[np.float32], scale: float) -> float:
    """Return the standard deviation of a profile of the page, without what is wider than a line of text."""
    border = round(8 * scale)
    smooth = blurred(profile[:, None, None], round(7.5 * scale))[:, 0, 0]
    return float((profile - smooth)[border:-border].std())


def blurred(levels: Levels, by: int) -> Levels:
    """Return means over squares that reach `by` pixels in each direction."""
    side = 2 * by + 1
    padded = np.pad(levels, ((by, by), (by, by), (0, 0)), mode="edge")
    columns = np.ascontiguousarray(window_sums(padded, side).swapaxes(0, 1))
    means: Levels = window_sums(columns, side).swapaxes(0, 1)
    means /= side**2
    return means


def window_sums(plane: NDArray[np.float32], length: int) -> NDArray[np.float32]:
    """Return the sums of each row and those below it, `length` rows in all, where there are that many."""
    count = len(plane) - length + 1
    sums: NDArray[np.float32] | None = None
    begin, size = 0, 1
    while True:  # `plane` has the sums of 1, 2, 4 … rows: those are added that make up the length
        if length & size:
            # A copy is laid out in memory as the plane is: numpy is slow with planes that are laid out differently.
            rows = plane[begin : begin + count]
            sums = rows.copy("K") if sums is None else np.add(sums, rows, out=sums)
            begin += size
        if sums is not None and 2 * size > length:
            return sums
        plane, size = plane[:-size] + plane[size:], 2 * size
