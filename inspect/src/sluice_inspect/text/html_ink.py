"""Whether an HTML page shows anything, judged as a browser reads it, without scripts and without loading."""
# Elements that draw something are visible, and text that is neither hidden nor white, unless scripts or a coloured
# background might bring it out. In doubt a page shows something: scripts that write to it, frames, other files.

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from lxml import etree

from sluice_inspect.budget import Deadline
from sluice_inspect.images.embedded import inline_is_blank
from sluice_inspect.report import Limits
from sluice_inspect.text.plaintext import INVISIBLE
from sluice_inspect.text.xmlsafe import StopParsing

_TEXT_NOT_SHOWN: Final = frozenset({"script", "style", "title", "template"})
_DRAWN: Final = frozenset(
    """
    applet button canvas embed fieldset frame hr iframe keygen li math meter object progress select summary textarea
    video
    """.split()  # noqa: SIM905  (a list of names)
)
_DRAWN_IN_SVG: Final = frozenset(
    {"circle", "ellipse", "image", "line", "path", "polygon", "polyline", "rect", "text", "use", "foreignobject"}
)
# All others draw nothing, hide nothing and lead nowhere if they have no attributes.
_TELLING_WITHOUT_ATTRIBUTES: Final = (
    _TEXT_NOT_SHOWN | _DRAWN | _DRAWN_IN_SVG | {"audio", "font", "img", "input", "link", "meta", "table"}
)
# Scripts with these words may write to the page or leave it, or are there to be read.
_ACTIVE_SCRIPT: Final = re.compile(
    r"document|window|innerHTML|location|import\b|fetch|alert|\$\(|React|Vue|eval|atob|console|function|class\b|=>",
    re.IGNORECASE,
)
_SCRIPT_MAX: Final = 200  # characters; the effect of a longer script is unknown
_HIDES: Final = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)"
    r"|opacity\s*:\s*0*(?:\.0*)?(?:;|\s|!|$)|font-size\s*:\s*0+(?:\.0*)?[a-z%]*\s*(?:;|!|$)",
    re.IGNORECASE,
)
_COLOUR: Final = re.compile(r"(?:^|[;\s{])color\s*:\s*([^;}!]+)", re.IGNORECASE)
_BACKGROUND: Final = re.compile(r"background(?:-color|-image)?\s*:\s*([^;}!]+)", re.IGNORECASE)
_BORDER: Final = re.compile(r"(?:border|outline)(?:-[a-z]+)*\s*:\s*([^;}!]+)", re.IGNORECASE)
_GENERATED_TEXT: Final = re.compile(r"""content\s*:\s*(?!\s*(?:none|normal|""|''))\S""", re.IGNORECASE)
_WHITE: Final = re.compile(
    r"white|#fff(?:f{3})?|rgba?\(\s*255\s*,\s*255\s*,\s*255\s*(?:,\s*1(?:\.0)?\s*)?\)", re.IGNORECASE
)
_NO_BACKGROUND: Final = re.compile(
    r"(?:\s|none|transparent|inherit|initial|unset|no-repeat|scroll|0%?"
    rf"|{_WHITE.pattern}|rgba\((?:[^,)]*,){{3}}\s*0(?:\.0+)?\s*\))*",
    re.IGNORECASE,
)
_NO_BORDER: Final = re.compile(
    r"\s*(?:none|hidden|0(?:px|em|rem|pt)?|inherit|initial|unset|collapse|separate|0(?:px)?\s+\S+.*|\d+px\s*)\s*",
    re.IGNORECASE,
)
_EXTERNAL_ADDRESS: Final = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
_ELEMENTS_PER_DEADLINE_CHECK: Final = 4096
_CDATA: Final = "<![CDATA["
_FEED_CHARACTERS: Final = 64 * 1024


def has_visible_html(text: Iterable[str], limits: Limits) -> bool:
    """Return whether a page, given in pieces, shows anything to a reader."""
    finder = _VisibleFinder(limits)
    parser = etree.HTMLParser(
        target=finder,  # type: ignore[arg-type]  # the stubs ask for all events; lxml takes any of them
        encoding="utf-8",
        no_network=True,
        huge_tree=False,
    )
    try:
        for piece in text:
            # A CDATA section is text where the page is read as XML, and nothing where it is read as HTML.
            if _CDATA in piece:
                return True
            for start in range(0, len(piece), _FEED_CHARACTERS):
                parser.feed(piece[start : start + _FEED_CHARACTERS].encode("utf-8", "replace"))
        parser.close()
    except StopParsing:
        return True
    except etree.XMLSyntaxError:  # an empty page
        return False
    return finder.may_show_hidden


class _HtmlElement(NamedTuple):
    tag: str
    hidden: bool
    white: bool


