"""Does a drawing (SVG 1.1 and 2) leave ink? Hears its elements as they come; nothing is rendered. How XML is read is known by `xmlsafe`.

Attributes and `style` attributes are followed with their inheritance, where they say plainly that nothing is painted. Whatever could still
paint (style sheets, scripts, animations, filters, references) is in doubt ink.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sluice.formats.images.embedded import inline_is_blank
from sluice.formats.text.plaintext import INVISIBLE
from sluice.formats.text.xmlsafe import Enough, XmlTarget
from sluice.formats.verdict import Limits

NAMESPACE: Final = "http://www.w3.org/2000/svg"
_XLINK: Final = "{http://www.w3.org/1999/xlink}href"
_SHAPES: Final = frozenset(["path", "rect", "circle", "ellipse", "line", "polyline", "polygon"])
_IN_DOUBT: Final = frozenset(
    [
        "use",
        "script",
        "set",
        "animate",
        "animateTransform",
        "animateMotion",
        "animateColor",
        "glyph",
        "iframe",
        "video",
        "audio",
        "canvas",
        "tref",
    ]
)
_NEVER_SHOWN: Final = frozenset(
    [
        "clipPath", "cursor", "defs", "desc", "filter", "hatch", "linearGradient", "marker", "mask", "metadata", "pattern", "radialGradient",
        "solidcolor", "title", "view",
    ]
)  # fmt: skip
"""What is in them shows only where something else refers to it. Symbols are not here: a file of symbols is there to be referred to."""
_PAINTS: Final = frozenset(["fill", "stroke"])
_NO_PAINT: Final = re.compile(
    r"none|transparent|(?:rgb|hsl)a?\((?:(?:[^,)]*,){3}|[^/)]*/)\s*(?:0+\.?0*|\.0+)%?\s*\)|#[0-9a-f]{3}0|#[0-9a-f]{6}00",
    re.IGNORECASE,
)
"""Colours whose fourth number, the opacity, is zero: in the third, zero is a colour as any."""
_PLAIN: Final = re.compile(r"[a-z]+|#[0-9a-f]{3,8}|(?:rgb|hsl)a?\([^)]*\)", re.IGNORECASE)
"""A paint that is one colour."""
_ZERO: Final = re.compile(r"[+-]?0*\.?0*(?:e[+-]?\d+)?(?:%|[a-z]+)?", re.IGNORECASE)
_DIGIT: Final = re.compile(r"\d")
_LENGTH: Final = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\s*(%|px|[a-z]*)\s*", re.IGNORECASE)
_DRAWN_TO: Final = re.compile(r"[lhvcsqtaz]|m[^a-z]*?\d[\s,+.-]+\d+\S*[\s,]+\S*\d[\s,+.-]+\S*\d", re.IGNORECASE)
"""A path that leads from one point to another; points behind the first of a move are lines."""


@dataclass(frozen=True, slots=True)
class _Style:
    """What an element inherits and hands on."""

    skipped: bool = False
    hidden: bool = False
    clear: bool = False
    """It, or what it is in, has no opacity at all or is not displayed."""
    fill: str = "black"
    stroke: str = "none"
    fill_clear: bool = False
    stroke_clear: bool = False
    is_text: bool = False
    foreign: bool = False


class InkTarget(XmlTarget):
    """Has enough at the first thing that may leave ink."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: list[_Style] = []
        self._canvas: tuple[float, float, float, float] | None = None
        self._styled = False
        self._unseen = False
        self._sheet = False

    @property
    def may_show(self) -> bool:
        """Whether a style sheet may show what is not painted without it."""
        return self._styled and self._unseen

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open an element. Raises `Enough` when it leaves ink, or may."""
        name = tag.removeprefix(f"{{{NAMESPACE}}}")
        if not self._open:
            self._canvas = _canvas_of(attributes)
        before = self._open[-1] if self._open else _Style()
        if before.foreign:
            raise Enough
        style = _styled(before, name, attributes)
        self._open.append(style)
        self._styled |= name == "style"
        if name in _IN_DOUBT and not (style.skipped and name == "use"):
            raise Enough
        if style.skipped:
            return
        if "filter" in attributes or "filter" in attributes.get("style", ""):
            raise Enough
        if name in _SHAPES and self._leaves_ink(name, attributes, style):
            raise Enough
        if name == "image" and not (style.clear or style.hidden) and self._picture_shows(attributes):
            raise Enough

    def end(self, _tag: str) -> None:
        """Close an element."""
        self._open.pop()

    def data(self, text: str) -> None:
        """Take a piece of text."""
        style = self._open[-1] if self._open else _Style()
        if style.foreign and text.strip(INVISIBLE):
            raise Enough
        if style.is_text and not style.skipped and text.strip(INVISIBLE):
            if _paints(style):
                raise Enough
            self._unseen = True

    def pi(self, target: str, _data: str | None = None) -> None:
        """Take a processing instruction: a style sheet from elsewhere may paint."""
        self._styled |= target == "xml-stylesheet"

    def _leaves_ink(self, name: str, attributes: Mapping[str, str], style: _Style) -> bool:
        if not _has_extent(name, attributes):
            return False
        if not _paints(style, only_stroke=name == "line"):
            self._unseen = True
            return False
        if name == "rect" and self._is_ground(attributes, style):
            self._unseen |= "class" in attributes
            return False
        return True

    def _is_ground(self, attributes: Mapping[str, str], style: _Style) -> bool:
        """Whether a rectangle does no more than colour the whole canvas evenly."""
        if _strokes(style) or "transform" in attributes or len(self._open) != 2 or not _PLAIN.fullmatch(style.fill):  # noqa: PLR2004  (in the root)
            return False
        sides = attributes.get("width", ""), attributes.get("height", "")
        if all(side.strip() == "100%" for side in sides) and not {"x", "y"} & set(attributes):
            return True
        if self._canvas is None:
            return False
        left, top, width, height = self._canvas
        x, y, across, down = (_number(attributes.get(key, "0")) for key in ("x", "y", "width", "height"))
        if None in {x, y, across, down} or x is None or y is None or across is None or down is None:
            return False
        return x <= left and y <= top and x + across >= left + width and y + down >= top + height

    def _picture_shows(self, attributes: Mapping[str, str]) -> bool:
        address = attributes.get("href", attributes.get(_XLINK, "")).strip()
        sides = [attributes[side] for side in ("width", "height") if side in attributes]
        return bool(address) and not any(_is_zero(side) for side in sides) and not inline_is_blank(address, self._limits)


def _styled(before: _Style, name: str, attributes: Mapping[str, str]) -> _Style:
    """Answer what an element is painted with: its own words, those of its `style` before all, and what it inherits."""
    own = dict(attributes)
    for declaration in attributes.get("style", "").split(";"):
        word, colon, value = declaration.partition(":")
        if colon:
            own[word.strip().lower()] = value.replace("!important", "").strip()
    own = {word: value.strip() for word, value in own.items()}
    return _Style(
        skipped=before.skipped or name in _NEVER_SHOWN or name.startswith("{"),
        hidden=_hidden(own.get("visibility", ""), before=before.hidden),
        clear=before.clear
        or own.get("display") == "none"
        or _is_zero(own.get("opacity", "1"))
        or _is_zero(own.get("font-size", "1")),
        fill=_paint(own.get("fill"), before.fill),
        stroke=_paint(own.get("stroke"), before.stroke),
        fill_clear=_is_zero(own["fill-opacity"]) if "fill-opacity" in own else before.fill_clear,
        stroke_clear=_is_zero(own["stroke-opacity"]) or _is_zero(own.get("stroke-width", "1"))
        if "stroke-opacity" in own
        else (_is_zero(own["stroke-width"]) if "stroke-width" in own else before.stroke_clear),
        is_text=before.is_text or name == "text",
        foreign=name == "foreignObject" and not before.skipped,
    )


def _hidden(value: str, *, before: bool) -> bool:
    return value in {"hidden", "collapse"} if value in {"hidden", "collapse", "visible"} else before


def _paint(value: str | None, before: str) -> str:
    return before if value is None or value in {"", "inherit"} else value


def _paints(style: _Style, *, only_stroke: bool = False) -> bool:
    if style.clear or style.hidden:
        return False
    return _strokes(style) or not (only_stroke or style.fill_clear or _NO_PAINT.fullmatch(style.fill))


def _strokes(style: _Style) -> bool:
    return not (style.stroke_clear or _NO_PAINT.fullmatch(style.stroke))


def _has_extent(name: str, attributes: Mapping[str, str]) -> bool:
    """Whether a shape has a size at all. Sizes that style sheets give are none here, as SVG 1.1 has it, unless a sheet might name them."""
    match name:
        case "path":
            return _DRAWN_TO.search(attributes.get("d", "")) is not None
        case "rect":
            return (
                not any(_is_zero(attributes.get(side, "0")) for side in ("width", "height"))
                or "style" in attributes
                or "class" in attributes
            )
        case "circle" | "ellipse":
            sizes = [attributes[key] for key in ("r", "rx", "ry") if key in attributes]
            return (bool(sizes) and not any(_is_zero(size) for size in sizes)) or "style" in attributes or "class" in attributes
        case "polyline" | "polygon":
            return len(_DIGIT.findall(attributes.get("points", ""))) > 2  # noqa: PLR2004  (two numbers are one point)
    return True


def _is_zero(value: str) -> bool:
    return value.strip() != "" and _ZERO.fullmatch(value.strip()) is not None and any(letter == "0" for letter in value)


def _number(value: str) -> float | None:
    found = _LENGTH.fullmatch(value)
    return float(found[1]) if found and found[2].lower() in {"", "px"} else None


def _canvas_of(attributes: Mapping[str, str]) -> tuple[float, float, float, float] | None:
    """Answer left, top, width and height of the canvas in the units of its shapes, None where they are not stated in those."""
    numbers = [_number(part) for part in attributes.get("viewBox", "").replace(",", " ").split()]
    if not numbers:
        numbers = [0.0, 0.0, _number(attributes.get("width", "")), _number(attributes.get("height", ""))]
    known = [number for number in numbers if number is not None]
    return (known[0], known[1], known[2], known[3]) if len(known) == len(numbers) == 4 else None  # noqa: PLR2004  (of a rectangle)
