"""SVG 1.1 and 2: one well-formed document within the limits of `text/xmlsafe.py` whose root is a drawing."""
# Old drawing programs write a DOCTYPE with entities; nothing outside of the file is loaded. Blank when no element
# leaves ink, judged one by one with inherited attributes. Whatever could still paint (style sheets, scripts,
# animations, filters, references) counts as ink.

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.texts import MarkupReader, measure_markup
from sluice_inspect.format import Examination, Family, Format
from sluice_inspect.images.embedded import inline_is_blank
from sluice_inspect.report import Corrupt, FactSheet, Limits
from sluice_inspect.source import Source
from sluice_inspect.subject import Subject
from sluice_inspect.text.plaintext import INVISIBLE
from sluice_inspect.text.xml_declarations import DeclarationReader
from sluice_inspect.text.xmlsafe import StopParsing, XmlTarget, parse_xml

_NAMESPACE: Final = "http://www.w3.org/2000/svg"
_XLINK: Final = "{http://www.w3.org/1999/xlink}href"
_DETAIL_MAX: Final = 200

_SHAPES: Final = frozenset({"path", "rect", "circle", "ellipse", "line", "polyline", "polygon"})
_MARKED: Final = frozenset({"path", "line", "polyline", "polygon"})
_MARKERS: Final = ("marker", "marker-start", "marker-mid", "marker-end")
_MAY_PAINT: Final = frozenset(
    """
    use script set animate animateTransform animateMotion animateColor glyph iframe video audio canvas tref
    """.split()  # noqa: SIM905  (a list of names)
)
# What is in these shows only where something else refers to it. Symbols are not here: a file of symbols is there to be
# referred to.
_NEVER_SHOWN: Final = frozenset(
    """
    clipPath cursor defs desc filter hatch linearGradient marker mask metadata pattern radialGradient solidcolor title
    view
    """.split()  # noqa: SIM905  (a list of names)
)
# Colours whose fourth number, the opacity, is zero: as the third, zero is a colour like any.
_NO_PAINT: Final = re.compile(
    r"none|transparent|(?:rgb|hsl)a?\((?:(?:[^,)]*,){3}|[^/)]*/)\s*(?:0+\.?0*|\.0+)%?\s*\)"
    r"|#[0-9a-f]{3}0|#[0-9a-f]{6}00",
    re.IGNORECASE,
)
_SINGLE_COLOUR: Final = re.compile(r"[a-z]+|#[0-9a-f]{3,8}|(?:rgb|hsl)a?\([^)]*\)", re.IGNORECASE)
_ZERO: Final = re.compile(r"[+-]?0*\.?0*(?:e[+-]?\d+)?(?:%|[a-z]+)?", re.IGNORECASE)
_DIGIT: Final = re.compile(r"\d")
_LENGTH: Final = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(%|px|[a-z]*)\s*", re.IGNORECASE)
# A path that leads from one point to another. Points after the first of a move are lines (SVG 1.1 section 8.3.2).
_HAS_SEGMENT: Final = re.compile(r"[lhvcsqtaz]|m[^a-z]*?\d[\s,+.-]+\d+\S*[\s,]+\S*\d[\s,+.-]+\S*\d", re.IGNORECASE)


def _examine(source: Source, limits: Limits) -> Examination:
    # One pass for the check and for the facts and flags.
    sheet = FactSheet()
    reader = _DrawingReader(sheet, Deadline(limits.soft_seconds), is_drawing=True)
    declarations = DeclarationReader("the drawing")
    parse_xml(source.open(), limits, target=reader, declarations=declarations, where="the drawing")
    reader.add_size()
    external = len(declarations.external)
    measures = {"elements": reader.elements} | ({"external_entities": external} if external else {})

    def blank() -> str | None:
        ink = _InkFinder(limits)
        read_all = parse_xml(source.open(), limits, target=ink)
        return "nothing in the drawing leaves ink" if read_all and not ink.sheet_may_show else None

    return Examination(measures, blank, sheet)


class _DrawingReader(MarkupReader):
    def begin(self, tag: str) -> None:
        if (name := tag.rpartition("}")[2]) != "svg":
            raise Corrupt(f"the document is no drawing: its root is {name}"[:_DETAIL_MAX])


