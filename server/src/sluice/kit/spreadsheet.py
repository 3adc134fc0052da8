"""Lines of CSV that a spreadsheet shows as they are, and runs nothing of."""

import csv
import io
import re
import unicodedata
from collections.abc import Iterable
from typing import Final

_SIGNS = frozenset("=+-@")
_CONTROLS = frozenset("\t\r")
# Where programs that separate cells by another sign than a comma begin a cell, or a line: most European ones do by `;`.
_BEGINS_A_CELL: Final = re.compile(r"[;\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]")


def csv_line(cells: Iterable[object]) -> str:
    """Return one line of CSV, with an apostrophe before each text that a spreadsheet would take for a formula.

    So it is within a cell, too, where a program would begin another one.
    """
    line = io.StringIO(newline="")
    csv.writer(line).writerow(_without_formulas(cell) if isinstance(cell, str) else cell for cell in cells)
    return line.getvalue()


def _without_formulas(cell: str) -> str:
    shown, begin = ["'" if _is_formula(cell) else ""], 0
    for separator in _BEGINS_A_CELL.finditer(cell):
        shown.append(cell[begin : separator.end()])
        begin = separator.end()
        if _first_sign(cell, begin) in _SIGNS:
            shown.append("'")
    return "".join([*shown, cell[begin:]])


def _is_formula(cell: str) -> bool:
    return _first_sign(cell, 0) in _SIGNS or cell[:1] in _CONTROLS


def _first_sign(cell: str, begin: int) -> str:
    # OWASP, CSV injection. Spreadsheets skip what shows nothing, some take the wide forms of the signs for the signs,
    # and a quotation mark at the begin of a cell is not a part of it.
    for at in range(begin, len(cell)):
        letter = cell[at]
        if letter != '"' and unicodedata.category(letter)[0] not in "CZ":
            return unicodedata.normalize("NFKC", letter)[:1]
    return ""
