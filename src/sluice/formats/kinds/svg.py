"""SVG: one well-formed document within the budgets of `xmlsafe.py` whose root is a drawing. Blank when nothing in it leaves ink.

A DOCTYPE is read over, as old drawing programs write one with entities; nothing outside of the file is loaded. Scripts are for the scanner.
"""

from collections.abc import Mapping
from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.text.svg_ink import InkTarget
from sluice.formats.text.xmlsafe import XmlTarget, external_entities, parse_xml
from sluice.formats.verdict import Corrupt, Limits, Measure


class _Root(XmlTarget):
    """Raises `Corrupt` for the first element when it is no drawing."""

    def __init__(self) -> None:
        self.elements = 0

    def start(self, tag: str, _attributes: Mapping[str, str]) -> None:
        """Open an element."""
        self.elements += 1
        if self.elements == 1 and tag.rpartition("}")[2] != "svg":
            raise Corrupt(f"the document is no drawing: its root is {tag.rpartition('}')[2]}"[:200])


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    root = _Root()
    parse_xml(source.open(), limits, target=root, where="the drawing")
    outside = external_entities(source.head)
    return {"elements": root.elements} | ({"external_entities": len(outside)} if outside else {})


def _blank(source: Source, limits: Limits) -> str | None:
    ink = InkTarget(limits)
    read_all = parse_xml(source.open(), limits, target=ink)
    return "nothing in the drawing leaves ink" if read_all and not ink.may_show else None


KIND: Final = Kind(
    name="svg",
    content_type="image/svg+xml",
    extensions=frozenset({"svg"}),
    recognises=lambda _source: False,
    check=_check,
    blank=_blank,
    sample=lambda: b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><path d="M0 0L9 9" stroke="black"/></svg>\n',
    is_text=True,
)
