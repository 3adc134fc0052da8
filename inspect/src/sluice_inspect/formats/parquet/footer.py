"""The footer of a Parquet file (`parquet.thrift`): its columns, row groups and where their chunks are."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from sluice_inspect.formats.parquet.thrift import (
    CompactReader,
    Fields,
    ThriftError,
    require_int,
    require_list,
    require_struct,
)
from sluice_inspect.report import Corrupt, Encrypted, TooComplex
from sluice_inspect.source import Source

MAGIC: Final = b"PAR1"
MAGIC_ENCRYPTED: Final = b"PARE"
_TAIL_BYTES: Final = 8  # the size of the footer and the magic
_MAX_FOOTER_BYTES: Final = 16 * 1024**2
_MAX_SCHEMA_DEPTH: Final = 100
_ARROW_SCHEMA: Final = b"ARROW:schema"
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]*=*")
_OPTIONAL, _REPEATED = 1, 2
_REPETITION_TYPES: Final = 3
_PHYSICAL_TYPES: Final = 8


class _FileMetaData(IntEnum):
    SCHEMA = 2
    NUM_ROWS = 3
    ROW_GROUPS = 4
    KEY_VALUE_METADATA = 5
    ENCRYPTION_ALGORITHM = 8


class _SchemaElement(IntEnum):
    TYPE = 1
    TYPE_LENGTH = 2
    REPETITION_TYPE = 3
    NAME = 4
    NUM_CHILDREN = 5


class _RowGroup(IntEnum):
    COLUMNS = 1
    NUM_ROWS = 3


class _ColumnChunk(IntEnum):
    FILE_PATH = 1
    META_DATA = 3
    OFFSET_INDEX_OFFSET = 4
    OFFSET_INDEX_LENGTH = 5
    COLUMN_INDEX_OFFSET = 6
    COLUMN_INDEX_LENGTH = 7
    CRYPTO_METADATA = 8


class _ColumnMetaData(IntEnum):
    TYPE = 1
    CODEC = 4
    NUM_VALUES = 5
    TOTAL_COMPRESSED_SIZE = 7
    DATA_PAGE_OFFSET = 9
    DICTIONARY_PAGE_OFFSET = 11


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf of the schema. `type_length` is the bytes of a fixed-length value; the levels are the highest possible."""

    name: str
    physical_type: int
    type_length: int
    max_definition: int
    max_repetition: int


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """One column of one row group. `is_unreadable` if its pages are in another file or encrypted."""

    column: Column
    codec: int
    values: int
    rows: int
    offset: int
    is_unreadable: bool


@dataclass(frozen=True, slots=True)
class Footer:
    """What the footer states. `offset` is where it begins, and where the pages end."""

    offset: int
    rows: int
    columns: Sequence[Column]
    chunks: Sequence[ColumnChunk]
    is_encrypted: bool


def read_footer(source: Source) -> Footer:
    """Return the footer. Raise `Corrupt`, `Encrypted` if the footer itself is, `TooComplex` for more than 16 MiB."""
    tail = source.read_at(source.size - _TAIL_BYTES, _TAIL_BYTES) if source.size >= _TAIL_BYTES + len(MAGIC) else b""
    if tail[4:] not in {MAGIC, MAGIC_ENCRYPTED}:
        raise Corrupt("the Parquet file is cut: it does not end in a footer")
    size = int.from_bytes(tail[:4], "little")
    offset = source.size - _TAIL_BYTES - size
    if not size or offset < len(MAGIC):
        raise Corrupt(f"the Parquet file is cut or damaged: its footer would have {size} bytes")
    if tail[4:] == MAGIC_ENCRYPTED:
        raise Encrypted("the footer of the Parquet file is encrypted")
    if size > _MAX_FOOTER_BYTES:
        raise TooComplex(f"the footer of the Parquet file has {size} bytes")
    try:
        return _parse_footer(source, offset, CompactReader(source.read_at(offset, size)).read_struct())
    except ThriftError as error:
        raise Corrupt(f"the footer of the Parquet file is damaged: {error}") from error


# The functions below raise `ThriftError` where the footer contradicts itself.


def _parse_footer(source: Source, offset: int, fields: Fields) -> Footer:
    columns = list(_leaves([require_struct(each) for each in require_list(fields, _FileMetaData.SCHEMA)]))
    stated = require_int(fields, _FileMetaData.NUM_ROWS)
    groups = [require_struct(each) for each in require_list(fields, _FileMetaData.ROW_GROUPS)]
    if _FileMetaData.KEY_VALUE_METADATA in fields:
        # Readers that use Arrow read its copy of the schema before all else, and fail if it is damaged.
        for pair in map(require_struct, require_list(fields, _FileMetaData.KEY_VALUE_METADATA)):
            key, value = pair.get(1), pair.get(2)
            if key == _ARROW_SCHEMA and isinstance(value, bytes) and not _BASE64.fullmatch(value):
                raise ThriftError("the Arrow schema in it is damaged")
    chunks = [chunk for group in groups for chunk in _parse_row_group(source, offset, group, columns)]
    rows = sum(require_int(group, _RowGroup.NUM_ROWS) for group in groups)
    if stated not in {0, rows}:  # some writers state none
        raise ThriftError(f"its {stated} rows are not the {rows} of its row groups")
    return Footer(offset, rows, columns, chunks, is_encrypted=_FileMetaData.ENCRYPTION_ALGORITHM in fields)


