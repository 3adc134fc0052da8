"""The LZW codes of TIFF (TIFF 6.0, section 13), followed without unpacking: validity, and how many bytes they give."""
# Decoders stop when they have enough, so damaged codes still draw something.

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np

from sluice_inspect.budget import Deadline

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CLEAR, _END, _FIRST, _TABLE_CODES = 256, 257, 258, 4096
# Number of codes since the table was cleared from which on a code has 10, 11 and 12 bits: one earlier than in GIF.
_WIDER_FROM: Final = (254, 766, 1790)
_WIDEST: Final = 12


class InvalidLzw(Exception):
    """A code names a string that is not in the table."""


def is_old_style(data: bytes) -> bool:
    """Return whether the bits run in the other direction within bytes, as before TIFF 6.0."""
    return len(data) > 1 and data[0] == 0 and bool(data[1] & 1)


def unpacked_size(data: bytes, enough: int, deadline: Deadline) -> tuple[int, bool]:
    """Return how many bytes the codes give, at most a little over `enough`, and whether an end code was reached.

    Raise `InvalidLzw` if a code is not in the table.
    """
    # Only the lengths of the table's strings are kept: each new string is one byte longer than the one before.
    total = 0
    lengths: list[int] = []
    previous = 0
    for codes in _runs(data):
        if not len(codes):
            return total, True
        if codes[0] == _CLEAR:
            if deadline.has_passed:
                break
            lengths, previous = [1] * _FIRST, 0
            continue
        before = total
        if not previous:
            found = _lengths(codes)
            total += int(found.sum())
            previous = int(found[-1])
            lengths += (found[:-1] + 1).tolist()
        else:
            try:
                for code in codes.tolist():
                    lengths.append(previous + 1)
                    previous = lengths[code]
                    total += previous
            except IndexError as error:
                raise InvalidLzw(f"code {len(lengths)} is not in the table") from error
        if total == before or total > enough or deadline.has_passed:
            break
    return total, False


def _lengths(codes: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Return the length of the string of each code behind a new table. Raise `InvalidLzw`."""
    # A code of the table means the string of an earlier code and a byte. Each round follows twice the number.
    earlier = codes.astype(np.int64) - _FIRST
    wrong = np.flatnonzero(earlier >= np.arange(len(codes)))
    if len(wrong):
        raise InvalidLzw(f"code {_FIRST + int(wrong[0])} is not in the table")
    lengths = np.ones(len(codes), dtype=np.int64)
    open_ = np.flatnonzero(earlier >= 0)
    while len(open_):
        reached = earlier[open_]
        lengths[open_] += lengths[reached]
        earlier[open_] = earlier[reached]
        open_ = open_[earlier[open_] >= 0]
    return lengths


def _runs(data: bytes) -> Iterator[NDArray[np.uint32]]:
    """Yield runs of data codes, `[_CLEAR]` before each new table, and an empty run at the end code."""
    padded = np.frombuffer(data + bytes(4), dtype=np.uint8).astype(np.uint32)
    bits, at, count = 8 * len(data), 0, 0
    new, end = np.array([_CLEAR], dtype=np.uint32), np.zeros(0, dtype=np.uint32)
    yield new
    while True:
        codes = _codes(padded, at, bits, count)
        stops = np.flatnonzero((codes == _CLEAR) | (codes == _END))
        if not len(codes):
            return
        taken = int(stops[0]) if len(stops) else len(codes)
        if taken:
            yield codes[:taken]
        if not len(stops):
            at, count = at + _bits(count, taken), count + taken
            continue
        if codes[taken] == _END:
            yield end
            return
        at, count = at + _bits(count, taken + 1), 0
        yield new


@cache
def _widths() -> NDArray[np.int64]:
    """Return the bits of each code, by the number of codes before it since the table was cleared."""
    return 9 + np.searchsorted(np.array(_WIDER_FROM), np.arange(_TABLE_CODES), side="right")


@cache
def _starts() -> NDArray[np.int64]:
    """Return at which bit each code begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(_widths())])


def _bits(count: int, codes: int) -> int:
    inside = min(count + codes, _TABLE_CODES) - min(count, _TABLE_CODES)
    first = min(count, _TABLE_CODES)
    return int(_starts()[first + inside] - _starts()[first]) + (codes - inside) * _WIDEST


def _codes(padded: NDArray[np.uint32], at: int, bits: int, count: int) -> NDArray[np.uint32]:
    """Return the next complete codes from bit `at` on, up to the size of a table."""
    if count < _TABLE_CODES:
        widths = _widths()[count:]
        starts = at + _starts()[count:-1] - _starts()[count]
    else:
        widths = np.full(_TABLE_CODES, _WIDEST)
        starts = at + np.arange(_TABLE_CODES) * _WIDEST
    complete = starts + widths <= bits
    starts, widths = starts[complete], widths[complete]
    byte = starts >> 3
    window = padded[byte] << 16 | padded[byte + 1] << 8 | padded[byte + 2]
    codes: NDArray[np.uint32] = (window >> (24 - (starts & 7) - widths).astype(np.uint32)) & ((1 << widths) - 1).astype(
        np.uint32
    )
    return codes
