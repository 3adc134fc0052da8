"""The light on a page: is its background paper under some lamp, with soft shadows or without?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from sluice_inspect.images.page_model import CELLS_LEAST, POWERS, Mask, Page, blurred, fitted, powers
from sluice_inspect.images.views import Levels

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCENE: Final = 9.0  # levels between the parts of a picture that may be a scene
_STEP: Final = 0.4  # levels by which whole numbers are off a smooth surface
_SMOOTH: Final = 0.6  # levels of noise that do not make up for it
_EVEN: Final = 12.0  # levels between the brightest and the darkest part of a page that need no explanation
_SECOND_DEGREE: Final = [index for index, (a, b) in enumerate(POWERS) if a + b <= 2]
_BRIGHT: Final = 90.0  # levels of the brightest part at least
_FOLDS_MOST: Final = 6
_TINT: Final = 0.7  # share by which the channels of coloured paper differ at most
_MONOTONY: Final = 0.6  # share of the changes of light on a crumpled page that go in one direction
FACET: Final = 0.13  # share by which the parts of a clearly crumpled page differ in brightness
FACET_FAINT: Final = 0.04  # the same if no crease is a mark: hills in fog differ by more
_EVENLY_LIT: Final = 0.94  # share of a page without shadows that is a smooth surface
_UNSEEN: Final = 0.012  # share of the light that a reader does not see where it has no edge
_CLOUDS: Final = 0.0022  # share of the light that areas of half of a page are off a smooth surface
_CLOUDS_GRAIN: Final = 0.65  # the same as a share of what compression makes of it
_CLOUDS_WIDE: Final = 0.0012  # share of the light that areas of 28 millimetres are off it
_CLOUDS_WIDE_GRAIN: Final = 0.5  # the same as a share of what compression makes of it
_CLOUDS_APART: Final = 0.006  # share of the light by which it is darker between two places where it is brightest
_CLOUDS_LEAST: Final = 2  # such places besides the brightest; a lamp has one, beside a shadow two
_NEARLY_LIT: Final = 0.75  # the same if the rest is faintly darker
_DARKER_FAINT: Final = 0.06  # share of the light that is missing there
_LIGHTER_FAINT: Final = 0.01  # share of such a page that is brighter than that surface
_LIT: Final = 0.4  # the same of a page with shadows
_HALF_LIT: Final = 0.5  # the same if nothing is lighter
_MOSTLY_LIT: Final = 0.6  # the same if the shadows are faint
_DARK: Final = 0.16  # share of the light that is missing in one that is not faint
_SHINING_LIT: Final = 0.75  # the same of a page through which an area shines
_SHINING_LEAST: Final = 0.005  # a quarter of the share that this area takes
_NONE_LIGHTER: Final = 0.005
_LIGHTER: Final = 0.07  # share of such a page that is brighter than that surface
_SHADE: Final = 0.024  # share of the light that is missing in a shadow, beyond its outermost part
_DEEP_SHADOW: Final = 0.24
_SHADOW: Final = 0.07  # the same where it is darkest
_SHADOW_EDGES: Final = (0.8, 1.2, 2.0, 2.8, 4.0, 5.6)  # cells of the spread of the soft edge of a shadow
_SHADOW_EDGE_MOST: Final = 0.42  # share of the page that the edge of a faint one takes: waves have no other parts
_SHADOW_SURE: Final = 0.09  # share of the light that one takes which is not faint
_SHADOW_WHOLE: Final = 0.85  # share of a shadow that hangs together
_SHADOW_SHARPENED: Final = 1.5
_SHADOW_STEPS: Final = 12
_SHADOW_FITTED: Final = 92  # per cent of the cells that fit best, by which a shadow is fitted
_SHADOW_DEPTH: Final = 0.01  # share of the light that such a shadow takes, at least and at most
_SHADOW_DEEPEST: Final = 0.7
_SHADOW_CLEAR: Final = (6.0, 2.0)
"""How many times what it leaves in 95 % of a page are its depth, and what the surface leaves without it: fog and snow
have many shades."""
_SHADOW_SHAPE: Final = (0.05, 0.15)  # shares of its depth that its shape leaves, in 95 % and 99 % of a page
_SHADOW_OFF: Final = 0.002  # share of the light that it may leave, beyond that of a page without a shadow


@dataclass(frozen=True, slots=True)
class _Light:
    """The light on a page, on a grid of 4 millimetres."""

    levels: NDArray[np.float64]  # their logarithms
    terms: NDArray[np.float64]  # of a smooth surface: a row for each cell
    used: Mask  # the cells that count, in a row
    inner: NDArray[np.float64]  # the levels without the border
    grain: float  # share by which compression makes them uneven
    span: float  # levels between its brightest and its darkest part


@dataclass(frozen=True, slots=True)
class _Shadow:
    """One shadow on a page."""

    depth: float  # share of the light that it takes
    edge: float  # share of the page that its soft edge takes
    rest: NDArray[np.float64]  # what it and the surface leave of the light


def is_lit_paper(page: Page, *, is_text: bool = False) -> bool:
    """Return whether the background is paper under some lamp, with soft shadows or without: of one tint, and bright.

    `is_text`: text of the other side shines through.

    Most of such a page is a smooth surface, and what is not, is darker. Fog, clouds and walls are neither.
    """
    light = _light_of(page)
    if light is None:
        return False
    if light.span < SCENE:
        return True
    off = (0.02 if is_text else 0.01 if page.folds else 0.006) + light.grain
    for rest in _unlit(light, off):
        lit = float((np.abs(rest) <= off).mean())
        is_near = (
            lit >= _EVENLY_LIT
            or float(np.percentile(np.abs(rest), 99)) <= _UNSEEN
            or (lit >= _NEARLY_LIT and _is_only_faintly_darker(rest, off))
        )
        if (is_near and (is_text or not _is_clouded(light, rest, is_folded=bool(page.folds)))) or _is_shadowed(
            rest, off, _SHADOW
        ):
            return True
    if _is_under_shadow(light, off):
        return True
    # In a deep shadow the light that is left comes from everywhere, and is less even.
    return any(_is_shadowed(rest, off + 0.009, _DEEP_SHADOW) for rest in _unlit(light, off + 0.009))


def is_crumpled_paper(page: Page, facet: float) -> bool:
    """Return whether the background is such paper, whose parts differ by a share of the light at most."""
    light = _light_of(page)
    if light is None or _monotony(light.inner) > _MONOTONY:
        return False
    off = facet / 2 + light.grain
    if any(float((np.abs(rest) <= facet).mean()) > 0.95 for rest in _unlit(light, off)):
        return True
    return _is_under_shadow(light, off)


def _light_of(page: Page) -> _Light | None:
    """Return the light on a page; None if it is dark, or of several tints."""
    step = max(1, round(4 * page.scale))
    grid = page.background[step // 2 :: step, step // 2 :: step]
    rows, columns = grid.shape[:2]
    border = max(1, round(0.11 * min(rows, columns)))
    y, x = (axis.ravel() for axis in np.mgrid[-1 : 1 : rows * 1j, -1 : 1 : columns * 1j])
    inner = np.zeros((rows, columns), dtype=bool)
    inner[border:-border, border:-border] = True
    values, used = grid.mean(axis=2).ravel().astype(np.float64), inner.ravel()
    low, high = (float(np.percentile(values[used], share)) for share in (1, 99))
    if high - low > _EVEN:
        if high < _BRIGHT or low < 0.3 * high:
            return None
        if grid.shape[2] == 3 and not _is_of_one_tint(grid[inner], page.quantum):
            return None
    height, width = page.masked.shape
    terms = [powers(x, y)]
    sides: dict[bool, list[NDArray[np.float64]]] = {False: [], True: []}
    for is_turned, line in page.folds:
        # A page that is turned to the left has its right edge on top.
        place, other, length = (-x, y, width) if is_turned else (y, x, height)
        where = np.interp((other + 1) / 2 * (len(line) - 1), np.arange(len(line)), line) / length * 2 - 1
        distance = (place - where) * length / 2 / page.scale
        side, away = np.sign(distance), np.abs(distance)
        # The parts of a folded page face the lamp differently.
        terms += [(side * np.exp(-away / reach))[:, None] for reach in (12, 30)] + [np.exp(-away / 12)[:, None]]
        terms += [(side * other * np.exp(-away / 30))[:, None]]
        sides[is_turned].append(side * np.exp(-away / 60))
        used = used & (away > 4)
    if len(page.folds) <= _FOLDS_MOST:  # where folds cross, each part faces the lamp in its own way
        terms += [(one * other)[:, None] for one in sides[False] for other in sides[True]]
    if used.sum() < CELLS_LEAST:
        return None
    levels = np.log(np.maximum(values, 1)).reshape(rows, columns)
    return _Light(
        levels,
        terms=np.concatenate(terms, axis=1),
        used=used,
        inner=levels[border:-border, border:-border],
        grain=max(
            0.4 * page.grey_quantum / high if page.grey_quantum >= 1 else 0.0,
            _STEP / low if page.noise <= _SMOOTH else 0.0,
        ),
        span=high - low,
    )


def _monotony(light: NDArray[np.float64]) -> float:
    """Return the share of all changes along the lines of a grid that is left from one end to the other."""
    # Hills in fog get darker from the sky to the ground; the parts of a crumpled page are light and dark by turns.
    return max(
        abs(float((lines[-1] - lines[0]).mean())) / max(float(np.abs(np.diff(lines, axis=0)).sum(axis=0).mean()), 0.001)
        for lines in (light, light.T)
    )


def _is_clouded(light: _Light, rest: NDArray[np.float64], *, is_folded: bool) -> bool:
    """Return whether what a surface leaves of the light is brighter and darker by areas: faint fog, or snow.

    Noise and compression change from cell to cell, and what a shadow leaves is not in most of a page. `is_folded`: the
    parts of the page face the lamp differently.
    """
    plane, known = np.zeros(light.levels.shape, dtype=np.float32), light.used.reshape(light.levels.shape)
    plane[known] = rest
    small, large = (_mean_around(plane, known, by) for by in (1, 3))
    if float(np.median(np.abs(small))) > max(_CLOUDS, _CLOUDS_GRAIN * light.grain):
        return True
    wide = float(np.median(np.abs(large)))
    if is_folded or wide <= _CLOUDS_WIDE:
        return False
    return wide > _CLOUDS_WIDE_GRAIN * light.grain or _has_several_maxima(light)


def _mean_around(plane: NDArray[np.float32], known: Mask, by: int) -> NDArray[np.float32]:
    """Return the mean of the known cells up to `by` cells away from each known one."""
    share = blurred(known[..., None].astype(np.float32), by)[..., 0][known]
    means: NDArray[np.float32] = blurred(plane[..., None], by)[..., 0][known] / share
    return means


def _has_several_maxima(light: _Light) -> bool:
    """Return whether the light is brightest in several places, by more than compression makes of it: of clouds."""
    smooth = blurred(blurred(light.levels[..., None].astype(np.float32), 2), 2)[..., 0]
    border = (len(smooth) - len(light.inner)) // 2
    smooth = smooth[border:-border, border:-border]
    least = max(_CLOUDS_APART, light.grain)
    top: dict[int, float] = {}  # the brightest value of each area that is brighter than the current one
    area = np.full((smooth.shape[0] + 2, smooth.shape[1] + 2), -1, dtype=np.int64)
    count = 0
    for place in np.argsort(-smooth, axis=None).tolist():
        row, column = divmod(place, smooth.shape[1])
        value = float(smooth[row, column])
        around = area[row : row + 3, column : column + 3]
        near = sorted({number for number in around.ravel().tolist() if number >= 0}, key=lambda n: -top[n])
        if not near:
            near = [place]
            top[place] = value
        for lower in near[1:]:
            count += top.pop(lower) - value > least
            area[area == lower] = near[0]
        area[row + 1, column + 1] = near[0]
    return count >= _CLOUDS_LEAST


def _is_only_faintly_darker(rest: NDArray[np.float64], off: float) -> bool:
    """Return whether nothing is lighter than the lit surface, and little is a little darker: the other side."""
    return float((rest > off + 0.002).mean()) <= _LIGHTER_FAINT and float(np.percentile(rest, 1)) >= -_DARKER_FAINT


def _is_under_shadow(light: _Light, off: float) -> bool:
    """Return whether a smooth surface and one shadow, as deep everywhere and with a soft edge, explain a page."""
    terms, used, values, off = light.terms, light.used, light.levels.ravel(), off + _SHADOW_OFF
    few = terms[:, _SECOND_DEGREE]
    without, plain = (values - surface @ fitted(surface[used], values[used]) for surface in (terms, few))
    unexplained = float(np.percentile(np.abs(without[used]), 95))
    for level in (values, plain):
        start = level < _between(level[used])
        for reach in _SHADOW_EDGES:
            start, first = _fitted_shadow(light, few, start, reach)
            area, shadow = _fitted_shadow(light, terms, start, reach)
            depth, rest = min(first.depth, shadow.depth), shadow.rest
            if shadow.edge > (_SHADOW_EDGE_MOST if depth < _SHADOW_SURE else 1):
                continue
            most, more = (float(np.percentile(np.abs(rest[used]), share)) for share in (95, 99))
            is_clear = most <= min(depth / _SHADOW_CLEAR[0], unexplained / _SHADOW_CLEAR[1])
            is_even = most <= off + _SHADOW_SHAPE[0] * depth and more <= 2 * off + _SHADOW_SHAPE[1] * depth
            if is_clear and is_even and _is_one_area(area.reshape(light.levels.shape)):
                return True
    return False


def _is_one_area(area: Mask) -> bool:
    """Return whether nearly all cells of an area hang together: one shadow, and no waves."""
    reached = np.zeros_like(area)
    largest, total = 0, int(area.sum())
    for start in zip(*np.nonzero(area), strict=True):
        if largest > _SHADOW_WHOLE * total or reached[start]:
            continue
        part = np.zeros_like(area)
        part[start] = True
        size = 0
        while size < (size := int(part.sum())):
            wide = np.pad(part, 1)
            part = (part | wide[:-2, 1:-1] | wide[2:, 1:-1] | wide[1:-1, :-2] | wide[1:-1, 2:]) & area
        reached |= part
        largest = max(largest, size)
    return largest > _SHADOW_WHOLE * total


def _fitted_shadow(light: _Light, terms: NDArray[np.float64], is_dark: Mask, reach: float) -> tuple[Mask, _Shadow]:
    """Return where the shadow is that fits best.

    The search begins with `is_dark`; the edge of the shadow is as a normal distribution of `reach` cells.
    """
    values, fitting, depth = light.levels.ravel(), light.used, 0.3
    rest = seen = values
    down, across = (_spreading(side, reach) for side in light.levels.shape)
    for _ in range(_SHADOW_STEPS):
        seen = (down @ is_dark.reshape(light.levels.shape) @ across.T).ravel()
        both = np.concatenate([terms, (np.log1p(-depth * seen) / math.log1p(-depth))[:, None]], axis=1)
        factors = fitted(both[fitting], values[fitting])
        depth = min(max(-math.expm1(min(float(factors[-1]), 0.0)), _SHADOW_DEPTH), _SHADOW_DEEPEST)
        level = values - terms @ factors[:-1]
        rest = level - np.log1p(-depth * seen)
        apart = np.abs(rest)
        fitting = light.used & (apart <= np.percentile(apart[light.used], _SHADOW_FITTED))
        # What is narrower than the edge, such as fingers, and its corners are nowhere half as dark until sharpened.
        share = np.clip(-np.expm1(level) / depth, -0.2, 1.2).reshape(light.levels.shape)
        darker = (share + _SHADOW_SHARPENED * (share - down @ share @ across.T)).ravel() > 0.5
        if (darker == is_dark).all():
            break
        is_dark = darker
    return is_dark, _Shadow(depth, float(((seen > 0.05) & (seen < 0.95))[light.used].mean()), rest)


@lru_cache(64)
def _spreading(side: int, reach: float) -> NDArray[np.float64]:
    """Return the matrix that blurs a row of `side` cells by a normal distribution; the outermost cells are repeated."""
    weights = np.exp(-0.5 * np.square((np.arange(side)[:, None] - np.arange(-side, 2 * side)[None]) / reach))
    weights /= weights.sum(axis=1, keepdims=True)
    matrix: NDArray[np.float64] = weights[:, side : 2 * side].copy()
    matrix[:, 0] += weights[:, :side].sum(axis=1)
    matrix[:, -1] += weights[:, 2 * side :].sum(axis=1)
    matrix.setflags(write=False)
    return matrix


def _between(values: NDArray[np.float64]) -> float:
    """Return the value that parts values into two groups that differ most, by Otsu's method."""
    ordered = np.sort(values)
    below = np.arange(1, len(ordered))
    total = np.cumsum(ordered)
    apart = total[:-1] / below - (total[-1] - total[:-1]) / (len(ordered) - below)
    at = int(np.argmax(below * (len(ordered) - below) * apart**2))
    return float(ordered[at] + ordered[at + 1]) / 2


