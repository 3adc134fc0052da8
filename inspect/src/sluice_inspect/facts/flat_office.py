"""What an Office document does that is one XML file: flat OpenDocument, Word and Excel 2003, flat Office Open XML."""
# Windows opens an `.xml` in the program that its instruction `mso-application` names, LibreOffice by its root.

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Final

from sluice_inspect.facts.fields import flags_of_formula, is_remote, starts_dde
from sluice_inspect.facts.ole import measure_object
from sluice_inspect.facts.ooxml import (
    FORMULAS,
    LOADING_FIELD,
    OBJECT_BYTES,
    Fields,
    add_relation,
    calls_other_file,
    flags_of_slide,
)
from sluice_inspect.facts.opendocument import ContentReader, StatisticsReader
from sluice_inspect.office.compound import MAGIC
from sluice_inspect.office.ooxml import Relation
from sluice_inspect.report import FactSheet, InspectionError
from sluice_inspect.text.xmlsafe import XmlTarget

_BEGIN: Final = re.compile(
    rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?\s*<[\s\S]*?"
    rb"(?:<\?mso-application|:opendocument:xmlns:office:|office/word/2003/wordml"
    rb"|schemas-microsoft-com:office:spreadsheet|office/2006/xmlPackage)"
)
_WORD: Final = "http://schemas.microsoft.com/office/word/2003/wordml"
_WORKBOOK: Final = "urn:schemas-microsoft-com:office:spreadsheet"
_EXCEL: Final = "urn:schemas-microsoft-com:office:excel"
_VML: Final = "urn:schemas-microsoft-com:vml"
_PACKAGE: Final = "http://schemas.microsoft.com/office/2006/xmlPackage"
_OPENDOCUMENT: Final = "urn:oasis:names:tc:opendocument:xmlns:office:1.0"
_META: Final = "{urn:oasis:names:tc:opendocument:xmlns:meta:1.0}"
_SEARCHED: Final = frozenset({(_WORD, "wordDocument"), (_WORKBOOK, "Workbook"), (_PACKAGE, "package")})
_UNSEARCHED: Final = (  # Visio, InfoPath, Uniform Office Format, the first OpenOffice
    "http://schemas.microsoft.com/visio/", "http://schemas.microsoft.com/office/", "urn:schemas-microsoft-com:office:",
    "http://schemas.uof.org/", "http://openoffice.org/2000/", "urn:oasis:names:tc:opendocument:",
)  # fmt: skip

_ELEMENTS: Final = {
    "docSuppData": "macro", "VBProjectData": "macro", "docOleData": "object.ole", "OLEObject": "object.ole",
    "ocx": "object.activex", "control": "object.activex", "altChunk": "altchunk", "ddeLink": "dde",
    "subDoc": "link.external", "dataSource": "link.external", "headerSource": "link.external",
    "connectString": "link.external",
}  # fmt: skip
_EXCEL_ELEMENTS: Final = {
    "SupBook": "link.external", "QueryTable": "link.external", "QuerySource": "link.external",
    "Connection": "link.external", "OLELink": "dde", "WantAdvise": "dde",
}  # fmt: skip
_STATED: Final = {"macrosPresent": "macro", "embeddedObjPresent": "object.ole", "ocxPresent": "object.activex"}
_RIBBON: Final = "/customui"
_IN_SHOW: Final = re.compile(r"\s*ppaction://(?:hlinkshowjump|hlinksldjump|noaction|media)", re.IGNORECASE)
_FALSE: Final = frozenset({"no", "off", "false", "0", ""})
_BINARY_PARTS: Final = {"editdata.mso": "macro", "oledata.mso": "object.ole"}
_CONTENT_TYPES: Final = {
    "vbaproject": "macro", "macrosheet": "macro.sheet", "oleobject": "object.ole", "activex": "object.activex",
    "connections": "link.external",
}  # fmt: skip
_FORMULA_ATTRIBUTES: Final = frozenset({"Formula", "RefersTo"})
_FORMULA_ELEMENTS: Final = FORMULAS | {"Formula", "RefersTo", "Value", "Value1", "Value2", "Min", "Max"}
_WORKSHEET_TYPE: Final = "ExcelWorksheetType"
_LOADING_ATTRIBUTES: Final = frozenset({"src", "xslt", "link", "manifestLocation"})
_LOADING_ELEMENTS: Final = frozenset({"sourceFileName", "src", "udl", "bgSound", "movie", "linkToQuery", "applet"})
_NETWORK: Final = ("http:", "https:", "ftp:", "file:", "\\\\", "//")
_OWN_PICTURES: Final = ("wordml:", "data:", "#")
_EMBEDDED: Final = "/embeddings/"


class OfficeReader(XmlTarget):
    """Adds the flags of a document."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Read the beginning of an element."""

    def data(self, text: str) -> None:
        """Read a piece of text."""

    def end(self, tag: str) -> None:
        """Read the end of an element."""


def begins_as_office(head: bytes) -> bool:
    """Return whether a file begins as such a document, whatever its name is."""
    return _BEGIN.match(head.replace(b"\0", b"")) is not None


