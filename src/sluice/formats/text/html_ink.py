"""Does a web page show anything? Looks through HTML as a browser reads it, without running scripts or loading anything. Judges no syntax.

What a reader sees is text, and elements that draw something by themselves. Hidden and white text is none, unless scripts or a coloured
ground might bring it out. In doubt a page shows something: scripts that may write it, frames, other files that are named as its source.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from lxml import etree

from sluice.formats.budget import Deadline
from sluice.formats.images.embedded import inline_is_blank
from sluice.formats.text.plaintext import INVISIBLE
from sluice.formats.text.xmlsafe import Enough
from sluice.formats.verdict import Limits

_NO_TEXT: Final = frozenset({"script", "style", "title", "template"})
_DRAWN: Final = frozenset(
    [
        "applet",
        "button",
        "canvas",
        "embed",
        "fieldset",
        "frame",
        "hr",
        "iframe",
        "keygen",
        "li",
        "math",
        "meter",
        "object",
        "progress",
        "select",
        "summary",
        "textarea",
        "video",
    ]
)
_SVG_DRAWN: Final = frozenset(
    ["circle", "ellipse", "image", "line", "path", "polygon", "polyline", "rect", "text", "use", "foreignobject"]
)
_OF_SCRIPTS: Final = re.compile(
    r"document|window|innerHTML|location|import\b|fetch|alert|\$\(|React|Vue|eval|atob|console|function|class\b|=>", re.IGNORECASE
)
"""What scripts say that may write to the page or leave it, or are there to be read."""
_SCRIPT_MOST: Final = 200
"""Characters of a script beyond which what it does is in doubt."""
_HIDES: Final = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|opacity\s*:\s*0*(?:\.0*)?(?:;|\s|!|$)|font-size\s*:\s*0+(?:\.0*)?[a-z%]*\s*(?:;|!|$)",
    re.IGNORECASE,
)
_COLOUR: Final = re.compile(r"(?:^|[;\s{])color\s*:\s*([^;}!]+)", re.IGNORECASE)
_GROUND: Final = re.compile(r"background(?:-color|-image)?\s*:\s*([^;}!]+)", re.IGNORECASE)
_EDGE: Final = re.compile(r"(?:border|outline)(?:-[a-z]+)*\s*:\s*([^;}!]+)", re.IGNORECASE)
_ADDED: Final = re.compile(r"""content\s*:\s*(?!\s*(?:none|normal|""|''))\S""", re.IGNORECASE)
_WHITE: Final = re.compile(r"white|#fff(?:f{3})?|rgba?\(\s*255\s*,\s*255\s*,\s*255\s*(?:,\s*1(?:\.0)?\s*)?\)", re.IGNORECASE)
_NO_GROUND: Final = re.compile(
    rf"(?:\s|none|transparent|inherit|initial|unset|no-repeat|scroll|0%?|{_WHITE.pattern}|rgba\((?:[^,)]*,){{3}}\s*0(?:\.0+)?\s*\))*",
    re.IGNORECASE,
)
_NO_EDGE: Final = re.compile(
    r"\s*(?:none|hidden|0(?:px|em|rem|pt)?|inherit|initial|unset|collapse|separate|0(?:px)?\s+\S+.*|\d+px\s*)\s*", re.IGNORECASE
)
_ABROAD: Final = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
_LOOK_AT_CLOCK: Final = 4096
_CDATA: Final = "<![CDATA["
"""Text where the page is read as XML, and nothing where it is read as HTML."""
_FEED: Final = 64 * 1024


def html_shows(text: Iterable[str], limits: Limits) -> bool:
    """Whether a page, given in pieces, shows anything to a reader."""
    ink = _Ink(limits)
    parser = etree.HTMLParser(target=ink, encoding="utf-8", no_network=True, huge_tree=False)  # type: ignore[arg-type]  # as in `xmlsafe`
    try:
        for piece in text:
            ink.raw(piece)
            for start in range(0, len(piece), _FEED):
                parser.feed(piece[start : start + _FEED].encode("utf-8", "replace"))
        parser.close()
    except Enough:
        return True
    except etree.XMLSyntaxError:  # an empty page
        return False
    return ink.has_doubt


class _Ink:
    """Hears the elements of a page until one shows something."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._deadline = Deadline(limits.soft_seconds)
        self._elements = 0
        self._open: list[tuple[str, bool, bool]] = []
        """Name of each open element, whether what is in it is hidden, and whether it is white."""
        self._styles: list[str] = []
        self._found_unseen = False
        self._may_change = False

    @property
    def has_doubt(self) -> bool:
        """Whether there is hidden or white text that a script or a style may show."""
        return self._found_unseen and self._may_change

    def raw(self, text: str) -> None:
        """Take a piece of the page as it is written."""
        if _CDATA in text:
            raise Enough

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open an element."""
        self._elements += 1
        if self._elements % _LOOK_AT_CLOCK == 0 and self._deadline.has_passed:
            raise Enough
        _, hidden, white = self._open[-1] if self._open else ("", False, False)
        style = attributes.get("style", "")
        hidden = hidden or tag in _NO_TEXT or "hidden" in attributes or _HIDES.search(style) is not None
        white = _is_white(attributes.get("color") if tag == "font" else None, style, inherited=white)
        self._open.append((tag, hidden, white))
        self._may_change |= tag == "script"
        if tag in {"script", "meta", "link"}:
            _see_machinery(tag, attributes)
        elif not hidden:
            self._see(tag, attributes, style)
        elif tag not in _NO_TEXT:
            self._found_unseen = True

    def end(self, _tag: str) -> None:
        """Close an element."""
        if self._open:
            self._open.pop()

    def data(self, text: str) -> None:
        """Take a piece of text."""
        tag, hidden, white = self._open[-1] if self._open else ("", False, False)
        if tag == "script" and (len(text) > _SCRIPT_MOST or _OF_SCRIPTS.search(text)):
            raise Enough
        if tag == "style":
            self._see_style(text)
        elif tag not in _NO_TEXT and text.strip(INVISIBLE):
            if not hidden and not white:
                raise Enough
            self._found_unseen = True

    def comment(self, _text: str) -> None:
        """Take a comment, which nobody sees."""

    def close(self) -> None:
        """End the page."""

    def _see(self, tag: str, attributes: Mapping[str, str], style: str) -> None:
        """Take an element that is not hidden. Raises `Enough` when it draws something."""
        if tag in _DRAWN or (tag in _SVG_DRAWN and any(name == "svg" for name, _, _ in self._open)):
            raise Enough
        if draws(style) or "background" in attributes or not _NO_GROUND.fullmatch(attributes.get("bgcolor", "")):
            raise Enough
        if tag == "table" and attributes.get("border", "0").strip() not in {"", "0"}:
            raise Enough
        if (tag == "audio" and "controls" in attributes) or (tag == "input" and attributes.get("type", "").lower() != "hidden"):
            raise Enough
        if tag == "img" and self._picture_shows(attributes):
            raise Enough

    def _see_style(self, text: str) -> None:
        """Take a style sheet: in doubt, its rules apply to something."""
        self._may_change = True
        if draws(text) or _ADDED.search(text) or "@import" in text:
            raise Enough

    def _picture_shows(self, attributes: Mapping[str, str]) -> bool:
        source = attributes.get("src") or attributes.get("srcset") or attributes.get("data-src", "")
        if not source.strip() or any(_is_dot(attributes.get(side, "")) for side in ("width", "height")):
            return bool(attributes.get("alt", "").strip(INVISIBLE))
        return not inline_is_blank(source, self._limits)


def _see_machinery(tag: str, attributes: Mapping[str, str]) -> None:
    """Take what stands in the head of a page. Raises `Enough` where it may bring something to the page or lead to another."""
    refreshes = tag == "meta" and attributes.get("http-equiv", "").lower() == "refresh"
    styles = tag == "link" and "stylesheet" in attributes.get("rel", "").lower() and _ABROAD.match(attributes.get("href", ""))
    if refreshes or styles or (tag == "script" and attributes.get("src")):
        raise Enough


def draws(style: str) -> bool:
    """Answer whether a style lays a ground other than white, or draws an edge."""
    grounds, edges = _GROUND.findall(style), _EDGE.findall(style)
    return any(not _NO_GROUND.fullmatch(each) for each in grounds) or any(not _NO_EDGE.fullmatch(each) for each in edges)


def _is_white(attribute: str | None, style: str, *, inherited: bool) -> bool:
    found = _COLOUR.search(style)
    colour = found[1] if found else attribute
    return inherited if colour is None else _WHITE.fullmatch(colour.strip()) is not None


def _is_dot(length: str) -> bool:
    return length.strip().removesuffix("px") in {"0", "1"}
