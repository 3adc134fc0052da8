"""Ink in the content of OpenDocument files: text, pictures, shapes, objects, and styles that draw or hide."""
# Headers, footers and master pages are in another part and are never read. In doubt something counts as ink.

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.office.zip_documents import ZipDocument
from sluice_inspect.text.plaintext import INVISIBLE
from sluice_inspect.text.xmlsafe import StopParsing, XmlTarget

CONTENT: Final = "content.xml"

_STEM: Final = "{urn:oasis:names:tc:opendocument:xmlns:"
_FO: Final = _STEM + "xsl-fo-compatible:1.0}"
_DRAW: Final = _STEM + "drawing:1.0}"
OFFICE: Final = _STEM + "office:1.0}"
PRESENTATION: Final = _STEM + "presentation:1.0}"
_STYLE: Final = _STEM + "style:1.0}"
TABLE: Final = _STEM + "table:1.0}"
_TEXT: Final = _STEM + "text:1.0}"
_XLINK_HREF: Final = "{http://www.w3.org/1999/xlink}href"
_PREFIXES: Final = {
    _FO: "fo", _DRAW: "draw", OFFICE: "office", PRESENTATION: "presentation", _STYLE: "style", TABLE: "table",
    _TEXT: "text", _STEM + "svg-compatible:1.0}": "svg", _STEM + "dr3d:1.0}": "dr3d", _STEM + "meta:1.0}": "meta",
    "{http://purl.org/dc/elements/1.1/}": "dc", "{http://www.w3.org/1998/Math/MathML}": "math",
}  # fmt: skip

_NO_GROUND: Final = frozenset({"", "transparent", "none", "#ffffff"})
_NONE: Final = frozenset({"", "none"})
_WHITE: Final = "#ffffff"
_BORDERS: Final = tuple(_FO + name for name in ("border", "border-left", "border-right", "border-top", "border-bottom"))

_PARAGRAPHS: Final = frozenset({"text:p", "text:h"})
_STATEFUL: Final = _PARAGRAPHS | {"text:span", "text:section"}
# Text within these is not shown as such, or is only a prompt.
_MUTED: Final = frozenset({
    "dc:creator", "dc:date", "meta:date-string", "meta:creator-initials", "svg:title", "svg:desc", "text:note-citation",
    "text:placeholder",
})  # fmt: skip
# Ink by their mere presence.
_OBJECTS: Final = frozenset({
    "draw:object", "draw:object-ole", "draw:plugin", "draw:applet", "draw:floating-frame", "draw:control", "dr3d:scene",
    "math:math", "office:binary-data", "table:data-pilot-table",
})  # fmt: skip
_SHAPES: Final = frozenset({
    "draw:rect", "draw:line", "draw:polyline", "draw:polygon", "draw:regular-polygon", "draw:path", "draw:circle",
    "draw:ellipse", "draw:connector", "draw:caption", "draw:measure", "draw:custom-shape",
})  # fmt: skip
# The style of the line across the page that LibreOffice inserts. It is a common style, and those are in another part.
_RULE: Final = "Horizontal_20_Line"
_CLOCK_INTERVAL: Final = 10_000


@dataclass(slots=True)
class Style:
    """What one style states; None, empty and False where it states nothing."""

    parent: str = ""
    is_white: bool | None = None
    is_hidden: bool | None = None
    has_border: bool = False
    has_ground: bool = False
    fill: str = ""
    stroke: str = ""
    is_sheet_hidden: bool = False
    is_conditional: bool = False

    def add(self, attributes: Mapping[str, str]) -> None:
        """Add the attributes of one of its elements of properties."""
        if (colour := attributes.get(_FO + "color")) is not None:
            self.is_white = colour.lower() == _WHITE
        if (display := attributes.get(_TEXT + "display")) is not None:
            self.is_hidden = display == "none"
        self.has_border |= any("none" not in attributes.get(name, "none") for name in _BORDERS)
        self.has_ground |= attributes.get(_FO + "background-color", "").lower() not in _NO_GROUND
        self.fill = attributes.get(_DRAW + "fill", self.fill)
        self.stroke = attributes.get(_DRAW + "stroke", self.stroke)
        self.is_sheet_hidden |= attributes.get(TABLE + "display") == "false"


_PLAIN: Final = Style()


