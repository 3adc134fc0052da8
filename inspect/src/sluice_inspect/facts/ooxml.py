"""What an Office Open XML document has besides its pages: macros, objects, links, fields that start something."""
# Relations say most of it. Parts are read only where they are short or their bytes have a telling word.

import html
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext, suppress
from typing import Final

from sluice_inspect.archives.zip.archive import read_archive
from sluice_inspect.budget import Budget
from sluice_inspect.facts import mashup
from sluice_inspect.facts.fields import flags_of_formula, is_remote, starts_dde
from sluice_inspect.facts.ole import LOADING_NAME, measure_object
from sluice_inspect.office.compound import MAGIC
from sluice_inspect.office.ooxml import Package, Relation
from sluice_inspect.report import FactSheet, InspectionError
from sluice_inspect.subject import Subject
from sluice_inspect.text.xml_encodings import begins_as_xml, declaration_ends, encodings_of
from sluice_inspect.text.xmlsafe import XmlTarget

_RELATION_FLAGS: Final = {
    "vbaproject": "macro", "xlmacrosheet": "macro.sheet", "xlintlmacrosheet": "macro.sheet", "oleobject": "object.ole",
    "control": "object.activex", "activexcontrolbinary": "object.activex", "afchunk": "altchunk",
    "connections": "link.external",
}  # fmt: skip
# A list of relations without any of these is not parsed: it has none that matters, however it is written.
_TELLING_LIST: Final = re.compile(
    rb"TargetMode|vba|ole|control|macro|chunk|connections|extensibility|customization|&", re.IGNORECASE
)
# What a list of commands in the ribbon is related as, and its attributes that name a macro.
_RIBBONS: Final = frozenset({"extensibility", "usercustomization"})
_CALLBACK: Final = re.compile(r"on|get|load", re.IGNORECASE)
# A macro of another file, as opposed to one of a module.
_OTHER_MACRO: Final = re.compile(r"[^!]*(?:[\\/:][^!]*|\.(?:do|xl|pp|po)[a-z]{1,3}'?\s*)!", re.IGNORECASE)
# Without one of these, nothing of a slide starts without a click.
_STARTING_WORDS: Final = (b"HOVER", b"MOUSEOVER", b"VERB", b"&#")
_HOVERS: Final = frozenset({"hlinkHover", "hlinkMouseOver"})
_STARTING_ACTION: Final = re.compile(r"\s*ppaction://(program|macro|ole|hlinkfile|hlinkpres)", re.IGNORECASE)
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
_DECLARATION_BYTES: Final = 4096
_UNUSUAL: Final = (b"<![CDATA[", b"<!--")
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
    ribbons = set[str]()
    for relation in _all_relations(package, sheet):
        add_relation(relation, sheet)
        if relation.type in _RIBBONS and not relation.is_external:
            ribbons.add(relation.target)
    for name in sorted(ribbons & package.parts.keys()):
        if _is_short(package, name, sheet):
            package.read(name, _Ribbon(sheet))
    _count_parts(counted, package, sheet)
    _find_fields(package, sheet)
    _open_objects(package, sheet)


def _all_relations(package: Package, sheet: FactSheet) -> Iterator[Relation]:
    for name in package.parts:
        folder, _, part = name.rpartition("_rels/")
        if not part.endswith(".rels") or not _is_short(package, name, sheet):
            continue
        data = package.open(name).read(-1)
        if _TELLING_LIST.search(data) or _is_in_other_encoding(data):
            yield from package.relations(posixpath.join(folder, part.removesuffix(".rels"))).values()


def _is_in_other_encoding(data: bytes) -> bool:
    head = data[:_DECLARATION_BYTES]
    return encodings_of(head) != ("utf-8",) or (len(data) > len(head) and not declaration_ends(head))


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
    """Look for what is started or loaded: by the fields of a text, links and formulas of a workbook, and slides."""
    if package.family is None:
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
        data = package.open(name).read(-1)
        is_slide = package.family == "pptx"
        words, reader = (
            (_STARTING_WORDS, _Slide(package, name, sheet)) if is_slide else (_FORMULA_WORDS, _Formulas(sheet))
        )
        upper = data.upper()
        is_other = _is_in_other_encoding(data)
        if any(word in upper for word in words) or is_other:
            package.read(name, reader)
        if package.family == "xlsx" and (mashup.WORD in upper or is_other):
            _find_queries(package, name, sheet)


def _find_queries(package: Package, name: str, sheet: FactSheet) -> None:
    queries = mashup.Mashup()
    package.read(name, queries)
    try:
        if queries.text and mashup.reads_outside(queries.text, package.limits):
            sheet.flags.add("link.external")
    except InspectionError:
        sheet.complete = False


def _instructions(package: Package, part: str) -> str:
    """Return the instructions of all fields, each on lines of its own; one may be written in several pieces."""
    # From the bytes, as XML is read at a tenth of their speed, unless they are written in an unusual way.
    data = package.open(part).read(-1)
    if any(word in data for word in _UNUSUAL) or _is_in_other_encoding(data):
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


class _Ribbon(XmlTarget):
    """Adds the flag of a command that calls a macro of another file, which is opened for it."""

    def __init__(self, sheet: FactSheet) -> None:
        self._sheet = sheet

    def start(self, _tag: str, attributes: Mapping[str, str]) -> None:
        if calls_other_file(attributes):
            self._sheet.flags.add("link.external")


def calls_other_file(attributes: Mapping[str, str]) -> bool:
    """Return whether an element of the ribbon calls a macro of another file."""
    return any(
        _CALLBACK.match(name) is not None and (is_remote(value) or _OTHER_MACRO.match(value) is not None)
        for name, value in attributes.items()
    )


class _Slide(XmlTarget):
    """Adds the flags of what starts on a slide without a click."""

    def __init__(self, package: Package, part: str, sheet: FactSheet) -> None:
        self._package = package
        self._part = part
        self._sheet = sheet

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._sheet.flags |= flags_of_slide(tag, attributes, self._leads_out)

    def _leads_out(self, relation_id: str) -> bool:
        relation = self._package.relations(self._part).get(relation_id)
        return relation is not None and relation.is_external


def flags_of_slide(tag: str, attributes: Mapping[str, str], leads_out: Callable[[str], bool]) -> set[str]:
    """Return the flags of an element that the pointer starts by passing over it, or of an animation with an object.

    `leads_out` returns whether the relation with an id does.
    """
    name = tag.rpartition("}")[2]
    if name == "cmd":
        return {"object.ole"} if attributes.get("type", "").strip().lower() == "verb" else set()
    if name not in _HOVERS:
        return set()
    action = _STARTING_ACTION.match(attributes.get("action", ""))
    if action and action[1].lower() == "macro":
        return {"macro"}
    is_out = action or any(leads_out(value) for key, value in attributes.items() if key.endswith("}id"))
    return {"link.external"} if is_out else set()


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
