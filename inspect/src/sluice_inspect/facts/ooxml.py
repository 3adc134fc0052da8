"""What an Office Open XML document has besides its pages: macros, objects, links, fields that start something."""
# Relations say most of it. Parts are read only where they are short or their bytes have a telling word.

import html
import posixpath
import re
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from typing import Final

from sluice_inspect.archives.zip.archive import read_archive
from sluice_inspect.budget import Budget
from sluice_inspect.facts.fields import flags_of_formula, is_remote, starts_dde
from sluice_inspect.facts.ole import LOADING_NAME, measure_object
from sluice_inspect.office.compound import MAGIC
from sluice_inspect.office.ooxml import Package, Relation
from sluice_inspect.report import FactSheet, InspectionError
from sluice_inspect.subject import Subject
from sluice_inspect.text.xml_encodings import begins_as_xml
from sluice_inspect.text.xmlsafe import XmlTarget

_RELATION_FLAGS: Final = {
    "vbaproject": "macro", "xlmacrosheet": "macro.sheet", "xlintlmacrosheet": "macro.sheet", "oleobject": "object.ole",
    "control": "object.activex", "activexcontrolbinary": "object.activex", "afchunk": "altchunk",
    "connections": "link.external",
}  # fmt: skip
# A list of relations without any of these is not parsed: it has none that matters, however it is written.
_TELLING_LIST: Final = re.compile(
    rb"TargetMode|vba|ole|control|macro|chunk|connections|&|\0|encoding\s*=\s*[\"'](?!utf-8)", re.IGNORECASE
)
_TEMPLATE: Final = "attachedtemplate"
_HYPERLINK: Final = "hyperlink"
# An address on another computer: a scheme of the network, or a server by its name.
_REMOTE: Final = re.compile(
    r"\s*(?:(?!file:)[a-z][a-z0-9+.-]+:|[\\/]{2}|file:[\\/]{2}(?![\\/])|file:[\\/]{4})", re.IGNORECASE
)
_FIELD_WORDS: Final = (b"instrText", b"fldSimple")
_FIELD: Final = re.compile(
    rb"<(?:[\w.-]+:)?(?:(fldChar)\b|instrText\b[^<>]{0,2000}>([^<]*)"
    rb"|fldSimple\b[^<>]{0,2000}?:instr\s*=\s*[\"']([^\"'>]*))"
)
_FIELD_TAG: Final = re.compile(rb"<(?:[^\s<>/=:\"']{1,64}:)?(?:instrText|fldSimple)[\s>/]")
_UNUSUAL: Final = (b"<![CDATA[", b"<!--", b"\0")
_OTHER_ENCODING: Final = re.compile(rb"encoding\s*=\s*[\"'](?!utf-8)", re.IGNORECASE)
_DECLARATION_BYTES: Final = 200
LOADING_FIELD: Final = re.compile(
    r"^\s*(?:INCLUDEPICTURE|INCLUDETEXT|INCLUDE|IMPORT|LINK)\b", re.IGNORECASE | re.MULTILINE
)
_FORMULA_WORDS: Final = (b"DDELINK", b"WEBSERVICE", b"IMAGE", b"FILTERXML", b"|", b"&#", *_UNUSUAL)
FORMULAS: Final = frozenset({
    "f", "formula", "formula1", "formula2", "definedName", "calculatedColumnFormula", "totalsRowFormula",
})  # fmt: skip
_LIST_BYTES: Final = 4 * 1024**2  # documents of thousands of parts have shorter lists of them
_SCANNED_BYTES: Final = 64 * 1024**2  # of all parts with fields together
OBJECT_BYTES: Final = 16 * 1024**2
_OBJECTS_MOST: Final = 100
_PROPERTIES: Final = "extended-properties"
_BEGINNING_BYTES: Final = 1024
_TEXT_KEPT: Final = 100


