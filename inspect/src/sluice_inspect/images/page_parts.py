"""The marks on a page: what stands out of its background, in connected parts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np

from sluice_inspect.images.page_model import Page, greatest_around

if TYPE_CHECKING:
    from numpy.typing import NDArray

CELL: Final = 0.5  # millimetres
FAINT: Final = 30.0  # levels of a faint mark, at most
BORDER: Final = 4.0  # millimetres from the edge of a page in which a mark is at its border
_RINGING: Final = 2.5  # millimetres around a dark mark in which compression leaves faint ones
_RINGS: Final = 0.2  # their share of its contrast
_OUTLINES: Final = 5  # straight lines of the outline of a part, at most
_CELLS_MOST: Final = 40_000


@dataclass(frozen=True, slots=True)
class Part:
    """Connected marks; its box and centre are in millimetres."""

    cells: NDArray[np.int64]  # rows and columns of a grid of about half a millimetre
    unit: float  # millimetres of a cell
    left: float
    top: float
    right: float
    bottom: float
    contrast: float
    strengths: NDArray[np.float32]  # contrast of each cell

    @property
    def size(self) -> int:
        """The number of its cells."""
        return len(self.cells)

    @property
    def centre(self) -> tuple[float, float]:
        """The middle of its box, across and down."""
        return (self.left + self.right) / 2, (self.top + self.bottom) / 2

    @property
    def width(self) -> float:
        """The width of its box."""
        return self.right - self.left

    @property
    def height(self) -> float:
        """The height of its box."""
        return self.bottom - self.top

    def near(self, axis: int) -> float:
        """Return where its box begins, across (0) or down (1)."""
        return self.top if axis else self.left

    def far(self, axis: int) -> float:
        """Return where its box ends, across (0) or down (1)."""
        return self.bottom if axis else self.right

    def distance(self, other: Part) -> float:
        """Return the millimetres between two boxes along the axis in which they are further apart."""
        return max(other.left - self.right, self.left - other.right, other.top - self.bottom, self.top - other.bottom)


def parts_of(page: Page) -> list[Part]:
    """Return what stands out of the background, in connected parts. Too much of it is one part."""
    off = page.off
    step = max(1, round(CELL * page.scale))
    rows, columns = -(-off.shape[0] // step), -(-off.shape[1] // step)
    padded = np.zeros((rows * step, columns * step), dtype=np.float32)
    padded[: off.shape[0], : off.shape[1]] = off
    # place by place within the cells, as along planes
    places = [padded[y::step, x::step] for y in range(step) for x in range(step)]
    strongest = reduce(np.maximum, places)
    counts = sum((place > page.threshold).astype(np.uint8) for place in places)
    marked = (counts >= min(2, step * step)) | (strongest > 2 * page.threshold)
    unit = step / page.scale
    around = max(1, round(_RINGING / unit))
    marked &= strongest > _RINGS * greatest_around(greatest_around(strongest, around).T, around).T
    found = np.argwhere(marked)
    if len(found) > _CELLS_MOST:
        return [_part(found, strongest, unit)]
    return [_part(cells, strongest, unit) for cells in connected(found, columns)]


def connected(found: NDArray[np.int64], columns: int) -> Iterator[NDArray[np.int64]]:
    """Yield the groups of cells that touch each other; `found` are rows and columns on a grid of `columns` columns."""
    wide = columns + 1  # places in one number, with a column between the last and the first of two rows
    left = set((found[:, 0] * wide + found[:, 1]).tolist())
    neighbours = [dy * wide + dx for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
    while left:
        cells = [left.pop()]
        for place in cells:  # it grows meanwhile
            near = [place + by for by in neighbours if place + by in left]
            left.difference_update(near)
            cells += near
        yield np.stack(np.divmod(cells, wide), axis=1)


def unexplained(page: Page) -> list[Part]:
    """Return the parts that are beyond doubt; small and faint ones are judged in full resolution."""
    return beyond_doubt(page, parts_of(page))


def beyond_doubt(page: Page, parts: list[Part]) -> list[Part]:
    """Return those of the parts that are beyond doubt."""
    return [part for part in parts if part.size > 2 and (part.size > 8 or part.contrast > 2 * page.threshold)]


def _part(cells: NDArray[np.int64], strongest: NDArray[np.float32], unit: float) -> Part:
    (top, left), (bottom, right) = cells.min(axis=0), cells.max(axis=0) + 1
    strengths = strongest[cells[:, 0], cells[:, 1]]
    contrast = float(np.percentile(strengths, 90))
    return Part(cells, unit, left * unit, top * unit, right * unit, bottom * unit, contrast, strengths)


def mask_part(page: Page, part: Part, pad: float) -> None:
    """Mask the box of a part and `pad` millimetres around it."""
    top, bottom = (round((line + sign * pad) * page.scale) for line, sign in ((part.top, -1), (part.bottom, 1)))
    left, right = (round((line + sign * pad) * page.scale) for line, sign in ((part.left, -1), (part.right, 1)))
    page.masked[max(0, top) : bottom, max(0, left) : right] = True


def mask_cells(page: Page, parts: list[Part], pad: float) -> None:
    """Mask the cells of parts, not their boxes, and `pad` millimetres around them."""
    step = max(1, round(CELL * page.scale))
    height, width = page.masked.shape
    plane = np.zeros((-(-height // step), -(-width // step)), dtype=np.float32)
    for part in parts:
        plane[part.cells[:, 0], part.cells[:, 1]] = 1
    by = math.ceil(pad * page.scale / step)
    near = greatest_around(greatest_around(plane, by).T, by).T > 0
    page.masked |= near.repeat(step, axis=0).repeat(step, axis=1)[:height, :width]


def part_levels(page: Page, part: Part, pad: float) -> tuple[tuple[slice, slice], NDArray[np.float32]]:
    """Return the box of a part with `pad` millimetres around it, in pixels, and the levels that are missing there."""
    top, left = (max(0, round((start - pad) * page.scale)) for start in (part.top, part.left))
    bottom, right = (round((end + pad) * page.scale) for end in (part.bottom, part.right))
    height, width = page.masked.shape
    box = slice(top, min(bottom, height)), slice(left, min(right, width))
    return box, (page.background[box] - page.levels[box]).mean(axis=2)


def are_alike(one: Part, other: Part) -> bool:
    """Return whether two dots are about as large and as dark: holes of a staple, or dots of a list."""
    shares = (one.width / other.width, one.height / other.height, one.contrast / other.contrast)
    return all(0.55 < share < 1.8 for share in shares)


def has_straight_lines(part: Part, least: int = 2) -> bool:
    """Return whether a part is made of straight lines, `least` or a few more."""
    points = (part.cells[part.strengths > 0.4 * part.contrast] * part.unit).astype(np.float64)
    count, random = len(points), np.random.default_rng(0)
    for number in range(_OUTLINES):
        if len(points) < max(4, 0.2 * count):
            return number >= least
        pairs = points[random.integers(len(points), size=(200, 2))]
        ahead = pairs[:, 1] - pairs[:, 0]
        lengths = np.hypot(ahead[:, 0], ahead[:, 1])
        ahead, pairs = ahead[lengths > 2] / lengths[lengths > 2, None], pairs[lengths > 2]
        if not len(ahead):
            return False
        off = points[None] - pairs[:, :1]
        near = np.abs(off[..., 0] * ahead[:, None, 1] - off[..., 1] * ahead[:, None, 0]) < 1
        points = points[~near[int(near.sum(axis=1).argmax())]]
    return len(points) < max(4, 0.2 * count)
