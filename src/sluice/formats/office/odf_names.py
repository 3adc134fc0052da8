"""Names of elements and attributes in OpenDocument, and what the automatic styles of a document say of its look. Reads no package."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_STEM: Final = "{urn:oasis:names:tc:opendocument:xmlns:"
FO: Final = _STEM + "xsl-fo-compatible:1.0}"
DRAW: Final = _STEM + "drawing:1.0}"
OFFICE: Final = _STEM + "office:1.0}"
PRESENTATION: Final = _STEM + "presentation:1.0}"
STYLE: Final = _STEM + "style:1.0}"
TABLE: Final = _STEM + "table:1.0}"
TEXT: Final = _STEM + "text:1.0}"
XLINK_HREF: Final = "{http://www.w3.org/1999/xlink}href"

_PREFIXES: Final = {
    FO: "fo", DRAW: "draw", OFFICE: "office", PRESENTATION: "presentation", STYLE: "style", TABLE: "table", TEXT: "text",
    _STEM + "svg-compatible:1.0}": "svg", _STEM + "dr3d:1.0}": "dr3d", _STEM + "meta:1.0}": "meta",
    "{http://purl.org/dc/elements/1.1/}": "dc", "{http://www.w3.org/1998/Math/MathML}": "math",
}  # fmt: skip
_NO_GROUND: Final = frozenset({"", "transparent", "none", "#ffffff"})
_WHITE: Final = "#ffffff"
_BORDERS: Final = tuple(FO + name for name in ("border", "border-left", "border-right", "border-top", "border-bottom"))


@dataclass(slots=True)
class Look:
    """What one style says; None and empty where it says nothing."""

    parent: str = ""
    is_white: bool | None = None
    is_hidden: bool | None = None
    has_border: bool = False
    has_ground: bool = False
    fill: str = ""
    stroke: str = ""
    is_off: bool = False
    """Of a sheet: not displayed."""
    is_conditional: bool = False

    def add(self, attributes: Mapping[str, str]) -> None:
        """Take the attributes of one of its elements of properties."""
        if (colour := attributes.get(FO + "color")) is not None:
            self.is_white = colour.lower() == _WHITE
        if (display := attributes.get(TEXT + "display")) is not None:
            self.is_hidden = display == "none"
        self.has_border |= any("none" not in attributes.get(name, "none") for name in _BORDERS)
        self.has_ground |= attributes.get(FO + "background-color", "").lower() not in _NO_GROUND
        self.fill = attributes.get(DRAW + "fill", self.fill)
        self.stroke = attributes.get(DRAW + "stroke", self.stroke)
        self.is_off |= attributes.get(TABLE + "display") == "false"


_PLAIN: Final = Look()


class Styles:
    """The automatic styles of one part, by family and name."""

    def __init__(self) -> None:
        self._looks: dict[tuple[str, str], Look] = {}
        self._open: Look | None = None
        self.has_ground = False
        """Whether any style colours what lies behind text."""

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take the start of any element."""
        if name == "style:style":
            self._open = Look(parent=attributes.get(STYLE + "parent-style-name", ""))
            self._looks[attributes.get(STYLE + "family", ""), attributes.get(STYLE + "name", "")] = self._open
        elif name == "style:map" and self._open is not None:
            self._open.is_conditional = True
        elif name.endswith("-properties"):
            look = self._open or Look()
            look.add(attributes)
            self.has_ground |= look.has_ground or look.fill not in {"", "none"}

    def end(self, name: str) -> None:
        """Take the end of any element."""
        if name == "style:style":
            self._open = None

    def look(self, family: str, name: str | None) -> Look:
        """Answer a style; one that says nothing when it is not among them."""
        return self._looks.get((family, name or ""), _PLAIN)


def short_name(tag: str) -> str:
    """Answer `text:p` for `{…text:1.0}p`; unknown namespaces have the prefix `?`."""
    namespace, brace, local = tag.rpartition("}")
    return f"{_PREFIXES.get(namespace + brace, '?')}:{local}"