def measure_package(subject: Subject, sheet: FactSheet, *, counted: tuple[str, str]) -> None:
    """Add pages, sheets or slides, and flags. Raise `InspectionError` if the package cannot be read.

    `counted`: a fact, and how the tag of the element ends that has it.
    """
    if subject.source.head.startswith(MAGIC):  # encrypted: nothing of the package can be read
        return
    limits = subject.limits
    budget = Budget(limits, packed_bytes=subject.source.size)
    package = Package(subject.source.cached(read_archive, limits), limits, budget)
    sheet.facts["encrypted"] = False
    for name in package.parts:
        declared = package.declared(name)
        if name.endswith("vbaproject.bin") or declared.endswith("vbaproject"):
            sheet.flags.add("macro")
        if name == "xl/connections.xml" or declared.endswith("connections+xml"):
            sheet.flags.add("link.external")
    for relation in _all_relations(package, sheet):
        add_relation(relation, sheet)
    _count_parts(counted, package, sheet)
    _find_fields(package, sheet)
    _open_objects(package, sheet)


def _all_relations(package: Package, sheet: FactSheet) -> Iterator[Relation]:
    for name in package.parts:
        folder, _, part = name.rpartition("_rels/")
        if (
            part.endswith(".rels")
            and _is_short(package, name, sheet)
            and _TELLING_LIST.search(package.open(name).read(-1))
        ):
            yield from package.relations(posixpath.join(folder, part.removesuffix(".rels"))).values()


def _is_short(package: Package, part: str, sheet: FactSheet) -> bool:
    is_short = package.archive.members[package.parts[part]].unpacked <= _LIST_BYTES
    sheet.complete &= is_short
    return is_short


def add_relation(relation: Relation, sheet: FactSheet) -> None:
    """Add the flag of a relation."""
    flag = _RELATION_FLAGS.get(relation.type)
    if not relation.is_external:
        if flag is not None:
            sheet.flags.add(flag)
    elif relation.type == _TEMPLATE:
        # A template on the sender's own computer is what Word writes for most documents.
        if is_remote(relation.target):
            sheet.flags.add("template.remote")
    elif relation.type != _HYPERLINK:
        sheet.flags.add("link.external")


def _count_parts(counted: tuple[str, str], package: Package, sheet: FactSheet) -> None:
    fact, tag = counted
    part = package.main
    if fact == "pages":
        part = next(package.related("", _PROPERTIES), None)
    if part is None or not package.is_xml(part):
        return
    counter = _Counter(tag)
    package.read(part, counter)
    if fact != "pages":
        sheet.facts[fact] = counter.count
    elif counter.text.strip().isdecimal() and int(counter.text[:9]) > 0:
        sheet.facts["pages"] = int(counter.text[:9])


def _find_fields(package: Package, sheet: FactSheet) -> None:
    """Look for DDE and what is loaded: in the fields of a text, and in the links and formulas of a workbook."""
    if package.family not in {"docx", "xlsx"}:
        return
    left = _SCANNED_BYTES
    for name in package.parts:
        is_records = package.family == "xlsx" and (name.endswith(".bin") or "ms-excel" in package.declared(name))
        is_xml = package.is_xml(name)
        if is_records or is_xml or begins_as_xml(package.open(name).read(_BEGINNING_BYTES)):
            left -= package.archive.members[package.parts[name]].unpacked
            if left < 0:
                sheet.complete = False
                return
            # What is neither declared as XML nor is any, no reader takes for a part of the document.
            with nullcontext() if is_xml else suppress(InspectionError):
                _find_in_part(package, name, sheet, is_records=is_records and not is_xml)


def _find_in_part(package: Package, name: str, sheet: FactSheet, *, is_records: bool) -> None:
    if is_records:
        if LOADING_NAME.search(package.open(name).read(-1).replace(b"\0", b"")):
            sheet.flags.add("link.external")
    elif package.family == "docx":
        instructions = _instructions(package, name)
        if starts_dde(instructions):
            sheet.flags.add("dde")
        if LOADING_FIELD.search(instructions):
            sheet.flags.add("link.external")
    else:
        data = package.open(name).read(-1).upper()
        if any(word in data for word in _FORMULA_WORDS) or _OTHER_ENCODING.search(data[:_DECLARATION_BYTES]):
            package.read(name, _Formulas(sheet))


