"""What leaves ink on the pages of an EPUB: XHTML and what is embedded in it. Which pages there are is known by the kind.

In doubt ink: forms, embedded players, drawings count by their mere presence.
"""

import posixpath
import re
from collections.abc import Mapping
from typing import Final

from sluice.formats.office.epub_parts import resolve
from sluice.formats.text.html_ink import draws
from sluice.formats.text.plaintext import INVISIBLE
from sluice.formats.text.xmlsafe import Enough, XmlTarget

_MUTED: Final = frozenset({"head", "script", "style", "template", "title", "desc", "metadata", "defs"})
_OBJECTS: Final = frozenset({
    "video", "audio", "object", "embed", "iframe", "canvas", "input", "select", "textarea", "button", "meter", "progress", "hr",
    "path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "use", "foreignObject",
})  # fmt: skip
_CELLS: Final = frozenset({"table", "td", "th"})
_HIDDEN: Final = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden")
_PAINTED: Final = re.compile(r"url\s*\(")
_XLINK_HREF: Final = "{http://www.w3.org/1999/xlink}href"

STYLE_PAINTS: Final = re.compile(rb"content\s*:\s*[\"'][^\"']|background[^;}]{0,200}url\s*\(")
"""What in a style sheet may put something on a page that its text does not hold."""


class PageInk(XmlTarget):
    """Looks through one page until it is clear that a reader sees something there; then `has_ink` is set and the reading ends.

    Pictures are not judged here: `pictures` holds the names of their parts.
    """

    def __init__(self, part: str) -> None:
        self.has_ink = False
        self.pictures: list[str] = []
        self.has_cells = False
        """Whether there is a table, whose lines a style sheet may draw."""
        self._folder = posixpath.dirname(part)
        self._depth = 0
        self._muted_from = 0

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open an element."""
        self._depth += 1
        if self._muted_from:
            return
        name, style = tag.rpartition("}")[2], attributes.get("style", "")
        if name in _MUTED or "hidden" in attributes or _HIDDEN.search(style):
            self._muted_from = self._depth
        elif name in _OBJECTS or _PAINTED.search(style) or draws(style):
            self._ink_seen()
        elif name in _CELLS:
            self.has_cells = True
        elif name in {"img", "image"}:
            self._picture_seen(attributes.get("src") or attributes.get(_XLINK_HREF) or attributes.get("href", ""))

    def end(self, _tag: str) -> None:
        """Close an element."""
        if self._muted_from == self._depth:
            self._muted_from = 0
        self._depth -= 1

    def data(self, text: str) -> None:
        """Take a piece of text."""
        if not self._muted_from and text.strip(INVISIBLE):
            self._ink_seen()

    def _picture_seen(self, target: str) -> None:
        if ":" in target:
            self._ink_seen()
        if target:
            self.pictures.append(resolve(self._folder, target))

    def _ink_seen(self) -> None:
        self.has_ink = True
        raise Enough
