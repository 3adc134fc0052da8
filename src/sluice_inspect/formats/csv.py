"""CSV: text as in `plaintext.py`; no dialect is enforced, since readers guess it. Blank without a value, or with a header row alone."""

import csv
from collections.abc import Iterator, Mapping
from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.text.header_row import is_heading
from sluice.formats.text.plaintext import INVISIBLE, check_text, encoding_of, has_visible_text, read_text
from sluice.formats.verdict import Limits, Measure

_DELIMITERS: Final = ",;\t|"
_NO_VALUE: Final = INVISIBLE + _DELIMITERS + "\"'"
_HEADER_MAX: Final = 64 * 1024


def _recognises(_source: Source) -> bool:
    return False


def _check(source: Source, _limits: Limits) -> Mapping[str, Measure]:
    return check_text(source)


def _blank(source: Source, _limits: Limits) -> str | None:
    encoding = encoding_of(source)
    if not _has_value(source, encoding):
        return "no cell of the table holds a visible value"
    if _is_header_alone(source, encoding):
        return "the table has a header row and no value below it"
    return None


def _has_value(source: Source, encoding: str) -> bool:
    return has_visible_text(source, encoding) and any(piece.strip(_NO_VALUE) for piece in read_text(source, encoding))


def _is_header_alone(source: Source, encoding: str) -> bool:
    """Answer whether exactly one row has values, and is plainly a heading."""
    lines = _visible_lines(source, encoding)
    first = next(lines, "")
    if len(first) > _HEADER_MAX or next(lines, None) is not None:
        return False
    delimiter = max(_DELIMITERS, key=first.count)
    return is_heading([cell.strip(INVISIBLE) for cell in next(csv.reader([first], delimiter=delimiter), [])])


def _visible_lines(source: Source, encoding: str) -> Iterator[str]:
    rest = ""
    for piece in read_text(source, encoding):
        *lines, rest = (rest + piece).splitlines() or [""]
        yield from (line for line in lines if line.strip(_NO_VALUE))
        if len(rest) > _HEADER_MAX:
            break
    if rest.strip(_NO_VALUE):
        yield rest


KIND: Final = Kind(
    name="csv",
    content_type="text/csv",
    extensions=frozenset({"csv"}),
    recognises=_recognises,
    check=_check,
    blank=_blank,
    sample=lambda: b"id,name\n1,first\n",
    is_text=True,
)
