"""The holes in a page: those of a punch or of a spiral, and those of staples, with their wires."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Final

import numpy as np

from sluice_inspect.images.page_model import Page
from sluice_inspect.images.page_parts import BORDER, CELL, FAINT, Part, are_alike, mask_part, part_levels, parts_of
from sluice_inspect.images.views import max_over_channels

_SHADOW: Final = 0.7  # size of the shadow in a hole at most, as a share of the other part of it
_TWICE: Final = 18.0  # millimetres of two holes that overlap, at most
_DISC: Final = 4.0, 10.0  # millimetres of one hole, with the cells at its border
_DISCS_SURE: Final = 3  # of holes that are near each other
_DISCS_ALIGNED: Final = 2.5  # millimetres by which these holes are out of line
_ROUND: Final = 0.82  # share of it and of a disc together that both have
_HOLES_APART: Final = 17.0  # millimetres between punched holes at least: letters are nearer
_REGULAR: Final = 3  # holes at even distances that need not be symmetric
_REGULAR_APART: Final = 60.0  # millimetres between them
_STAPLE: Final = (9.2, 19.5)  # millimetres between the holes of a staple
_TINY: Final = 2.35  # millimetres of a tiny one of two, with the cells at its border
_HOLES_LEAST: Final = 6.8  # the same of tiny ones, on long paper
_HOLE: Final = 2.05  # millimetres of one of them, with the cells at its border
_HOLE_ROUND: Final = 0.7  # its shorter side as a share of its longer one, at least
_HOLE_DARK: Final = 120.0  # levels
_WIRE_LEAST: Final = 7.6  # millimetres of a wire at least: shorter lines are strokes
_WIRE_SURE: Final = 9.5  # the same of one without a shadow
_WIRE_SHADOW: Final = 1.2  # millimetres beside the middle of a wire where its shadow is
_WIRE_SHADED: Final = 0.08  # share of its contrast that this shadow has at least
_WIRE_SKEWED: Final = 0.15  # skewness of a wire and its shadow across it; that of a stroke is 0
_WIRE_SLIM: Final = 6.0  # times as long as its width, with its shadow
_WIRE_WAVES: Final = 0.15  # millimetres by which its middle is off a straight line
_BLUE: Final = 0.15  # share of the contrast of ink by which it takes more of the red light
_PAIR_DARK: Final = 45.0  # levels of holes of several staples
_PAIR_APART: Final = 4.0  # millimetres between them: letters are nearer
_PAIRS_MOST: Final = 6
_WIRE_LEAST_DARK: Final = 8.0  # levels of a wire between two holes
_WIRE_ASIDE: Final = 1.6  # millimetres by which a wire is beside the line between its holes
_LOW_STAPLE: Final = 25.0  # millimetres from both edges of a lower corner in which one lies


def mask_punched(page: Page) -> None:
    """Mask punched holes, which lines may cross, and those of a spiral, which would look like a fold."""
    height, width = (side / page.scale for side in page.masked.shape)
    parts = [part for part in parts_of(page) if part.size > 1]
    for part in (*_torn_holes(parts, width, height), *punched_holes(page, parts, width, height)):
        mask_part(page, part, max(1.5, 8 / page.scale))


def _torn_holes(parts: list[Part], width: float, height: float) -> list[Part]:
    """Return the holes of a spiral: a long row along an edge, alike and at regular distances, some open to the edge."""
    for along, across, length, depth in ((1, 0, height, width), (0, 1, width, height)):
        for far in (False, True):
            strip = [part for part in parts if (depth - part.far(across) if far else part.near(across)) < 12]
            strip = [part for part in strip if part.far(across) - part.near(across) <= 18]
            row = sorted(
                (part for part in strip if 1.8 <= part.far(along) - part.near(along) <= 9),
                key=lambda part: part.centre[along],
            )
            places = np.array([part.centre[along] for part in row])
            if len(row) < 8 or float(np.ptp(places)) < 0.6 * length:
                continue
            distances = np.diff(places)
            usual = float(np.median(distances))
            times = np.rint(distances / max(usual, 1.0))  # of some holes nothing is seen
            if usual >= 4.5 and float((np.abs(distances - times * usual) < 0.12 * usual).mean()) > 0.75:
                # A word among the holes reaches further into the page than they do.
                reach = [part.near(across) if far else part.far(across) for part in row]
                deepest = float(np.median(reach)) + (-1.2 if far else 1.2)
                least = 0.25 * float(np.median([part.contrast for part in row]))
                is_near = np.abs(distances - usual) < 0.2 * usual
                regular = places[np.append(is_near, False) | np.append(False, is_near)]
                first, last = regular.min() - usual / 2, regular.max() + usual / 2
                wide = 1.6 * float(np.median([part.far(along) - part.near(along) for part in row]))
                return [
                    part
                    for part in strip
                    if part.contrast >= least
                    and part.far(along) - part.near(along) <= wide
                    and first < part.centre[along] < last
                    and (part.near(across) >= deepest if far else part.far(across) <= deepest)
                ]
    return []


def punched_holes(page: Page, parts: list[Part], width: float, height: float) -> list[Part]:
    """Return the punched holes: round, alike, in a line along an edge, and symmetric about the middle of that edge."""
    round_ones = [
        part
        for part in parts
        if max(part.width, part.height) <= _TWICE
        and (
            (
                min(part.width, part.height) >= 3.5
                and 0.5 < part.width / part.height < 2  # some are punched twice
                and part.size * part.unit**2 > 0.15 * part.width * part.height
            )
            # Of one before a light lid only the shadow is dark.
            or (min(part.width, part.height) >= 2 and max(part.width, part.height) >= 4 and _is_disc(page, part))
        )
        and not _is_shadow(part, parts)
    ]
    holes = []
    for along, across, length, depth in ((1, 0, height, width), (0, 1, width, height)):
        for near in (False, True):
            row = [
                part for part in round_ones if 4 < (depth - part.centre[across] if near else part.centre[across]) < 24
            ]
            discs = [part for part in row if _is_disc(page, part)]
            if len(discs) >= _DISCS_SURE and np.ptp([part.centre[across] for part in discs]) < _DISCS_ALIGNED:
                holes += discs
            is_near = any(abs(a.centre[along] - b.centre[along]) < _HOLES_APART for a, b in combinations(row, 2))
            if is_near and len(discs) < max(_DISCS_SURE, len(row) / 2):  # a page may be punched twice
                continue
            if _are_regular(row, along, across):
                holes += row
                continue
            for part in row:
                mirrored = length - part.centre[along]
                if any(
                    abs(other.centre[along] - mirrored) < (0.06 if len(row) > 1 else 0.03) * length
                    and abs(other.centre[across] - part.centre[across]) < 4
                    and 0.55 < other.width / part.width < 1.8  # half of one may be in its own shadow
                    and 0.55 < other.height / part.height < 1.8
                    and (other is not part or len(row) % 2 == 1)
                    for other in row
                ) and (len(row) in {2, 3, 4, 6, 8} or is_near or len(discs) == len(row) == 1):
                    holes.append(part)
    return holes


def _is_disc(page: Page, part: Part) -> bool:
    """Return whether a part is a filled circle of the size of a punch."""
    return any(_is_disc_in(page, part, pad) for pad in (0.5, 1.5))


def _is_disc_in(page: Page, part: Part, pad: float) -> bool:
    around = page.levels[part_levels(page, part, pad)[0]]
    border = np.concatenate([around[0], around[-1], around[:, 0], around[:, -1]])
    # The background may be that of the hole.
    off = max_over_channels(np.abs(around - np.median(border, axis=0)))
    rows, columns = np.nonzero(off > max(page.threshold, 0.2 * part.contrast))
    if not len(rows):
        return False
    high, wide = int(np.ptp(rows)) + 1, int(np.ptp(columns)) + 1
    if not _DISC[0] * page.scale <= min(high, wide) <= max(high, wide) <= _DISC[1] * page.scale:
        return False
    y, x = np.ogrid[-1 : 1 : high * 1j, -1 : 1 : wide * 1j]
    shape = np.zeros((high, wide), dtype=bool)
    shape[rows - rows.min(), columns - columns.min()] = True
    disc = x * x + y * y <= 1
    return bool(max(high, wide) <= 1.25 * min(high, wide) and (shape & disc).sum() > _ROUND * (shape | disc).sum())


def _are_regular(row: list[Part], along: int, across: int) -> bool:
    """Return whether parts are the holes of a page that was cut after it was punched: alike, far and evenly apart."""
    if len(row) < _REGULAR:
        return False
    steps = np.diff(sorted(part.centre[along] for part in row))
    sizes = [part.size for part in row]
    return bool(
        steps.min() >= _REGULAR_APART
        and np.ptp(steps) <= 0.04 * steps.mean()
        and np.ptp([part.centre[across] for part in row]) < 2
        and min(sizes) > 0.7 * max(sizes)
    )


def _is_shadow(part: Part, parts: list[Part]) -> bool:
    """Return whether a part is beside a much larger one; a second hole is nearly as large as the first."""
    return any(_SHADOW * other.size > part.size and part.distance(other) < 1 for other in parts if other is not part)


def staples(page: Page, parts: list[Part], width: float, height: float) -> list[Part]:
    """Return the staples and their holes: short straight lines, or two dots as far apart, near a corner of the page."""
    found: list[Part] = []
    for right in (False, True):
        for low in (False, True):
            corner = [
                part
                for part in parts
                if (width - part.left if right else part.right) < 34
                and (height - part.top if low else part.bottom) < 34
            ]
            pairs = _pairs_of_holes(page, corner, width, height)
            found += pairs
            corner = [part for part in corner if all(part is not known for known in pairs)]
            if sum(part.contrast > 25 for part in corner) > 4:
                continue
            dots = [part for part in corner if max(part.width, part.height) <= 3.6 and part.contrast > 25]
            is_tiny = all(max(dot.width, dot.height) <= _TINY for dot in dots)
            least = _HOLES_LEAST if is_tiny else _STAPLE[0]
            if len(dots) == 2 and are_alike(*dots) and least < math.dist(*(dot.centre for dot in dots)) < _STAPLE[1]:
                found += dots
            if len(dots) == 1 and sum(part.contrast > FAINT for part in corner) == 1:
                # Its other hole is off the page, or on a part of it that is turned over.
                found += [
                    dot
                    for dot in dots
                    if max(dot.width, dot.height) <= _HOLE
                    and min(dot.width, dot.height) >= _HOLE_ROUND * max(dot.width, dot.height)
                    and dot.contrast > _HOLE_DARK
                ]
            for part in corner:
                inset = max(height - part.top, width - part.left if right else part.right)
                # Further away from a lower corner, where staples are rare, it may be a stroke.
                is_near = part.contrast > 40 and (not low or inset < _LOW_STAPLE)
                if is_near and _is_straight(part) and _is_wire(page, part, is_free=True):
                    found.append(part)
                    tiny = [dot for dot in dots if max(dot.width, dot.height) <= _TINY]
                    found += tiny if len(tiny) <= 2 else []  # of an earlier one, some of whose holes it hides
    return [part for part in found if not _is_blue(page, part)]


def _pairs_of_holes(page: Page, corner: list[Part], width: float, height: float) -> list[Part]:
    """Return the holes of one or several staples, and their wires: tiny dark dots, each as far from one other as a
    staple is long.
    """
    holes = [part for part in corner if max(part.width, part.height) <= _TINY + 0.3 and part.contrast > _PAIR_DARK]
    wires = [part for part in corner if part.contrast > _WIRE_LEAST_DARK and all(part is not hole for hole in holes)]
    if (
        len(holes) % 2
        or not 2 <= len(holes) <= _PAIRS_MOST
        or any(math.dist(one.centre, other.centre) < _PAIR_APART for one, other in combinations(holes, 2))
    ):
        return []
    found: dict[int, Part] = {}
    for one, other in combinations(holes, 2):
        is_cut = any(
            min(part.left, part.top, width - part.right, height - part.bottom) < BORDER for part in (one, other)
        )
        if not _STAPLE[0] < math.dist(one.centre, other.centre) < _STAPLE[1]:
            continue
        between = [wire for wire in wires if _is_between(wire, one, other)]
        # A page number between two dashes is no wire.
        between = [wire for wire in between if wire.contrast < FAINT or _is_wire(page, wire)]
        if are_alike(one, other) or is_cut or between:
            found |= {id(part): part for part in (one, other, *between)}
    return list(found.values()) if all(id(hole) in found for hole in holes) else []


def _is_between(wire: Part, one: Part, other: Part) -> bool:
    """Return whether a part lies on the line between two holes."""
    ahead = np.subtract(other.centre, one.centre)
    off = wire.cells[:, ::-1] * wire.unit + wire.unit / 2 - one.centre
    aside = np.abs(off[:, 0] * ahead[1] - off[:, 1] * ahead[0]) / math.hypot(*ahead)
    along = off @ ahead / (ahead @ ahead)
    return bool(aside.max() < _WIRE_ASIDE and along.min() > -0.1 and along.max() < 1.1)


def _is_blue(page: Page, part: Part) -> bool:
    """Return whether a part is bluer than the paper and than any metal, as ink is."""
    if page.levels.shape[2] < 3:
        return False
    box, _ = part_levels(page, part, 0.0)
    dark = page.off_in(box) > 0.5 * part.contrast
    if not dark.any():
        return False
    own, paper = (plane[box][dark].mean(axis=0) for plane in (page.levels, page.background))
    return bool(own[2] - own[0] - max(float(paper[2] - paper[0]), 0.0) > _BLUE * part.contrast)


def _is_straight(part: Part) -> bool:
    """Return whether the darkest of a part is a straight line of a staple's length; the rest is its shadow."""
    points = part.cells[part.strengths > 0.5 * part.contrast] * part.unit
    if len(points) < max(3, 0.4 * part.size):
        return False
    centred = points - points.mean(axis=0)
    long, short = np.sqrt(np.maximum(np.linalg.eigvalsh(np.cov(centred.T))[::-1], 1e-6)) * math.sqrt(12)
    long = min(long, math.hypot(*np.ptp(points, axis=0)))
    return bool(_WIRE_LEAST <= long <= _STAPLE[1] and short < max(1.5, long / _WIRE_SLIM))