_OUTSIDE: Final = _HtmlElement("", hidden=False, white=False)


class _VisibleFinder:
    """Receives the elements of a page and stops at the first that shows something."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._deadline = Deadline(limits.soft_seconds)
        self._elements = 0
        self._open: list[_HtmlElement] = []
        self._has_hidden = False
        self._has_script_or_style = False

    @property
    def may_show_hidden(self) -> bool:
        return self._has_hidden and self._has_script_or_style

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._elements += 1
        if self._elements % _ELEMENTS_PER_DEADLINE_CHECK == 0 and self._deadline.has_passed:
            raise StopParsing
        parent = self._open[-1] if self._open else _OUTSIDE
        if not attributes and tag not in _TELLING_WITHOUT_ATTRIBUTES:
            is_same = tag == parent.tag
            self._open.append(parent if is_same else _HtmlElement(tag, parent.hidden, parent.white))
            self._has_hidden |= parent.hidden
            return
        style = attributes.get("style", "")
        is_hidden = tag in _TEXT_NOT_SHOWN or "hidden" in attributes or _HIDES.search(style) is not None
        colour = _COLOUR.search(style)
        colour_text = colour[1] if colour else attributes.get("color") if tag == "font" else None
        is_white = parent.white if colour_text is None else _WHITE.fullmatch(colour_text.strip()) is not None
        self._open.append(_HtmlElement(tag, parent.hidden or is_hidden, is_white))

        self._has_script_or_style |= tag == "script"
        if tag in {"script", "meta", "link"}:
            if _leads_elsewhere(tag, attributes):
                raise StopParsing
        elif parent.hidden or is_hidden:
            self._has_hidden |= tag not in _TEXT_NOT_SHOWN
        elif self._is_drawn(tag, attributes, style):
            raise StopParsing

    def end(self, _tag: str) -> None:
        if self._open:
            self._open.pop()

    def data(self, text: str) -> None:
        element = self._open[-1] if self._open else _OUTSIDE
        if element.tag == "script" and (len(text) > _SCRIPT_MAX or _ACTIVE_SCRIPT.search(text)):
            raise StopParsing
        if element.tag == "style":
            # In doubt the rules of a style sheet apply to something.
            self._has_script_or_style = True
            if has_visible_box(text) or _GENERATED_TEXT.search(text) or "@import" in text:
                raise StopParsing
        elif element.tag not in _TEXT_NOT_SHOWN and text.strip(INVISIBLE):
            if not element.hidden and not element.white:
                raise StopParsing
            self._has_hidden = True

    def comment(self, _text: str) -> None:
        """Ignore a comment; lxml requires the method."""

    def close(self) -> None:
        """End the page; lxml requires the method."""

    def _is_drawn(self, tag: str, attributes: Mapping[str, str], style: str) -> bool:
        in_svg = tag in _DRAWN_IN_SVG and any(element.tag == "svg" for element in self._open)
        has_background = "background" in attributes or not _NO_BACKGROUND.fullmatch(attributes.get("bgcolor", ""))
        if tag in _DRAWN or in_svg or has_background or has_visible_box(style):
            return True
        match tag:
            case "table":
                return attributes.get("border", "0").strip() not in {"", "0"}
            case "audio":
                return "controls" in attributes
            case "input":
                return attributes.get("type", "").lower() != "hidden"
        return tag == "img" and self._is_visible_image(attributes)

    def _is_visible_image(self, attributes: Mapping[str, str]) -> bool:
        source = attributes.get("src") or attributes.get("srcset") or attributes.get("data-src", "")
        sides = [attributes.get(side, "").strip().removesuffix("px") for side in ("width", "height")]
        # Images of one pixel count visits; they show nothing but their text.
        if not source.strip() or "0" in sides or "1" in sides:
            return bool(attributes.get("alt", "").strip(INVISIBLE))
        return not inline_is_blank(source, self._limits)


def _leads_elsewhere(tag: str, attributes: Mapping[str, str]) -> bool:
    """Return whether an element of the head may bring something to the page, or lead to another."""
    match tag:
        case "script":
            return bool(attributes.get("src"))
        case "meta":
            return attributes.get("http-equiv", "").lower() == "refresh"
    is_style_sheet = "stylesheet" in attributes.get("rel", "").lower()
    return is_style_sheet and _EXTERNAL_ADDRESS.match(attributes.get("href", "")) is not None


def has_visible_box(style: str) -> bool:
    """Return whether a style paints a background other than white, or draws a border."""
    return any(not _NO_BACKGROUND.fullmatch(each) for each in _BACKGROUND.findall(style)) or any(
        not _NO_BORDER.fullmatch(each) for each in _BORDER.findall(style)
    )
