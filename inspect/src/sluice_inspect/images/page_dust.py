"""The dust on the glass of a scanner: specks and hairs, unlike the dots of a list or of dotted paper."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from sluice_inspect.images.page_model import Page
from sluice_inspect.images.page_parts import FAINT, Part, are_alike, mask_part, part_levels
from sluice_inspect.images.views import max_over_channels

if TYPE_CHECKING:
    from numpy.typing import NDArray

_RINGS_FAR: Final = 0.3  # share of the contrast of a speck that what is around it has by compression
_SPECK: Final = 1.6  # millimetres of a speck of dust, with the cells at its border
_BLURRED: Final = 1.7  # times as large as that are some for their blur
_SPECK_CORE: Final = 0.9  # millimetres of what is half as dark as the darkest of such a speck
_LETTER: Final = 1.2  # the same of a dark speck, from which on it may be a letter
_MEETING: Final = 60  # specks of which two meet by chance, and are as large as a letter
_LETTER_DARK: Final = 60.0  # levels of one
_OUTERMOST: Final = 2.6  # millimetres of the border of a page, with a cell
_PAIR_CORE: Final = 0.8  # the same of two beside each other among a few
_LARGE: Final = 1.5  # times as large as that are some of many, with what compression leaves around them
_DUSTY: Final = 4  # specks of which some may be that large
_MANY: Final = 10  # specks of which two may be beside each other
_LIST_MOST: Final = 30  # of more specks, three are in line by chance
_UNLIKE: Final = 2.5  # contrast of the darkest of many specks, at least, times that of the faintest
_GRID: Final = 0.12  # share by which the distances of printed dots vary at most
_GRID_LEAST, _GRID_MOST = 40, 3000  # such dots
_ALONE: Final = 2.5  # millimetres around it without a mark
_HAIR: Final = 12.0  # millimetres of a hair at most
_HAIR_TAKES: Final = 11.0  # levels that it takes of a line of pixels across it, times their millimetres
_HAIRS_MOST: Final = 4
_SPECKS_MOST: Final = 300


def mask_dust(page: Page, parts: list[Part], *, is_flat: bool) -> None:
    """Mask the specks of dust among parts, and the hairs among many; on a flat page without noise only if unlike."""
    specks = _specks(page, parts, max(_SPECK, 4.5 / page.scale))
    if is_flat and not _are_unlike(specks):
        return  # few scanners leave paper and glass without any noise: dots or lines on it were drawn
    for part in specks + (_hairs(page, parts, specks) if len(specks) >= _DUSTY else []):
        mask_part(page, part, 0.7)
        _mask_rings(page, part)


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
    specks = [part for part in alone if size_of[id(part)] <= (most if part.contrast >= FAINT else 1.3 * most)]
    if len(specks) >= _DUSTY:
        large = [part for part in alone if size_of[id(part)] > most and part.contrast >= FAINT]
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
        is_cut = sizes[index] <= most and _is_cut_stroke(page, part, most)
        is_near_letter = sizes[index] <= _LARGE * most and len(parts) < _MEETING
        if is_cut or (is_near_letter and _is_letter(page, part)):
            sizes[index] = math.inf
    return sizes


def _is_cut_stroke(page: Page, part: Part, most: float) -> bool:
    """Return whether a tiny dark part is the end of a stroke that begins in the border, which is not examined."""
    height, width = (side / page.scale for side in page.masked.shape)
    if min(part.left, part.top, width - part.right, height - part.bottom) > _OUTERMOST or part.contrast < FAINT:
        return False
    around = page.levels[part_levels(page, part, _OUTERMOST)[0]]
    off = max_over_channels(np.abs(around - np.median(around, axis=(0, 1))))
    rows, columns = np.nonzero(off > 0.5 * part.contrast)
    if not len(rows):
        return False
    # What reaches the edge itself is of the scanner.
    long = max(np.ptp(rows), np.ptp(columns)) / page.scale
    is_inside = rows.min() > 0 and columns.min() > 0 and rows.max() < len(off) - 1 and columns.max() < off.shape[1] - 1
    return bool(is_inside and long > most)


def _is_letter(page: Page, part: Part) -> bool:
    """Return whether a tiny part is dark, and as large as the smallest letters all over."""
    return part.contrast >= _LETTER_DARK and _core(page, part) > max(_LETTER, 3.5 / page.scale)


def _core(page: Page, part: Part) -> float:
    """Return the longer side of the box of what of a part is at least half as dark as its darkest point."""
    box, _ = part_levels(page, part, 0.0)
    off = page.off_in(box)
    rows, columns = np.nonzero(off > 0.5 * off.max(initial=1.0))
    return float(max(np.ptp(rows), np.ptp(columns)) + 1) / page.scale if len(rows) else 0.0


def _is_list(parts: list[Part]) -> bool:
    """Return whether three of a few dark dots are alike, in line, and evenly apart, as the bullets of a list."""
    dark = [part for part in parts if part.contrast >= FAINT]
    if len(dark) > _LIST_MOST:
        return False
    for one, other in combinations(dark, 2):
        if _are_in_line(one, other):
            ahead = [2 * b - a for a, b in zip(one.centre, other.centre, strict=True)]
            if any(math.dist(part.centre, ahead) <= 1.5 * one.unit and are_alike(one, part) for part in dark):
                return True
    return False


def _are_in_line(one: Part, other: Part) -> bool:
    """Return whether two dots are alike, and one is exactly below or beside the other, as those of a list."""
    apart = min(abs(a - b) for a, b in zip(one.centre, other.centre, strict=True))
    return apart <= one.unit and are_alike(one, other)


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
