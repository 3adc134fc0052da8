"""The marks that handling leaves on a page: at its border, across corners, along its feed, and where folds cross."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from sluice_inspect.images.page_dust import mask_dust
from sluice_inspect.images.page_model import Page, blurred
from sluice_inspect.images.page_parts import (
    BORDER,
    FAINT,
    Part,
    beyond_doubt,
    has_straight_lines,
    mask_cells,
    mask_part,
    part_levels,
    parts_of,
    unexplained,
)
from sluice_inspect.images.page_punches import punched_holes, staples
from sluice_inspect.images.views import max_over_channels

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CROSSING: Final = 30.0  # levels of the mark where two folds cross, at most
_BORDER_LONG: Final = 4.5  # millimetres of a mark at the border that is no word
_BORDER_FAINT: Final = 16.0  # levels of one that may be longer
_BORDER_LONGEST: Final = 11.0
_BORDER_NOISE: Final = 3.5  # contrast of one at most, times the least of a mark, on a noisy page
_BORDER_MOST: Final = 5
_ACROSS: Final = 20.0  # millimetres from both edges together up to which a mark lies across a corner
_ACROSS_FAINT: Final = 38.0
_ACROSS_DARK: Final = 6.5  # millimetres of a dark one: letters are smaller
_ACROSS_ENDS: Final = 3.5  # millimetres from both edges at which a dark line across a corner ends
_ACROSS_LONG: Final = 6.0  # millimetres of one: a shorter one is a stroke
_CROSSING_DARK: Final = 40.0  # levels of one that a pen may have made
_LONE_MOST: Final = 20.0  # levels of a faint mark
_LONE_LONG: Final = 8.0  # millimetres of it at most
_LONE_FAR: Final = 14.0  # millimetres around it without a mark
_ALONG: Final = 2.0, 4.0  # millimetres of a line along the edge: its width at most, its length at least
_EDGE: Final = 7.0  # millimetres from the edge of a page in which a line along it, or from it, begins
_THIN: Final = 1.6  # millimetres of a streak, with the cells at its border
_THIN_CELLS: Final = 3.05  # the same in cells, of few pixels
_THIN_LONG: Final = 2.4  # the same of one that is long
_STREAK: Final = 10.0  # the same of its length
_STREAK_BEGINS: Final = 3.5  # millimetres from the edge in which one begins that may be so short
_STREAK_INSIDE: Final = 40.0
_STREAK_FAINT: Final = 16.0  # levels of one of which pieces are seen that reach no edge
_STREAKS_SURE: Final = 2  # of a glass that has dirt, so that one may be wider
_SMEAR: Final = 3.3, 60.0  # millimetres of the width of such a one at most, and of its length at least
_STREAKS_MOST: Final = 8
_STREAK_FLAT: Final = 60.0  # millimetres of one on a page without any noise, which may be drawn
_CORNER: Final = (7.0, 56.0)  # millimetres of a corner that is folded over; a letter is smaller
_CORNER_ASIDE: Final = 9.0  # millimetres from the other edge, where a shadow may hide it
_CORNER_SLIM: Final = (5.0, 12.0)  # the same of a slim one that is faint
_SHADED: Final = 0.15, 0.6, 0.4  # shares of a contrast that are neither, and the share of a part that has them
_FLAT: Final = 0.99  # share of a page that has the same level, where there is no noise
_SOFT: Final = 0.25  # share of its contrast by which a soft mark differs from the mean around each place
_SOFT_REACH: Final = 1.1  # millimetres of that mean
_SOFT_LONG: Final = 20.0  # millimetres of such a mark at most
_SOFT_MOST: Final = 0.03  # share of the page that all of them take


def mask_handling(page: Page) -> None:
    """Mask what is known by its shape and place: punched holes, staples, dust."""
    height, width = (side / page.scale for side in page.masked.shape)
    everything = parts_of(page)
    parts = [part for part in everything if part.size > 1]
    handled = [
        *punched_holes(page, parts, width, height),
        *staples(page, parts, width, height),
        *_crossings(page, parts),
    ]
    is_flat = _is_flat(page)
    border = [*_at_border(page, parts, width, height), *_at_corner(parts, width, height)]
    handled += [part for part in border if not is_flat or part.contrast < _BORDER_FAINT]
    streaks = _streaks(parts, width, height)
    handled += [part for part in streaks if not is_flat or max(part.width, part.height) >= _STREAK_FLAT]
    reach = max(1.5, 8 / page.scale)  # as far as blocks of a JPEG reach
    for part in handled:
        mask_part(page, part, reach)
    corners = _folded_corners(parts, width, height)
    if is_flat:
        corners = [part for part in corners if _is_shaded(page, part)]
    mask_cells(page, corners, reach)
    known = {id(part) for part in handled + corners}
    if not is_flat:
        for part in _lone([part for part in beyond_doubt(page, everything) if id(part) not in known]):
            mask_part(page, part, 0.7)
        _mask_soft(page)
    # Grains of noise, which are faint, are judged in full resolution.
    seen = [part for part in everything if part.size > 2 or part.contrast > 2 * page.threshold]
    seen = [part for part in seen if id(part) not in known]
    mask_dust(page, seen, is_flat=is_flat)


def _mask_soft(page: Page) -> None:
    """Mask marks without any edge, which shadows leave where they meet the border of the page."""
    parts = unexplained(page)
    if not parts:
        return
    edges = max_over_channels(np.abs(page.levels - blurred(page.levels, max(1, round(_SOFT_REACH * page.scale)))))
    soft = []
    for part in parts:
        box = np.s_[
            round(part.top * page.scale) : round(part.bottom * page.scale),
            round(part.left * page.scale) : round(part.right * page.scale),
        ]
        is_small = max(part.width, part.height) <= _SOFT_LONG
        if not is_small or float(np.percentile(edges[box], 95)) > _SOFT * part.contrast:
            continue
        own = edges[box][page.off_in(box) > 0.5 * part.contrast]  # a thin line takes little of its box
        if not len(own) or float(np.median(own)) <= _SOFT * part.contrast:
            soft.append(part)
    if sum(part.width * part.height for part in soft) <= _SOFT_MOST * page.masked.size / page.scale**2:
        for part in soft:
            mask_part(page, part, 0.7)


def _is_flat(page: Page) -> bool:
    """Return whether nearly all of a page has the same level."""
    counts = np.bincount(page.levels[..., 0].astype(np.int64).ravel(), minlength=256)
    return bool(counts.max() > _FLAT * counts.sum())


def _crossings(page: Page, parts: list[Part]) -> list[Part]:
    """Return the faint marks where two folds cross, and neither is as usual."""
    width = page.masked.shape[1]
    level = [line for is_turned, line in page.folds if not is_turned]
    upright = [line for is_turned, line in page.folds if is_turned]
    places = []
    for across in level:
        for down in upright:
            y = float(across.mean())
            x = width - 1 - float(down[min(len(down) - 1, max(0, round(y)))])
            places.append((x / page.scale, float(across[min(width - 1, max(0, round(x)))]) / page.scale))
    return [
        part
        for part in parts
        if part.contrast <= _CROSSING
        and max(part.width, part.height) <= 14
        and any(math.dist(part.centre, place) < 10 for place in places)
    ]


def _at_border(page: Page, parts: list[Part], width: float, height: float) -> list[Part]:
    """Return the faint marks at the border of a page: lines along it, and the few where shadows and folds meet it."""
    lines, spots = [], []
    for part in parts:
        if part.contrast >= max(FAINT, _BORDER_NOISE * page.threshold):
            continue
        aside, above = min(part.left, width - part.right), min(part.top, height - part.bottom)
        thin, long = (part.width, part.height) if aside < above else (part.height, part.width)
        if min(aside, above) < _EDGE and thin <= _ALONG[0] and long >= _ALONG[1]:
            lines.append(part)
        elif min(aside, above) < BORDER and max(part.width, part.height) <= (
            _BORDER_LONG if part.contrast >= _BORDER_FAINT else _BORDER_LONGEST
        ):
            spots.append(part)
    return lines + (spots if sum(part.size > 2 for part in spots) <= _BORDER_MOST else [])


def _at_corner(parts: list[Part], width: float, height: float) -> list[Part]:
    """Return what lies across a corner of the page, so near to it that nothing is written there."""
    found = []
    for part in parts:
        y, x = ((part.cells + 0.5) * part.unit).T
        x, y = np.minimum(x, width - x), np.minimum(y, height - y)
        beside = x + y
        most = _ACROSS if part.contrast >= _BORDER_FAINT else _ACROSS_FAINT
        is_outermost = min(part.left, part.top, width - part.right, height - part.bottom) < BORDER
        if is_outermost and float(beside.max()) <= most and (part.contrast < _CROSSING_DARK or _is_across(x, y, part)):
            found.append(part)
    return found


def _is_across(x: NDArray[np.float64], y: NDArray[np.float64], part: Part) -> bool:
    """Return whether cells so far from both edges fill a corner, or cut it off from one edge to the other."""
    if part.size * part.unit**2 > 0.35 * part.width * part.height and min(part.width, part.height) > _ACROSS_DARK:
        return True
    if max(x.min(), y.min()) > _ACROSS_ENDS or math.hypot(part.width, part.height) < _ACROSS_LONG:
        return False  # a stroke
    return bool(((x - x.mean()) * (y - y.mean())).mean() < -0.3 * x.std() * y.std())


def _lone(parts: list[Part]) -> list[Part]:
    """Return the few small and faint marks that are far from all others: what light and compression leave."""
    found = [part for part in parts if part.contrast < _LONE_MOST and max(part.width, part.height) <= _LONE_LONG]
    found = [part for part in found if sum(part.distance(other) < _LONE_FAR for other in parts) == 1]  # itself
    return found if len(found) <= _BORDER_MOST else []


def _streaks(parts: list[Part], width: float, height: float) -> list[Part]:
    """Return the streaks of a feeder that begin or end on the page: thin lines from an edge, possibly in pieces."""
    streaks: list[Part] = []
    for along, across, length in ((1, 0, height), (0, 1, width)):
        thin = [
            part
            for part in parts
            if part.far(across) - part.near(across)
            <= max(_THIN, _THIN_CELLS * part.unit, min(_THIN_LONG, 0.014 * (part.far(along) - part.near(along))))
        ]
        thin = [part for part in thin if part.far(along) - part.near(along) >= 3 * part.unit]
        places = []
        while thin:
            # Pieces of one line are in line with the longest.
            first = max(thin, key=lambda part: part.far(along) - part.near(along))
            line = [part for part in thin if abs(part.centre[across] - first.centre[across]) <= 0.6]
            thin = [part for part in thin if abs(part.centre[across] - first.centre[across]) > 0.6]
            start, end = min(part.near(along) for part in line), max(part.far(along) for part in line)
            covered = sum(part.far(along) - part.near(along) for part in line) / (end - start)
            is_faint = max(part.contrast for part in line) < _STREAK_FAINT
            # One that begins further inside, where a dark edge ended, is longer than a line of tiny letters.
            least = _STREAK if min(start, length - end) < _STREAK_BEGINS else _STREAK_INSIDE
            is_from_edge = min(start, length - end) < _EDGE and end - start >= least and covered > 0.6
            if is_from_edge or (is_faint and end - start > 0.5 * length):
                places.append(first.centre[across])
                streaks += line
        if len(places) > _STREAKS_MOST:
            return []
        if len(places) >= _STREAKS_SURE:
            streaks += [
                part
                for part in parts
                if part.far(across) - part.near(across) <= _SMEAR[0]
                and part.far(along) - part.near(along) >= _SMEAR[1]
                and min(part.near(along), length - part.far(along)) < _STREAK_BEGINS
            ]
    return streaks


def _folded_corners(parts: list[Part], width: float, height: float) -> list[Part]:
    """Return the outlines of corners that are or were folded over: straight lines that reach both edges of the page."""
    corners = []
    for part in parts:
        beside = min(part.left, width - part.right), min(part.top, height - part.bottom)
        sides = part.width, part.height
        is_slim = min(sides) >= _CORNER_SLIM[0] and max(sides) >= _CORNER_SLIM[1] and part.contrast < FAINT
        is_corner = min(beside) < _EDGE and max(beside) < _CORNER_ASIDE and max(sides) <= _CORNER[1]
        # One line alone is a crease, if it is faint.
        lines = 1 if part.contrast < FAINT and max(beside) < BORDER else 2
        if is_corner and (is_slim or min(sides) >= _CORNER[0]) and has_straight_lines(part, lines):
            corners.append(part)
    inside = [
        part
        for part in parts
        for corner in corners
        if part is not corner
        and part.distance(corner) < 0
        and (part.contrast < FAINT or (_is_long_in(part, corner) and has_straight_lines(part, 1)))
    ]
    return corners + inside


def _is_long_in(part: Part, corner: Part) -> bool:
    """Return whether a part is half as large as the corner in which it is, as no word is."""
    return part.width > 0.5 * corner.width and part.height > 0.45 * corner.height


def _is_shaded(page: Page, part: Part) -> bool:
    """Return whether much of a part is between its own brightness and the paper's, as no drawn line is."""
    off = page.off_in(part_levels(page, part, 0.0)[0])
    seen = off > _SHADED[0] * part.contrast
    return bool(seen.any() and (off[seen] < _SHADED[1] * part.contrast).mean() > _SHADED[2])
