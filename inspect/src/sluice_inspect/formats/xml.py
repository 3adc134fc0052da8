"""XML: one well-formed document within the limits of `text/xmlsafe.py`, without entities that harm readers."""

from collections.abc import Mapping
from typing import Final

from sluice_inspect.facts.texts import measure_markup
from sluice_inspect.format import Examination, Family, Format
from sluice_inspect.report import Limits
from sluice_inspect.source import Source
from sluice_inspect.text.plaintext import INVISIBLE
from sluice_inspect.text.xml_declarations import DeclarationReader
from sluice_inspect.text.xmlsafe import StopParsing, XmlTarget, parse_xml

# A root with one empty child is a form that is not filled in; more elements are structure, which is content.
_EMPTY_ELEMENTS_MAX: Final = 2
_CHUNK: Final = 1024**2


def _examine(source: Source, limits: Limits) -> Examination:
    declarations = DeclarationReader("the document")
    parse_xml(source.open(), limits, declarations=declarations)
    measures = {"external_entities": len(declarations.external)} if declarations.external else {}
    return Examination(measures, lambda: _find_blank(source, limits))


class _ContentFinder(XmlTarget):
    def __init__(self) -> None:
        self._elements = 0

    def start(self, _tag: str, attributes: Mapping[str, str]) -> None:
        self._elements += 1
        if self._elements > _EMPTY_ELEMENTS_MAX or attributes:
            raise StopParsing

    def data(self, text: str) -> None:
        if text.strip(INVISIBLE):
            raise StopParsing


def _find_blank(source: Source, limits: Limits) -> str | None:
    if not parse_xml(source.open(), limits, target=_ContentFinder()):
        return None
    # A reference to a declared entity may stand for any content.
    if b"<!DOCTYPE" in source.head and any(b"&" in source.read_at(at, _CHUNK) for at in range(0, source.size, _CHUNK)):
        return None
    return "the XML has no text, no attribute and no more than one element in its root"


FORMAT: Final = Format(
    name="xml",
    family=Family.TEXT,
    content_type="application/xml",
    extensions=frozenset({"xml", "xsd", "xsl", "xslt", "rss", "atom", "kml", "gpx"}),
    examine=_examine,
    facts=measure_markup,
    sample=lambda: b'<?xml version="1.0"?>\n<sample><value>1</value></sample>\n',
    is_text=True,
)
