"""What leaves ink in the XML of Office documents: text, pictures, shapes, objects (DrawingML and VML). Which parts count is known by the kinds.

Everything here is in doubt ink: a shape counts unless its own properties say that it has neither line nor fill.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sluice.formats.text.plaintext import INVISIBLE
from sluice.formats.text.xmlsafe import Enough, XmlTarget

_NAMESPACES: Final = {
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main": "w",
    "http://purl.oclc.org/ooxml/wordprocessingml/main": "w",
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main": "s",
    "http://purl.oclc.org/ooxml/spreadsheetml/main": "s",
    "http://schemas.openxmlformats.org/presentationml/2006/main": "p",
    "http://purl.oclc.org/ooxml/presentationml/main": "p",
    "http://schemas.openxmlformats.org/drawingml/2006/main": "a",
    "http://purl.oclc.org/ooxml/drawingml/main": "a",
    "http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing": "wp",
    "http://purl.oclc.org/ooxml/drawingml/wordprocessingDrawing": "wp",
    "http://schemas.openxmlformats.org/drawingml/2006/spreadsheetDrawing": "xdr",
    "http://purl.oclc.org/ooxml/drawingml/spreadsheetDrawing": "xdr",
    "http://schemas.openxmlformats.org/drawingml/2006/chart": "c",
    "http://purl.oclc.org/ooxml/drawingml/chart": "c",
    "http://schemas.openxmlformats.org/drawingml/2006/diagram": "dgm",
    "http://purl.oclc.org/ooxml/drawingml/diagram": "dgm",
    "http://schemas.openxmlformats.org/officeDocument/2006/math": "m",
    "http://purl.oclc.org/ooxml/officeDocument/math": "m",
    "http://schemas.microsoft.com/office/word/2010/wordprocessingShape": "wps",
    "http://schemas.microsoft.com/office/drawing/2014/chartex": "cx",
    "urn:schemas-microsoft-com:vml": "v",
    "urn:schemas-microsoft-com:office:office": "o",
}
_RELATIONS: Final = (
    "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}",
    "{http://purl.oclc.org/ooxml/officeDocument/relationships}",
)

_TEXT: Final = frozenset({"w:t", "w:delText", "a:t", "m:t"})
_OBJECTS: Final = frozenset({
    "c:chart", "cx:chart", "dgm:relIds", "o:OLEObject", "p:oleObj", "p:contentPart", "a:tbl", "a:videoFile", "a:audioFile", "a:quickTimeFile",
    "w:sym", "w:control", "w:altChunk", "w:subDoc", "w:checkBox", "w:ddList", "w:contentPart", "xdr:contentPart",
})  # fmt: skip
"""Ink by their mere presence."""
_SHAPES: Final = frozenset({"wps:wsp", "p:sp", "p:cxnSp", "xdr:sp", "xdr:cxnSp"})
_PROPERTIES: Final = frozenset({"wps:spPr", "p:spPr", "xdr:spPr"})
_FILLS: Final = frozenset({"a:solidFill", "a:gradFill", "a:pattFill", "a:blipFill", "a:grpFill"})
_VML_SHAPES: Final = frozenset({"v:rect", "v:roundrect", "v:oval", "v:line", "v:polyline", "v:arc", "v:curve", "v:shape"})
_FALSE: Final = frozenset({"0", "f", "false", "off", "none"})


@dataclass(slots=True)
class _Shape:
    """What a DrawingML shape says of its own look; None where it says nothing."""

    has_style: bool = False
    filled: bool | None = None
    lined: bool | None = None

    @property
    def leaves_ink(self) -> bool:
        """A style fills and lines whatever the shape itself leaves open."""
        return bool(self.filled or self.lined or (self.has_style and (self.filled is None or self.lined is None)))


class Ink(XmlTarget):
    """Looks through one part until it is clear that a reader sees something there; then `has_ink` is set and the reading ends.

    Pictures are not judged here: `pictures` holds the ids of their relations.
    """

    def __init__(self) -> None:
        self.has_ink = False
        self.pictures: list[str] = []
        self.stack: list[str] = []
        """Short names of the open elements, as `w:t`."""
        self._text: list[str] | None = None
        self._shapes: list[_Shape] = []
        self._vml: list[dict[str, bool]] = []
        """Whether each open VML shape has a line and a fill."""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open an element."""
        name = short_name(tag)
        self.stack.append(name)
        if name in _TEXT:
            self._text = []
        elif name in _OBJECTS:
            self.object_seen(name)
        elif (opened := self._OPENED.get(name)) is not None:
            opened(self, name, attributes)
        else:
            self.opened(name, attributes)

    def end(self, _tag: str) -> None:
        """Close an element."""
        name = self.stack.pop()
        if name in _TEXT and self._text is not None:
            text, self._text = "".join(self._text), None
            if text.strip(INVISIBLE):
                self.text_seen(text)
        elif name in _SHAPES and self._shapes:
            if self._shapes.pop().leaves_ink:
                self.object_seen(name)
        elif name in _VML_SHAPES and self._vml and any(self._vml.pop().values()):
            self.object_seen(name)
        self.closed(name)

    def data(self, text: str) -> None:
        """Take a piece of text."""
        if self._text is not None:
            self._text.append(text)

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take an element that means nothing here."""

    def closed(self, name: str) -> None:
        """Take the end of any element."""

    def text_seen(self, _text: str) -> None:
        """Take a stretch of text that has visible characters."""
        self.ink_seen()

    def object_seen(self, _name: str) -> None:
        """Take an object or a shape that leaves ink."""
        self.ink_seen()

    def picture_seen(self, relation: str) -> None:
        """Take a picture that is stored in the package."""
        self.pictures.append(relation)

    def ink_seen(self) -> None:
        """Note that a reader sees something, and end the reading."""
        self.has_ink = True
        raise Enough

    def _blip(self, _name: str, attributes: Mapping[str, str]) -> None:
        relation = relation_of(attributes, "embed", "id")
        if relation:
            self.picture_seen(relation)
        elif relation_of(attributes, "link"):
            self.object_seen("a:blip")
        if self._vml:
            self._vml[-1] = {}  # the frame of a picture

    def _shape(self, _name: str, _attributes: Mapping[str, str]) -> None:
        self._shapes.append(_Shape())

    def _style(self, _name: str, _attributes: Mapping[str, str]) -> None:
        if self._shapes:
            self._shapes[-1].has_style = True

    def _fill(self, name: str, _attributes: Mapping[str, str]) -> None:
        if not self._shapes or len(self.stack) < 3:  # noqa: PLR2004  (shape, its properties, the fill)
            return
        parent, filled = self.stack[-2], name in _FILLS
        if parent in _PROPERTIES:
            self._shapes[-1].filled = filled
        elif parent == "a:ln" and self.stack[-3] in _PROPERTIES:
            self._shapes[-1].lined = filled

    def _vml_shape(self, _name: str, attributes: Mapping[str, str]) -> None:
        self._vml.append(
            {"v:stroke": attributes.get("stroked", "t") not in _FALSE, "v:fill": attributes.get("filled", "t") not in _FALSE}
        )

    def _vml_look(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take the element that says how a shape is lined or filled, and may say that it is not."""
        if self._vml and attributes.get("on", "t") in _FALSE:
            self._vml[-1][name] = False

    _OPENED: Final[dict[str, Callable[["Ink", str, Mapping[str, str]], None]]] = {
        "a:blip": _blip,
        "v:imagedata": _blip,
        "v:fill": _vml_look,
        "v:stroke": _vml_look,
        "a:noFill": _fill,
        "wps:style": _style,
        "p:style": _style,
        "xdr:style": _style,
        **dict.fromkeys(_FILLS, _fill),
        **dict.fromkeys(_SHAPES, _shape),
        **dict.fromkeys(_VML_SHAPES, _vml_shape),
    }


@lru_cache(maxsize=1024)
def short_name(tag: str) -> str:
    """Answer `w:t` for `{…wordprocessingml…}t`; unknown namespaces have the prefix `?`."""
    namespace, _, local = tag.rpartition("}")
    return f"{_NAMESPACES.get(namespace[1:], '?')}:{local}"


def relation_of(attributes: Mapping[str, str], *names: str) -> str:
    """Answer the first relation id among the attributes of these local names, empty when there is none."""
    return next((attributes[each] for name in names for space in _RELATIONS if (each := space + name) in attributes), "")


def is_on(value: str | None) -> bool:
    """Whether an on/off attribute is on; one without a value is."""
    return value is None or value.lower() not in _FALSE