def _is_wire(page: Page, part: Part, *, is_free: bool = False) -> bool:
    """Return whether the darkest of a straight part is one line: the letters of a short word are beside it, too.

    `is_free`: no holes are at its ends, so that a short one is a dash unless it throws a shadow to one side.
    """
    box, taken = part_levels(page, part, 1.0)
    y, x = (axis / page.scale for axis in np.mgrid[box].astype(np.float32))
    dark = taken > 0.4 * part.contrast
    points, weights = np.stack([x[dark], y[dark]]), taken[dark]
    if points.shape[1] < 3:
        return False
    middle = np.average(points, axis=1, weights=weights)
    points -= middle[:, None]
    ahead = np.linalg.eigh(np.cov(points, aweights=weights))[1][:, 1]
    pieces = np.floor((ahead @ points) / CELL).astype(np.int64)
    pieces -= pieces.min()
    aside = ahead[0] * points[1] - ahead[1] * points[0]
    sums = np.bincount(pieces, weights=weights)
    middles = np.bincount(pieces, weights=weights * aside)[sums > 0] / sums[sums > 0]
    if middles.std() > max(_WIRE_WAVES, 0.35 / page.scale):
        return False
    long = math.sqrt(12 * float(np.average(np.square(ahead @ points), weights=weights)))
    if not is_free or long >= _WIRE_SURE:
        return True
    along = np.abs(ahead[0] * (x - middle[0]) + ahead[1] * (y - middle[1]))
    beside = ahead[0] * (y - middle[1]) - ahead[1] * (x - middle[0])
    near = (along < 0.4 * long) & (np.abs(beside) < _WIRE_SHADOW)
    off, shares = beside[near], np.maximum(taken[near] - _WIRE_SHADED * part.contrast, 0)
    if not shares.any():
        return False
    off -= np.average(off, weights=shares)
    skewness = np.average(off**3, weights=shares) / np.average(off**2, weights=shares) ** 1.5
    return bool(abs(skewness) > _WIRE_SKEWED)
