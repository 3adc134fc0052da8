"""Follows the LZW codes of TIFF (TIFF 6.0, section 13) without unpacking: how much they stand for, and whether they can be. Reads no file.

Decoders stop when they have enough, so that damaged codes draw something all the same. Here every code must name a string that is there,
and the lengths must add up.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sluice.formats.budget import Deadline

_CLEAR: Final = 256
_END: Final = 257
_FIRST: Final = 258
_CODES_AT_ONCE: Final = 4096
_WIDER_FROM: Final = (254, 766, 1790)
"""Numbers of codes since the table was cleared from which on a code has 10, 11 and 12 bits: one earlier than elsewhere."""
_WIDTHS: Final = 9 + np.searchsorted(np.array(_WIDER_FROM), np.arange(_CODES_AT_ONCE), side="right")
_STARTS: Final = np.concatenate([[0], np.cumsum(_WIDTHS)])
_WIDEST: Final = 12


class BadCode(Exception):
    """A code names a string that is not in the table."""


def is_old_style(data: bytes) -> bool:
    """Whether the codes run the other way within bytes, as before TIFF 6.0."""
    return len(data) > 1 and data[0] == 0 and bool(data[1] & 1)


def unpacked_size(data: bytes, enough: int, deadline: Deadline) -> tuple[int, bool]:
    """Answer for how many bytes the codes stand, and whether a code says that they end there. Stops once it is more than `enough`, or too late.

    Raises `BadCode`.
    """
    total = 0
    lengths: list[int] = []
    previous = 0
    for codes in _runs(data):
        if not codes:
            return total, True
        if codes[0] == _CLEAR:
            if deadline.has_passed:
                break
            lengths, previous = [1] * _FIRST, 0
            continue
        before = total
        try:
            for code in codes:
                if previous:
                    lengths.append(previous + 1)
                previous = lengths[code]
                total += previous
        except IndexError as error:
            raise BadCode(f"code {len(lengths)} is not in the table") from error
        if total == before or total > enough or deadline.has_passed:
            break
    return total, False


def _runs(data: bytes) -> Iterator[list[int]]:
    """Yield runs of codes that stand for something, `[_CLEAR]` before each new table, and an empty list at the code that ends it."""
    padded = np.frombuffer(data + bytes(4), dtype=np.uint8).astype(np.uint32)
    bits, at, count = 8 * len(data), 0, 0
    yield [_CLEAR]
    while True:
        codes = _codes(padded, at, bits, count)
        stops = np.flatnonzero((codes == _CLEAR) | (codes == _END))
        if not len(codes):
            return
        taken = int(stops[0]) if len(stops) else len(codes)
        if taken:
            yield codes[:taken].tolist()
        if not len(stops):
            at, count = at + _bits(count, taken), count + taken
            continue
        if codes[taken] == _END:
            yield []
            return
        at, count = at + _bits(count, taken + 1), 0
        yield [_CLEAR]


def _bits(count: int, codes: int) -> int:
    """Answer how many bits so many codes take behind `count` of their table."""
    inside = min(count + codes, _CODES_AT_ONCE) - min(count, _CODES_AT_ONCE)
    first = min(count, _CODES_AT_ONCE)
    return int(_STARTS[first + inside] - _STARTS[first]) + (codes - inside) * _WIDEST


def _codes(padded: NDArray[np.uint32], at: int, bits: int, count: int) -> NDArray[np.uint32]:
    """Answer the next codes from bit `at` on, as many as there are whole ones, up to the size of a table."""
    if count < _CODES_AT_ONCE:
        widths = _WIDTHS[count:]
        places = at + _STARTS[count:-1] - _STARTS[count]
    else:
        widths = np.full(_CODES_AT_ONCE, _WIDEST)
        places = at + np.arange(_CODES_AT_ONCE) * _WIDEST
    whole = places + widths <= bits
    places, widths = places[whole], widths[whole]
    byte = places >> 3
    window = padded[byte] << 16 | padded[byte + 1] << 8 | padded[byte + 2]
    codes: NDArray[np.uint32] = (window >> (24 - (places & 7) - widths).astype(np.uint32)) & ((1 << widths) - 1).astype(np.uint32)
    return codes
