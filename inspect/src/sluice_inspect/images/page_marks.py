"""The marks that scanning and handling leave on a page: holes, staples, dust, corners, creases, bleed-through."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from sluice_inspect.images.page_model import Page, blurred, greatest_around, window_sums
from sluice_inspect.images.page_parts import CELL, Part, beyond_doubt, mask_cells, mask_part, parts_of, unexplained
from sluice_inspect.images.views import max_over_channels

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FAINTEST: Final = 12.0  # levels of marks that are judged in full resolution alone
_BLEEDING: Final = 20.0  # levels by which the text of the other side is seen at most
_BLEEDING_MOST: Final = 26.0  # the same of a box that is blurred even more
_BLEEDING_BLURRED: Final = 0.1  # share of its levels that its edges have, of something of any shape
_BLEEDING_TEXT: Final = 0.15  # the same of text that is not all over the page
_BLEEDING_PARTS: Final = 20  # marks of text, unlike those of a box
_BOX: Final = 12.0  # millimetres of such a box
_LINE: Final = 8.0  # millimetres of a line of a table at least
_LINED: Final = 0.85  # share of what is seen of it that lies in such lines
_BLEEDING_DARKER: Final = 0.97, 0.75  # share of it that is darker than the page, and where it is blurred even more
_BLOTCH_NOISE: Final = 1.6  # the same on a noisy page, times the least contrast of a mark
_LEFT: Final = 0.02  # share of the marks that may be left when the text of the other side is subtracted
_BLOTCH: Final = 15.0  # levels of its strongest marks at most, if there are few
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
_HOLE_DARK: Final = 120.0  # levels
_WIRE_LEAST: Final = 7.6  # the same of its wire: shorter lines are strokes
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
_RINGS_FAR: Final = 0.3  # the same of those around a speck of dust
_CROSSING: Final = 30.0  # levels of the mark where two folds cross, at most
_SPECK: Final = 1.6  # millimetres of a speck of dust, with the cells at its border
_BLURRED: Final = 1.7  # times as large as that are some for their blur
_SPECK_CORE: Final = 1.0  # millimetres of what is half as dark as the darkest of such a speck
_OUTERMOST: Final = 2.6  # millimetres of the border of a page, with a cell
_PAIR_CORE: Final = 0.8  # the same of two beside each other among a few
_LARGE: Final = 1.5  # times as large as that are some of many, with what compression leaves around them
_DUSTY: Final = 4  # specks of which some may be that large
_MANY: Final = 10  # specks of which two may be beside each other
_LIST_MOST: Final = 30  # of more specks, three are in line by chance
_UNLIKE: Final = 2.5  # contrast of the darkest of many specks, at least, times that of the faintest
_GRID: Final = 0.12  # share by which the distances of printed dots vary at most
_GRID_LEAST, _GRID_MOST = 40, 3000  # such dots
_FAINT: Final = 30.0  # levels
_BORDER: Final = 4.0  # millimetres from the edge of a page
_BORDER_LONG: Final = 4.5  # millimetres of a mark there that is no word
_BORDER_FAINT: Final = 16.0  # levels of one that may be longer
_BORDER_LONGEST: Final = 11.0
_BORDER_NOISE: Final = 3.5  # contrast of one at most, times the least of a mark, on a noisy page
_BORDER_MOST: Final = 5
_ACROSS: Final = 20.0  # millimetres from both edges together up to which a mark lies across a corner
_ACROSS_FAINT: Final = 38.0
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
_OUTLINES: Final = 5  # straight lines of its outline
_SHADED: Final = 0.15, 0.6, 0.4  # shares of a contrast that are neither, and the share of a part that has them
_FLAT: Final = 0.99  # share of a page that has the same level, where there is no noise
_ALONE: Final = 2.5  # millimetres around it without a mark
_SOFT: Final = 0.25  # share of its contrast by which a soft mark differs from the mean around each place
_SOFT_REACH: Final = 1.1  # millimetres of that mean
_SOFT_LONG: Final = 20.0  # millimetres of such a mark at most
_SOFT_MOST: Final = 0.03  # share of the page that all of them take
_HAIR: Final = 12.0  # millimetres of a hair at most
_HAIR_TAKES: Final = 11.0  # levels that it takes of a line of pixels across it, times their millimetres
_HAIRS_MOST: Final = 4
_SPECKS_MOST: Final = 300


def mask_punched(page: Page) -> None:
    """Mask punched holes, which lines may cross, and those of a spiral, which would look like a fold."""
    height, width = (side / page.scale for side in page.masked.shape)
    parts = [part for part in parts_of(page) if part.size > 1]
    for part in (*_torn_holes(parts, width, height), *_holes(page, parts, width, height)):
        mask_part(page, part, max(1.5, 8 / page.scale))


def mask_handling(page: Page) -> None:
    """Mask what is known by its shape and place: punched holes, staples, dust."""
    height, width = (side / page.scale for side in page.masked.shape)
    everything = parts_of(page)
    parts = [part for part in everything if part.size > 1]
    handled = [
        *_holes(page, parts, width, height),
        *(part for part in _staples(page, parts, width, height) if not _is_blue(page, part)),
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
    specks = _specks(page, seen, max(_SPECK, 4.5 / page.scale))
    if is_flat and not _are_unlike(specks):
        return  # few scanners leave paper and glass without any noise: dots or lines on it were drawn
    for part in specks + (_hairs(page, seen, specks) if len(specks) >= _DUSTY else []):
        mask_part(page, part, 0.7)
        _mask_rings(page, part)


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
        if is_small and float(np.percentile(edges[box], 95)) <= _SOFT * part.contrast:
            soft.append(part)
    if sum(part.width * part.height for part in soft) <= _SOFT_MOST * page.masked.size / page.scale**2:
        for part in soft:
            mask_part(page, part, 0.7)


def _is_flat(page: Page) -> bool:
    """Return whether nearly all of a page has the same level."""
    counts = np.bincount(page.levels[..., 0].astype(np.int64).ravel(), minlength=256)
    return bool(counts.max() > _FLAT * counts.sum())


def _are_unlike(specks: list[Part]) -> bool:
    """Return whether specks are many, some of them much fainter than others, as no drawn dots are."""
    if len(specks) < _MANY:
        return False
    faint, dark = np.percentile([part.contrast for part in specks], (10, 90))
    return bool(dark > _UNLIKE * faint)


def _mask_rings(page: Page, part: Part) -> None:
    """Mask the faint marks around a dark one, as far as blocks of colours in a JPEG reach."""
    pad = min(4.0, 16 / page.scale)
    top, left = (max(0, round((start - pad) * page.scale)) for start in (part.top, part.left))
    bottom, right = (round((end + pad) * page.scale) for end in (part.bottom, part.right))
    around = np.s_[top:bottom, left:right]
    off = max_over_channels(np.abs(page.levels[around] - page.background[around]))
    page.masked[around] |= off < _RINGS_FAR * part.contrast


def _specks(page: Page, parts: list[Part], most: float) -> list[Part]:
    """Return the specks of dust: tiny, with nothing near that they could be a dot of, and no grid."""
    alone, pairs = [], []
    contrasts = np.array([part.contrast for part in parts])
    boxes = np.array([(part.left, part.top, part.right, part.bottom) for part in parts]).reshape(-1, 4)
    sizes = _sizes(page, parts, most)
    size_of = {id(part): float(size) for part, size in zip(parts, sizes, strict=True)}
    for index, part in enumerate(parts):
        if sizes[index] > _LARGE * most:
            continue
        gaps = np.maximum(
            np.maximum(boxes[:, 0] - part.right, part.left - boxes[:, 2]),
            np.maximum(boxes[:, 1] - part.bottom, part.top - boxes[:, 3]),
        )
        gaps[index] = math.inf
        gaps[contrasts < _RINGS_FAR * part.contrast] = math.inf
        near = np.flatnonzero(gaps <= _ALONE)
        if not len(near):
            alone.append(part)
        elif len(near) == 1 and max(sizes[index], sizes[near[0]]) <= most:
            pairs.append(part)
    # No letter that small is read if it is faint.
    specks = [part for part in alone if size_of[id(part)] <= (most if part.contrast >= _FAINT else 1.3 * most)]
    if len(specks) >= _DUSTY:
        large = [part for part in alone if size_of[id(part)] > most and part.contrast >= _FAINT]
        if not any(_are_in_line(one, other) for one, other in combinations(large, 2)):
            specks = alone
    if len(specks) >= _DUSTY:
        least = _PAIR_CORE if len(specks) < _MANY else math.inf
        specks = alone + [part for part in pairs if _core(page, part) <= max(least, 2.5 / page.scale)]  # by chance
    return specks if len(specks) <= _SPECKS_MOST and not is_grid(specks) and not _is_list(specks) else []


def _sizes(page: Page, parts: list[Part], most: float) -> NDArray[np.float64]:
    """Return the longer side of each part: `most` for a larger one with the core of a speck, infinite for a stroke."""
    sizes = np.array([max(part.width, part.height) for part in parts], dtype=np.float64)
    if len(parts) <= _SPECKS_MOST:
        # Compression and the grid of its cells make a speck larger than its core.
        for place in np.flatnonzero((sizes > most) & (sizes <= _BLURRED * most)).tolist():
            if _core(page, parts[place]) <= max(_SPECK_CORE, 3 / page.scale):
                sizes[place] = most
    for index, part in enumerate(parts):
        if sizes[index] <= most and _is_cut_stroke(page, part, most):
            sizes[index] = math.inf
    return sizes


def _is_cut_stroke(page: Page, part: Part, most: float) -> bool:
    """Return whether a tiny dark part is the end of a stroke that begins in the border, which is not examined."""
    height, width = (side / page.scale for side in page.masked.shape)
    if min(part.left, part.top, width - part.right, height - part.bottom) > _OUTERMOST or part.contrast < _FAINT:
        return False
    around = page.levels[_taken(page, part, _OUTERMOST)[0]]
    off = max_over_channels(np.abs(around - np.median(around, axis=(0, 1))))
    rows, columns = np.nonzero(off > 0.5 * part.contrast)
    if not len(rows):
        return False
    # What reaches the edge itself is of the scanner.
    long = max(np.ptp(rows), np.ptp(columns)) / page.scale
    is_inside = rows.min() > 0 and columns.min() > 0 and rows.max() < len(off) - 1 and columns.max() < off.shape[1] - 1
    return bool(is_inside and long > most)


def _core(page: Page, part: Part) -> float:
    """Return the longer side of the box of what of a part is at least half as dark as its darkest point."""
    box, _ = _taken(page, part, 0.0)
    off = page.off_in(box)
    rows, columns = np.nonzero(off > 0.5 * off.max(initial=1.0))
    return float(max(np.ptp(rows), np.ptp(columns)) + 1) / page.scale if len(rows) else 0.0


def _is_list(parts: list[Part]) -> bool:
    """Return whether three of a few dark dots are alike, in line, and evenly apart, as the bullets of a list."""
    dark = [part for part in parts if part.contrast >= _FAINT]
    if len(dark) > _LIST_MOST:
        return False
    for one, other in combinations(dark, 2):
        if _are_in_line(one, other):
            ahead = [2 * b - a for a, b in zip(one.centre, other.centre, strict=True)]
            if any(math.dist(part.centre, ahead) <= 1.5 * one.unit and _are_alike(one, part) for part in dark):
                return True
    return False


def _are_in_line(one: Part, other: Part) -> bool:
    """Return whether two dots are alike, and one is exactly below or beside the other, as those of a list."""
    apart = min(abs(a - b) for a, b in zip(one.centre, other.centre, strict=True))
    return apart <= one.unit and _are_alike(one, other)


def _hairs(page: Page, parts: list[Part], specks: list[Part]) -> list[Part]:
    """Return the hairs among dust: a few thin lines, each alone, that take less light than any stroke."""
    known = {id(part) for part in specks}
    hairs = []
    for part in parts:
        long = math.hypot(part.width, part.height)
        near = [other for other in parts if part.distance(other) <= _ALONE]
        if id(part) in known or long > _HAIR or sum(p.contrast >= _RINGS_FAR * part.contrast for p in near) > 1:
            continue
        box = np.s_[
            round(part.top * page.scale) : round(part.bottom * page.scale),
            round(part.left * page.scale) : round(part.right * page.scale),
        ]
        taken = (page.background[box] - page.levels[box]).mean(axis=2).sum() / page.scale**2
        if abs(float(taken)) <= _HAIR_TAKES * long:
            hairs.append(part)
    return hairs if len(hairs) <= _HAIRS_MOST else []


def is_grid(parts: list[Part]) -> bool:
    """Return whether parts are many dots at regular distances, as on dotted paper."""
    if not _GRID_LEAST <= len(parts) <= _GRID_MOST:
        return False
    places = np.array([part.centre for part in parts])
    distances = np.hypot(*(places[:, None] - places[None]).transpose(2, 0, 1))
    np.fill_diagonal(distances, math.inf)
    nearest = distances.min(axis=1)
    usual = float(np.median(nearest))
    return float((np.abs(nearest - usual) < _GRID * usual).mean()) > 0.7


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
        if part.contrast >= max(_FAINT, _BORDER_NOISE * page.threshold):
            continue
        aside, above = min(part.left, width - part.right), min(part.top, height - part.bottom)
        thin, long = (part.width, part.height) if aside < above else (part.height, part.width)
        if min(aside, above) < _EDGE and thin <= _ALONG[0] and long >= _ALONG[1]:
            lines.append(part)
        elif min(aside, above) < _BORDER and max(part.width, part.height) <= (
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
        is_outermost = min(part.left, part.top, width - part.right, height - part.bottom) < _BORDER
        if is_outermost and float(beside.max()) <= most and (part.contrast < _CROSSING_DARK or _is_across(x, y, part)):
            found.append(part)
    return found


def _is_across(x: NDArray[np.float64], y: NDArray[np.float64], part: Part) -> bool:
    """Return whether cells so far from both edges fill a corner or cut it off, as no stroke that begins there does."""
    if part.size * part.unit**2 > 0.35 * part.width * part.height and min(part.width, part.height) > 2:
        return True
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
    """Return the outlines of corners that are folded over, or were: straight lines that reach both edges of the page."""
    corners = []
    for part in parts:
        beside = min(part.left, width - part.right), min(part.top, height - part.bottom)
        sides = part.width, part.height
        is_slim = min(sides) >= _CORNER_SLIM[0] and max(sides) >= _CORNER_SLIM[1] and part.contrast < _FAINT
        is_corner = min(beside) < _EDGE and max(beside) < _CORNER_ASIDE and max(sides) <= _CORNER[1]
        # One line alone is a crease, if it is faint.
        lines = 1 if part.contrast < _FAINT and max(beside) < _BORDER else 2
        if is_corner and (is_slim or min(sides) >= _CORNER[0]) and _has_straight_lines(part, lines):
            corners.append(part)
    inside = [
        part
        for part in parts
        for corner in corners
        if part is not corner
        and part.distance(corner) < 0
        and (part.contrast < _FAINT or (_is_long_in(part, corner) and _has_straight_lines(part, 1)))
    ]
    return corners + inside


def _is_long_in(part: Part, corner: Part) -> bool:
    """Return whether a part is half as large as the corner in which it is, as no word is."""
    return part.width > 0.5 * corner.width and part.height > 0.45 * corner.height


def _is_shaded(page: Page, part: Part) -> bool:
    """Return whether much of a part is between its own brightness and the paper's, as no drawn line is."""
    off = page.off_in(_taken(page, part, 0.0)[0])
    seen = off > _SHADED[0] * part.contrast
    return bool(seen.any() and (off[seen] < _SHADED[1] * part.contrast).mean() > _SHADED[2])


