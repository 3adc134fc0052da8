"""PowerPoint presentations before PowerPoint 2007 (.ppt, .pps, .pot)."""
# As with PPTX, the blank rule counts slides and notes, without masters, slide numbers, dates, footers, and placeholders
# and text boxes without text.

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from sluice_inspect.facts.ole import measure_compound, read_stream
from sluice_inspect.format import Examination, Family, Format, named
from sluice_inspect.formats.ppt.presentation import (
    NOTES,
    SHAPE,
    SHAPE_DATA,
    SHAPE_TEXT,
    SLIDE_LIST,
    SLIDES,
    Presentation,
)
from sluice_inspect.office.compound import MAGIC, check_container, content_end, is_compound_document, make_compound
from sluice_inspect.office.officeart import Record, has_picture_ink, records
from sluice_inspect.report import FactSheet, Limits
from sluice_inspect.source import Source
from sluice_inspect.subject import Subject
from sluice_inspect.text.plaintext import INVISIBLE

_TEXT_CHARS: Final = 0x0FA0  # text in UTF-16
_TEXT_BYTES: Final = 0x0FA8  # text in Latin-1
_SHAPE_HEADER, _PROPERTIES, _PLACEHOLDER = 0xF00A, 0xF00B, 0x0BC3
_FURNITURE: Final = range(7, 11)  # placeholders of dates, slide numbers, footers, headers
_TEXT_BOX: Final = 202
_FRAME_BITS: Final = 0x40D  # a group's own entry, the patriarch, a deleted shape, the background
_OBJECT_BIT: Final = 0x10
_PICTURE: Final = 0x0104
_FILL, _LINE = 0x01BF, 0x01FF
_FILL_BIT, _LINE_BIT = 0x10, 0x08
_STATED: Final = 16  # a boolean property is stated when the bit this much higher is set as well
_HIDDEN, _HIDDEN_BIT = 0x03BF, 0x02
# Records of [MS-PPT] by version and instance, type, and length where it is fixed.
_HAS_MACROS: Final = re.compile(rb"\x02\x00\x00\x04\x0c\0\0\0[\s\S]{4}[\x01-\xff]")  # VbaInfoAtom, 2.4.10.2
_EMBEDDED: Final = b"\x0f\x00\xcc\x0f"
_LINKED: Final = b"\x0f\x00\xce\x0f"
_CONTROL: Final = b"\x0f\x00\xee\x0f"


def _examine(source: Source, limits: Limits) -> Examination:
    container, measures = check_container(source)
    presentation = Presentation(container)
    checked = presentation.check(limits.soft_seconds)
    measures = {**measures, "slides": len(list(presentation.listed(SLIDES))), **checked}
    return Examination(measures, lambda: _blank(presentation, limits))


def _blank(presentation: Presentation, limits: Limits) -> str | None:
    ink = _BinarySlideInk(presentation, limits)
    slides = list(presentation.listed(SLIDES))
    if ink.is_in_outline() or any(ink.is_on_slide(slide) for slide in slides):
        return None
    if any(ink.is_on_notes(notes) for notes in presentation.listed(NOTES)):
        return None
    return f"none of the {len(slides)} slides shows anything" if slides else "the presentation has no slides"


