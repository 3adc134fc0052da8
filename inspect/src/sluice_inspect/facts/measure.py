"""One file's facts and flags: what its examination learnt, and what its headers say if that failed."""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from sluice_inspect.facts.archives import measure_archive
from sluice_inspect.facts.flat_office import begins_as_office
from sluice_inspect.facts.media import measure_media, measure_picture
from sluice_inspect.facts.ole import measure_ole
from sluice_inspect.facts.ooxml import measure_package
from sluice_inspect.facts.opendocument import measure_opendocument
from sluice_inspect.facts.pages import measure_book, measure_page
from sluice_inspect.facts.pdf import measure_pdf
from sluice_inspect.facts.rtf import measure_rtf
from sluice_inspect.facts.subject import Subject
from sluice_inspect.facts.texts import begins_as_sylk, measure_mail, measure_markup, measure_sylk, measure_table
from sluice_inspect.programs import recognise
from sluice_inspect.report import FORMAT_NAMES, MEDIA, PICTURES, FactSheet, InspectionError, Outcome
from sluice_inspect.signatures import is_web_archive
from sluice_inspect.sniff import FOREIGN, PAGE

_Measurer = Callable[[Subject, FactSheet], None]

_MEASURERS: Final[Mapping[str, _Measurer]] = MappingProxyType({
    **dict.fromkeys(PICTURES, measure_picture),
    **dict.fromkeys(MEDIA, measure_media),
    **dict.fromkeys(("zip", "tar", "7z", "rar", "gz", "bz2", "xz", "zst", "lz4"), measure_archive),
    **dict.fromkeys(("docx", "xlsx", "pptx"), measure_package),
    **dict.fromkeys(("odt", "ods", "odp"), measure_opendocument),
    **dict.fromkeys(("doc", "xls", "ppt", "msg"), measure_ole),
    **dict.fromkeys(("svg", "xml"), measure_markup),
    "epub": measure_book,
    "pdf": measure_pdf,
    "rtf": measure_rtf,
    "html": measure_page,
    "csv": measure_table,
    "eml": measure_mail,
})  # fmt: skip
# Formats that hold nothing that a flag names.
_WITHOUT_FLAGS: Final = PICTURES | MEDIA | {
    "json", "md", "otf", "parquet", "sqlite", "text", "ttf", "woff", "woff2", "yaml",
}  # fmt: skip
if _MEASURERS.keys() | _WITHOUT_FLAGS != FORMAT_NAMES:
    raise RuntimeError("a format is neither measured nor one without flags")
_OFFICE_EXTENSIONS: Final = frozenset(
    """
    doc docm docx dot dotm dotx pot potm potx pps ppsm ppsx ppt pptm pptx xla xlam xls xlsb xlsm xlsx xlt xltm xltx
    """.split()  # noqa: SIM905  (a list of quoted names is harder to read)
)
# ActiveMime, in which Office packs the macros of a web page, as it is and in base64.
_PACKED_MACROS: Final = re.compile(rb"ActiveMime|Q\s*W\s*N\s*0\s*a\s*X\s*Z\s*l\s*T\s*W\s*l\s*t")
_SEARCHED_BYTES: Final = 64 * 1024**2
_TABLE_EXTENSIONS: Final = frozenset({"tsv", "tab"})


def measure_facts(subject: Subject, learnt: FactSheet | None) -> FactSheet:
    """Return the facts and flags; `learnt` are those of the examination. Raise `OSError` only."""
    sheet = learnt or FactSheet()
    measure = _measurer_of(subject)
    # No program begins with the signature of a picture.
    if subject.format_name not in PICTURES and recognise("", subject.source.head) is not None:
        sheet.flags.add("program")
    try:
        if measure is not None:
            measure(subject, sheet)
        elif subject.format_name not in _WITHOUT_FLAGS:
            sheet.complete = False
        if subject.extension in _OFFICE_EXTENSIONS:
            _add_disguise(subject, sheet)
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


def _measurer_of(subject: Subject) -> _Measurer | None:
    if subject.format_name in {"", "text", "csv"} and begins_as_office(subject.source.head):
        return measure_markup
    if subject.format_name in {"", "text"}:
        if subject.content_type == "text/html":  # under a name that promises something else
            return measure_page
        if subject.extension in _TABLE_EXTENSIONS:
            return measure_table
        if begins_as_sylk(subject.source.head):
            return measure_sylk
    return _MEASURERS.get(subject.format_name)


def _add_disguise(subject: Subject, sheet: FactSheet) -> None:
    if subject.format_name == "rtf":
        sheet.flags.add("disguised.rtf")
    elif subject.content_type == "text/html" or is_web_archive(subject.source.head):
        sheet.flags.add("disguised.html")
        if _PACKED_MACROS.search(subject.source.read_at(0, _SEARCHED_BYTES)):
            sheet.flags.add("macro")
            sheet.complete = False
    else:
        return
    if PAGE in FOREIGN.get(subject.extension, ()):
        sheet.flags.add("type.alias")
