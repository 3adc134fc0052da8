"""The lines of an empty page, whose brightness is the same all along: dark edges, folds, streaks of a feeder."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from sluice_inspect.images.page_model import CELLS_LEAST, EDGE_MOST, PAPER, Line, Mask, Page, greatest_around, rotations
from sluice_inspect.images.views import Levels, max_over_channels

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OUTSIDE: Final = 0.7  # brightness of what lies beyond the edge of a page, as a share of the page's
_OUTSIDE_MOST: Final = 0.13  # share of a side up to which it reaches
_SHEET_STEP: Final = 8.0  # levels of the edge of a sheet at least
_SHEET_SEEN: Final = 0.75  # share of it that is seen
_SHEET_TILT: Final = 0.03  # by which it is askew at most
_SHEET_WRITTEN: Final = 50.0  # levels by which strokes are darker than what lies beyond it
_SHEET_WRITTEN_MOST: Final = 0.0005  # share that they take of it
_SHEET_REACH: Final = 2.5  # millimetres on both sides of it
_LINES_MOST: Final = 12  # lines of one direction from edge to edge that are no print
_REGULAR_LEAST: Final = 4
_TILT: Final = 5.0  # millimetres by which such a line is askew at most
_SEEN: Final = 0.7  # share of its length in which it is seen
_KNOWN: Final = 0.6  # share of it that is not covered
_FOLD_MOST: Final = 75.0  # levels of a fold; a darker line is drawn, unless it is exactly in line with the picture
_STREAK_MOST: Final = 140.0
_LINE_VARIES: Final = 0.1, 0.6  # share of the light, and of its depth, by which it is darker in places
_LINE_DRAWN: Final = 60.0  # levels by which something on it is darker
_HORIZONS: Final = ((1.5, 0.45, 4.0, 12.0, 2.5, 3.0), (4.5, 0.6, 8.0, 22.0, 7.0, 1.4))
"""Of a sharp and of a blurred horizon: millimetres in which how much of it is complete, from where to where the tones
beside it are, levels between them at least, and how many times as far apart they are further away at most."""
_PERSISTS: Final = 0.6  # share of a step between two tones that is still there further away
_EDGE_LEAST: Final = 22.0  # millimetres in which a dark edge has no gap
_STROKE: Final = 30.0  # levels of a stroke in the shadow of two edges, at least
_STROKE_DARK: Final = 12.0  # the same where little light is left
_WRITTEN_LONG: Final = 5.0  # millimetres of a stroke along the edge of a page, at most
_WRITTEN_FROM: Final = 0.4  # millimetres from that edge, within which it is not straight
_TORN_LEAST: Final = 7  # distances between holes of a spiral
_TORN_APART: Final = 4.0  # millimetres of them
_CORNER_LEAST, _CORNER_MOST = 4.0, 54.0  # millimetres of the edges that a turned corner takes
_CORNER_SPREAD: Final = 14.0  # levels within it
_CORNER_STEP: Final = 5.0  # levels of its edge, seen in most of it
_CORNER_SHARP: Final = 2.5  # millimetres beside that edge that are examined
_CORNER_CELL: Final = 0.5  # the same of a part of them; two are a millimetre
_CORNER_DARK: Final = 35.0  # levels along its lines, off what is usual there
_OUTLINE_DARK: Final = 70.0  # the same where its shadow begins and ends
_OUTLINE_SHADOW: Final = 4.0  # millimetres beside it where faint rests are its shadow, which is uneven
_OUTLINE_FAINT: Final = 25.0
_CORNER_SHADOW: Final = 9.0  # millimetres beside it


def model_edges(page: Page, *, is_crumpled: bool = False) -> None:
    """Take for background, or mask, the dark edges of a scan, whose brightness is the same all along."""
    depths = []
    outside = _mask_outside(page)
    _mask_sheet_edges(page, outside)
    for turn, (levels, background, masked) in enumerate(rotations(page)):
        if outside[turn]:
            depths.append(outside[turn] + round(3.5 * page.scale))
            continue
        most = int(EDGE_MOST * levels.shape[0])
        off = max_over_channels(np.rot90(page.surface, turn)[:most] - levels[:most]) > max(8.0, page.threshold)
        window = max(3, round(8 * page.scale))
        smooth = _smoothed(off.astype(np.float32), window) > 0.5  # a shadow is there all along, letters are not
        near = round(2.5 * page.scale)
        starts = smooth[:near].any(axis=0)
        depths.append(0)
        if starts.mean() < 0.25:  # less is the shadow of a neighbouring edge
            continue
        begins = np.any(off[:near], axis=0, keepdims=True).astype(np.float32)
        if _smoothed(begins, round(_EDGE_LEAST * page.scale)).max() < 0.97:  # the holes of a spiral
            continue
        depth = np.where(starts, np.where(smooth, np.arange(1, most + 1)[:, None], 0).max(axis=0), 0).astype(np.float32)
        line = _straightened(depth, page.scale)
        depths[-1] = round(float(np.percentile(line, 98)) + 4.5 * page.scale)
        abrupt = max_over_channels(np.abs(levels[:most] - background[:most])) > page.threshold
        if abrupt.any(axis=0).mean() > 0.1:  # the background follows a soft shadow
            reach = -most, round(5 * page.scale)
            _subtract_along(page.scale, (levels, background, masked), line, reach, only_better=is_crumpled)
    for turn, (levels, background, masked) in enumerate(rotations(page)):
        masked[: max(1, round(2 * page.scale))] = True
        # Where two edges meet, neither is the same all along: there only strokes differ from what is around them.
        beside = depths[(turn - 1) % 4]
        if depths[turn] and beside:
            corner = np.s_[: depths[turn] + round(3 * page.scale), : beside + round(3 * page.scale)]
            background[corner] = _without_strokes(levels[corner], max(1, round(1.2 * page.scale)))
            stroke = (background[corner] - levels[corner]).max(axis=2)
            masked[corner] |= stroke < _stroke_least(background[corner].max(axis=2), page.noise)


def _without_strokes(levels: Levels, by: int) -> Levels:
    """Return levels without dark lines that are narrower than twice `by`, by a closing."""
    planes = []
    for channel in range(levels.shape[2]):
        plane = levels[..., channel]
        for sign in (1, -1):
            plane = sign * greatest_around(greatest_around(sign * plane, by).T, by).T
        planes.append(plane)
    closed: Levels = np.stack(planes, axis=2)
    return closed


def _mask_outside(page: Page) -> list[int]:
    """Mask what lies beyond the edges of the page, much darker than it, and return its depth for each edge."""
    depths = []
    for levels, _, masked in rotations(page):
        height, width = masked.shape
        most, count = int(_OUTSIDE_MOST * height), max(6, round(width / (18 * page.scale)))
        by, beyond = max(1, round(0.6 * page.scale)), round(2.5 * page.scale)
        grey = levels[: most + beyond].mean(axis=2)
        columns = np.array_split(np.arange(width), count)
        edges = np.zeros(count)
        for number, part in enumerate(columns):
            profile = np.pad(np.median(grey[:, part], axis=1), (2 * by, 0), mode="edge")
            inside, outside = profile[4 * by :], profile[: -4 * by]
            found = np.flatnonzero((outside < _OUTSIDE * inside) & (inside > PAPER))
            edges[number] = found[-1] + 1 if len(found) else 0
        seen = np.flatnonzero(edges)
        depths.append(0)
        if not len(seen) or np.ptp(seen) >= len(seen) or (len(seen) < 3) or (seen[0] > 0 and seen[-1] < count - 1):
            continue
        hidden = [n for n in (0, count - 1) if not edges[n] and np.median(grey[:, columns[n]]) < PAPER]
        edges[hidden] = np.interp(hidden, seen, edges[seen])  # by what lies beyond the edge beside it
        lines = np.where(edges > 0, edges + beyond, 0).astype(np.int64)
        dark = np.concatenate([grey[: max(0, int(edges[number]) - beyond), columns[number]].ravel() for number in seen])
        if dark.size and float(np.percentile(dark, 95)) > 0.8 * float(np.median(grey[-beyond:])):
            continue  # something is written there
        edge = np.interp(np.arange(width), [float(part.mean()) for part in columns], edges) - 2 * by
        written = _written_along(levels[: most + 2 * beyond], edge, page)
        for part, depth in zip(columns, lines, strict=True):
            masked[:depth, part] |= ~written[:depth, part]
        depths[-1] = int(lines.max())
    return depths


def _written_along(strip: Levels, edge: NDArray[np.float64], page: Page) -> Mask:
    """Return what is darker than what is around it, in parts too short for a shadow: on the inner side of the `edge` of
    the page, or where it is dark.
    """
    closed = brightest = strip.max(axis=2)
    for sign in (1, -1):
        closed = sign * greatest_around(sign * closed.T, max(1, round(_WRITTEN_LONG / 2 * page.scale))).T
    is_inner = np.arange(len(strip))[:, None] >= edge + max(2, _WRITTEN_FROM * page.scale)
    is_stroke = closed - brightest > _stroke_least(closed, page.noise)
    written: Mask = (is_inner | (closed < 2 * _STROKE)) & is_stroke
    starts = np.flatnonzero(np.diff(written.any(axis=0).astype(np.int8)) == 1)
    apart = np.diff(starts)
    if len(apart) >= _TORN_LEAST and float(np.median(apart)) >= _TORN_APART * page.scale and _is_regular(apart):
        written[:] = False  # the holes of a spiral
    return written


def _stroke_least(around: NDArray[np.float32], noise: float) -> NDArray[np.float32]:
    """Return the levels by which a stroke in a shadow is darker than what is around it, of which half is enough."""
    dark = np.maximum(0.5 * around, max(_STROKE_DARK, 5 * noise))
    least: NDArray[np.float32] = np.maximum(np.minimum(_STROKE, dark), 0.2 * around).astype(np.float32)
    return least


def _mask_sheet_edges(page: Page, known: list[int]) -> None:
    """Mask the edge of a sheet before a lid or a table that is nearly as bright, and what lies beyond.

    It is a straight line along the edge of the picture, from one end to the other: a step between two tones, or the
    shadow of the sheet. Only beyond a step all is masked.
    """
    for turn, (levels, _, masked) in enumerate(rotations(page)):
        height, width = masked.shape
        most, count = int(_OUTSIDE_MOST * height), max(8, round(width / (12 * page.scale)))
        if known[turn] or most < 8:
            continue
        by, tilt_most = max(1, round(0.6 * page.scale)), round(_SHEET_TILT * width / 2)
        strip = levels[: most + 2 * tilt_most + 4 * by]
        edges = np.linspace(0, width, count + 1).astype(int)
        bands = np.stack([np.median(strip[:, a:b], axis=1) for a, b in pairwise(edges)], axis=1)
        padded = np.pad(bands, ((2 * by, 2 * by), (0, 0), (0, 0)), mode="edge")
        size = len(bands)
        near, far = padded[:size], padded[4 * by :]
        signed = far - near
        channel = np.abs(signed).argmax(axis=2)[..., None]
        step = np.take_along_axis(signed, channel, axis=2)[..., 0]
        shadow = np.maximum(np.minimum(near, far) - bands, 0).max(axis=2)
        places = (np.arange(count) + 0.5) / count * 2 - 1
        rows = np.arange(by, min(most, size - tilt_most - 1))
        least = max(_SHEET_STEP, 1.2 * page.threshold)
        best: tuple[float, int, int, bool] = (0.0, 0, 0, False)
        signals = [(greatest_around(np.maximum(sign * step, 0).astype(np.float32), 1), True) for sign in (1, -1)]
        signals.append((greatest_around(shadow.astype(np.float32), 1), False))
        for signal, is_step in signals:
            for tilt in range(-tilt_most, tilt_most + 1, 2):
                at = rows[:, None] + np.rint(tilt * places).astype(int)
                along = np.where(at >= 0, signal[np.clip(at, 0, size - 1), np.arange(count)], 0)
                # At its end the line may leave the picture, or be hidden by a hole.
                seen = ((along > least) | (at < 0)).mean(axis=1)
                score = np.where((seen >= _SHEET_SEEN) & ((at >= 0).mean(axis=1) > 0.6), along.mean(axis=1), 0)
                row = int(score.argmax())
                if score[row] > best[0]:
                    best = (float(score[row]), int(rows[row]), tilt, is_step)
        if not best[0]:
            continue
        line = best[1] + best[2] * ((np.arange(width) + 0.5) / width * 2 - 1)
        down = np.arange(len(strip))[:, None]
        reach = round(_SHEET_REACH * page.scale)
        beyond, within = down < line - reach, (down > line + reach) & (down < line + 4 * reach)
        covered = ~beyond & (down < line + reach)
        if best[3] and _is_lid(strip, beyond, within, least):
            covered |= beyond
        masked[: len(strip)] |= covered & ~_written_along(strip, line, page)
        known[turn] = int(line.max()) + reach


def _is_lid(strip: Levels, beyond: Mask, within: Mask, least: float) -> bool:
    """Return whether what lies beyond a line is of another tone than the sheet, and nothing is written there."""
    if beyond.sum() < CELLS_LEAST or not within.any():
        return False
    tone, paper = (np.median(strip[area], axis=0) for area in (beyond, within))
    if float(np.abs(tone - paper).max()) < least:
        return False
    darker = (tone - strip[beyond]).max(axis=1)
    return bool((darker > _SHEET_WRITTEN).mean() < _SHEET_WRITTEN_MOST)


def model_corners(page: Page) -> None:
    """Take for background a corner that is turned over or torn off, and the shadow beside it."""
    for turn, (levels, background, masked) in enumerate(rotations(page)):
        side = min(round(1.3 * _CORNER_MOST * page.scale), *masked.shape)
        grey = levels[:side, :side].mean(axis=2)
        shade = np.abs(grey - np.rot90(page.surface, turn)[:side, :side].mean(axis=2))
        near = slice(round(1.5 * page.scale), round(3 * page.scale))
        off = shade > max(6.0, page.threshold, 0.5 * float(np.median(shade[near, near])))
        y, x = (axis / page.scale for axis in np.mgrid[0:side, 0:side].astype(np.float32))
        legs = _legs(off, page.scale)
        if legs is None:
            continue
        share = x / legs[0] + y / legs[1]
        distance = (share - 1) / math.hypot(1 / legs[0], 1 / legs[1])  # negative on the corner
        inner = (distance < -1.5) & (np.minimum(x, y) > 1)
        beyond = (distance > _CORNER_SHADOW) & (distance < _CORNER_SHADOW + 4)
        if inner.sum() < 20 or off[inner].mean() < 0.9 or (beyond.any() and off[beyond].mean() > 0.3):
            continue
        usual = np.median(levels[:side, :side][inner], axis=0)
        if (np.abs(levels[:side, :side][inner] - usual).max(axis=1) <= _CORNER_SPREAD + 5 * page.noise).mean() < 0.8:
            continue
        if not _is_sharp(grey, distance, legs, x, y):
            continue
        background[:side, :side][distance < 0] = usual
        reach = max(1.6, 8 / page.scale)  # as far as blocks of a JPEG reach
        planes = levels[:side, :side], background[:side, :side]
        outlines = (np.where(distance > 0, one, math.inf) for one in _outlines(legs, x, y, reach))
        # what is written across a line is darker than it
        dark = _CORNER_DARK + 1.5 * float(np.median(shade[inner]))
        border = (distance < 0) & (np.minimum(x, y) < 2)
        masked[:side, :side] |= ((np.abs(distance) < reach) | border) & (shade < dark)
        for apart in (distance, *outlines):
            _subtract_beside(page, planes, apart, -reach)
            darker = (planes[1] - planes[0]).max(axis=2)
            masked[:side, :side] |= (np.abs(apart) < reach) & (darker < _OUTLINE_DARK)
            rest = np.abs(planes[0] - planes[1]).max(axis=2)
            masked[:side, :side] |= (np.abs(apart) < _OUTLINE_SHADOW) & (rest < _OUTLINE_FAINT)


def _is_sharp(
    grey: NDArray[np.float32],
    distance: NDArray[np.float32],
    legs: tuple[float, float],
    x: NDArray[np.float32],
    y: NDArray[np.float32],
) -> bool:
    """Return whether the brightness changes within a millimetre along nearly all of a corner's edge; light is soft."""
    piece, bins = 2.0, round(2 * _CORNER_SHARP / _CORNER_CELL)
    near = (np.abs(distance) < _CORNER_SHARP) & (np.minimum(x, y) > 2)
    along = np.floor((x * legs[0] - y * legs[1])[near] / math.hypot(*legs) / piece).astype(np.int64)
    if not len(along):
        return False
    along -= along.min()
    places = along * bins + np.clip((distance[near] + _CORNER_SHARP) / _CORNER_CELL, 0, bins - 1).astype(np.int64)
    size = (int(along.max()) + 1) * bins
    counts = np.bincount(places, minlength=size).reshape(-1, bins)
    means = np.bincount(places, grey[near], size).reshape(-1, bins) / np.maximum(counts, 1)
    means = means[(counts >= 2).all(axis=1)]
    if not len(means):
        return False
    return float(np.percentile(np.abs(means[:, 2:] - means[:, :-2]).max(axis=1), 30)) >= _CORNER_STEP


