"""XML: one well-formed document within the budgets of `xmlsafe.py`. What its elements mean is not asked."""

from collections.abc import Mapping
from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.text.plaintext import INVISIBLE
from sluice.formats.text.xml_entities import refuse_entities
from sluice.formats.text.xmlsafe import Enough, XmlTarget, external_entities, parse_xml
from sluice.formats.verdict import Limits, Measure

_ELEMENTS_OF_NOTHING: Final = 2
_CHUNK: Final = 1024**2
"""A root with one empty child is a form that nobody filled in; more elements are structure, which is content."""


def _recognises(_source: Source) -> bool:
    return False


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    refuse_entities(source.head)
    parse_xml(source.open(), limits)
    outside = external_entities(source.head)
    return {"external_entities": len(outside)} if outside else {}


class _Content(XmlTarget):
    """Has enough at the first character, attribute or third element."""

    def __init__(self) -> None:
        self._elements = 0

    def start(self, _tag: str, attributes: Mapping[str, str]) -> None:
        self._elements += 1
        if self._elements > _ELEMENTS_OF_NOTHING or attributes:
            raise Enough

    def data(self, text: str) -> None:
        if text.strip(INVISIBLE):
            raise Enough


def _blank(source: Source, limits: Limits) -> str | None:
    read_all = parse_xml(source.open(), limits, target=_Content())
    if not read_all or (
        b"<!DOCTYPE" in source.head and any(b"&" in source.read_at(at, _CHUNK) for at in range(0, source.size, _CHUNK))
    ):
        return None  # an entity may stand for anything
    return "the XML has no text, no attribute and no more than one element in its root"


KIND: Final = Kind(
    name="xml",
    content_type="application/xml",
    extensions=frozenset({"xml", "xsd", "xsl", "xslt", "rss", "atom", "kml", "gpx"}),
    recognises=_recognises,
    check=_check,
    blank=_blank,
    sample=lambda: b'<?xml version="1.0"?>\n<sample><value>1</value></sample>\n',
    is_text=True,
)
