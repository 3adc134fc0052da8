"""The footer of a Parquet file: its columns, row groups and where their chunks lie. Reads no page.

Field numbers are those of `parquet.thrift` of Apache Parquet.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, cast

from sluice.formats.source import Source
from sluice.formats.tables.thrift import BadThrift, Fields, Reader
from sluice.formats.verdict import Corrupt, Encrypted, TooComplex

MAGIC: Final = b"PAR1"
MAGIC_LOCKED: Final = b"PARE"
_TAIL: Final = 8
_FOOTER_MOST: Final = 16 * 1024**2
_DEPTH_MOST: Final = 100
_ARROW: Final = b"ARROW:schema"
_BASE64: Final = re.compile(rb"[A-Za-z0-9+/]*=*")
_NOTES, _ENCRYPTION = 5, 8
"""Fields of the footer."""
_TOLD, _KEY = 3, 8
"""Fields of a column chunk: its metadata, and how it was encrypted."""
_OPTIONAL, _REPEATED = 1, 2
_REPETITIONS: Final = 3
_TYPES: Final = 8


@dataclass(frozen=True, slots=True)
class Column:
    """A leaf of the schema: its physical type, the bytes of a value if that is fixed, and the highest levels that it may have."""

    name: str
    type: int
    size: int
    optional: int
    repeated: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """One column of one row group."""

    column: Column
    codec: int
    values: int
    rows: int
    start: int
    is_elsewhere: bool
    """Whether its pages lie in another file, or cannot be read without a key."""


@dataclass(frozen=True, slots=True)
class Footer:
    """What the footer says. `begin` is where it begins, and pages end."""

    begin: int
    rows: int
    columns: Sequence[Column]
    chunks: Sequence[Chunk]
    is_locked: bool


def read_footer(source: Source) -> Footer:
    """Answer the footer. Raises `Corrupt`, `Encrypted` when the footer itself is, `TooComplex` for one of more than 16 MiB."""
    tail = source.read_at(source.size - _TAIL, _TAIL) if source.size >= _TAIL + len(MAGIC) else b""
    if tail[4:] not in {MAGIC, MAGIC_LOCKED}:
        raise Corrupt("the Parquet file is cut: it does not end in a footer")
    size = int.from_bytes(tail[:4], "little")
    begin = source.size - _TAIL - size
    if not size or begin < len(MAGIC):
        raise Corrupt(f"the Parquet file is cut or damaged: its footer would have {size} bytes")
    if tail[4:] == MAGIC_LOCKED:
        raise Encrypted("the footer of the Parquet file is encrypted")
    if size > _FOOTER_MOST:
        raise TooComplex(f"the footer of the Parquet file has {size} bytes")
    reader = Reader(source.read_at(begin, size))
    try:
        return _Meaning(source, begin).footer(reader.fields())
    except BadThrift as error:
        raise Corrupt(f"the footer of the Parquet file is damaged: {error}") from error


class _Meaning:
    """Takes the fields of a footer for what they are. Raises `BadThrift` where one cannot be that."""

    def __init__(self, source: Source, begin: int) -> None:
        self._source = source
        self._begin = begin

    def footer(self, fields: Fields) -> Footer:
        columns = list(_leaves([structure(each) for each in listed(fields, 2)]))
        is_locked = _ENCRYPTION in fields
        rows, groups = number(fields, 3), [structure(each) for each in listed(fields, 4)]
        for pair in listed(fields, _NOTES) if _NOTES in fields else ():
            _check_note(structure(pair))
        chunks = [chunk for group in groups for chunk in self._chunks(group, columns)]
        in_groups = sum(number(group, 3) for group in groups)
        if rows not in {0, in_groups}:  # some writers count none
            raise BadThrift(f"its {rows} rows are not the {in_groups} of its row groups")
        return Footer(self._begin, in_groups, columns, chunks, is_locked)

    def _chunks(self, group: Fields, columns: Sequence[Column]) -> Iterator[Chunk]:
        parts = [structure(each) for each in listed(group, 1)]
        if len(parts) != len(columns) or number(group, 3) < 0:
            raise BadThrift(f"a row group has {len(parts)} columns of {len(columns)}")
        for part, column in zip(parts, columns, strict=True):
            for place, size in ((4, 5), (6, 7)):
                self._check_index(part, place, size, is_plain=_KEY not in part)
            yield self._chunk(part, column, number(group, 3))

    def _chunk(self, part: Fields, column: Column, rows: int) -> Chunk:
        if _TOLD not in part:  # of the column's own metadata, which is encrypted with it
            return Chunk(column, 0, 0, rows, 0, is_elsewhere=True)
        told = structure(part[_TOLD])
        values, length = number(told, 5), number(told, 7)
        data, dictionary = number(told, 9), number(told, 11, 0)
        start = dictionary if 0 < dictionary < data else data
        is_elsewhere = bool(part.get(1)) or _KEY in part
        if number(told, 1) != column.type or values < 0 or length < 0:
            raise BadThrift(f"what it says of column {column.name!r} contradicts the schema")
        if not column.repeated and values != rows:
            raise BadThrift(f"column {column.name!r} has {values} values in {rows} rows")
        if not part.get(1) and values and not len(MAGIC) <= start <= start + length <= self._begin:
            raise BadThrift(f"column {column.name!r} would lie from byte {start} to {start + length}")
        return Chunk(column, number(told, 4), values, rows, start, is_elsewhere)

    def _check_index(self, part: Fields, place: int, size: int, *, is_plain: bool) -> None:
        """Read the index of a column's pages, where there is one, and ask no more of it than that it is whole."""
        if place not in part or size not in part or part.get(1):
            return
        begin, length = number(part, place), number(part, size)
        if begin < 0 or length < 0 or begin + length > self._begin:
            raise BadThrift("an index of pages would lie behind the pages")
        if is_plain and length <= _FOOTER_MOST:
            Reader(self._source.read_at(begin, length)).fields()