def _legs(off: Mask, scale: float) -> tuple[float, float] | None:
    """Return the millimetres that a corner takes of the upper and of the left edge; None if there is none."""
    inset, most = round(2 * scale), round(_CORNER_MOST * scale)
    across, down = (_run(edge) for edge in (off[inset], off[:, inset]))
    if not (inset < across <= most and inset < down <= most):
        return None
    plane = off if across >= down else off.T
    places = np.arange(inset, max(across, down))
    ends = np.array([_run(plane[:, place]) for place in places])
    for _ in range(3):
        if len(places) < _CORNER_LEAST * scale / 2:
            return None
        slope, start = np.polyfit(places, ends, 1)
        apart = np.abs(ends - start - slope * places)
        kept = apart <= max(1.5, float(np.percentile(apart, 80)))
        places, ends = places[kept], ends[kept]
    if slope >= -0.1 or start <= 0:
        return None
    legs = -start / slope / scale, start / scale
    wide, high = legs if across >= down else legs[::-1]
    return (wide, high) if all(_CORNER_LEAST <= leg <= _CORNER_MOST for leg in legs) else None


def _outlines(
    legs: tuple[float, float], x: NDArray[np.float32], y: NDArray[np.float32], reach: float
) -> Iterator[NDArray[np.float32]]:
    """Yield the distances from both edges of a corner that is turned over, its mirror image; infinite beside them."""
    fold = 2 / (1 / legs[0] ** 2 + 1 / legs[1] ** 2)
    tip = np.array([fold / legs[0], fold / legs[1]])
    for start, other in (((legs[0], 0.0), (0.0, legs[1])), ((0.0, legs[1]), (legs[0], 0.0))):
        ahead = tip - start
        length = math.hypot(*ahead)
        across, down = x - start[0], y - start[1]
        outwards = (across * ahead[1] - down * ahead[0]) / length
        if (other[0] - start[0]) * ahead[1] - (other[1] - start[1]) * ahead[0] > 0:
            outwards = -outwards
        along = (across * ahead[0] + down * ahead[1]) / length
        yield np.where((along > 0) & (along < length + reach), outwards, math.inf).astype(np.float32)