def reader_of(tag: str, application: str, sheet: FactSheet) -> OfficeReader | None:
    """Return what reads a document with this root, None if it is none of Office. `application` opens it, if not ""."""
    namespace, _, name = tag.removeprefix("{").rpartition("}")
    if (namespace, name) == (_OPENDOCUMENT, "document"):
        return _FlatOpenDocument(sheet)
    if (namespace, name) in _SEARCHED:
        return _Microsoft(sheet)
    if not application and not namespace.startswith(_UNSEARCHED):
        return None
    sheet.complete = False
    return _Microsoft(sheet)


class _FlatOpenDocument(OfficeReader):
    def __init__(self, sheet: FactSheet) -> None:
        self._content = ContentReader(sheet)
        self._statistics = StatisticsReader(sheet)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        reader = self._statistics if tag.startswith(_META) else self._content
        reader.start(tag, attributes)


class _Microsoft(OfficeReader):
    """Adds the flags of all formats of Microsoft: none has an element of another that means something else."""

    def __init__(self, sheet: FactSheet) -> None:
        self._sheet = sheet
        self._fields = Fields()
        self._part = ""
        self._element = ""
        self._text: list[str] | None = None
        self._left = OBJECT_BYTES

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        flags = self._sheet.flags
        namespace, _, name = tag.removeprefix("{").rpartition("}")
        self._fields.start(tag, attributes)
        flag = (_EXCEL_ELEMENTS if namespace.startswith(_EXCEL) else _ELEMENTS).get(name)
        if flag is not None:
            flags.add(flag)
        if namespace.endswith(_RIBBON) and calls_other_file(attributes):
            flags.add("link.external")
        # A relation outwards has its flag already, but for links to click: those to hover over count without it.
        flags |= flags_of_slide(tag, attributes, lambda _id: not _IN_SHOW.match(attributes.get("action", "")))
        if name == "docOleData":  # objects within are not opened
            self._sheet.complete = False
        elif name == "OLEObject" and attributes.get("Type", "").lower() == "link":
            flags.add("link.external")
        elif name == "Relationship":
            kind = attributes.get("Type", "").rstrip("/").rpartition("/")[2].lower()
            is_external = attributes.get("TargetMode", "").lower() == "external"
            add_relation(Relation(kind, attributes.get("Target", ""), is_external), self._sheet)
        elif name == "part":
            self._part = attributes.get(f"{{{_PACKAGE}}}name", "").lower()
            content_type = attributes.get(f"{{{_PACKAGE}}}contentType", "").lower()
            flags |= {flag for word, flag in _CONTENT_TYPES.items() if word in content_type or f"/{word}" in self._part}
        is_read = name in _FORMULA_ELEMENTS or namespace.startswith(_EXCEL) or name == _WORKSHEET_TYPE
        is_object = name == "binaryData" and _EMBEDDED in self._part
        self._element, self._text = name, [] if is_read or is_object else None
        for attribute, value in attributes.items():
            self._read_attribute(namespace, name, attribute, value)

    def _read_attribute(self, namespace: str, element: str, attribute: str, value: str) -> None:
        flags, name = self._sheet.flags, attribute.rpartition("}")[2]
        if name in _FORMULA_ATTRIBUTES:
            flags |= flags_of_formula(value)
        elif name in _STATED:
            if value.strip().lower() not in _FALSE:
                flags.add(_STATED[name])
        elif element == "attachedTemplate":
            if is_remote(value):
                flags.add("template.remote")
        elif element == "binData" and name == "name":
            flags |= {flag for part, flag in _BINARY_PARTS.items() if value.strip().lower().endswith(part)}
        elif namespace == _VML and name in {"src", "althref"}:
            if value.strip() and not value.strip().lower().startswith(_OWN_PICTURES):
                flags.add("link.external")
        elif (name in _LOADING_ATTRIBUTES or element in _LOADING_ELEMENTS) and _is_of_the_network(value):
            flags.add("link.external")

    def data(self, text: str) -> None:
        self._fields.data(text)
        if self._text is None:
            return
        if self._element == "binaryData":
            self._left -= len(text)
            if self._left < 0:
                self._sheet.complete, self._text = False, None
                return
        self._text.append(text)

    def end(self, tag: str) -> None:
        self._fields.end(tag)
        text, self._text = "".join(self._text or ()), None
        if not text:
            return
        if self._element == "binaryData":
            self._open_object(text)
        elif self._element == _WORKSHEET_TYPE:
            if "macro" in text.lower():
                self._sheet.flags.add("macro.sheet")
        elif self._element in _FORMULA_ELEMENTS:
            self._sheet.flags |= flags_of_formula(text)
        elif _is_of_the_network(text):
            self._sheet.flags.add("link.external")

    def _open_object(self, text: str) -> None:
        try:
            data = base64.b64decode(text)
            if data.startswith(MAGIC):
                self._sheet.flags.add("object.ole")
                measure_object(data, self._sheet)
        except (InspectionError, binascii.Error):
            self._sheet.complete = False

    def close(self) -> None:
        instructions = self._fields.text
        if starts_dde(instructions):
            self._sheet.flags.add("dde")
        if LOADING_FIELD.search(instructions):
            self._sheet.flags.add("link.external")


def _is_of_the_network(text: str) -> bool:
    return text.strip().lower().startswith(_NETWORK)
