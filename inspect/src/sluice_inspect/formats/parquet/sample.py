"""A writer of small Parquet files, for the sample of the format and for tests."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Final

_MAGIC: Final = b"PAR1"
# Type codes of Thrift's compact protocol: i64, binary, list, struct.
_TYPE_CODES: Final = {int: 6, bytes: 8, list: 9, dict: 12}


def encode_struct(fields: Mapping[int, object]) -> bytes:
    """Return a struct in Thrift's compact protocol. Values are integers, bytes, structs, and lists of one of them."""
    out, last = b"", 0
    for number, value in sorted(fields.items()):
        out += bytes([(number - last) << 4 | _TYPE_CODES[type(value)]]) + _encode_value(value)
        last = number
    return out + b"\0"


def _encode_value(value: object) -> bytes:
    if isinstance(value, int):
        return _encode_varint(value << 1 if value >= 0 else ~(value << 1))
    if isinstance(value, bytes):
        return _encode_varint(len(value)) + value
    if isinstance(value, list):
        head = bytes([0xF0 | _TYPE_CODES[type(value[0]) if value else int]])
        return head + _encode_varint(len(value)) + b"".join(map(_encode_value, value))
    if isinstance(value, dict):
        return encode_struct(value)
    raise TypeError(type(value))


def _encode_varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([0x80 | number & 0x7F])
        number >>= 7
    return out + bytes([number])


def encode_page(
    data: bytes, values: int, *, packed: bytes | None = None, encoding: int = 0, has_checksum: bool = True
) -> bytes:
    """Return a data page of version 1. `packed` is its compressed data, by default `data`."""
    packed = data if packed is None else packed
    header: dict[int, object] = {1: 0, 2: len(data), 3: len(packed), 5: {1: values, 2: encoding, 3: 3, 4: 3}}
    if has_checksum:
        crc = zlib.crc32(packed)
        header[4] = crc - (crc >> 31 << 32)
    return encode_struct(header) + packed


def encode_table(
    pages: bytes, values: int, rows: int, *, leaf: Mapping[int, object] | None = None, codec: int = 0
) -> bytes:
    """Return a file of one row group and one column: 4-byte integers, unless the schema element `leaf` differs."""
    element = {1: 1, 3: 0, 4: b"number", **(leaf or {})}
    metadata = {
        1: element[1],
        2: [0, 3],
        3: [element[4]],
        4: codec,
        5: values,
        6: len(pages),
        7: len(pages),
        9: len(_MAGIC),
    }
    group = {1: [{2: len(_MAGIC), 3: metadata}], 2: len(pages), 3: rows}
    return encode_file(pages, [{4: b"schema", 5: 1}, element], [group], rows)


def encode_file(
    pages: bytes, schema: Sequence[Mapping[int, object]], groups: Sequence[Mapping[int, object]], rows: int
) -> bytes:
    """Return a file of these pages with its footer."""
    footer = encode_struct({1: 1, 2: list(schema), 3: rows, 4: list(groups), 6: b"sluice"})
    return _MAGIC + pages + footer + len(footer).to_bytes(4, "little") + _MAGIC


def encode_sample() -> bytes:
    """Return a table of one column and three rows."""
    return encode_table(encode_page(b"".join(number.to_bytes(4, "little") for number in (1, 2, 3)), 3), 3, 3)
