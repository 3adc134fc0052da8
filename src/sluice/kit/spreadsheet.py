"""Lines of CSV that a spreadsheet shows as they are, and runs nothing of."""

import csv
import io
import unicodedata
from collections.abc import Iterable

_SIGNS = frozenset("=+-@")
_CONTROLS = frozenset("\t\r")


def csv_line(cells: Iterable[object]) -> str:
    """Return one line of CSV, with an apostrophe before each text that a spreadsheet would take for a formula."""
    line = io.StringIO(newline="")
    csv.writer(line).writerow(f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell for cell in cells)
    return line.getvalue()


def _is_formula(cell: str) -> bool:
    # OWASP, CSV injection. Spreadsheets skip what shows nothing, and some take the wide forms of the signs for the
    # signs.
    first = next((each for each in cell if unicodedata.category(each)[0] not in "CZ"), "")
    return unicodedata.normalize("NFKC", first)[:1] in _SIGNS or cell[:1] in _CONTROLS