def _leaves(elements: Sequence[Fields]) -> Iterator[Column]:
    """Yield the columns of a schema: a tree in depth-first order, each element with the number of its children."""
    if not elements:
        raise ThriftError("it has no schema")
    # Children still to come, definition level and repetition level of each open element.
    open_elements = [[require_int(elements[0], _SchemaElement.NUM_CHILDREN, 0), 0, 0]]
    for element in elements[1:]:
        while open_elements and not open_elements[-1][0]:
            open_elements.pop()
        if not open_elements or len(open_elements) > _MAX_SCHEMA_DEPTH:
            raise ThriftError("its schema is no tree")
        parent = open_elements[-1]
        parent[0] -= 1
        repetition = require_int(element, _SchemaElement.REPETITION_TYPE)
        if not 0 <= repetition < _REPETITION_TYPES:
            raise ThriftError(f"there is no repetition of type {repetition}")
        max_definition = parent[1] + (repetition in {_OPTIONAL, _REPEATED})
        max_repetition = parent[2] + (repetition == _REPEATED)
        children = require_int(element, _SchemaElement.NUM_CHILDREN, 0)
        if children > 0 or _SchemaElement.TYPE not in element:
            open_elements.append([children, max_definition, max_repetition])
            continue
        name, physical_type = element.get(_SchemaElement.NAME), require_int(element, _SchemaElement.TYPE)
        if not isinstance(name, bytes) or not 0 <= physical_type < _PHYSICAL_TYPES:
            raise ThriftError("a column has no name or no valid type")
        type_length = require_int(element, _SchemaElement.TYPE_LENGTH, 0)
        yield Column(name.decode("utf-8", "replace"), physical_type, type_length, max_definition, max_repetition)
    if any(children for children, _, _ in open_elements):
        raise ThriftError("its schema is incomplete")


def _parse_row_group(source: Source, end: int, group: Fields, columns: Sequence[Column]) -> Iterator[ColumnChunk]:
    parts = [require_struct(each) for each in require_list(group, _RowGroup.COLUMNS)]
    rows = require_int(group, _RowGroup.NUM_ROWS)
    if len(parts) != len(columns) or rows < 0:
        raise ThriftError(f"a row group has {len(parts)} columns of {len(columns)}")
    for part, column in zip(parts, columns, strict=True):
        _check_index(source, end, part, _ColumnChunk.OFFSET_INDEX_OFFSET, _ColumnChunk.OFFSET_INDEX_LENGTH)
        _check_index(source, end, part, _ColumnChunk.COLUMN_INDEX_OFFSET, _ColumnChunk.COLUMN_INDEX_LENGTH)
        yield _parse_chunk(end, part, column, rows)


def _check_index(source: Source, end: int, part: Fields, offset_field: int, length_field: int) -> None:
    """Check that an index of pages, if there is one, is in the file and a valid struct."""
    if offset_field not in part or length_field not in part or part.get(_ColumnChunk.FILE_PATH):
        return
    offset, length = require_int(part, offset_field), require_int(part, length_field)
    if offset < 0 or length < 0 or offset + length > end:
        raise ThriftError("an index of pages would reach into the footer")
    if _ColumnChunk.CRYPTO_METADATA not in part and length <= _MAX_FOOTER_BYTES:
        CompactReader(source.read_at(offset, length)).read_struct()


def _parse_chunk(end: int, part: Fields, column: Column, rows: int) -> ColumnChunk:
    if _ColumnChunk.META_DATA not in part:  # encrypted together with the column
        return ColumnChunk(column, 0, 0, rows, 0, is_unreadable=True)
    metadata = require_struct(part[_ColumnChunk.META_DATA])
    values = require_int(metadata, _ColumnMetaData.NUM_VALUES)
    length = require_int(metadata, _ColumnMetaData.TOTAL_COMPRESSED_SIZE)
    data = require_int(metadata, _ColumnMetaData.DATA_PAGE_OFFSET)
    dictionary = require_int(metadata, _ColumnMetaData.DICTIONARY_PAGE_OFFSET, 0)
    # Readers take an offset of 0, or one after the data, to mean that there is no dictionary.
    offset = dictionary if 0 < dictionary < data else data
    is_external = bool(part.get(_ColumnChunk.FILE_PATH))
    if require_int(metadata, _ColumnMetaData.TYPE) != column.physical_type or values < 0 or length < 0:
        raise ThriftError(f"the metadata of column {column.name!r} contradict the schema")
    if not column.max_repetition and values != rows:
        raise ThriftError(f"column {column.name!r} has {values} values in {rows} rows")
    if not is_external and values and not len(MAGIC) <= offset <= offset + length <= end:
        raise ThriftError(f"column {column.name!r} would be at bytes {offset} to {offset + length}")
    is_unreadable = is_external or _ColumnChunk.CRYPTO_METADATA in part
    return ColumnChunk(
        column, require_int(metadata, _ColumnMetaData.CODEC), values, rows, offset, is_unreadable=is_unreadable
    )