class Styles:
    """The automatic styles of one part, by family and name. `has_ground`: whether any of them colours a ground."""

    def __init__(self) -> None:
        self.has_ground = False
        self._styles: dict[tuple[str, str], Style] = {}
        self._open: Style | None = None

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of any element."""
        if name == "style:style":
            self._open = Style(parent=attributes.get(_STYLE + "parent-style-name", ""))
            self._styles[attributes.get(_STYLE + "family", ""), attributes.get(_STYLE + "name", "")] = self._open
        elif name == "style:map" and self._open is not None:
            self._open.is_conditional = True
        elif name.endswith("-properties"):
            style = self._open or Style()
            style.add(attributes)
            self.has_ground |= style.has_ground or style.fill not in _NONE

    def end(self, name: str) -> None:
        """Handle the end of any element."""
        if name == "style:style":
            self._open = None

    def find(self, family: str, name: str | None) -> Style:
        """Return a style. One that is not among them states nothing."""
        return self._styles.get((family, name or ""), _PLAIN)


class ContentInk(XmlTarget):
    """Reads a content part until there is ink for sure; formats override `on_` methods and `is_muted`."""

    # Pictures are not decoded here: `pictures` holds the names of their parts.
    skips_runs = True
    white_is_invisible = True  # texts and sheets are white unless they say otherwise, slides are not

    def __init__(self, soft_seconds: float) -> None:
        self.has_ink = False
        self.has_white_text = False
        self.pictures: list[str] = []
        self.styles = Styles()
        self.stack: list[str] = []
        self._short: dict[str, str] = {}
        self._states: list[tuple[bool, bool]] = [(False, False)]  # hidden, white: of open paragraphs, spans, sections
        self._paragraphs = self._elements = 0
        self._muted_depth = 0  # of the element whose content does not count, 0 outside of any
        self._is_body = False
        self._deadline = Deadline(soft_seconds)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open an element."""
        name = self._short.get(tag) or self._short.setdefault(tag, _short_name(tag))
        self.stack.append(name)
        self._is_body |= name == "office:body"
        if not self._is_body:
            self.styles.start(name, attributes)
            return
        self._elements += 1
        if self._elements % _CLOCK_INTERVAL == 0 and self._deadline.has_passed:
            self.mark_ink()
        if name in _STATEFUL:
            self._states.append(self._state(name, attributes))
            self._paragraphs += name in _PARAGRAPHS
        if not self._muted_depth and self.is_muted(name, attributes):
            self._muted_depth = len(self.stack)
        self.on_start(name, attributes)
        if not self._muted_depth:
            self._find_objects(name, attributes)

    def end(self, _tag: str) -> None:
        """Close an element."""
        if self._muted_depth == len(self.stack):
            self._muted_depth = 0
        name = self.stack.pop()
        if not self._is_body:
            self.styles.end(name)
            return
        self.on_end(name)
        if name in _STATEFUL:
            self._states.pop()
            self._paragraphs -= name in _PARAGRAPHS

    def data(self, text: str) -> None:
        """Handle a piece of text."""
        if self._paragraphs and not self._muted_depth and text.strip(INVISIBLE):
            hidden, white = self._states[-1]
            if not hidden:
                self.on_text(text, white=white and self.white_is_invisible)

    def is_muted(self, name: str, attributes: Mapping[str, str]) -> bool:
        """Whether what is within an element does not count."""
        return name in _MUTED or (name == "text:hidden-text" and attributes.get(_TEXT + "is-hidden") == "true")

    def on_start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Handle the start of any element in the body."""

    def on_end(self, name: str) -> None:
        """Handle the end of any element in the body."""

    def on_text(self, _text: str, *, white: bool) -> None:
        """Handle a piece of text that has visible characters."""
        if white:
            self.has_white_text = True
        else:
            self.mark_ink()

    def on_object(self, _name: str) -> None:
        """Handle an object or a shape that leaves ink."""
        self.mark_ink()

    def mark_ink(self) -> None:
        """Set `has_ink` and stop parsing."""
        self.has_ink = True
        raise StopParsing

    def _state(self, name: str, attributes: Mapping[str, str]) -> tuple[bool, bool]:
        hidden, white = self._states[-1]
        if name == "text:section":
            return hidden or attributes.get(_TEXT + "display") == "none", white
        style_name = attributes.get(_TEXT + "style-name")
        if name in _PARAGRAPHS:
            style = self.styles.find("paragraph", style_name)
            if style.has_border or style.has_ground or style_name == _RULE:
                self.on_object(name)
            return hidden or bool(style.is_hidden), bool(style.is_white)
        style = self.styles.find("text", style_name)
        is_hidden = hidden if style.is_hidden is None else style.is_hidden
        return is_hidden, white if style.is_white is None else style.is_white

    def _find_objects(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in _OBJECTS:
            self.on_object(name)
        elif name in _SHAPES:
            fill, stroke = self._fill_and_stroke(attributes)
            if not fill == stroke == "none":
                self.on_object(name)
        elif name == "draw:frame":
            fill, stroke = self._fill_and_stroke(attributes)
            if stroke not in _NONE or fill not in _NONE:
                self.on_object(name)
        elif name == "draw:image" and (target := attributes.get(_XLINK_HREF)):
            part = target.removeprefix("./")
            if ":" in part or part.startswith(("/", "../")):
                self.on_object(name)  # outside the package
            self.pictures.append(part)
        elif name == "table:table-cell":
            style = self.styles.find("table-cell", attributes.get(TABLE + "style-name"))
            if style.has_border or style.has_ground:
                self.on_object(name)

    def _fill_and_stroke(self, attributes: Mapping[str, str]) -> tuple[str, str]:
        """Return fill and line of a shape as far as its automatic styles state them."""
        fill = stroke = ""
        for family, key in (("graphic", _DRAW + "style-name"), ("presentation", PRESENTATION + "style-name")):
            style = self.styles.find(family, attributes.get(key))
            fill, stroke = style.fill or fill, style.stroke or stroke
            if style.has_border:
                stroke = "solid"
        return fill, stroke


def has_document_ink(document: ZipDocument, ink: ContentInk) -> bool:
    """Whether the content of a checked document shows anything. White text counts as soon as anything is coloured."""
    document = document.with_new_budget()
    document.read(CONTENT, ink)
    if ink.has_ink or any(document.is_picture_visible(name) for name in dict.fromkeys(ink.pictures)):
        return True
    if not ink.has_white_text:
        return False
    common = _CommonStyles()
    if not ink.styles.has_ground:
        document.read("styles.xml", common)
    return ink.styles.has_ground or common.styles.has_ground


class _CommonStyles(XmlTarget):
    """The styles of a part that has nothing else."""

    def __init__(self) -> None:
        self.styles = Styles()

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self.styles.start(_short_name(tag), attributes)


def _short_name(tag: str) -> str:
    """Return `text:p` for `{…text:1.0}p`. Unknown namespaces have the prefix `?`."""
    namespace, brace, local = tag.rpartition("}")
    return f"{_PREFIXES.get(namespace + brace, '?')}:{local}"
