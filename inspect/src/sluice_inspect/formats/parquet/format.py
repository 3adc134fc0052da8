"""Parquet: every page that the footer lists is there, matches its checksum, decompresses to the stated values."""
# Not by pyarrow, which starts threads when it is loaded: the locked child cannot have them.

from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.format import Examination, Family, Format, SecondFormats, has_no_flags, named
from sluice_inspect.formats.parquet.footer import MAGIC, MAGIC_ENCRYPTED, ColumnChunk, read_footer
from sluice_inspect.formats.parquet.pages import ChunkReader
from sluice_inspect.formats.parquet.sample import encode_sample
from sluice_inspect.formats.parquet.values import PageError
from sluice_inspect.report import Corrupt, Encrypted, Limits, Measure
from sluice_inspect.source import Source


def _examine(source: Source, limits: Limits) -> Examination:
    footer = read_footer(source)
    deadline = Deadline(limits.soft_seconds)
    measures: dict[str, Measure] = {"rows": footer.rows, "columns": len(footer.columns)}
    present, is_complete = 0, True
    for chunk in footer.chunks:
        if chunk.is_unreadable or deadline.has_passed:
            is_complete = False
            continue
        reader = _read_chunk(source, chunk, footer.offset, deadline)
        present += reader.present
        is_complete &= reader.is_complete
    if footer.is_encrypted and any(chunk.is_unreadable for chunk in footer.chunks):
        raise Encrypted("columns of the Parquet file are encrypted")
    if not is_complete:
        measures["partially_checked"] = True
    blank: str | None = None
    if not footer.rows:
        blank = "the table has no row"
    elif is_complete and footer.columns and not present:
        blank = "the table has no value, only nulls"
    return Examination(measures, lambda: blank)


def _read_chunk(source: Source, chunk: ColumnChunk, end: int, deadline: Deadline) -> ChunkReader:
    reader = ChunkReader(source, chunk, end)
    try:
        reader.read_pages(deadline)
    except PageError as error:
        raise Corrupt(f"column {chunk.column.name!r} of the Parquet file is damaged: {error}") from error
    return reader


FORMAT: Final = Format(
    name="parquet",
    family=Family.DOCUMENT,
    content_type="application/vnd.apache.parquet",
    extensions=frozenset({"parquet"}),
    begins=(MAGIC, MAGIC_ENCRYPTED),
    matches=lambda source: source.head.startswith((MAGIC, MAGIC_ENCRYPTED)),
    examine=_examine,
    facts=has_no_flags,
    sample=encode_sample,
    names=named("Parquet", "parquet"),
    second_formats=SecondFormats.NOWHERE,
)