def _instructions(package: Package, part: str) -> str:
    """Return the instructions of all fields, each on lines of its own; one may be written in several pieces."""
    # From the bytes, as XML is read at a tenth of their speed, unless they are written in an unusual way.
    data = package.open(part).read(-1)
    if any(word in data for word in _UNUSUAL) or _OTHER_ENCODING.search(data[:_DECLARATION_BYTES]):
        fields = Fields()
        package.read(part, fields)
        return fields.text
    if not any(word in data for word in _FIELD_WORDS):
        return ""
    pieces, tags = [], 0
    for found in _FIELD.finditer(data):
        instruction = html.unescape((found[2] or found[3] or b"").decode("utf-8", "replace"))
        pieces.append("\n" if found[1] else instruction if found[3] is None else f"\n{instruction}\n")
        tags += not found[1]
    if tags != sum(1 for _ in _FIELD_TAG.finditer(data)):  # one is written so that the expression misses it
        fields = Fields()
        package.read(part, fields)
        return fields.text
    return "".join(pieces)


def _open_objects(package: Package, sheet: FactSheet) -> None:
    opened = 0
    for name, index in package.parts.items():
        is_embedded = "/embeddings/" in name and name.endswith(".bin")
        if not is_embedded and not package.declared(name).endswith("oleobject"):
            continue
        opened += 1
        if opened > _OBJECTS_MOST or package.archive.members[index].unpacked > OBJECT_BYTES:
            sheet.complete = False
            return
        data = package.open(name).read(-1)
        if data.startswith(MAGIC):
            sheet.flags.add("object.ole")
            try:
                measure_object(data, sheet)
            except InspectionError:
                sheet.complete = False


class _Counter(XmlTarget):
    """Counts the elements of a name and keeps the beginning of their text."""

    def __init__(self, tag: str) -> None:
        self.count = 0
        self.text = ""
        self._tag = tag
        self._is_open = False

    def start(self, tag: str, _attributes: Mapping[str, str]) -> None:
        self._is_open = tag.endswith(self._tag)
        self.count += self._is_open

    def end(self, _tag: str) -> None:
        self._is_open = False

    def data(self, text: str) -> None:
        if self._is_open:
            self.text = (self.text + text)[:_TEXT_KEPT]


class _Formulas(XmlTarget):
    """Adds the flags of the formulas and links of a part."""

    def __init__(self, sheet: FactSheet) -> None:
        self._sheet = sheet
        self._formula: list[str] | None = None

    def start(self, tag: str, _attributes: Mapping[str, str]) -> None:
        name = tag.rpartition("}")[2]
        self._formula = [] if name in FORMULAS else None
        if name == "ddeLink":
            self._sheet.flags.add("dde")

    def end(self, _tag: str) -> None:
        formula = "".join(self._formula or ())
        self._formula = None
        if formula:
            self._sheet.flags |= flags_of_formula(formula)

    def data(self, text: str) -> None:
        if self._formula is not None:
            self._formula.append(text)


class Fields(XmlTarget):
    """The instructions of all fields, each on a line; one may be written in several pieces."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._is_open = False

    @property
    def text(self) -> str:
        """The instructions so far."""
        return "".join(self._pieces)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Read the beginning of an element."""
        if tag.endswith("}fldSimple"):
            self._pieces += ["\n", *(value for name, value in attributes.items() if name.endswith("}instr")), "\n"]
        elif tag.endswith("}fldChar"):
            self._pieces.append("\n")
        self._is_open = tag.endswith("}instrText")

    def end(self, _tag: str) -> None:
        """Read the end of an element."""
        self._is_open = False

    def data(self, text: str) -> None:
        """Read a piece of text."""
        if self._is_open:
            self._pieces.append(text)
