"""PowerPoint presentations (.pptx, shows, templates, macro variants): what of them a reader sees. Packages are read by `ooxml`.

Slides, their notes and comments count. Prompts and pictures of layouts do not, nor slide numbers, dates and footers, hidden shapes, shapes
beside the slide, and text boxes without text.
"""

from collections.abc import Mapping
from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.office.drawing import Ink, is_on, short_name
from sluice.formats.office.ooxml import Package, check_package, open_package, recognises
from sluice.formats.office.ooxml_sample import make_package
from sluice.formats.source import Source
from sluice.formats.text.plaintext import INVISIBLE
from sluice.formats.text.xmlsafe import XmlTarget
from sluice.formats.verdict import Limits, Measure

_NAMESPACE: Final = "http://schemas.openxmlformats.org/presentationml/2006/main"
_FURNITURE: Final = frozenset({"sldNum", "dt", "ftr", "hdr"})
_FURNITURE_FIELDS: Final = ("slidenum", "datetime", "footer", "header")
_FRAMES: Final = frozenset({"p:sp", "p:pic", "p:cxnSp", "p:graphicFrame"})


class _Presentation(XmlTarget):
    """The size of the slides, in English Metric Units."""

    def __init__(self) -> None:
        self.size: tuple[int, int] | None = None

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if short_name(tag) == "p:sldSz":
            self.size = (_number(attributes.get("cx")), _number(attributes.get("cy")))


class _Slide(Ink):
    """The ink of one slide or of its notes."""

    def __init__(self, size: tuple[int, int] | None) -> None:
        super().__init__()
        self._size = size
        self._offset: tuple[int, int] = (0, 0)
        self._unseen = False
        self._is_field = False

    def opened(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "p:cNvPr":
            self._unseen = "hidden" in attributes and is_on(attributes["hidden"])
        elif name == "p:ph":
            self._unseen |= attributes.get("type") in _FURNITURE
        elif name == "a:fld":
            self._is_field = attributes.get("type", "").startswith(_FURNITURE_FIELDS)
        elif name == "a:off":
            self._offset = (_number(attributes.get("x")), _number(attributes.get("y")))
        elif name in {"a:ext", "?:ext"} and "cx" in attributes and "p:grpSp" not in self.stack:
            self._unseen |= self._is_beside((_number(attributes.get("cx")), _number(attributes.get("cy"))))

    def closed(self, name: str) -> None:
        if name in _FRAMES:
            self._unseen = False
        elif name == "a:fld":
            self._is_field = False

    def text_seen(self, _text: str) -> None:
        if not self._unseen and not self._is_field:
            self.ink_seen()

    def object_seen(self, _name: str) -> None:
        if not self._unseen:
            self.ink_seen()

    def picture_seen(self, relation: str) -> None:
        if not self._unseen:
            super().picture_seen(relation)

    def _is_beside(self, extent: tuple[int, int]) -> bool:
        if self._size is None or not all(self._size):
            return False
        return any(
            start >= whole or start + length < 0 for start, length, whole in zip(self._offset, extent, self._size, strict=True)
        )


class _Comments(XmlTarget):
    """Any character in a part of comments."""

    def __init__(self) -> None:
        self.has_text = False

    def data(self, text: str) -> None:
        self.has_text = self.has_text or bool(text.strip(INVISIBLE))


def blank(source: Source, limits: Limits) -> str | None:
    """Answer that no slide shows anything, and that none has notes or comments."""
    package = open_package(source, limits)
    if package.main is None:
        return None
    presentation = _Presentation()
    package.read(package.main, presentation)
    slides = list(package.related(package.main, "slide"))
    if any(_shows_something(package, slide, presentation.size) for slide in slides):
        return None
    return f"none of the {len(slides)} slides shows anything" if slides else "the presentation has no slides"


def _shows_something(package: Package, slide: str, size: tuple[int, int] | None) -> bool:
    for part, box in ((slide, size), *((notes, None) for notes in package.related(slide, "notesslide"))):
        ink = _Slide(box)
        package.read(part, ink)
        if ink.has_ink or any(package.shows_picture(part, relation) for relation in dict.fromkeys(ink.pictures)):
            return True
    return any(_has_text(package, comments) for comments in package.related(slide, "comments"))


def _has_text(package: Package, part: str) -> bool:
    comments = _Comments()
    package.read(part, comments)
    return comments.has_text


def _number(text: str | None) -> int:
    try:
        return int(text or "0")
    except ValueError:
        return 0


def check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Judge the package as a presentation."""
    return check_package(source, limits, "pptx")


def sample() -> bytes:
    """Answer a presentation of one word."""
    drawing = "http://schemas.openxmlformats.org/drawingml/2006/main"
    return make_package(
        "ppt/presentation.xml",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml",
        f'<p:presentation xmlns:p="{_NAMESPACE}"><p:sldSz cx="9144000" cy="6858000"/></p:presentation>',
        {
            "ppt/slide1.xml": (
                "slide",
                (
                    f'<p:sld xmlns:p="{_NAMESPACE}" xmlns:a="{drawing}"><p:cSld><p:spTree><p:sp><p:txBody><a:p><a:r><a:t>Sluice</a:t></a:r></a:p>'
                    "</p:txBody></p:sp></p:spTree></p:cSld></p:sld>"
                ),
            )
        },
    )


KIND: Final = Kind(
    name="pptx",
    content_type="application/vnd.openxmlformats-officedocument.presentationml.presentation",
    extensions=frozenset({"pptx", "pptm", "potx", "potm", "ppsx", "ppsm", "ppam", "sldx", "sldm"}),
    recognises=lambda source: recognises(source, "pptx"),
    check=check,
    sample=sample,
    blank=blank,
)
