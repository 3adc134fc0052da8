"""What leaves ink in the content of OpenDocument files: text, pictures, shapes, objects. What counts besides is known by the kinds.

Headers, footers and master pages stand in another part and are never read. In doubt ink: a shape counts unless its own style says that it
has neither line nor fill.
"""

from collections.abc import Mapping
from typing import Final

from sluice.formats.budget import Deadline
from sluice.formats.office.odf import CONTENT
from sluice.formats.office.odf_names import DRAW, PRESENTATION, TABLE, TEXT, XLINK_HREF, Styles, short_name
from sluice.formats.office.zip_documents import ZipDocument
from sluice.formats.text.plaintext import INVISIBLE
from sluice.formats.text.xmlsafe import Enough, XmlTarget

_PARAGRAPHS: Final = frozenset({"text:p", "text:h"})
_STATEFUL: Final = _PARAGRAPHS | {"text:span", "text:section"}
_MUTED: Final = frozenset({
    "dc:creator", "dc:date", "meta:date-string", "meta:creator-initials", "svg:title", "svg:desc", "text:note-citation", "text:placeholder",
})  # fmt: skip
"""Text within that no reader sees as such, or that is only a prompt."""
_OBJECTS: Final = frozenset({
    "draw:object", "draw:object-ole", "draw:plugin", "draw:applet", "draw:floating-frame", "draw:control", "dr3d:scene", "math:math",
    "office:binary-data", "table:data-pilot-table",
})  # fmt: skip
"""Ink by their mere presence."""
_SHAPES: Final = frozenset({
    "draw:rect", "draw:line", "draw:polyline", "draw:polygon", "draw:regular-polygon", "draw:path", "draw:circle", "draw:ellipse",
    "draw:connector", "draw:caption", "draw:measure", "draw:custom-shape",
})  # fmt: skip
_INSIDE: Final = "office:body"
_RULE: Final = "Horizontal_20_Line"
"""The style of the lines across the page that LibreOffice and its kin insert: one of the common styles, which are not read here."""
_LOOK_AT_CLOCK: Final = 10_000


