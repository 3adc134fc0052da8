"""Ink in the XML of Office documents: text, pictures, shapes, objects (DrawingML and VML)."""
# In doubt something is ink: a shape is unless its own properties say that it has neither line nor fill.

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.text.plaintext import INVISIBLE
from sluice_inspect.text.xmlsafe import StopParsing, XmlTarget

# As in files of Office; the "strict" variants of the standard have another stem, and no year.
_TRANSITIONAL: Final = {
    "wordprocessingml/2006/main": "w", "spreadsheetml/2006/main": "s", "presentationml/2006/main": "p",
    "drawingml/2006/main": "a", "drawingml/2006/wordprocessingDrawing": "wp",
    "drawingml/2006/spreadsheetDrawing": "xdr", "drawingml/2006/chart": "c", "drawingml/2006/diagram": "dgm",
    "officeDocument/2006/math": "m",
}  # fmt: skip
_NAMESPACES: Final = {
    **{f"http://schemas.openxmlformats.org/{path}": prefix for path, prefix in _TRANSITIONAL.items()},
    **{f"http://purl.oclc.org/ooxml/{path.replace('/2006', '')}": prefix for path, prefix in _TRANSITIONAL.items()},
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
# Ink by their mere presence.
_OBJECTS: Final = frozenset({
    "c:chart", "cx:chart", "dgm:relIds", "o:OLEObject", "p:oleObj", "p:contentPart", "a:tbl", "a:videoFile",
    "a:audioFile", "a:quickTimeFile", "w:sym", "w:control", "w:altChunk", "w:subDoc", "w:checkBox", "w:ddList",
    "w:contentPart", "xdr:contentPart",
})  # fmt: skip
_SHAPES: Final = frozenset({"wps:wsp", "p:sp", "p:cxnSp", "xdr:sp", "xdr:cxnSp"})
_PROPERTIES: Final = frozenset({"wps:spPr", "p:spPr", "xdr:spPr"})
_FILLS: Final = frozenset({"a:solidFill", "a:gradFill", "a:pattFill", "a:blipFill", "a:grpFill"})
_VML_SHAPES: Final = frozenset(
    {"v:rect", "v:roundrect", "v:oval", "v:line", "v:polyline", "v:arc", "v:curve", "v:shape"}
)
_FALSE: Final = frozenset({"0", "f", "false", "off", "none"})
_CLOCK_INTERVAL: Final = 10_000


@dataclass(slots=True)
class _Shape:
    """What a DrawingML shape states about its line and fill; None where it states nothing."""

    has_style: bool = False
    filled: bool | None = None
    lined: bool | None = None

    @property
    def leaves_ink(self) -> bool:
        # A style fills and lines whatever the shape itself leaves open.
        return bool(self.filled or self.lined or (self.has_style and (self.filled is None or self.lined is None)))


class DrawingInk(XmlTarget):
    """Reads one part until ink is certain or the time of the file is over; formats override the `on_` methods."""

    # Pictures are not decoded here: `pictures` holds the ids of their relations.
    skips_runs = True

    def __init__(self) -> None:
        self.has_ink = False
        self.pictures: list[str] = []
        self.stack: list[str] = []  # short names of the open elements, as `w:t`
        self._text: list[str] | None = None
        self._shapes: list[_Shape] = []
        self._vml: list[dict[str, bool]] = []  # for each open VML shape, whether it has a line and a fill
        self._elements = 0
        self._deadline = Deadline(float("inf"))

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open an element."""
        name = short_name(tag)
        self.stack.append(name)
        self._elements += 1
        if self._elements % _CLOCK_INTERVAL == 0 and self._deadline.has_passed:
            self.mark_ink()
        if name in _TEXT:
            self._text = []
        elif name in _OBJECTS:
            self.on_object(name)
        elif (handler := self._HANDLERS.get(name)) is not None:
            handler(self, name, attributes)
        else:
            self.on_start(name, attributes)

    def end(self, _tag: str) -> None:
        """Close an element."""
        name = self.stack.pop()
        if name in _TEXT and self._text is not None:
            text, self._text = "".join(self._text), None
            if text.strip(INVISIBLE):
                self.on_text(text)
        elif name in _SHAPES and self._shapes:
            if self._shapes.pop().leaves_ink:
                self.on_object(name)
        elif name in _VML_SHAPES and self._vml and any(self._vml.pop().values()):
            self.on_object(name)
        self.on_end(name)

    def data(self, text: str) -> None:
        """Add a piece of text."""
        if self._text is not None:
            self._text.append(text)

    def on_start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of an element that this class does not know."""

    def on_end(self, name: str) -> None:
        """Handle the end of any element."""

    def on_text(self, _text: str) -> None:
        """Handle the text of one element, which has visible characters."""
        self.mark_ink()

    def on_object(self, _name: str) -> None:
        """Handle an object or a shape that leaves ink."""
        self.mark_ink()

    def on_picture(self, relation: str) -> None:
        """Handle a picture that is stored in the package."""
        self.pictures.append(relation)

    def mark_ink(self) -> None:
        """Set `has_ink` and stop parsing."""
        self.has_ink = True
        raise StopParsing

    def _on_blip(self, _name: str, attributes: Mapping[str, str]) -> None:
        relation = relation_of(attributes, "embed", "id")
        if relation:
            self.on_picture(relation)
        elif relation_of(attributes, "link"):
            self.on_object("a:blip")
        if self._vml:
            self._vml[-1] = {}  # the shape is the frame of a picture: its own line and fill are not drawn

    def _on_shape(self, _name: str, _attributes: Mapping[str, str]) -> None:
        self._shapes.append(_Shape())

    def _on_style(self, _name: str, _attributes: Mapping[str, str]) -> None:
        if self._shapes:
            self._shapes[-1].has_style = True

    def _on_fill(self, name: str, _attributes: Mapping[str, str]) -> None:
        if not self._shapes or len(self.stack) < 3:
            return
        parent, filled = self.stack[-2], name in _FILLS
        if parent in _PROPERTIES:
            self._shapes[-1].filled = filled
        elif parent == "a:ln" and self.stack[-3] in _PROPERTIES:
            self._shapes[-1].lined = filled

    def _on_vml_shape(self, _name: str, attributes: Mapping[str, str]) -> None:
        lined, filled = attributes.get("stroked", "t") not in _FALSE, attributes.get("filled", "t") not in _FALSE
        self._vml.append({"v:stroke": lined, "v:fill": filled})

    def _on_vml_paint(self, name: str, attributes: Mapping[str, str]) -> None:
        # The element that describes a shape's line or fill may switch it off.
        if self._vml and attributes.get("on", "t") in _FALSE:
            self._vml[-1][name] = False

    _HANDLERS: Final[dict[str, Callable[["DrawingInk", str, Mapping[str, str]], None]]] = {
        "a:blip": _on_blip,
        "v:imagedata": _on_blip,
        "v:fill": _on_vml_paint,
        "v:stroke": _on_vml_paint,
        "a:noFill": _on_fill,
        "wps:style": _on_style,
        "p:style": _on_style,
        "xdr:style": _on_style,
        **dict.fromkeys(_FILLS, _on_fill),
        **dict.fromkeys(_SHAPES, _on_shape),
        **dict.fromkeys(_VML_SHAPES, _on_vml_shape),
    }


@lru_cache(maxsize=1024)
def short_name(tag: str) -> str:
    """Return `w:t` for `{…wordprocessingml…}t`. Unknown namespaces have the prefix `?`."""
    namespace, _, local = tag.rpartition("}")
    return f"{_NAMESPACES.get(namespace[1:], '?')}:{local}"


def relation_of(attributes: Mapping[str, str], *names: str) -> str:
    """Return the first relation id among the attributes of these local names, empty when there is none."""
    return next(
        (attributes[each] for name in names for space in _RELATIONS if (each := space + name) in attributes), ""
    )


def is_on(value: str | None) -> bool:
    """Whether an on/off attribute is on. One without a value is."""
    return value is None or value.lower() not in _FALSE