def _facts(subject: Subject, sheet: FactSheet) -> None:
    if "elements" not in subject.measures:  # else they were measured with it
        measure_markup(subject, sheet, is_drawing=True)


@dataclass(frozen=True, slots=True)
class _Style:
    skipped: bool = False
    hidden: bool = False
    clear: bool = False  # it, or an element around it, has no opacity at all or is not displayed
    fill: str = "black"
    stroke: str = "none"
    fill_clear: bool = False
    stroke_clear: bool = False
    is_text: bool = False
    foreign: bool = False
    has_marker: bool = False
    no_font: bool = False

    @property
    def has_stroke(self) -> bool:
        return not (self.stroke_clear or _NO_PAINT.fullmatch(self.stroke))

    @property
    def has_fill(self) -> bool:
        return not (self.fill_clear or _NO_PAINT.fullmatch(self.fill))


class _InkFinder(XmlTarget):
    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: list[_Style] = []
        self._canvas: tuple[float, float, float, float] | None = None
        self._has_style_sheet = False
        self._has_unpainted = False

    @property
    def sheet_may_show(self) -> bool:
        return self._has_style_sheet and self._has_unpainted

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        name = tag.removeprefix(f"{{{_NAMESPACE}}}")
        if not self._open:
            self._canvas = _canvas_of(attributes)
        inherited = self._open[-1] if self._open else _Style()
        if inherited.foreign:
            raise StopParsing
        style = _style_of(name, attributes, inherited)
        self._open.append(style)
        self._has_style_sheet |= name == "style"
        if name in _MAY_PAINT and not (style.skipped and name == "use"):
            raise StopParsing
        if style.skipped:
            return
        if "filter" in attributes or "filter" in attributes.get("style", ""):
            raise StopParsing
        if name in _SHAPES and self._has_ink(name, attributes, style):
            raise StopParsing
        if name == "image" and not (style.clear or style.hidden):
            address = attributes.get("href", attributes.get(_XLINK, "")).strip()
            is_flat = any(_is_zero(attributes[side]) for side in ("width", "height") if side in attributes)
            if address and not is_flat and not inline_is_blank(address, self._limits):
                raise StopParsing

    def end(self, _tag: str) -> None:
        self._open.pop()

    def data(self, text: str) -> None:
        style = self._open[-1] if self._open else _Style()
        if style.foreign and text.strip(INVISIBLE):
            raise StopParsing
        if style.is_text and not style.skipped and text.strip(INVISIBLE):
            if _is_painted(style) and not style.no_font:
                raise StopParsing
            self._has_unpainted = True

    def pi(self, target: str, _data: str | None = None) -> None:
        # <?xml-stylesheet?> names a style sheet elsewhere, which may paint.
        self._has_style_sheet |= target == "xml-stylesheet"

    def _has_ink(self, name: str, attributes: Mapping[str, str], style: _Style) -> bool:
        # Markers are drawn at the points of a path, whatever it paints itself.
        if style.has_marker and name in _MARKED and not (style.clear or style.hidden):
            return True
        if not _has_extent(name, attributes):
            return False
        if not _is_painted(style, stroke_only=name == "line"):
            self._has_unpainted = True
            return False
        if name == "rect" and self._is_background(attributes, style):
            self._has_unpainted |= "class" in attributes
            return False
        return True

    def _is_background(self, attributes: Mapping[str, str], style: _Style) -> bool:
        """Return whether a rectangle does no more than colour the whole canvas evenly."""
        is_plain = not style.has_stroke and "transform" not in attributes and _SINGLE_COLOUR.fullmatch(style.fill)
        if not is_plain or len(self._open) != 2:
            return False
        sides = attributes.get("width", ""), attributes.get("height", "")
        if all(side.strip() == "100%" for side in sides) and not {"x", "y"} & set(attributes):
            return True
        if self._canvas is None:
            return False
        left, top, canvas_width, canvas_height = self._canvas
        x, y, width, height = (_number(attributes.get(key, "0")) for key in ("x", "y", "width", "height"))
        if x is None or y is None or width is None or height is None:
            return False
        return x <= left and y <= top and x + width >= left + canvas_width and y + height >= top + canvas_height


