"""The levels and values of one decompressed Parquet page (`Encodings.md`): whether they add up. Returns counts."""
# Of the delta encodings of strings only the first list of lengths is followed.

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from sluice_inspect.formats.parquet.footer import Column

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BOOLEAN, _BYTE_ARRAY, _FIXED_LENGTH_BYTE_ARRAY = 0, 6, 7
_TYPE_BYTES: Final = {1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
_MAX_INDEX_BITS: Final = 32
_MAX_DELTA_BITS: Final = 64
# Numbers that are unpacked at a time, a multiple of eight: each of their bits takes 8 bytes until they are summed.
_NUMBERS_PER_STEP: Final = 65_536

_Numbers: TypeAlias = "NDArray[np.int64]"


class _Encoding(IntEnum):
    PLAIN = 0
    PLAIN_DICTIONARY = 2
    RLE = 3
    BIT_PACKED = 4
    DELTA_BINARY_PACKED = 5
    DELTA_LENGTH_BYTE_ARRAY = 6
    DELTA_BYTE_ARRAY = 7
    RLE_DICTIONARY = 8
    BYTE_STREAM_SPLIT = 9


class PageError(Exception):
    """A page contradicts itself, its header or its column. `str()` says how."""


@dataclass(frozen=True, slots=True)
class PageCounts:
    """What the levels of a page state: values that are not null, and rows that begin in it."""

    present: int
    rows: int


def check_levels(
    column: Column, repetitions: _Numbers | None, definitions: _Numbers | None, values: int, *, is_first: bool
) -> PageCounts:
    """Return the counts of a page. Raise `PageError` if a level is impossible. A column may have no levels: None."""
    rows = values
    if repetitions is not None and values:
        if is_first and repetitions[0] != 0:
            raise PageError("its first value continues a row that has not begun")
        _require_at_most(repetitions, column.max_repetition, "repetition")
        rows = int(np.count_nonzero(repetitions == 0))
    if definitions is None:
        return PageCounts(values, rows)
    _require_at_most(definitions, column.max_definition, "definition")
    return PageCounts(int(np.count_nonzero(definitions == column.max_definition)), rows)


def _require_at_most(levels: _Numbers, most: int, name: str) -> None:
    if levels.size and int(levels.max()) > most:
        raise PageError(f"a {name} level is above {most}")


def read_levels_v1(data: bytes, max_level: int, count: int, encoding: int) -> tuple[_Numbers | None, int]:
    """Return the levels at the start of a page of version 1, and where they end. Raise `PageError` if they are cut."""
    if not max_level:
        return None, 0
    if encoding == _Encoding.BIT_PACKED:  # deprecated, but old files have it
        bits = max_level.bit_length()
        size = -(-count * bits // 8)
        if size > len(data):
            raise PageError("its levels are cut")
        rows = np.unpackbits(np.frombuffer(data, np.uint8, size))[: count * bits].reshape(count, bits)
        levels = np.zeros(count, np.int64)
        for index in range(bits):
            levels = levels << 1 | rows[:, index]
        return levels, size
    size = int.from_bytes(data[:4], "little")
    if len(data) < 4 or 4 + size > len(data):
        raise PageError("its levels are cut")
    return _read_hybrid(data[4 : 4 + size], max_level.bit_length(), count), 4 + size


def read_levels_v2(data: bytes, max_level: int, count: int) -> _Numbers | None:
    """Return the levels that fill `data`, None if the column has none. Raise `PageError` if they are cut."""
    return _read_hybrid(data, max_level.bit_length(), count) if max_level else None


def _read_hybrid(data: bytes, bits: int, count: int) -> _Numbers:
    """Return `count` numbers from runs of equal numbers and bit-packed groups of eight (RLE/bit-packing hybrid)."""
    parts: list[_Numbers] = []
    offset = found = 0
    size = -(-bits // 8)
    too_few = f"it has fewer numbers than the {count} stated"
    while found < count:
        head, offset = _read_varint(data, offset)
        length = head >> 1
        if not length:
            raise PageError("it has an empty run")
        if head & 1:
            packed = data[offset : offset + length * bits]
            offset += length * bits
            length *= 8
            needed = min(length, count - found)
            # The last group may end with its numbers instead of being padded.
            if offset > len(data) and 8 * len(packed) < needed * bits:
                raise PageError(too_few)
            parts.append(_unpack_bits(packed, bits, needed))
        else:
            if offset + size > len(data):
                raise PageError(too_few)
            number = int.from_bytes(data[offset : offset + size], "little")
            parts.append(np.full(min(length, count - found), number, np.int64))
            offset += size
        found += length
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _unpack_bits(packed: bytes, bits: int, count: int) -> _Numbers:
    if not bits:
        return np.zeros(count, np.int64)
    weights = 1 << np.arange(bits, dtype=np.int64)
    parts = []
    for first in range(0, count, _NUMBERS_PER_STEP):
        step = min(_NUMBERS_PER_STEP, count - first)
        piece = np.frombuffer(packed[first * bits // 8 : (first + _NUMBERS_PER_STEP) * bits // 8], np.uint8)
        rows = np.unpackbits(piece, bitorder="little")[: step * bits].reshape(step, bits)
        parts.append(rows.astype(np.int64) @ weights)
    return np.concatenate(parts)


def _read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return the number at `offset` and where it ends."""
    number = shift = 0
    while True:
        if offset >= len(data) or shift > _MAX_DELTA_BITS:
            raise PageError("it has fewer numbers than are stated")
        byte = data[offset]
        number |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 0x80:
            return number, offset


def check_values(data: bytes, column: Column, encoding: int, count: int, dictionary: int | None) -> bool:
    """Follow `count` values; return False if the encoding is unknown. `dictionary` is the number of its entries."""
    if not count:
        return True
    if encoding in {_Encoding.PLAIN_DICTIONARY, _Encoding.RLE_DICTIONARY}:
        _check_dictionary_indices(data, count, dictionary)
    elif encoding == _Encoding.PLAIN:
        _check_plain(data, column, count)
    elif encoding == _Encoding.RLE and column.physical_type == _BOOLEAN:
        size = int.from_bytes(data[:4], "little")
        _read_hybrid(data[4 : 4 + size], 1, count)
    elif encoding == _Encoding.BYTE_STREAM_SPLIT:
        _require_bytes(data, count * _value_bytes(column))
    elif encoding in {
        _Encoding.DELTA_BINARY_PACKED,
        _Encoding.DELTA_LENGTH_BYTE_ARRAY,
        _Encoding.DELTA_BYTE_ARRAY,
    }:
        _check_deltas(data, count)
    else:
        return False
    return True


def _check_dictionary_indices(data: bytes, count: int, dictionary: int | None) -> None:
    if dictionary is None:
        raise PageError("its values refer to a dictionary that is missing")
    if not data or data[0] > _MAX_INDEX_BITS:
        raise PageError("the bit width of its dictionary indices is impossible")
    largest = int(_read_hybrid(data[1:], data[0], count).max())
    if largest >= dictionary:
        raise PageError(f"a value refers to entry {largest + 1} of a dictionary of {dictionary}")


def _check_plain(data: bytes, column: Column, count: int) -> None:
    if column.physical_type != _BYTE_ARRAY:
        is_boolean = column.physical_type == _BOOLEAN
        _require_bytes(data, -(-count // 8) if is_boolean else count * _value_bytes(column))
        return
    offset, end = 0, len(data)
    read_length = struct.Struct("<L").unpack_from
    for _ in range(count):
        if offset + 4 > end:
            raise PageError("its values are cut")
        offset += 4 + read_length(data, offset)[0]
    if offset != end:
        raise PageError("its values are cut")


def _value_bytes(column: Column) -> int:
    if column.physical_type == _FIXED_LENGTH_BYTE_ARRAY:
        return column.type_length
    return _TYPE_BYTES.get(column.physical_type, 0)


def _require_bytes(data: bytes, size: int) -> None:
    if len(data) != size:
        raise PageError(f"its values have {len(data)} bytes of {size}")


def _check_deltas(data: bytes, count: int) -> None:
    """Follow a list of differences: blocks of miniblocks, each of which has its own bit width."""
    block_size, offset = _read_varint(data, 0)
    miniblocks, offset = _read_varint(data, offset)
    stated, offset = _read_varint(data, offset)
    _, offset = _read_varint(data, offset)  # the first value
    is_valid = miniblocks and block_size and not block_size % miniblocks and not block_size // miniblocks % 8
    if stated != count or not is_valid:
        raise PageError(f"it lists {stated} values of {count}")
    miniblock_size = block_size // miniblocks
    remaining = count - 1
    while remaining > 0:
        _, offset = _read_varint(data, offset)  # the smallest difference of the block
        widths = data[offset : offset + miniblocks]
        offset += miniblocks
        if len(widths) < miniblocks:
            raise PageError("its values are cut")
        for width in widths:
            if remaining <= 0:  # writers need not store miniblocks that hold no value
                break
            if width > _MAX_DELTA_BITS:
                raise PageError("the bit width of its differences is impossible")
            offset += width * miniblock_size // 8
            remaining -= miniblock_size
    if offset > len(data):
        raise PageError("its values are cut")
