"""Do the values of a Parquet page add up? Follows levels, dictionary numbers and lengths of one unpacked page; answers no value.

Encodings are those of `Encodings.md` of Apache Parquet. Of the delta encodings of texts only the first list of lengths is followed.
"""

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sluice.formats.tables.parquet_footer import Column

PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED, DELTA, DELTA_LENGTHS, DELTA_TEXTS, DICTIONARY, SPLIT = 0, 2, 3, 4, 5, 6, 7, 8, 9
_BOOLEAN, _BYTES, _FIXED = 0, 6, 7
_SIZES: Final = {1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
_WIDTH_MOST: Final = 32
_DELTA_WIDTH_MOST: Final = 64
_AT_ONCE: Final = 65_536
"""Numbers that are unpacked together, a multiple of eight: each takes 8 bytes a bit meanwhile."""

Numbers = NDArray[np.int64]


class BadPage(Exception):
    """The page is not what it says. `str()` says why."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a page holds: values that are there, and rows that begin in it."""

    present: int
    rows: int


def check_levels(
    column: Column, repetitions: Numbers | None, definitions: Numbers | None, values: int, *, is_first: bool
) -> Counted:
    """Count what the levels of a page say. Raises `BadPage` when they cannot be."""
    rows = values
    if repetitions is not None and values:
        if is_first and repetitions[0] != 0:
            raise BadPage("its first value goes on with a row that has not begun")
        _require_within(repetitions, column.repeated, "repetition")
        rows = int(np.count_nonzero(repetitions == 0))
    if definitions is None:
        return Counted(values, rows)
    _require_within(definitions, column.optional, "definition")
    return Counted(int(np.count_nonzero(definitions == column.optional)), rows)


def _require_within(levels: Numbers, most: int, name: str) -> None:
    if levels.size and int(levels.max()) > most:
        raise BadPage(f"a {name} level is above {most}")


def bits_for(most: int) -> int:
    """Answer the bits of a level that may be so high."""
    return most.bit_length()


def levels_in_front(data: bytes, most: int, count: int, encoding: int) -> tuple[Numbers | None, int]:
    """Answer the levels at the beginning of a page of the first version, and where they end."""
    if not most:
        return None, 0
    if encoding == BIT_PACKED:
        size = -(-count * bits_for(most) // 8)
        if size > len(data):
            raise BadPage("its levels are cut")
        bits = np.unpackbits(np.frombuffer(data, np.uint8, size))[: count * bits_for(most)].reshape(count, bits_for(most))
        levels = np.zeros(count, np.int64)
        for place in range(bits_for(most)):
            levels = levels << 1 | bits[:, place]
        return levels, size
    size = int.from_bytes(data[:4], "little")
    if len(data) < 4 or 4 + size > len(data):  # noqa: PLR2004  (the length in front)
        raise BadPage("its levels are cut")
    return hybrid(data[4 : 4 + size], bits_for(most), count), 4 + size


def hybrid(data: bytes, width: int, count: int) -> Numbers:
    """Answer `count` numbers of so many bits in runs of equal ones and packed groups of eight. Raises `BadPage` when there are fewer."""
    parts: list[Numbers] = []
    at = found = 0
    size = -(-width // 8)
    while found < count:
        head, at = _varint(data, at)
        length = head >> 1
        if not length:
            raise BadPage("it has a run of nothing")
        if head & 1:
            packed = data[at : at + length * width]
            at += length * width
            length *= 8
            if at > len(data) and 8 * len(packed) < min(length, count - found) * width:
                raise BadPage(f"it has fewer numbers than the {count} stated")
            parts.append(_unpacked(packed, width, min(length, count - found)))
        else:
            if at + size > len(data):
                raise BadPage(f"it has fewer numbers than the {count} stated")
            parts.append(np.full(min(length, count - found), int.from_bytes(data[at : at + size], "little"), np.int64))
            at += size
        found += length
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _unpacked(packed: bytes, width: int, count: int) -> Numbers:
    if not width:
        return np.zeros(count, np.int64)
    weights = 1 << np.arange(width, dtype=np.int64)
    parts = []
    for first in range(0, count, _AT_ONCE):
        taken = min(_AT_ONCE, count - first)
        piece = np.frombuffer(packed[first * width // 8 : (first + _AT_ONCE) * width // 8], np.uint8)
        parts.append(np.unpackbits(piece, bitorder="little")[: taken * width].reshape(taken, width).astype(np.int64) @ weights)
    return np.concatenate(parts)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(data) or shift > _DELTA_WIDTH_MOST:
            raise BadPage("it has fewer numbers than are stated")
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:  # noqa: PLR2004  (the last byte)
            return number, at


def check_values(data: bytes, column: Column, encoding: int, count: int, dictionary: int | None) -> bool:
    """Follow `count` values of an encoding; answer whether that is known here. Raises `BadPage` when they do not add up."""
    if not count:
        return True
    if encoding in {PLAIN_DICTIONARY, DICTIONARY}:
        _check_dictionary_numbers(data, count, dictionary)
    elif encoding == PLAIN:
        _check_plain(data, column, count)
    elif encoding == RLE and column.type == _BOOLEAN:
        size = int.from_bytes(data[:4], "little")
        hybrid(data[4 : 4 + size], 1, count)
    elif encoding == SPLIT:
        _require_bytes(data, count * _size_of(column))
    elif encoding in {DELTA, DELTA_LENGTHS, DELTA_TEXTS}:
        _check_deltas(data, count)
    else:
        return False
    return True


def _check_dictionary_numbers(data: bytes, count: int, dictionary: int | None) -> None:
    if dictionary is None:
        raise BadPage("its values refer to a dictionary that is not there")
    if not data or data[0] > _WIDTH_MOST:
        raise BadPage("the width of its dictionary numbers cannot be")
    numbers = hybrid(data[1:], data[0], count)
    if int(numbers.max()) >= dictionary:
        raise BadPage(f"a value refers to entry {int(numbers.max()) + 1} of a dictionary of {dictionary}")


def _check_plain(data: bytes, column: Column, count: int) -> None:
    if column.type == _BYTES:
        _follow_lengths(data, count)
        return
    _require_bytes(data, -(-count // 8) if column.type == _BOOLEAN else count * _size_of(column))


def _size_of(column: Column) -> int:
    return column.size if column.type == _FIXED else _SIZES.get(column.type, 0)


def _require_bytes(data: bytes, size: int) -> None:
    if len(data) != size:
        raise BadPage(f"its values have {len(data)} bytes of {size}")


def _follow_lengths(data: bytes, count: int) -> None:
    at, end = 0, len(data)
    length_of = struct.Struct("<L").unpack_from
    for _ in range(count):
        if at + 4 > end:
            raise BadPage("its values are cut")
        at += 4 + length_of(data, at)[0]
    if at != end:
        raise BadPage("its values are cut")


def _check_deltas(data: bytes, count: int) -> None:
    """Follow a list of differences: blocks of miniblocks, each packed with its own number of bits."""
    block, at = _varint(data, 0)
    pieces, at = _varint(data, at)
    stated, at = _varint(data, at)
    _, at = _varint(data, at)
    if stated != count or not pieces or not block or block % pieces or block // pieces % 8:
        raise BadPage(f"it lists {stated} values of {count}")
    left = count - 1
    while left > 0:
        _, at = _varint(data, at)
        widths = data[at : at + pieces]
        at += pieces
        if len(widths) < pieces:
            raise BadPage("its values are cut")
        for width in widths:
            if left <= 0:
                break
            if width > _DELTA_WIDTH_MOST:
                raise BadPage("the width of its differences cannot be")
            at += width * (block // pieces) // 8
            left -= block // pieces
    if at > len(data):
        raise BadPage("its values are cut")