class _BinarySlideInk:
    def __init__(self, presentation: Presentation, limits: Limits) -> None:
        self._presentation = presentation
        self._limits = limits

    def is_in_outline(self) -> bool:
        return any(
            self._is_visible_text(record)
            for found in self._presentation.document()
            if found.type == SLIDE_LIST and found.instance == SLIDES
            for record in self._presentation.inside(found)
        )

    def is_on_slide(self, slide: Record) -> bool:
        return any(self._is_visible_shape(shape) for shape in self._shapes(slide))

    def is_on_notes(self, page: Record) -> bool:
        return any(self._placeholder(shape) not in _FURNITURE and self._has_text(shape) for shape in self._shapes(page))

    def _shapes(self, page: Record) -> Iterator[Record]:
        return (record for record in self._presentation.walk(page) if record.type == SHAPE)

    def _parts(self, shape: Record, record_type: int) -> Iterator[Record]:
        return (record for record in self._presentation.inside(shape) if record.type == record_type)

    def _is_visible_shape(self, shape: Record) -> bool:
        header = next(self._parts(shape, _SHAPE_HEADER), None)
        if header is None:
            return True
        flags: int = struct.unpack_from("<4xL", self._presentation.data, header.start)[0]
        properties, placeholder = self._properties(shape), self._placeholder(shape)
        if flags & _FRAME_BITS or _boolean(properties, _HIDDEN, _HIDDEN_BIT) or placeholder in _FURNITURE:
            return False
        if flags & _OBJECT_BIT or self._has_text(shape):
            return True
        if properties.get(_PICTURE):
            return self._is_visible_picture(properties[_PICTURE])
        filled, lined = _boolean(properties, _FILL, _FILL_BIT), _boolean(properties, _LINE, _LINE_BIT)
        # Text boxes and placeholders are drawn without line and fill unless they state one, other shapes with them.
        if header.instance == _TEXT_BOX or placeholder is not None:
            return bool(filled or lined)
        return filled is not False or lined is not False

    def _has_text(self, shape: Record) -> bool:
        return any(
            self._is_visible_text(record)
            for box in self._parts(shape, SHAPE_TEXT)
            for record in self._presentation.inside(box)
        )

    def _is_visible_text(self, record: Record) -> bool:
        if record.type not in {_TEXT_CHARS, _TEXT_BYTES}:
            return False
        encoding = "utf-16-le" if record.type == _TEXT_CHARS else "latin-1"
        return bool(self._presentation.body(record).decode(encoding, "replace").strip(INVISIBLE))

    def _placeholder(self, shape: Record) -> int | None:
        for data in self._parts(shape, SHAPE_DATA):
            for record in self._presentation.inside(data):
                if record.type == _PLACEHOLDER and record.end - record.start > 4:
                    return self._presentation.data[record.start + 4]
        return None

    def _properties(self, shape: Record) -> dict[int, int]:
        found: dict[int, int] = {}
        for table in self._parts(shape, _PROPERTIES):
            for index in range(min(table.instance, (table.end - table.start) // 6)):
                name, value = struct.unpack_from("<HL", self._presentation.data, table.start + 6 * index)
                found[name & 0x3FFF] = value
        return found

    def _is_visible_picture(self, number: int) -> bool:
        offsets = self._presentation.picture_offsets
        offset = offsets[number - 1] if 0 < number <= len(offsets) else None
        if offset is None:
            return True
        data = self._presentation.pictures
        picture = next(records(data, offset), None)
        return picture is None or not picture.is_picture or has_picture_ink(data, picture, self._limits)


def _boolean(properties: Mapping[int, int], name: int, bit: int) -> bool | None:
    """Return a boolean property of a shape, None where it is left to the master."""
    value = properties.get(name, 0)
    return bool(value & bit) if value & bit << _STATED else None


def make_presentation(
    shapes: Sequence[bytes],
    *,
    notes: Sequence[bytes] | None = None,
    outline: bytes = b"",
    pictures: Sequence[bytes] = (),
) -> bytes:
    """Return a presentation of one slide with these shapes, and notes with these. `outline`, `pictures` are records."""
    pages = [_make_page(0x03EE, shapes), *([] if notes is None else [_make_page(0x03F0, notes)])]
    lists = make_record(0x0FF0, _make_reference(2) + outline, container=True)
    if notes is not None:
        lists += make_record(0x0FF0, _make_reference(3), container=True, instance=2)
    objects = [make_record(0x03E8, lists + _make_store(pictures), container=True), *pages]
    offsets, stream = [], b""
    for each in objects:
        offsets.append(len(stream))
        stream += each
    directory = len(stream)
    stream += make_record(0x1772, struct.pack(f"<{1 + len(offsets)}L", len(offsets) << 20 | 1, *offsets))
    edit = len(stream)
    stream += make_record(0x0FF5, struct.pack("<7L", 0, 0, 0, directory, 1, len(offsets), 0))
    user = make_record(0x0FF6, struct.pack("<3L", 20, 0xE391C05F, edit) + bytes(8))
    streams = {"PowerPoint Document": stream, "Current User": user}
    return make_compound({**streams, "Pictures": b"".join(pictures)} if pictures else streams)


def make_record(record_type: int, body: bytes, *, container: bool = False, instance: int = 0) -> bytes:
    """Return one record."""
    return struct.pack("<HHL", instance << 4 | (0xF if container else 0), record_type, len(body)) + body


def make_shape(
    *parts: bytes, outline: int = 1, flags: int = 0xA00, properties: Sequence[tuple[int, int]] = ()
) -> bytes:
    """Return a shape of an outline (1 is a rectangle, 202 a text box) with flags, properties and further parts."""
    header = make_record(0xF00A, struct.pack("<LL", 1, flags), instance=outline)
    table = b"".join(struct.pack("<HL", *each) for each in properties)
    header += make_record(0xF00B, table, instance=len(properties))
    return make_record(0xF004, header + b"".join(parts), container=True)


def make_text_box(text: str, placeholder: int | None = None) -> bytes:
    """Return a box with a text, or a placeholder of a type."""
    written = make_record(0xF00D, make_record(0x0FA0, text.encode("utf-16-le")), container=True)
    if placeholder is None:
        return make_shape(written, outline=202)
    data = make_record(0x0BC3, bytes(4) + bytes([placeholder, 0, 0, 0]))
    return make_shape(make_record(0xF011, data, container=True), written)


def _make_page(record_type: int, shapes: Sequence[bytes]) -> bytes:
    group = make_record(0xF003, b"".join(shapes), container=True)
    drawing = make_record(0x040C, make_record(0xF002, group, container=True), container=True)
    return make_record(record_type, drawing, container=True)


def _make_reference(number: int) -> bytes:
    return make_record(0x03F3, struct.pack("<5L", number, 0, 0, 0, 0))


def _make_store(pictures: Sequence[bytes]) -> bytes:
    entries, offset = b"", 0
    for picture in pictures:
        entries += make_record(0xF007, bytes(20) + struct.pack("<LLL", len(picture), 1, offset) + bytes(4))
        offset += len(picture)
    store = make_record(0xF000, make_record(0xF001, entries, container=True), container=True)
    return make_record(0x040B, store, container=True)


def _facts(subject: Subject, sheet: FactSheet) -> None:
    container = measure_compound(subject, sheet)
    data = read_stream(container, sheet, "powerpoint document")
    if _HAS_MACROS.search(data):
        sheet.flags.add("macro")
    for mark, flag in ((_EMBEDDED, "object.ole"), (_LINKED, "link.external"), (_CONTROL, "object.activex")):
        if mark in data:
            sheet.flags.add(flag)


FORMAT: Final = Format(
    name="ppt",
    family=Family.DOCUMENT,
    content_type="application/vnd.ms-powerpoint",
    extensions=frozenset({"ppt", "pps", "pot"}),
    begins=(MAGIC,),
    matches=lambda source: is_compound_document(source, "ppt"),
    examine=_examine,
    facts=_facts,
    own_facts=frozenset({"encrypted", "slides"}),
    sample=lambda: make_presentation([make_text_box("Sluice")]),
    names=named("PowerPoint ({})", "ppt pps pot") | named("presentation", "application/vnd.ms-powerpoint"),
    content_end=content_end,
    may_be_text=True,
    is_office=True,
)