def _has_straight_lines(part: Part, least: int = 2) -> bool:
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


def _holes(page: Page, parts: list[Part], width: float, height: float) -> list[Part]:
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
    around = page.levels[_taken(page, part, pad)[0]]
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


def _staples(page: Page, parts: list[Part], width: float, height: float) -> list[Part]:
    """Return the staples and their holes: short straight lines, or two dots as far apart, near a corner of the page."""
    staples: list[Part] = []
    for right in (False, True):
        for low in (False, True):
            corner = [
                part
                for part in parts
                if (width - part.left if right else part.right) < 34
                and (height - part.top if low else part.bottom) < 34
            ]
            pairs = _pairs_of_holes(page, corner, width, height)
            staples += pairs
            corner = [part for part in corner if all(part is not known for known in pairs)]
            if sum(part.contrast > 25 for part in corner) > 4:
                continue
            dots = [part for part in corner if max(part.width, part.height) <= 3.6 and part.contrast > 25]
            is_tiny = all(max(dot.width, dot.height) <= _TINY for dot in dots)
            least = _HOLES_LEAST if is_tiny else _STAPLE[0]
            if len(dots) == 2 and _are_alike(*dots) and least < math.dist(*(dot.centre for dot in dots)) < _STAPLE[1]:
                staples += dots
            if len(dots) == 1 and sum(part.contrast > _FAINT for part in corner) == 1:
                # Its other hole is off the page, or on a part of it that is turned over.
                staples += [dot for dot in dots if max(dot.width, dot.height) <= _HOLE and dot.contrast > _HOLE_DARK]
            for part in corner:
                inset = max(height - part.top, width - part.left if right else part.right)
                # Further away from a lower corner, where staples are rare, it may be a stroke.
                is_near = part.contrast > 40 and (not low or inset < _LOW_STAPLE)
                if is_near and _is_straight(part) and _is_wire(page, part, is_free=True):
                    staples.append(part)
                    tiny = [dot for dot in dots if max(dot.width, dot.height) <= _TINY]
                    staples += tiny if len(tiny) <= 2 else []  # of an earlier one, some of whose holes it hides
    return staples


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
            min(part.left, part.top, width - part.right, height - part.bottom) < _BORDER for part in (one, other)
        )
        if not _STAPLE[0] < math.dist(one.centre, other.centre) < _STAPLE[1]:
            continue
        between = [wire for wire in wires if _is_between(wire, one, other)]
        # A page number between two dashes is no wire.
        between = [wire for wire in between if wire.contrast < _FAINT or _is_wire(page, wire)]
        if _are_alike(one, other) or is_cut or between:
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
    box, _ = _taken(page, part, 0.0)
    dark = page.off_in(box) > 0.5 * part.contrast
    if not dark.any():
        return False
    own, paper = (plane[box][dark].mean(axis=0) for plane in (page.levels, page.background))
    return bool(own[2] - own[0] - max(float(paper[2] - paper[0]), 0.0) > _BLUE * part.contrast)


