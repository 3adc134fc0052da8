"""The creases of a crumpled page: faint lines in all directions, each even all along, unlike strokes of writing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

import numpy as np
from PIL import Image

from sluice_inspect.images.page_model import Page, greatest_around, window_sums
from sluice_inspect.images.page_parts import Part, connected, mask_part, unexplained
from sluice_inspect.images.views import Levels

if TYPE_CHECKING:
    from numpy.typing import NDArray

Plane: TypeAlias = "NDArray[np.float32]"
_Value = TypeVar("_Value", "np.float32", "np.bool_")

_FINE: Final = 2.0  # pixels in a millimetre at which creases are followed
_LENGTH: Final = 12.0  # millimetres in which a crease is even: no stroke of a letter is so long
_UNEVEN: Final = 0.3  # share of its mean by which it varies: a line of text is letters and gaps
_DIRECTIONS: Final = 36
_ROWS: Final = 128  # rows that are summed at a time: in the cache of a processor
_OUTSIDE: Final = 3.0  # millimetres beyond the end of a line in which nothing is left of it if it is drawn
_END_LEAST: Final = 12.0  # levels of such a line
_END_DARK: Final = 22.0  # the same if one of its ends is enough: the other may be on a crease
_END_SHARE: Final = 0.25  # share of them that is nothing
_ASIDE: Final = 2.0  # millimetres to each side of such a line where the page is unlike it: beside a step it is not
_DIRECTION_LEAST: Final = 15.0  # square millimetres of creases in a direction that counts
_DIFFERENT_LEAST: Final = 4  # such directions: a ruled table has two, a drawn triangle three
_ONE_WAY: Final = 0.5  # 1 if all creases are parallel, 0 if they have no main direction: hills have one
_AREA_LEAST: Final = 250.0  # square millimetres of all creases together
_SPREAD_LEAST: Final = 0.3  # share of the page over which they extend
_LONG: Final = 8.0  # millimetres of a mark that may be part of a crease
_LONG_LEAST: Final = 120.0  # the same of all of them together
_DEPTH_MOST: Final = 38.0  # levels of such a mark
_NARROW: Final = 1.2  # millimetres of a line that may be a stroke
_NARROW_DARK: Final = 24.0  # levels by which no crease is darker than the page on both sides so near to it
_NARROW_INSIDE: Final = 8.0  # millimetres from the edge of the page where folds and shadows end
_NARROW_CORNER: Final = 34.0  # the same of a corner in which a staple may be
_NARROW_SHARE: Final = 0.02  # share of the page that they take at most: more is noise
_BESIDE: Final = 3.0  # millimetres beside a crease in which the page faces the lamp differently
_RELIEF: Final = 20.0  # levels of what is there, beyond those of the crease: two may cross, no word is so faint
_BEYOND: Final = 6.0  # millimetres from a crease in which a mark may be part of it
_REST: Final = 14.0  # millimetres of such a mark at most
_TINY: Final = 4.2  # the same of one that may differ by more: where a fold covers another
_TINY_RELIEF: Final = 40.0
_FAINT: Final = 18.0  # levels of one that may be anywhere
_REST_NEAR: Final = 3  # such marks near each other at most, with itself: a word has more
_REST_SHARE: Final = 0.1  # of all marks


@dataclass(frozen=True, slots=True)
class _Lines:
    """The even lines of a page, `_FINE` pixels to a millimetre."""

    depth: Plane  # levels of the line through each pixel, 0 without one
    direction: NDArray[np.int64]
    ends: list[tuple[int, int, int, float]]  # row, column, direction and depth of each pixel where one ends abruptly


def mask_creases(page: Page, depth: Plane) -> None:
    """Mask the creases of a crumpled page, of a depth, and what they shade."""
    beside = _spread(page, depth, _BESIDE)
    page.masked |= (beside > 0) & (page.off <= beside + _RELIEF)


def mask_ends(page: Page, depth: Plane) -> None:
    """Mask what is left where creases, of a depth, cross and end."""
    around = _spread(page, depth, _BEYOND)
    rest = [part for part in unexplained(page) if max(part.width, part.height) <= _REST]
    rest = [
        part
        for part in rest
        if part.contrast
        <= max(_FAINT, _at(page, around, part) + (_RELIEF if max(part.width, part.height) > _TINY else _TINY_RELIEF))
    ]
    rest = [part for part in rest if sum(part.distance(other) < _REST for other in rest) <= _REST_NEAR]
    if (
        sum(part.size * part.unit**2 for part in rest)
        <= _REST_SHARE * (depth > 0).sum() * (_factor(page) / page.scale) ** 2
    ):
        for part in rest:
            mask_part(page, part, 0.7)


def has_long_marks(page: Page) -> bool:
    """Return whether there are long marks that may be creases."""
    lengths = [math.hypot(part.width, part.height) for part in unexplained(page) if part.contrast <= _DEPTH_MOST]
    return sum(length for length in lengths if length >= _LONG) >= _LONG_LEAST


def find_creases(page: Page, background: Levels) -> Plane | None:
    """Return the depth of the crease at each pixel, `_FINE` to a millimetre; None if the page is not crumpled."""
    factor = _factor(page)
    lines = _even_lines(page, background, factor)
    lines.depth[lines.depth > _DEPTH_MOST] = 0
    seen = lines.depth > 0
    areas = np.bincount(lines.direction[seen], minlength=_DIRECTIONS).astype(np.float64)
    areas *= (factor / page.scale) ** 2
    if areas.sum() < _AREA_LEAST or _different(areas) < _DIFFERENT_LEAST or _one_way(areas) > _ONE_WAY:
        return None
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    if float(np.ptp(rows) * np.ptp(columns)) < _SPREAD_LEAST * seen.size:
        return None
    return None if _is_drawn(lines, page.scale / factor) or _has_narrow_stroke(page) else lines.depth


def _has_narrow_stroke(page: Page) -> bool:
    """Return whether a narrow line is darker than any crease, and ends on the page: a fold ends at its edge."""
    grey = page.levels.mean(axis=2)
    closed, by = grey, max(1, round(_NARROW / 2 * page.scale))
    for sign in (1, -1):
        closed = sign * greatest_around(greatest_around(sign * closed, by).T, by).T
    found = np.argwhere(closed - grey > max(_NARROW_DARK, 5 * page.noise))
    if len(found) > _NARROW_SHARE * grey.size:
        return False
    border = np.array([_NARROW_INSIDE * page.scale, _NARROW_INSIDE * page.scale])
    corner = _NARROW_CORNER * page.scale
    for cells in connected(found, grey.shape[1]):
        near, far = cells.min(axis=0), cells.max(axis=0)
        aside = np.minimum(near, np.subtract(grey.shape, far))
        if np.hypot(*(far - near)) >= _LONG * page.scale and (aside > border).all() and aside.max() > corner:
            return True
    return False


def _is_drawn(lines: _Lines, scale: float) -> bool:
    """Return whether one of the lines ends abruptly, far from any other: creases fade or meet."""
    reach = round(4 * scale)
    ends = []
    for y, x, direction, depth in lines.ends:
        around = np.s_[max(0, y - reach) : y + reach + 1, max(0, x - reach) : x + reach + 1]
        others = lines.direction[around][lines.depth[around] > 0]
        if (_turn(others, direction) <= 3).all():
            if depth >= _END_DARK:
                return True
            ends.append((y, x, direction))
    places = np.array(ends).reshape(-1, 3)
    return any(
        ((np.hypot(*(places[:, :2] - (y, x)).T) > _LONG * scale) & (_turn(places[:, 2], direction) <= 1)).any()
        for y, x, direction in ends
    )


def _turn(directions: NDArray[np.int64], other: int) -> NDArray[np.int64]:
    """Return by how much directions differ from another one."""
    return np.abs((directions - other + _DIRECTIONS // 2) % _DIRECTIONS - _DIRECTIONS // 2)


def _one_way(areas: NDArray[np.float64]) -> float:
    """Return how far the creases prefer one direction, from 0 to 1."""
    turns = np.exp(2j * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS)
    return float(np.abs(areas @ turns) / areas.sum())


def _different(areas: NDArray[np.float64]) -> int:
    """Return how many directions there are that differ by more than a line and its neighbours do."""
    count, areas = 0, areas.copy()
    while areas.max() >= _DIRECTION_LEAST:
        areas[(int(areas.argmax()) + np.arange(-3, 4)) % _DIRECTIONS] = 0
        count += 1
    return count


def _factor(page: Page) -> int:
    return max(1, round(page.scale / _FINE))


def _spread(page: Page, depth: Plane, reach: float) -> Plane:
    """Return the depth of the deepest crease within `reach` millimetres of each pixel of the page."""
    factor = _factor(page)
    by = round(reach * page.scale / factor)
    near = greatest_around(greatest_around(depth, by).T, by).T
    near = near.repeat(factor, axis=0).repeat(factor, axis=1)
    height, width = page.masked.shape
    return np.pad(near, ((0, height - len(near)), (0, width - near.shape[1])), mode="edge")


def _at(page: Page, plane: Plane, part: Part) -> float:
    y, x = (round(place * page.scale) for place in reversed(part.centre))
    return float(plane[min(y, len(plane) - 1), min(x, plane.shape[1] - 1)])


def _even_lines(page: Page, background: Levels, factor: int) -> _Lines:
    """Return the even straight lines of a page, found in each direction by turning it."""
    levels = page.levels.mean(axis=2)
    rest = levels - background.mean(axis=2)
    rest[page.masked] = 0
    height, width = (side // factor for side in rest.shape)
    levels, rest, covered = (
        plane[: height * factor, : width * factor].reshape(height, factor, width, factor).mean(axis=(1, 3))
        for plane in (levels, rest, page.masked.astype(np.float32))
    )
    noise = 1.4826 * float(np.median(np.abs(rest[rest != 0]))) if rest.any() else 0.0
    scale = page.scale / factor
    length, outside, gap = (round(millimetres * scale) for millimetres in (_LENGTH, _OUTSIDE, 0.5))
    least = max(0.35 * page.threshold, 1.5 * noise)
    margin = round(_ASIDE * scale) + 1
    lines = _Lines(np.zeros_like(rest), np.zeros(rest.shape, dtype=np.int64), [])
    for number in range(_DIRECTIONS):
        degrees = 180 * number / _DIRECTIONS
        turned = _turned(rest, degrees, 0)
        shape, mean = turned.shape, _running_means(turned, length)
        # Only the rows near a line are examined: in most directions there are none.
        rows = _rows_around(np.abs(mean) > least, margin)
        turned, mean = turned[rows], mean[rows]
        square = _running_means(np.square(turned), length)
        is_even = (np.abs(mean) > least) & (square - np.square(mean) - 1.2 * noise**2 < np.square(_UNEVEN * mean))
        around = _rows_around(is_even, margin)
        if around.start == around.stop:
            continue
        rows = slice(rows.start + around.start, rows.start + around.stop)
        turned, mean, is_even = turned[around], mean[around], is_even[around]
        depth = np.where(is_even, np.abs(mean), 0).astype(np.float32)
        if (depth > _END_LEAST).any():
            hidden, shown = (_turned(plane, degrees, beyond)[rows] for plane, beyond in ((covered, 1), (levels, 255)))
            apart = np.minimum(depth, _apart(_running_means(shown, length), round(_ASIDE * scale)))
            beyond = greatest_around(np.abs(_running_means(turned, outside)), max(1, round(scale)))
            is_known = _running_means(hidden - 1, outside) < -0.99  # nothing is known beyond the page
            for sign in (1, -1):
                inner = _shifted(apart, sign * (length // 2 + gap))
                outer = _shifted(beyond, -sign * (outside // 2 + gap))
                known = _shifted(is_known, -sign * (outside // 2 + gap))
                end = (inner > _END_LEAST) & (outer < _END_SHARE * inner) & known
                if end.any():
                    back = _turned_back((end * inner).astype(np.float32), rows, shape, degrees, rest.shape)
                    lines.ends.extend((int(y), int(x), number, float(back[y, x])) for y, x in np.argwhere(back > 0))
        depth = greatest_around(np.ascontiguousarray(depth.T), length // 2 - 1).T  # all of the line, not its middle
        back = _turned_back(depth, rows, shape, degrees, rest.shape)
        is_deeper = back > lines.depth
        lines.depth[is_deeper], lines.direction[is_deeper] = back[is_deeper], number
    return lines


def _apart(levels: Plane, by: int) -> Plane:
    """Return by how much each row is darker or lighter than both rows a distance above and below it."""
    padded = np.pad(levels, ((by, by), (0, 0)), mode="edge")
    above, below = levels - padded[: -2 * by], levels - padded[2 * by :]
    return np.where(above * below > 0, np.minimum(np.abs(above), np.abs(below)), 0).astype(np.float32)


def _shifted(plane: NDArray[_Value], by: int) -> NDArray[_Value]:
    """Return a plane whose columns are moved by a number, with zeros where there were none."""
    moved = np.zeros_like(plane)
    if by > 0:
        moved[:, by:] = plane[:, :-by]
    else:
        moved[:, :by] = plane[:, -by:]
    return moved


def _turned(plane: Plane, degrees: float, beyond: float) -> Plane:
    image = Image.fromarray(plane)
    return np.asarray(image.rotate(degrees, Image.Resampling.BILINEAR, expand=True, fillcolor=beyond))


def _turned_back(band: Plane, rows: slice, turned: tuple[int, ...], degrees: float, shape: tuple[int, int]) -> Plane:
    """Return a plane of a shape whose turned form has these rows and is 0 elsewhere."""
    plane = np.zeros(turned, dtype=np.float32)
    plane[rows] = band
    back = np.asarray(Image.fromarray(plane).rotate(-degrees, Image.Resampling.NEAREST, expand=True))
    top, left = ((large - small) // 2 for large, small in zip(back.shape, shape, strict=True))
    return back[top : top + shape[0], left : left + shape[1]]


def _rows_around(mask: NDArray[np.bool_], margin: int) -> slice:
    """Return the rows from the first to the last with a place of the mask, and a margin on both sides."""
    rows = np.flatnonzero(mask.any(axis=1))
    return (
        slice(max(0, int(rows[0]) - margin), min(len(mask), int(rows[-1]) + margin + 1)) if len(rows) else slice(0, 0)
    )


def _running_means(plane: Plane, length: int) -> Plane:
    """Return the mean of `length` pixels around each, along the rows."""
    before = length // 2
    means = np.empty_like(plane)
    for top in range(0, len(plane), _ROWS):
        rows = plane[top : top + _ROWS]
        padded = np.pad(rows, ((0, 0), (before, length - before - 1)))
        np.divide(window_sums(padded.T, length).T, np.float32(length), out=means[top : top + len(rows)])
    return means