class Ink(XmlTarget):
    """Looks through a content part until it is clear that a reader sees something there; then `has_ink` is set and the reading ends.

    Pictures are not judged here: `pictures` holds the names of their parts.
    """

    white_is_unseen = True
    """Whether white text is doubted: texts and sheets are white unless they say otherwise."""

    def __init__(self, soft_seconds: float) -> None:
        self.has_ink = False
        self.has_white_text = False
        self.pictures: list[str] = []
        self.styles = Styles()
        self.stack: list[str] = []
        self._short: dict[str, str] = {}
        self._states: list[tuple[bool, bool]] = [(False, False)]
        """Hidden and white, of the open paragraphs, spans and sections."""
        self._paragraphs = self._elements = self._muted_from = 0
        """`_muted_from`: how deep the element lies whose content does not count, 0 outside of any."""
        self._is_body = False
        self._deadline = Deadline(soft_seconds)

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open an element."""
        name = self._short.get(tag) or self._short.setdefault(tag, short_name(tag))
        self.stack.append(name)
        self._is_body |= name == _INSIDE
        if not self._is_body:
            self.styles.start(name, attributes)
            return
        self._elements += 1
        if self._elements % _LOOK_AT_CLOCK == 0 and self._deadline.has_passed:
            self.ink_seen()
        if name in _STATEFUL:
            self._states.append(self._state(name, attributes))
            self._paragraphs += name in _PARAGRAPHS
        if not self._muted_from and self.mutes(name, attributes):
            self._muted_from = len(self.stack)
        self.opened(name, attributes)
        if not self._muted_from:
            self._look_for_objects(name, attributes)

    def end(self, _tag: str) -> None:
        """Close an element."""
        if self._muted_from == len(self.stack):
            self._muted_from = 0
        name = self.stack.pop()
        if not self._is_body:
            self.styles.end(name)
            return
        self.closed(name)
        if name in _STATEFUL:
            self._states.pop()
            self._paragraphs -= name in _PARAGRAPHS

    def data(self, text: str) -> None:
        """Take a piece of text."""
        if self._paragraphs and not self._muted_from and text.strip(INVISIBLE):
            hidden, white = self._states[-1]
            if not hidden:
                self.text_seen(text, white=white and self.white_is_unseen)

    def mutes(self, name: str, attributes: Mapping[str, str]) -> bool:
        """Whether what is within an element does not count."""
        return name in _MUTED or (name == "text:hidden-text" and attributes.get(TEXT + "is-hidden") == "true")

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:
        """Take the start of any element in the body."""

    def closed(self, name: str) -> None:
        """Take the end of any element in the body."""

    def text_seen(self, _text: str, *, white: bool) -> None:
        """Take a piece of text that has visible characters."""
        if white:
            self.has_white_text = True
        else:
            self.ink_seen()

    def object_seen(self, _name: str) -> None:
        """Take an object or a shape that leaves ink."""
        self.ink_seen()

    def ink_seen(self) -> None:
        """Note that a reader sees something, and end the reading."""
        self.has_ink = True
        raise Enough

    def _state(self, name: str, attributes: Mapping[str, str]) -> tuple[bool, bool]:
        hidden, white = self._states[-1]
        if name == "text:section":
            return hidden or attributes.get(TEXT + "display") == "none", white
        look = self.styles.look("text" if name == "text:span" else "paragraph", attributes.get(TEXT + "style-name"))
        if name in _PARAGRAPHS:
            if look.has_border or look.has_ground or attributes.get(TEXT + "style-name") == _RULE:
                self.object_seen(name)
            return hidden or bool(look.is_hidden), bool(look.is_white)
        return (hidden if look.is_hidden is None else look.is_hidden), (white if look.is_white is None else look.is_white)

    def _look_for_objects(self, name: str, attributes: Mapping[str, str]) -> None:
        if name in _OBJECTS:
            self.object_seen(name)
        elif name in _SHAPES:
            fill, stroke = self._drawn(attributes)
            if not fill == stroke == "none":
                self.object_seen(name)
        elif name == "draw:frame":
            fill, stroke = self._drawn(attributes)
            if stroke not in {"", "none"} or fill not in {"", "none"}:
                self.object_seen(name)
        elif name == "draw:image" and (target := attributes.get(XLINK_HREF)):
            self._picture_seen(target)
        elif name == "table:table-cell":
            look = self.styles.look("table-cell", attributes.get(TABLE + "style-name"))
            if look.has_border or look.has_ground:
                self.object_seen(name)

    def _drawn(self, attributes: Mapping[str, str]) -> tuple[str, str]:
        """Answer fill and line of a shape as far as its automatic styles say."""
        fill = stroke = ""
        for family, key in (("graphic", DRAW + "style-name"), ("presentation", PRESENTATION + "style-name")):
            look = self.styles.look(family, attributes.get(key))
            fill, stroke = look.fill or fill, look.stroke or stroke
            if look.has_border:
                stroke = "solid"
        return fill, stroke

    def _picture_seen(self, target: str) -> None:
        name = target.removeprefix("./")
        if ":" in name or name.startswith(("/", "../")):
            self.object_seen("draw:image")
        self.pictures.append(name)


def shows_something(document: ZipDocument, ink: Ink) -> bool:
    """Whether the content of a document shows anything of what `ink` looks for. White text counts as soon as anything is coloured."""
    document.read(CONTENT, ink)
    if ink.has_ink or any(document.shows_picture(name) for name in dict.fromkeys(ink.pictures)):
        return True
    return ink.has_white_text and (ink.styles.has_ground or _has_ground(document))


def _has_ground(document: ZipDocument) -> bool:
    grounds = _Grounds()
    document.read("styles.xml", grounds)
    return grounds.styles.has_ground


class _Grounds(XmlTarget):
    """Hears of the styles in a part that has nothing else."""

    def __init__(self) -> None:
        self.styles = Styles()

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """Open an element."""
        self.styles.start(short_name(tag), attributes)