def _run(line: Mask) -> int:
    """Return how many pixels from the start on are set."""
    return len(line) if line.all() else int(np.argmin(line))


def _subtract_beside(page: Page, planes: tuple[Levels, Levels], distance: NDArray[np.float32], start: float) -> None:
    """Make the brightness that is usual at each distance from a line of a corner, from `start` on, the background."""
    levels, background = planes
    bins = np.rint(distance * page.scale)
    for number in range(round(start * page.scale) + 1, round(_CORNER_SHADOW * page.scale) + 1):
        at = bins == number
        if at.sum() >= 8:
            # The light changes along the line, too: only what the line changes is usual.
            background[at] += np.median(levels[at] - background[at], axis=0)


def _straightened(depth: Line, scale: float) -> Line:
    """Return a line through depths without what sticks out of it."""
    window = max(3, round(20 * scale)) | 1
    padded = np.pad(depth, window // 2, mode="edge")
    line: Line = np.median(np.lib.stride_tricks.sliding_window_view(padded, window), axis=1).astype(np.float32)
    return line


def _smoothed(plane: NDArray[np.float32], window: int) -> NDArray[np.float32]:
    """Return running means along the rows."""
    total = np.cumsum(np.pad(plane, ((0, 0), (window // 2 + 1, window - window // 2 - 1)), mode="edge"), axis=1)
    means: NDArray[np.float32] = ((total[:, window:] - total[:, :-window]) / window).astype(np.float32)
    return means


def _subtract_along(
    scale: float, planes: tuple[Levels, Levels, Mask], line: Line, reach: tuple[int, int], *, only_better: bool = False
) -> None:
    """Make the brightness that is usual at each distance from a line across the page the background there.

    It is taken as a share of the background beside the line, below it or on both sides, whose shadows cross the line.
    What is there only here and there, such as a word in the shadow, still differs from it. `only_better`: only where
    less is left by that, since the parts of a crumpled page at its edge differ.
    """
    levels, background, masked = planes
    height, width = levels.shape[:2]
    offsets = np.arange(reach[0], reach[1] + 1)
    rows = np.rint(line)[None, :].astype(np.int64) + offsets[:, None]
    inside = (rows >= 0) & (rows < height)
    below = np.clip(rows[-1], 0, height - 1)
    above = np.where(rows[0] >= 0, rows[0], below) if reach[0] == -reach[1] else below
    rows = np.clip(rows, 0, height - 1)
    columns = np.broadcast_to(np.arange(width), rows.shape)
    share = ((offsets - reach[0]) / (reach[1] - reach[0]))[:, None, None]
    beside = background[above, columns[0]] * (1 - share) + background[below, columns[0]] * share
    beside = np.maximum(beside, 1).astype(np.float32)
    values = np.where(inside[..., None], levels[rows, columns] / beside, np.nan)
    count = max(2, round(width / (18 * scale)))
    edges = np.linspace(0, width, count + 1).astype(np.int64)
    with np.errstate(all="ignore"):
        middles = np.stack([_nan_median(values[:, left:right]) for left, right in pairwise(edges)], axis=1)
    middles = _median_along(middles)
    if reach[0] == -reach[1]:  # where a fold or a streak is much darker than elsewhere, a line is drawn along it
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # nothing is known there
            whole = np.nanmedian(middles, axis=1, keepdims=True)
        middles = np.fmax(middles, whole - np.fmax(_LINE_VARIES[0], _LINE_VARIES[1] * (1 - whole)))
    centres = (edges[:-1] + edges[1:]) / 2
    usual = np.empty_like(values)
    for row in range(len(offsets)):
        for channel in range(levels.shape[2]):
            known = ~np.isnan(middles[row, :, channel])
            usual[row, :, channel] = (
                np.interp(np.arange(width), centres[known], middles[row, known, channel]) if known.any() else np.nan
            )
    usual *= beside
    valid = inside & ~np.isnan(usual[..., 0])
    if only_better:
        off = [max_over_channels(np.abs(levels[rows, columns] - other)) for other in (background[rows, columns], usual)]
        before, after = (_smoothed(np.where(valid, one, 0).sum(axis=0)[None], 18 * round(scale)) for one in off)
        valid &= after < 1.2 * before
    background[rows[valid], columns[valid]] = usual[valid]
    # A sharp transition is a matter of single pixels.
    slope = max_over_channels(np.abs(np.diff(usual, axis=0, append=usual[-1:])))
    steep = _grown_down(np.nan_to_num(slope) > 6, max(2, round(scale))) & valid
    if reach[0] == -reach[1]:
        apart, deep = (usual - levels[rows, columns]).max(axis=2), (beside - usual).max(axis=2)
        steep &= ~(apart > np.maximum(_LINE_DRAWN, 1.2 * greatest_around(np.nan_to_num(deep), round(scale))))
    masked[rows[steep], columns[steep]] = True


def _median_along(middles: Levels) -> Levels:
    """Return medians of each value and its neighbours: a word covers less than two of them."""
    padded = np.pad(middles, ((0, 0), (1, 1), (0, 0)), mode="reflect" if middles.shape[1] > 1 else "edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=1)
    known = np.isnan(middles)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # nothing is known there
        smooth: Levels = np.nanmedian(windows, axis=3).astype(np.float32)
    smooth[known] = np.nan
    return smooth


def _nan_median(values: Levels) -> NDArray[np.float32]:
    known = ~np.isnan(values[..., 0])
    enough = known.mean(axis=1) > 0.3
    middle = np.full((values.shape[0], values.shape[2]), np.nan, dtype=np.float32)
    if enough.any():
        middle[enough] = np.nanmedian(values[enough], axis=1)
    return middle


def _grown_down(mask: Mask, by: int) -> Mask:
    """Return a mask that reaches `by` rows further up and down."""
    padded = np.pad(mask, ((by, by), (0, 0)))
    grown: Mask = np.asarray(np.lib.stride_tricks.sliding_window_view(padded, 2 * by + 1, axis=0).any(axis=2))
    return grown


def model_lines(page: Page) -> bool:
    """Take for background the straight lines from edge to edge: folds, and streaks of a feeder.

    Return False if their number or regular distances show that they are printed.
    """
    for is_turned, (levels, background, masked) in zip((False, True), rotations(page), strict=False):
        lines = _lines(page, np.where(masked[..., None], background, levels), masked)
        places = np.sort([float(line.mean()) for line in lines])
        if len(places) > _LINES_MOST or _is_regular(np.diff(places)):
            return False
        for line in lines:
            reach = round(4 * page.scale)
            _subtract_along(page.scale, (levels, background, masked), line, (-reach, reach))
            page.folds.append((is_turned, line))
    return True


def _is_regular(distances: NDArray[np.float64] | NDArray[np.int64]) -> bool:
    """Return whether lines or dots are as far apart as those of ruled paper."""
    if len(distances) < _REGULAR_LEAST:
        return False
    usual = float(np.median(distances))
    return float((np.abs(distances - usual) < 0.08 * usual).mean()) > 0.6


def _lines(page: Page, levels: Levels, masked: Mask) -> list[Line]:
    """Return the rows of each faint straight line that reaches from the left to the right edge."""
    height, width = levels.shape[:2]
    count = max(8, round(width / (7 * page.scale)))
    edges = np.linspace(0, width, count + 1).astype(np.int64)
    grey = levels.mean(axis=2)
    means = np.stack([np.median(grey[:, a:b], axis=1) for a, b in pairwise(edges)], axis=1)
    known = np.stack([masked[:, a:b].mean(axis=1) < 0.5 for a, b in pairwise(edges)], axis=1)
    strength = _valleys_and_ridges(means, round(2.2 * page.scale))
    least = max(1.2, 0.8 * page.noise, 4 * float(strength.mean()))
    by = max(1, round(0.35 * page.scale))
    near = greatest_around(strength, by)
    places = (np.arange(count) + 0.5) / count - 0.5
    reaches = max(2, count // 10)
    most = round(_TILT * page.scale)
    votes, tilts = np.zeros(height), np.zeros(height)
    for tilt in range(-most, most + 1, max(1, by)):
        shifted = (np.arange(height)[:, None] + np.rint(tilt * places).astype(np.int64)) % height
        turned = near[shifted, np.arange(count)]
        there = known[shifted, np.arange(count)]
        seen = (turned > least) & there
        share = np.where(there.mean(axis=1) > _KNOWN, seen.sum(axis=1) / np.maximum(there.sum(axis=1), 1), 0)
        seen |= ~there
        share[(seen[:, :reaches].sum(axis=1) < reaches - 1) | (seen[:, -reaches:].sum(axis=1) < reaches - 1)] = 0
        # of lines that pass through the same row the strongest is the right one
        score = np.where(share >= _SEEN, share + 0.001 * np.minimum(turned, 100).mean(axis=1), 0)
        better = score > votes
        votes[better], tilts[better] = score[better], tilt
    lines: list[Line] = []
    free = np.ones(height, dtype=bool)
    free[: round(3 * page.scale)] = free[-round(3 * page.scale) :] = False
    while (found := int(np.argmax(np.where(free, votes, 0)))) >= 0 and free[found] and votes[found] > 0:
        free[max(0, found - round(4 * page.scale)) : found + round(4 * page.scale) + 1] = False
        guess = found + tilts[found] * places
        window = np.rint(guess)[None, :].astype(np.int64) + np.arange(-2 * by, 2 * by + 1)[:, None]
        rows = np.clip(window, 0, height - 1)
        around = strength[rows, np.arange(count)]
        deepest = np.clip(np.rint(guess).astype(np.int64) + around.argmax(axis=0) - 2 * by, 0, height - 1)
        depth = around.max(axis=0)
        on_line = depth > least
        slope, start = np.polyfit(places[on_line], deepest[on_line], 1)
        line = (start + slope * ((np.arange(width) + 0.5) / width - 0.5)).astype(np.float32)
        if float(np.median(depth[on_line])) <= (_STREAK_MOST if abs(slope) <= 1.5 else _FOLD_MOST):
            lines.append(line)
        if len(lines) > _LINES_MOST:
            break
    return lines


def _valleys_and_ridges(means: NDArray[np.float32], by: int) -> NDArray[np.float32]:
    """Return how far each value is below, or above, both values `by` rows away; 0 on a step between tones."""
    padded = np.pad(means, ((by, by), (0, 0)), mode="edge")
    above, below = padded[: -2 * by], padded[2 * by :]
    depth: NDArray[np.float32] = np.maximum(
        np.maximum(np.minimum(above, below) - means, means - np.maximum(above, below)), 0
    )
    return depth


def has_horizon(page: Page) -> bool:
    """Return whether two tones meet in a sharp straight line across the page that is no fold."""
    for is_turned, (levels, _, _) in zip((False, True), rotations(page), strict=False):
        height, width = levels.shape[:2]
        count = max(8, round(width / (12 * page.scale)))
        edges = np.linspace(0, width, count + 1).astype(np.int64)
        grey = levels.mean(axis=2)
        means = np.stack([grey[:, a:b].mean(axis=1) for a, b in pairwise(edges)], axis=1)
        # The parts of a folded page face the lamp differently near the fold only.
        apart = _band_steps(means, round(25 * page.scale), round(45 * page.scale))
        grain = max(2 * page.noise / math.sqrt(6 * page.scale), 1.5 * page.grey_quantum)
        inner = slice(round(EDGE_MOST * 1.5 * height), height - round(EDGE_MOST * 1.5 * height))
        folds = [round(float(fold.mean())) for turned, fold in page.folds if turned is is_turned]
        for sharp, part, near, far, least, most in _HORIZONS:
            close = _steps_across(means, round(sharp * page.scale))
            wide = _band_steps(means, round(near * page.scale), round(far * page.scale))
            is_step = (np.abs(close) > part * np.abs(wide)) & (np.abs(close) < 1.6 * np.abs(wide))
            further = apart * np.sign(wide) / np.maximum(np.abs(wide), 1e-3)
            is_step &= (np.abs(wide) > max(least, grain)) & (further > _PERSISTS) & (further < most)
            for at in folds:
                is_step[max(0, at - round(far * page.scale)) : at + round(far * page.scale)] = False
            for sign in (-1, 1):
                steps = (is_step & (wide * sign > 0) & (close * sign > 0)).astype(np.float32)
                if greatest_around(steps, round(1.5 * page.scale))[inner].mean(axis=1).max(initial=0) >= 0.8:
                    return True
    return False


def _band_steps(means: NDArray[np.float32], near: int, far: int) -> NDArray[np.float64]:
    """Return the difference of the rows from `near` to `far` below and above each value."""
    height = len(means)
    sums = np.cumsum(np.pad(means, ((far + 1, far), (0, 0)), mode="edge"), axis=0, dtype=np.float64)
    band = (sums[far - near :] - sums[: near - far]) / (far - near)  # the mean of the rows above each
    steps: NDArray[np.float64] = band[far + near : far + near + height] - band[:height]
    return steps


def _steps_across(means: NDArray[np.float32], by: int) -> NDArray[np.float32]:
    """Return the difference of what is `by` rows below and `by` rows above each value."""
    padded = np.pad(means, ((by, by), (0, 0)), mode="edge")
    steps: NDArray[np.float32] = padded[2 * by :] - padded[: -2 * by]
    return steps
