"""PowerPoint presentations (.pptx, shows, templates, macro variants)."""
# The blank rule counts slides, notes and comments, without prompts and pictures of layouts, slide numbers, dates,
# footers, hidden shapes, shapes beside the slide, and text boxes without text.

from collections.abc import Mapping
from functools import partial
from typing import Final

from sluice_inspect.facts.ooxml import measure_package
from sluice_inspect.format import Family, Format, MatchOrder, SecondFormats, named
from sluice_inspect.office.drawing import DrawingInk, is_on, short_name
from sluice_inspect.office.ooxml import BEGINNINGS, Package, examine_package, is_ooxml, make_package
from sluice_inspect.text.plaintext import INVISIBLE
from sluice_inspect.text.xmlsafe import XmlTarget

_NAMESPACE: Final = "http://schemas.openxmlformats.org/presentationml/2006/main"
_FURNITURE: Final = frozenset({"sldNum", "dt", "ftr", "hdr"})
_FURNITURE_FIELDS: Final = ("slidenum", "datetime", "footer", "header")
_FRAMES: Final = frozenset({"p:sp", "p:pic", "p:cxnSp", "p:graphicFrame"})


def _blank(package: Package) -> str | None:
    if package.main is None:
        return None
    presentation = _SlideSize()
    package.read(package.main, presentation)
    slides = list(package.related(package.main, "slide"))
    if any(_has_ink(package, slide, presentation.size) for slide in slides):
        return None
    return f"none of the {len(slides)} slides shows anything" if slides else "the presentation has no slides"


def _has_ink(package: Package, slide: str, size: tuple[int, int] | None) -> bool:
    for part, page in ((slide, size), *((notes, None) for notes in package.related(slide, "notesslide"))):
        ink = _SlideInk(page)
        package.read(part, ink)
        if ink.has_ink or any(package.is_picture_visible(part, relation) for relation in dict.fromkeys(ink.pictures)):
            return True
    for part in package.related(slide, "comments"):
        comments = _SlideComments()
        package.read(part, comments)
        if comments.has_text:
            return True
    return False


class _SlideSize(XmlTarget):
    """The size of the slides, in English Metric Units (914,400 per inch)."""

    def __init__(self) -> None:
        self.size: tuple[int, int] | None = None

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if short_name(tag) == "p:sldSz":
            self.size = (_number(attributes.get("cx")), _number(attributes.get("cy")))


class _SlideInk(DrawingInk):
    def __init__(self, size: tuple[int, int] | None) -> None:
        super().__init__()
        self._size = size
        self._offset: tuple[int, int] = (0, 0)
        self._frame_hidden = False
        self._is_field = False

    def on_start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "p:cNvPr":
            self._frame_hidden = "hidden" in attributes and is_on(attributes["hidden"])
        elif name == "p:ph":
            self._frame_hidden |= attributes.get("type") in _FURNITURE
        elif name == "a:fld":
            self._is_field = attributes.get("type", "").startswith(_FURNITURE_FIELDS)
        elif name == "a:off":
            self._offset = (_number(attributes.get("x")), _number(attributes.get("y")))
        elif name in {"a:ext", "?:ext"} and "cx" in attributes and "p:grpSp" not in self.stack:
            # Shapes within a group have coordinates of the group, so they are never taken as off the slide.
            self._frame_hidden |= self._is_off_slide((_number(attributes.get("cx")), _number(attributes.get("cy"))))

    def on_end(self, name: str) -> None:
        if name in _FRAMES:
            self._frame_hidden = False
        elif name == "a:fld":
            self._is_field = False

    def on_text(self, _text: str) -> None:
        if not self._frame_hidden and not self._is_field:
            self.mark_ink()

    def on_object(self, _name: str) -> None:
        if not self._frame_hidden:
            self.mark_ink()

    def on_picture(self, relation: str) -> None:
        if not self._frame_hidden:
            super().on_picture(relation)

    def _is_off_slide(self, extent: tuple[int, int]) -> bool:
        if self._size is None or not all(self._size):
            return False
        return any(
            start >= side or start + length < 0
            for start, length, side in zip(self._offset, extent, self._size, strict=True)
        )


class _SlideComments(XmlTarget):
    def __init__(self) -> None:
        self.has_text = False

    def data(self, text: str) -> None:
        self.has_text = self.has_text or bool(text.strip(INVISIBLE))


def _number(text: str | None) -> int:
    try:
        return int(text or "0")
    except ValueError:
        return 0


def _sample() -> bytes:
    drawing = "http://schemas.openxmlformats.org/drawingml/2006/main"
    slide = (
        f'<p:sld xmlns:p="{_NAMESPACE}" xmlns:a="{drawing}"><p:cSld><p:spTree><p:sp><p:txBody>'
        "<a:p><a:r><a:t>Sluice</a:t></a:r></a:p></p:txBody></p:sp></p:spTree></p:cSld></p:sld>"
    )
    return make_package(
        "ppt/presentation.xml",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml",
        f'<p:presentation xmlns:p="{_NAMESPACE}"><p:sldSz cx="9144000" cy="6858000"/></p:presentation>',
        {"ppt/slide1.xml": ("slide", slide)},
    )


FORMAT: Final = Format(
    name="pptx",
    family=Family.DOCUMENT,
    content_type="application/vnd.openxmlformats-officedocument.presentationml.presentation",
    extensions=frozenset({"pptx", "pptm", "potx", "potm", "ppsx", "ppsm", "ppam", "sldx", "sldm"}),
    begins=BEGINNINGS,
    matches=lambda source: is_ooxml(source, "pptx"),
    match_order=MatchOrder.IN_CONTAINER,
    examine=partial(examine_package, family="pptx", blank=_blank),
    facts=partial(measure_package, counted=("slides", "}sldId")),
    own_facts=frozenset({"encrypted", "slides"}),
    sample=_sample,
    names=named("PowerPoint ({})", "pptx pptm ppsx potx")
    | named("presentation", "application/vnd.openxmlformats-officedocument.presentationml"),
    second_formats=SecondFormats.AROUND,
    is_office=True,
)