def _style_of(name: str, attributes: Mapping[str, str], inherited: _Style) -> _Style:
    own = dict(attributes)
    for declaration in attributes.get("style", "").split(";"):  # wins over the attributes
        key, colon, value = declaration.partition(":")
        if colon:
            own[key.strip().lower()] = value.replace("!important", "").strip()
    own = {key: value.strip() for key, value in own.items()}

    hidden, stroke_clear = inherited.hidden, inherited.stroke_clear
    if own.get("visibility") in {"hidden", "collapse", "visible"}:
        hidden = own["visibility"] != "visible"
    if "stroke-opacity" in own:
        stroke_clear = _is_zero(own["stroke-opacity"]) or _is_zero(own.get("stroke-width", "1"))
    elif "stroke-width" in own:
        stroke_clear = _is_zero(own["stroke-width"])
    is_clear = own.get("display") == "none" or _is_zero(own.get("opacity", "1"))
    markers = [own[key] for key in _MARKERS if key in own]
    return _Style(
        skipped=inherited.skipped or name in _NEVER_SHOWN or name.startswith("{"),
        hidden=hidden,
        clear=inherited.clear or is_clear,
        fill=_paint(own.get("fill"), inherited.fill),
        stroke=_paint(own.get("stroke"), inherited.stroke),
        fill_clear=_is_zero(own["fill-opacity"]) if "fill-opacity" in own else inherited.fill_clear,
        stroke_clear=stroke_clear,
        is_text=inherited.is_text or name == "text",
        foreign=name == "foreignObject" and not inherited.skipped,
        has_marker=any(each != "none" for each in markers) if markers else inherited.has_marker,
        no_font=_is_zero(own["font-size"]) if "font-size" in own else inherited.no_font,
    )


def _paint(value: str | None, inherited: str) -> str:
    return inherited if value is None or value in {"", "inherit"} else value


def _is_painted(style: _Style, *, stroke_only: bool = False) -> bool:
    if style.clear or style.hidden:
        return False
    return style.has_stroke or (style.has_fill and not stroke_only)


def _has_extent(name: str, attributes: Mapping[str, str]) -> bool:
    may_be_styled = "style" in attributes or "class" in attributes
    match name:
        case "path":
            return _HAS_SEGMENT.search(attributes.get("d", "")) is not None
        case "rect":
            return may_be_styled or not any(_is_zero(attributes.get(side, "0")) for side in ("width", "height"))
        case "circle" | "ellipse":
            sizes = [attributes[key] for key in ("r", "rx", "ry") if key in attributes]
            return may_be_styled or (bool(sizes) and not any(map(_is_zero, sizes)))
        case "polyline" | "polygon":
            return len(_DIGIT.findall(attributes.get("points", ""))) > 2
    return True


def _is_zero(value: str) -> bool:
    return "0" in value and _ZERO.fullmatch(value.strip()) is not None


def _number(value: str) -> float | None:
    found = _LENGTH.fullmatch(value)
    return float(found[1]) if found and found[2].lower() in {"", "px"} else None


def _canvas_of(attributes: Mapping[str, str]) -> tuple[float, float, float, float] | None:
    """Return left, top, width and height of the canvas in the units of its shapes, None if not stated in those."""
    numbers = [_number(part) for part in attributes.get("viewBox", "").replace(",", " ").split()]
    if not numbers:
        numbers = [0.0, 0.0, _number(attributes.get("width", "")), _number(attributes.get("height", ""))]
    known = [number for number in numbers if number is not None]
    return (known[0], known[1], known[2], known[3]) if len(known) == len(numbers) == 4 else None


FORMAT: Final = Format(
    name="svg",
    family=Family.DRAWING,
    content_type="image/svg+xml",
    extensions=frozenset({"svg"}),
    examine=_examine,
    facts=_facts,
    sample=lambda: (
        b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><path d="M0 0L9 9" stroke="black"/></svg>\n'
    ),
    is_text=True,
)