def _is_shadowed(rest: NDArray[np.float64], off: float, least: float) -> bool:
    """Return whether most of a page is evenly lit and the rest is clearly darker."""
    lit, lighter = float((np.abs(rest) <= off).mean()), float((rest > 2 * off).mean())
    half, deep = float(((rest < -off) & (rest >= -off - _SHADE)).mean()), float((rest < -off - _SHADE).mean())
    darkest = float(np.percentile(rest, 1))
    if lit >= _SHINING_LIT and lighter <= _NONE_LIGHTER and half <= 0.25 * deep > _SHINING_LEAST:
        return True  # an even area of the other side shines through
    least_lit = _LIT if darkest < -_DARK else _HALF_LIT if lighter <= _NONE_LIGHTER else _MOSTLY_LIT
    is_mostly_lit = lit >= least_lit
    return is_mostly_lit and lighter <= _LIGHTER and darkest < -least and half <= 0.8 * deep + 0.05


def _unlit(light: _Light, off: float) -> Iterator[NDArray[np.float64]]:
    """Yield what differs from each smooth surface on which most of the values may be; those in shadows are below it."""
    # First a surface of the second degree above a share of the values, then of the second and the fourth degree through
    # those that are near it.
    terms, used, values = light.terms, light.used, light.levels.ravel()
    few = terms[:, _SECOND_DEGREE]
    for share in (0.6, 0.8, 0.92):
        weights, rest = np.ones(len(values)), values
        for _ in range(15):
            weighted = few[used] * weights[used, None]
            factors = np.linalg.lstsq(weighted.T @ few[used], weighted.T @ values[used], rcond=None)[0]
            rest = values - few @ factors
            weights = np.where(rest > 0, share, 1 - share) / np.maximum(np.abs(rest), 0.002)
        near = used & (np.abs(rest) < 3 * off + 0.02)
        for degree in (terms, few):
            fitting, refined = near, rest
            for _ in range(8):
                if fitting.sum() < max(CELLS_LEAST, 0.2 * used.sum()):
                    break
                refined = values - degree @ fitted(degree[fitting], values[fitting])
                fitting = used & (np.abs(refined) < 1.5 * off + 0.004)
            yield refined[used]


def _is_of_one_tint(cells: Levels, quantum: float) -> bool:
    tint = cells / np.maximum(cells.mean(axis=1, keepdims=True), 1)
    usual = np.median(tint, axis=0)
    if float(np.ptp(usual)) > _TINT:
        return False
    return float(np.percentile(np.abs(tint - usual), 97)) <= 0.03 + (quantum / 150 if quantum >= 3 else 0)
