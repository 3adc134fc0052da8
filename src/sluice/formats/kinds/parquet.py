"""Parquet: the footer says what there is, and every page is there, has its checksum, unpacks, and holds the values that are stated.

Read by our own code: pyarrow starts threads when it is loaded, which the locked child cannot have. Blank without a row, or with nulls alone.
"""

from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from sluice.formats.budget import Deadline
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.tables.parquet_footer import MAGIC, MAGIC_LOCKED, Chunk, read_footer
from sluice.formats.tables.parquet_pages import Read, read_chunk
from sluice.formats.tables.parquet_sample import sample_parquet
from sluice.formats.tables.parquet_values import BadPage
from sluice.formats.verdict import Corrupt, Encrypted, Limits, Measure

_shows_nothing: Final[WeakKeyDictionary[Source, str]] = WeakKeyDictionary()
"""Remembered from the one reading, since `check` and `blank` are asked apart."""


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    footer = read_footer(source)
    deadline = Deadline(limits.soft_seconds)
    measures: dict[str, Measure] = {"rows": footer.rows, "columns": len(footer.columns)}
    present, is_sure = 0, True
    for chunk in footer.chunks:
        read = _read(source, chunk, footer.begin, deadline)
        present += read.present
        is_sure &= read.is_sure
    if footer.is_locked and any(chunk.is_elsewhere for chunk in footer.chunks):
        raise Encrypted("columns of the Parquet file are encrypted")
    if not is_sure:
        measures["partially_checked"] = True
    if not footer.rows:
        _shows_nothing[source] = "the table has no row"
    elif is_sure and footer.columns and not present:
        _shows_nothing[source] = "the table has no value, only nulls"
    return measures


def _read(source: Source, chunk: Chunk, end: int, deadline: Deadline) -> Read:
    if chunk.is_elsewhere or deadline.has_passed:
        return Read(is_sure=False)
    try:
        return read_chunk(source, chunk, end, deadline)
    except BadPage as error:
        raise Corrupt(f"column {chunk.column.name!r} of the Parquet file is damaged: {error}") from error


def _blank(source: Source, _limits: Limits) -> str | None:
    return _shows_nothing.get(source)


KIND: Final = Kind(
    name="parquet",
    content_type="application/vnd.apache.parquet",
    extensions=frozenset({"parquet"}),
    recognises=lambda source: source.head.startswith((MAGIC, MAGIC_LOCKED)),
    check=_check,
    blank=_blank,
    sample=sample_parquet,
)