def structure(value: object) -> Fields:
    """Answer a value as the structure that it must be. Raises `BadThrift`."""
    if not isinstance(value, dict):
        raise BadThrift("a structure is missing")
    return cast("Fields", value)


def listed(fields: Fields, field: int) -> list[object]:
    """Answer the list in a field that must be there. Raises `BadThrift`."""
    value = fields.get(field)
    if not isinstance(value, list):
        raise BadThrift(f"its list {field} is missing")
    return value


def number(fields: Fields, field: int, otherwise: int | None = None) -> int:
    """Answer the number in a field. Raises `BadThrift` when it is missing and nothing stands for it."""
    value = fields.get(field, otherwise)
    if not isinstance(value, int):
        raise BadThrift(f"its number {field} is missing")
    return value


def _check_note(pair: Fields) -> None:
    """Look at a note of the writer's: the schema that Arrow leaves there is read by its readers before all else."""
    value = pair.get(2)
    if pair.get(1) == _ARROW and isinstance(value, bytes) and not _BASE64.fullmatch(value):
        raise BadThrift("the schema that Arrow keeps in it is damaged")


def _leaves(elements: Sequence[Fields]) -> Iterator[Column]:
    """Yield the columns of a schema, which is a tree written from its root on, each element with the number of its children."""
    if not elements:
        raise BadThrift("it has no schema")
    waiting = [[number(elements[0], 5, 0), 0, 0]]
    for element in elements[1:]:
        while waiting and not waiting[-1][0]:
            waiting.pop()
        if not waiting or len(waiting) > _DEPTH_MOST:
            raise BadThrift("its schema is no tree")
        waiting[-1][0] -= 1
        repetition = number(element, 3)
        if not 0 <= repetition < _REPETITIONS:
            raise BadThrift(f"there is no repetition of type {repetition}")
        optional = waiting[-1][1] + (repetition in {_OPTIONAL, _REPEATED})
        repeated = waiting[-1][2] + (repetition == _REPEATED)
        children = number(element, 5, 0)
        if children > 0 or 1 not in element:
            waiting.append([children, optional, repeated])
            continue
        name = element.get(4)
        if not isinstance(name, bytes) or not 0 <= number(element, 1) < _TYPES:
            raise BadThrift("a column has no name or no type that there is")
        yield Column(name.decode("utf-8", "replace"), number(element, 1), number(element, 2, 0), optional, repeated)
    if any(left for left, _, _ in waiting):
        raise BadThrift("its schema is not whole")