def _are_alike(one: Part, other: Part) -> bool:
    """Return whether two dots may be holes of the same staple."""
    shares = (one.width / other.width, one.height / other.height, one.contrast / other.contrast)
    return all(0.55 < share < 1.8 for share in shares)


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
    box, taken = _taken(page, part, 1.0)
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


def _taken(page: Page, part: Part, pad: float) -> tuple[tuple[slice, slice], NDArray[np.float32]]:
    """Return the box of a part with `pad` millimetres around it, in pixels, and the levels that are missing there."""
    top, left = (max(0, round((start - pad) * page.scale)) for start in (part.top, part.left))
    bottom, right = (round((end + pad) * page.scale) for end in (part.bottom, part.right))
    height, width = page.masked.shape
    box = slice(top, min(bottom, height)), slice(left, min(right, width))
    return box, (page.background[box] - page.levels[box]).mean(axis=2)


def _is_box(part: Part) -> bool:
    """Return whether a part is a filled area or an outline of straight lines; a line is neither."""
    if min(part.width, part.height) < _BOX:
        return False
    return part.size * part.unit**2 > 0.4 * part.width * part.height or _has_straight_lines(part)


def _are_lines(parts: list[Part]) -> bool:
    """Return whether parts are of a table: level and upright lines, as long as no stroke of a letter is."""
    cells = np.concatenate([part.cells for part in parts])
    cells -= cells.min(axis=0)
    plane = np.zeros(cells.max(axis=0) + 3, dtype=np.float32)
    plane[cells[:, 0] + 1, cells[:, 1] + 1] = 1
    least = round(_LINE / parts[0].unit)
    lined, places = np.zeros(plane.shape, dtype=bool), 0
    for is_upright in (False, True):
        turned = plane.T if is_upright else plane
        near = greatest_around(turned, 1)  # a line may be askew
        if near.shape[1] < least:
            continue
        sums = least - 1.5 < window_sums(np.ascontiguousarray(near.T), least).T
        runs = np.zeros(near.shape, dtype=np.float32)
        runs[:, least // 2 : least // 2 + sums.shape[1]] = sums
        runs = greatest_around(np.ascontiguousarray(runs.T), least // 2 + 1).T
        lined |= runs.T > 0 if is_upright else runs > 0
        rows = np.flatnonzero(runs.any(axis=1))
        places += int((np.diff(rows, prepend=-9) > 1).sum())
    return places >= 2 and float(lined[plane > 0].mean()) > _LINED


def absorb_bleeding(page: Page, parts: list[Part], *, is_text: bool) -> bool:
    """Take for background what shines through from the other side; return whether that are all marks, `parts`.

    `is_text`: faint, blurred lines of text are all over the page.
    """
    if is_text:
        rest = page.levels - page.background
        rest[page.masked] = 0
        page.background += np.clip(blurred(rest, max(1, round(0.5 * page.scale))), -_BLEEDING, 0)
        page.subdued = max(page.subdued, 0.4 * _BLEEDING)
        parts = unexplained(page)
    if not parts or max(part.contrast for part in parts) <= _FAINTEST:
        return True
    strongest = float(np.percentile([part.contrast for part in parts], 95))
    if strongest > (_BLEEDING_MOST if len(parts) < _BLEEDING_PARTS else _BLEEDING):
        return False
    if is_text and max(part.contrast for part in parts) < max(_BLOTCH, _BLOTCH_NOISE * page.threshold):
        return True
    rest = page.levels - page.background
    rest[page.masked] = 0
    blurry = blurred(rest, max(1, round(0.5 * page.scale)))
    marked = page.off > page.threshold
    is_darker = rest.min(axis=2) < -0.5 * page.threshold
    darker = float(is_darker[marked].mean())
    if float(np.median(page.background)) < 150 or darker < _BLEEDING_DARKER[1]:
        return False
    # What the paper blurred has no edges: little is left without its own blur.
    edges = float(np.sqrt(max(np.square((rest - blurred(rest, 1))[marked]).mean() - page.noise**2, 0.0)))
    share = edges / float(np.abs(rest[marked]).max(axis=1).mean())
    is_faint = strongest <= _BLEEDING
    is_blurred = share <= _BLEEDING_BLURRED
    is_box = any(_is_box(part) for part in parts) or _are_lines(parts)
    if len(parts) < _BLEEDING_PARTS and not is_blurred and not is_box:
        return False
    if not (is_text or is_box) and share > _BLEEDING_TEXT:
        return False  # of this side, or it would have been known by the lines all over the page
    if share > (0.3 if is_faint and darker >= _BLEEDING_DARKER[0] and len(parts) >= _BLEEDING_PARTS else 0.2):
        return False
    if share <= 0.2:
        blurry = blurred(rest, 1)
    # Beside something that is blurred so much, the background is too dark.
    page.background += np.clip(blurry, -1.3 * _BLEEDING, _BLEEDING / 2 if is_blurred else 0)
    page.subdued = max(page.subdued, 0.4 * _BLEEDING)
    # What little is left is judged in full resolution.
    left = _LEFT if share > 0.2 else 2 * _LEFT
    return sum(part.size for part in unexplained(page)) <= left * sum(part.size for part in parts)
