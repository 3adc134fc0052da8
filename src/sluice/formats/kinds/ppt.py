"""PowerPoint presentations of before 2007 (.ppt, .pps, .pot): what of them a reader sees. Their structure is read by `ppt_records`.

As with PPTX, slides and their notes count. Masters do not, nor slide numbers, dates and footers, placeholders and text boxes without text.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.office.compound import CompoundFile
from sluice.formats.office.compound_family import open_container, recognises
from sluice.formats.office.officeart import Record, picture_shows, records, store_places
from sluice.formats.office.ppt_records import (
    DOCUMENT,
    DRAWING_GROUP,
    LIST_OF_SLIDES,
    PLACE_IN_LIST,
    SHAPE,
    SHAPE_DATA,
    SHAPE_TEXT,
    Presentation,
)
from sluice.formats.office.ppt_sample import make_presentation, text_box
from sluice.formats.source import Source
from sluice.formats.text.plaintext import INVISIBLE
from sluice.formats.verdict import Limits, Measure

_SLIDES, _NOTES = 0, 2
"""Which list is which; 1 is that of masters."""
_LETTERS: Final = 0x0FA0
_BYTES: Final = 0x0FA8
_SHAPE_HEADER: Final = 0xF00A
_PROPERTIES: Final = 0xF00B
_PLACEHOLDER: Final = 0x0BC3
_FURNITURE: Final = range(7, 11)
_TEXT_BOX: Final = 202
_FRAME_BITS: Final = 0x40D
"""A group's own entry, the patriarch, a deleted shape, the background."""
_OBJECT_BIT: Final = 0x10
_PICTURE: Final = 0x0104
_FILL, _LINE = 0x01BF, 0x01FF
_FILL_BIT, _LINE_BIT = 0x10, 0x08
_STATED: Final = 16
"""A switch is valid when the bit this much higher is set as well."""
_HIDDEN, _HIDDEN_BIT = 0x03BF, 0x02


