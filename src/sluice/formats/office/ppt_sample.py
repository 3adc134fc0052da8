"""Makes small presentations: the sample of the kind. Writes what `ppt_records.py` reads, and no more."""

import struct
from collections.abc import Sequence

from sluice.formats.office.compound_sample import make_compound


def make_presentation(
    shapes: Sequence[bytes], *, notes: Sequence[bytes] | None = None, outline: bytes = b"", pictures: Sequence[bytes] = ()
) -> bytes:
    """Answer a presentation of one slide with these shapes, and notes with these; `outline` are records, `pictures` whole ones."""
    pages = [_page(0x03EE, shapes), *([] if notes is None else [_page(0x03F0, notes)])]
    lists = record(0x0FF0, _listed(2) + outline, container=True)
    if notes is not None:
        lists += record(0x0FF0, _listed(3), container=True, instance=2)
    objects = [record(0x03E8, lists + _store(pictures), container=True), *pages]
    places, stream = [], b""
    for each in objects:
        places.append(len(stream))
        stream += each
    directory = len(stream)
    stream += record(0x1772, struct.pack(f"<{1 + len(places)}L", len(places) << 20 | 1, *places))
    edit = len(stream)
    stream += record(0x0FF5, struct.pack("<7L", 0, 0, 0, directory, 1, len(places), 0))
    user = record(0x0FF6, struct.pack("<3L", 20, 0xE391C05F, edit) + bytes(8))
    streams = {"PowerPoint Document": stream, "Current User": user}
    return make_compound({**streams, "Pictures": b"".join(pictures)} if pictures else streams)


def record(kind: int, body: bytes, *, container: bool = False, instance: int = 0) -> bytes:
    """Answer one record."""
    return struct.pack("<HHL", instance << 4 | (0xF if container else 0), kind, len(body)) + body


def shape(*parts: bytes, outline: int = 1, flags: int = 0xA00, properties: Sequence[tuple[int, int]] = ()) -> bytes:
    """Answer a shape of an outline (1 is a rectangle, 202 a text box) with its switches, properties and further parts."""
    table = b"".join(struct.pack("<HL", *each) for each in properties)
    header = record(0xF00A, struct.pack("<LL", 1, flags), instance=outline)
    return record(0xF004, header + record(0xF00B, table, instance=len(properties)) + b"".join(parts), container=True)


def text_box(text: str, placeholder: int | None = None) -> bytes:
    """Answer a box with a text, or the placeholder of a kind."""
    written = record(0xF00D, record(0x0FA0, text.encode("utf-16-le")), container=True)
    if placeholder is None:
        return shape(written, outline=202)
    return shape(record(0xF011, record(0x0BC3, bytes(4) + bytes([placeholder, 0, 0, 0])), container=True), written)


def _page(kind: int, shapes: Sequence[bytes]) -> bytes:
    group = record(0xF003, b"".join(shapes), container=True)
    return record(kind, record(0x040C, record(0xF002, group, container=True), container=True), container=True)


def _listed(number: int) -> bytes:
    return record(0x03F3, struct.pack("<5L", number, 0, 0, 0, 0))


def _store(pictures: Sequence[bytes]) -> bytes:
    entries, place = b"", 0
    for picture in pictures:
        entries += record(0xF007, bytes(20) + struct.pack("<LLL", len(picture), 1, place) + bytes(4))
        place += len(picture)
    return record(0x040B, record(0xF000, record(0xF001, entries, container=True), container=True), container=True)
