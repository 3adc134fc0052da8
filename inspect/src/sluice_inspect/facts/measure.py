"""One file's facts and flags: what its examination learnt, and what its headers say if that failed."""

import re
from typing import Final

from sluice_inspect.facts.texts import measure_unknown
from sluice_inspect.format import Family, Format
from sluice_inspect.programs import recognise
from sluice_inspect.report import FactSheet, InspectionError, Outcome
from sluice_inspect.signatures import is_web_archive
from sluice_inspect.subject import Subject

# ActiveMime, in which Office packs the macros of a web page, as it is and in base64.
_PACKED_MACROS: Final = re.compile(rb"ActiveMime|Q\s*W\s*N\s*0\s*a\s*X\s*Z\s*l\s*T\s*W\s*l\s*t")
_SEARCHED_BYTES: Final = 64 * 1024**2


def measure_facts(
    format_: Format | None, subject: Subject, learnt: FactSheet | None = None, *, named: Format | None = None
) -> FactSheet:
    """Return the facts and flags of content of a format; `learnt` are those of the examination. Raise `OSError` only.

    `named` is the format that the file's name promises.
    """
    sheet = learnt or FactSheet()
    # No program begins with the signature of a picture.
    is_picture = format_ is not None and format_.family is Family.PICTURE
    if not is_picture and recognise("", subject.source.head) is not None:
        sheet.flags.add("program")
    try:
        (measure_unknown if format_ is None else format_.facts)(subject, sheet)
        if named is not None and named.is_office:
            _add_disguise(format_, named, subject, sheet)
    except OSError:
        raise
    except (InspectionError, MemoryError, RecursionError):
        sheet.complete = False
    except Exception:  # noqa: BLE001  (a library's own failure: what it did not find is not known)
        sheet.complete = False
    if subject.integrity is Outcome.ENCRYPTED:
        sheet.facts["encrypted"] = True
        sheet.complete = False
    sheet.facts["flags_complete"] = sheet.complete
    return sheet


def _add_disguise(format_: Format | None, named: Format, subject: Subject, sheet: FactSheet) -> None:
    if format_ is not None and format_.disguise:
        sheet.flags.add(format_.disguise)
    elif subject.content_type == "text/html" or is_web_archive(subject.source.head):
        sheet.flags.add("disguised.html")
        if _PACKED_MACROS.search(subject.source.read_at(0, _SEARCHED_BYTES)):
            sheet.flags.add("macro")
            sheet.complete = False
    else:
        return
    if subject.extension in named.page_extensions:
        sheet.flags.add("type.alias")