def check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Judge the container, the edits, and all records of the objects that they list."""
    container, measures = open_container(source)
    presentation = Presentation(container)
    checked = presentation.check(limits.soft_seconds)
    return {**measures, "slides": len(list(_listed(presentation, _SLIDES))), **checked}


def blank(source: Source, limits: Limits) -> str | None:
    """Answer that no slide shows anything, and that none has notes."""
    presentation = Presentation(CompoundFile(source))
    look = _Look(presentation, limits)
    slides = list(_listed(presentation, _SLIDES))
    if look.outline_shows() or any(look.slide_shows(slide) for slide in slides):
        return None
    if any(look.has_text(notes) for notes in _listed(presentation, _NOTES)):
        return None
    return f"none of the {len(slides)} slides shows anything" if slides else "the presentation has no slides"


def _document(presentation: Presentation) -> Iterator[Record]:
    """Yield the records of the document itself."""
    for place in presentation.objects.values():
        found = presentation.object_at(place)
        if found.kind == DOCUMENT:
            yield from presentation.inside(found)


def _listed(presentation: Presentation, which: int) -> Iterator[Record]:
    """Yield the slides, or notes, that the presentation lists."""
    for found in _document(presentation):
        if found.kind == LIST_OF_SLIDES and found.instance == which:
            for place in presentation.inside(found):
                if place.kind == PLACE_IN_LIST:
                    number: int = struct.unpack_from("<L", presentation.data, place.start)[0]
                    if number in presentation.objects:
                        yield presentation.object_at(presentation.objects[number])


class _Look:
    """Looks at slides until something shows."""

    def __init__(self, presentation: Presentation, limits: Limits) -> None:
        self._presentation = presentation
        self._limits = limits

    def outline_shows(self) -> bool:
        """Whether the outline, in which the text of placeholders may be kept, has text."""
        return any(
            self._is_shown_text(record)
            for found in _document(self._presentation)
            if found.kind == LIST_OF_SLIDES and found.instance == _SLIDES
            for record in self._presentation.inside(found)
        )

    def slide_shows(self, slide: Record) -> bool:
        """Whether a slide has text, a picture that shows something, or a shape with a line or a filling."""
        return any(self._shape_shows(shape) for shape in self._shapes(slide))

    def has_text(self, page: Record) -> bool:
        """Whether a page of notes has text beside its number, date and footer."""
        return any(not self._is_furniture(shape) and self._has_text(shape) for shape in self._shapes(page))

    def _shapes(self, page: Record) -> Iterator[Record]:
        for record in self._presentation.walk(page):
            if record.kind == SHAPE:
                yield record

    def _parts(self, shape: Record, kind: int) -> Iterator[Record]:
        return (record for record in self._presentation.inside(shape) if record.kind == kind)

    def _has_text(self, shape: Record) -> bool:
        return any(
            self._is_shown_text(record) for box in self._parts(shape, SHAPE_TEXT) for record in self._presentation.inside(box)
        )

    def _is_shown_text(self, record: Record) -> bool:
        if record.kind not in {_LETTERS, _BYTES}:
            return False
        encoding = "utf-16-le" if record.kind == _LETTERS else "latin-1"
        return bool(self._presentation.body(record).decode(encoding, "replace").strip(INVISIBLE))

    def _placeholder(self, shape: Record) -> int | None:
        for data in self._parts(shape, SHAPE_DATA):
            for record in self._presentation.inside(data):
                if record.kind == _PLACEHOLDER and record.end - record.start > 4:  # noqa: PLR2004  (its kind)
                    return self._presentation.data[record.start + 4]
        return None

    def _is_furniture(self, shape: Record) -> bool:
        return self._placeholder(shape) in _FURNITURE

    def _shape_shows(self, shape: Record) -> bool:
        header = next(self._parts(shape, _SHAPE_HEADER), None)
        if header is None:
            return True
        flags: int = struct.unpack_from("<4xL", self._presentation.data, header.start)[0]
        properties = self._properties(shape)
        if flags & _FRAME_BITS or _switch(properties, _HIDDEN, _HIDDEN_BIT) or self._is_furniture(shape):
            return False
        if flags & _OBJECT_BIT or self._has_text(shape):
            return True
        if properties.get(_PICTURE):
            return self._picture_shows(properties[_PICTURE])
        filled, lined = _switch(properties, _FILL, _FILL_BIT), _switch(properties, _LINE, _LINE_BIT)
        if header.instance == _TEXT_BOX or self._placeholder(shape) is not None:
            return bool(filled or lined)
        return filled is not False or lined is not False

    def _properties(self, shape: Record) -> dict[int, int]:
        found: dict[int, int] = {}
        for table in self._parts(shape, _PROPERTIES):
            for index in range(min(table.instance, (table.end - table.start) // 6)):
                name, value = struct.unpack_from("<HL", self._presentation.data, table.start + 6 * index)
                found[name & 0x3FFF] = value
        return found

    def _picture_shows(self, number: int) -> bool:
        """Whether a picture of the store shows something. One that is not found is unknown: yes."""
        places = [place for group in _document(self._presentation) for place in self._places(group)]
        place = places[number - 1] if 0 < number <= len(places) else None
        if place is None:
            return True
        data = self._presentation.pictures()
        picture = next(records(data, place), None)
        return picture is None or not picture.is_picture or picture_shows(data, picture, self._limits)

    def _places(self, group: Record) -> Iterator[int | None]:
        """Yield where each picture of the store lies in the stream of pictures."""
        if group.kind == DRAWING_GROUP:
            yield from store_places(self._presentation.data, group.start, group.end)


def _switch(properties: Mapping[int, int], name: int, bit: int) -> bool | None:
    """Answer a switch among a shape's properties, None where it is left to the master."""
    value = properties.get(name, 0)
    return bool(value & bit) if value & bit << _STATED else None


KIND: Final = Kind(
    name="ppt",
    content_type="application/vnd.ms-powerpoint",
    extensions=frozenset({"ppt", "pps", "pot"}),
    recognises=lambda source: recognises(source, "ppt"),
    check=check,
    sample=lambda: make_presentation([text_box("Sluice")]),
    blank=blank,
)
