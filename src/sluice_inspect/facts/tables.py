"""Cells of a table in text form that a spreadsheet takes for formulas which call something."""
# "+49 (0)30", "-5" and "@name" are honest values: only what calls a function or names another program counts.

import codecs
import re
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.subject import Subject
from sluice_inspect.report import FactSheet
from sluice_inspect.text.plaintext import encoding_of

_CHUNK: Final = 1024**2
_LONGEST_CELL: Final = 1024
_CELL: Final = r"(?:^|[,;|\t\r\n])[\s\"'\u00a0\ufeff]{0,20}"
# At the beginning of a cell, with a quote, a tab or spaces before it, in wide letters too.
_FORMULA: Final = re.compile(
    _CELL + r"(?:[=\uff1d][^,;|\t\r\n]{0,500}?[A-Za-z_][\w.]{0,60}\("
    r"|[+\-@\uff0b\uff0d\uff20][-+*/=\d. \t(]{0,40}[A-Za-z_][\w.]{0,60}\()",
)
_DDE: Final = re.compile(
    _CELL + r"[=+\-@\uff1d\uff0b\uff0d\uff20][^,;|\t\r\n]{0,200}\w[\"']?\|[^;|\t\r\n]{0,200}?![\w$\"']"
)


def measure_table(subject: Subject, sheet: FactSheet) -> None:
    """Add the flags."""
    decoder = codecs.getincrementaldecoder(encoding_of(subject.source))("replace")
    deadline, carry = Deadline(subject.limits.soft_seconds), ""
    for at in range(0, subject.source.size, _CHUNK):
        window = carry + decoder.decode(subject.source.read_at(at, _CHUNK))
        if _FORMULA.search(window):
            sheet.flags.add("formula.csv")
        if _DDE.search(window):
            sheet.flags |= {"formula.csv", "dde"}
        if deadline.has_passed:
            sheet.complete = False
            return
        carry = window[-_LONGEST_CELL:]
