"""What an OpenDocument file has besides its pages: macros, objects, links, DDE; its pages, sheets or slides."""

import re
from collections.abc import Mapping
from typing import Final

from sluice_inspect.facts.fields import flags_of_formula, is_remote
from sluice_inspect.office.zip_documents import ZipDocument, open_document
from sluice_inspect.report import FactSheet, Outcome
from sluice_inspect.subject import Subject
from sluice_inspect.text.xml_runs import without_runs
from sluice_inspect.text.xmlsafe import XmlTarget

_MACRO_FOLDERS: Final = ("Basic/", "Scripts/")
_MACRO_LISTS: Final = ("script-lc.xml", "script-lb.xml", "/")  # LibreOffice writes them without any macro
_CONTENTS: Final = ("content.xml", "styles.xml")  # of the document, and of each object within it
_CONTENT_BYTES: Final = 64 * 1024**2
_MACRO_ELEMENTS: Final = frozenset({"module", "source-code", "byte-code", "library-linked"})
_MACRO_NAMESPACES: Final = ("{http://openoffice.org/2004/office}", "{urn:oasis:names:tc:opendocument:xmlns:script:1.0}")
_TELLING: Final = (
    b"dde-", b"event-listener", b"object-ole", b"plugin", b"applet", b"<module", b":module", b"source-code",
    b"byte-code", b"library-linked",
)  # fmt: skip
# What a formula needs to call or refer to anything outside; errors such as `#REF!` are no references.
_CALL: Final = rb"(?:webservice|image|filterxml|indirect|dde|&#|\||!|#(?!ref!|n/a|name\?|value!|div/0!|num!|null!))"
# Both are searched for in lower case, each from the first letters of its names: that takes a tenth of the time.
_ADDRESS: Final = re.compile(rb"(?:href|database-name|datasource)\s*=\s*[\"']\s*(?:[a-z][\w+.-]+:|[\\/]|\.\.|&)")
_FORMULA: Final = re.compile(
    rb"(?:formula|expression|condition|value)(?<!-value)\s*=\s*"
    rb"(?:\"[^\"<>]*?" + _CALL + rb"|'[^'<>]*?" + _CALL + rb")"
)
# Parts of the package have names without a scheme that do not lead up.
_OUTSIDE: Final = re.compile(r"\s*(?:(?!data:|vnd\.sun\.star\.)[a-z][a-z0-9+.-]+:|[\\/]|\.\.[\\/])", re.IGNORECASE)
_FORMULAS: Final = ("}formula", "}expression", "}condition", "calcext:1.0}value")
_SOURCES: Final = ("}database-name", "}datasource")
_CHUNK: Final = 256 * 1024
_HREF: Final = "{http://www.w3.org/1999/xlink}href"
_STATISTIC: Final = "{urn:oasis:names:tc:opendocument:xmlns:meta:1.0}"
_LISTENER: Final = "{urn:oasis:names:tc:opendocument:xmlns:script:1.0}event-listener"
# Elements whose address has to be clicked.
_CLICKED: Final = ("}a", "}event-listener")


def measure_opendocument(
    subject: Subject,
    sheet: FactSheet,
    *,
    counted: tuple[str, re.Pattern[bytes]] | None = None,
    states_pages: bool = False,
) -> None:
    """Add them. Raise `InspectionError` if the package cannot be read.

    `counted`: a fact, and how the tags of the elements begin of which it is the number. `states_pages`: the
    properties of the document state its number of pages.
    """
    if subject.integrity is Outcome.ENCRYPTED:
        return
    document = open_document(subject.source, subject.limits)
    if subject.measures:  # the examination read all of it
        sheet.facts["encrypted"] = False
    for name in document.archive.by_name:
        if name.startswith(_MACRO_FOLDERS) and not name.endswith(_MACRO_LISTS):
            sheet.flags.add("macro")
    statistics = StatisticsReader(sheet)
    document.read("meta.xml", statistics)
    if states_pages and statistics.pages:
        sheet.facts["pages"] = statistics.pages
    _read_contents(counted, document, sheet)


def _read_contents(counted: tuple[str, re.Pattern[bytes]] | None, document: ZipDocument, sheet: FactSheet) -> None:
    for part in document.archive.by_name:
        if part.rpartition("/")[2] not in _CONTENTS:
            continue
        if document.archive.members[document.archive.by_name[part]].unpacked > _CONTENT_BYTES:
            sheet.complete = False
            continue
        pattern = counted[1] if counted is not None and part == _CONTENTS[0] else None
        count, is_telling = _search(document, part, pattern)
        if counted is not None and pattern is not None:
            sheet.facts[counted[0]] = count
        if is_telling:
            document.read(part, ContentReader(sheet))


def _search(document: ZipDocument, part: str, counted: re.Pattern[bytes] | None) -> tuple[int, bool]:
    """Return how often a pattern is in a part, and whether the part has anything that a flag may name."""
    # By its bytes, as XML is read at a tenth of their speed.
    stream, carry, count, is_telling = document.open(part), b"", 0, False
    while chunk := stream.read(_CHUNK):
        window = carry + (chunk.replace(b"\0", b"") if b"\0" in chunk else chunk)  # a part may be in UTF-16
        end = window.rfind(b"<") if len(window) - window.rfind(b"<") < _CHUNK else len(window)
        whole, carry = window[:end], window[end:]
        count += 0 if counted is None else len(counted.findall(whole))
        is_telling = is_telling or _is_telling(whole)
    count += 0 if counted is None else len(counted.findall(carry))
    return count, is_telling or _is_telling(carry)


def _is_telling(window: bytes) -> bool:
    window = without_runs(window)
    lower = window.lower()
    return any(word in window for word in _TELLING) or any(each.search(lower) for each in (_ADDRESS, _FORMULA))


class StatisticsReader(XmlTarget):
    """The pages that a document states, and the flags of what its properties name."""

    def __init__(self, sheet: FactSheet) -> None:
        self.pages = 0
        self._sheet = sheet

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Read the beginning of an element."""
        if tag in {f"{_STATISTIC}template", f"{_STATISTIC}auto-reload"} and is_remote(attributes.get(_HREF, "")):
            self._sheet.flags.add("template.remote" if tag.endswith("template") else "link.external")
        if tag == f"{_STATISTIC}document-statistic":
            stated = attributes.get(f"{_STATISTIC}page-count", "")
            self.pages = int(stated) if stated.isdecimal() and len(stated) < 10 else 0


class ContentReader(XmlTarget):
    """The flags of one part."""

    def __init__(self, sheet: FactSheet) -> None:
        self._sheet = sheet

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Read the beginning of an element."""
        name = tag.rpartition("}")[2]
        if "dde-" in name:
            self._sheet.flags.add("dde")
        elif tag == _LISTENER or (name in _MACRO_ELEMENTS and tag.startswith(_MACRO_NAMESPACES)):
            self._sheet.flags.add("macro")
        elif name in {"object-ole", "plugin", "applet"}:
            self._sheet.flags.add("object.ole")
        address = attributes.get(_HREF, "")
        if _OUTSIDE.match(address) and not tag.endswith(_CLICKED):
            self._sheet.flags.add("link.external")
        for attribute, value in attributes.items():
            if attribute.endswith(_FORMULAS):
                self._sheet.flags |= flags_of_formula(value)
            elif attribute.endswith(_SOURCES) and _OUTSIDE.match(value):
                self._sheet.flags.add("link.external")
