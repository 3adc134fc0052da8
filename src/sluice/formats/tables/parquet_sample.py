"""Writes small Parquet files: the sample of the kind. Writes what `parquet_footer` and `parquet_pages` read, and no more."""

import zlib
from collections.abc import Mapping, Sequence
from typing import Final

_NUMBER, _BINARY, _LIST, _STRUCT = 6, 8, 9, 12
_MAGIC: Final = b"PAR1"


def thrift(fields: Mapping[int, object]) -> bytes:
    """Answer a structure in Thrift's compact protocol; values are whole numbers, bytes, lists of structures or numbers, structures."""
    out, before = b"", 0
    for number, value in sorted(fields.items()):
        out += bytes([(number - before) << 4 | _kind(value)]) + _written(value)
        before = number
    return out + b"\0"


def _kind(value: object) -> int:
    return {int: _NUMBER, bytes: _BINARY, list: _LIST, dict: _STRUCT}[type(value)]


def _written(value: object) -> bytes:
    if isinstance(value, int):
        return _varint(value << 1 if value >= 0 else ~(value << 1))
    if isinstance(value, bytes):
        return _varint(len(value)) + value
    if isinstance(value, list):
        return bytes([0xF0 | _kind(value[0] if value else 0)]) + _varint(len(value)) + b"".join(map(_written, value))
    if isinstance(value, dict):
        return thrift(value)
    raise TypeError(type(value))


def _varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:  # noqa: PLR2004  (seven bits a byte)
        out += bytes([0x80 | number & 0x7F])
        number >>= 7
    return out + bytes([number])


def page(data: bytes, values: int, *, packed: bytes | None = None, encoding: int = 0, has_checksum: bool = True) -> bytes:
    """Answer a page of the first version."""
    packed = data if packed is None else packed
    header: dict[int, object] = {1: 0, 2: len(data), 3: len(packed), 5: {1: values, 2: encoding, 3: 3, 4: 3}}
    if has_checksum:
        crc = zlib.crc32(packed)
        header[4] = crc - (crc >> 31 << 32)
    return thrift(header) + packed


def file_of(pages: bytes, values: int, rows: int, *, leaf: Mapping[int, object] | None = None, codec: int = 0) -> bytes:
    """Answer a file of one column, of 4-byte whole numbers unless `leaf` says something else, in one row group."""
    element = {1: 1, 3: 0, 4: b"number", **(leaf or {})}
    told = {1: element[1], 2: [0, 3], 3: [element[4]], 4: codec, 5: values, 6: len(pages), 7: len(pages), 9: len(_MAGIC)}
    return closed(pages, [{4: b"schema", 5: 1}, element], [{1: [{2: len(_MAGIC), 3: told}], 2: len(pages), 3: rows}], rows)


def closed(pages: bytes, schema: Sequence[Mapping[int, object]], groups: Sequence[Mapping[int, object]], rows: int) -> bytes:
    """Answer a file of these pages with its footer."""
    footer = thrift({1: 1, 2: list(schema), 3: rows, 4: list(groups), 6: b"sluice"})
    return _MAGIC + pages + footer + len(footer).to_bytes(4, "little") + _MAGIC


def sample_parquet() -> bytes:
    """Answer a table of one column and three rows."""
    return file_of(page(b"".join(number.to_bytes(4, "little") for number in (1, 2, 3)), 3), 3, 3)
