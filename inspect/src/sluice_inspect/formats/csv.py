"""CSV: text with a row on each line, in any dialect. Blank without a value, or with a header row alone."""

import csv
from collections.abc import Iterator
from typing import Final

from sluice_inspect.facts.texts import measure_table_file
from sluice_inspect.format import Examination, Family, Format
from sluice_inspect.source import Source
from sluice_inspect.text.header_row import is_heading
from sluice_inspect.text.plaintext import INVISIBLE, check_text, read_text

_DELIMITERS: Final = ",;\t|"
_NO_VALUE: Final = INVISIBLE + _DELIMITERS + "\"'"
_HEADER_MAX: Final = 64 * 1024


def _find_blank(source: Source) -> str | None:
    if not any(piece.strip(_NO_VALUE) for piece in read_text(source)):
        return "no cell of the table holds a visible value"
    if _is_header_alone(source):
        return "the table has a header row and no value below it"
    return None


def _is_header_alone(source: Source) -> bool:
    rows = _rows_with_values(source)
    first = next(rows, "")
    if len(first) > _HEADER_MAX or next(rows, None) is not None:
        return False
    delimiter = max(_DELIMITERS, key=first.count)
    return is_heading([cell.strip(INVISIBLE) for cell in next(csv.reader([first], delimiter=delimiter), [])])


def _rows_with_values(source: Source) -> Iterator[str]:
    rest = ""
    for piece in read_text(source):
        *lines, rest = (rest + piece).splitlines() or [""]
        yield from (line for line in lines if line.strip(_NO_VALUE))
        if len(rest) > _HEADER_MAX:
            break
    if rest.strip(_NO_VALUE):
        yield rest


FORMAT: Final = Format(
    name="csv",
    family=Family.TEXT,
    content_type="text/csv",
    extensions=frozenset({"csv"}),
    is_any_text=True,
    examine=lambda source, _limits: Examination(check_text(source), lambda: _find_blank(source)),
    facts=measure_table_file,
    sample=lambda: b"id,name\n1,first\n",
    is_text=True,
)
