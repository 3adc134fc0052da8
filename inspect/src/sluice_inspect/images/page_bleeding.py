"""What shines through a page from its other side."""

from __future__ import annotations

from typing import Final

import numpy as np

from sluice_inspect.images.page_model import Page, blurred, greatest_around, window_sums
from sluice_inspect.images.page_parts import Part, has_straight_lines, unexplained

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


def _is_box(part: Part) -> bool:
    """Return whether a part is a filled area or an outline of straight lines; a line is neither."""
    if min(part.width, part.height) < _BOX:
        return False
    return part.size * part.unit**2 > 0.4 * part.width * part.height or has_straight_lines(part)


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
