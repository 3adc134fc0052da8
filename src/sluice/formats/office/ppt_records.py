"""Reads PowerPoint's binary format ([MS-PPT]): the last edit, the objects it lists, their records. What slides show is known by the kind.

Only what the edits list is walked: between listed objects lies what earlier edits have left behind, which no reader looks at.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Final

from sluice.formats.budget import Deadline
from sluice.formats.office.compound import CompoundFile
from sluice.formats.office.officeart import CONTAINER, HEADER, PICTURES_MOST, Record, check_deflated, check_picture, records
from sluice.formats.verdict import Corrupt, Encrypted, TooComplex, Unsupported

DOCUMENT: Final = 0x03E8
SLIDE: Final = 0x03EE
LIST_OF_SLIDES: Final = 0x0FF0
PLACE_IN_LIST: Final = 0x03F3
DRAWING_GROUP: Final = 0x040B
DRAWING: Final = 0x040C
STORE: Final = 0xF001
SHAPES: Final = frozenset({0xF002, 0xF003})
SHAPE: Final = 0xF004
SHAPE_TEXT: Final = 0xF00D
SHAPE_DATA: Final = 0xF011

_EDIT: Final = 0x0FF5
_DIRECTORY: Final = 0x1772
_PLAIN, _LOCKED = 0xE391C05F, 0xF3D1C4DF
_EMBEDDED: Final = 0x1011
"""An object of another program; compressed where its instance is 1."""
_LOCKED_EDIT_BYTES: Final = 32
"""An edit that also says where the encryption is described."""
_FOLLOWED: Final = SHAPES | {
    DOCUMENT, SLIDE, 0x03F0, 0x03F2, 0x03F8, 0x0409, DRAWING_GROUP, DRAWING, 0x07D0, 0x07D5, 0x07E4, 0x07E6, 0x0FC9, 0x0FCC, 0x0FCE,
    0x0FD9, 0x0FEE, LIST_OF_SLIDES, 0x1388, 0x138A, 0x138B, 0xF000, STORE, SHAPE, SHAPE_TEXT, SHAPE_DATA,
}  # fmt: skip
"""Containers whose content is records throughout."""
_DEPTH_MOST: Final = 64
_LIST_OF_95: Final = "persistentstorage directory"
"""What PowerPoint 95 writes beside a stream that is named as that of later versions."""
_EDITS_MOST: Final = 10_000
_STREAM_MOST: Final = 512 * 1024**2
_LOOK_AT_CLOCK: Final = 4096


class Presentation:
    """The objects of a presentation. Raises `Corrupt` where the edits do not lead to them, `Encrypted`, `Unsupported` for PowerPoint 95."""

    def __init__(self, container: CompoundFile) -> None:
        stream = container.root.stream("powerpoint document")
        if stream is None or container.root.stream(_LIST_OF_95) is not None:
            raise Unsupported("the presentation was written by PowerPoint 95 or older, whose files cannot be judged here")
        if stream.size > _STREAM_MOST:
            raise TooComplex("the presentation is too large to be looked through")
        user = container.root.stream("current user")
        token, place = struct.unpack("<12xLL", container.read(user, 20)) if user is not None and user.size >= 20 else (0, 0)  # noqa: PLR2004
        if token not in {_PLAIN, _LOCKED}:
            raise Corrupt("the presentation is damaged: it does not say where its last edit is")
        self.data = container.read(stream)
        self._is_locked = token == _LOCKED
        self.objects = self._read_edits(place)
        if self._is_locked:
            raise Encrypted("the presentation is protected by a password")
        self._pictures = container.root.stream("pictures")
        self._container = container

    def pictures(self) -> bytes:
        """Answer the stream of pictures."""
        return b"" if self._pictures is None else self._container.read(self._pictures)

    def check(self, soft_seconds: float) -> Mapping[str, bool]:
        """Walk all records of all objects, and the pictures. Raises `Corrupt`; answers a measure when the time was over before the end."""
        deadline, count = Deadline(soft_seconds), 0
        for place in sorted(set(self.objects.values())):
            for _ in self.walk(self.object_at(place)):
                count += 1
                if count % _LOOK_AT_CLOCK == 0 and deadline.has_passed:
                    return {"partially_checked": True}
        self._check_pictures()
        return {}

    def object_at(self, place: int) -> Record:
        """Answer the record at a place of the stream. Raises `Corrupt` when there is none."""
        opening, kind, length = HEADER.unpack_from(self.data, place) if 0 <= place <= len(self.data) - HEADER.size else (0, 0, 0)
        start = place + HEADER.size
        if not kind or start + length > len(self.data):
            raise Corrupt("the presentation is damaged: one of its objects is not where the list of objects says")
        return Record(opening & 0xF, opening >> 4, kind, start, start + length)

    def inside(self, record: Record) -> Iterator[Record]:
        """Yield the records right within one."""
        return records(self.data, record.start, record.end)

    def walk(self, record: Record, depth: int = 0) -> Iterator[Record]:
        """Yield a record and all within it. Raises `Corrupt` where those do not fill it."""
        yield record
        if record.version != CONTAINER or record.kind not in _FOLLOWED:
            return
        if depth > _DEPTH_MOST:
            raise TooComplex("the presentation nests its records too deeply")
        at = record.start
        while at < record.end:
            opening, kind, length = HEADER.unpack_from(self.data, at) if at + HEADER.size <= record.end else (0, 0, 0)
            start = at + HEADER.size
            if not kind or start + length > record.end:
                raise Corrupt(f"the presentation is damaged at byte {at} of its stream: there is no such record")
            yield from self.walk(Record(opening & 0xF, opening >> 4, kind, start, start + length), depth + 1)
            at = start + length

    def body(self, record: Record) -> bytes:
        """Answer the bytes of a record."""
        return self.data[record.start : record.end]

    def _read_edits(self, place: int) -> dict[int, int]:
        """Answer where each object lies by its number, as the latest edit that names it says."""
        objects: dict[int, int] = {}
        seen: set[int] = set()
        main = 0
        while place and place not in seen and len(seen) < _EDITS_MOST:
            seen.add(place)
            edit = self.object_at(place)
            if edit.kind != _EDIT or edit.end - edit.start < 28:  # noqa: PLR2004  (the shortest edit)
                raise Corrupt("the presentation is damaged: an edit is not where it should be")
            self._is_locked |= edit.end - edit.start >= _LOCKED_EDIT_BYTES
            place, directory, document = struct.unpack_from("<8x3L", self.data, edit.start)
            main = main or document
            for number, offset in self._read_directory(self.object_at(directory)):
                objects.setdefault(number, offset)
        if main not in objects:
            raise Corrupt("the presentation is damaged: its last edit does not list the document itself")
        if not self._is_locked and self.object_at(objects[main]).kind != DOCUMENT:
            raise Corrupt("the presentation is damaged: its document is not where its last edit says")
        return objects

    def _read_directory(self, directory: Record) -> Iterator[tuple[int, int]]:
        if directory.kind != _DIRECTORY:
            raise Corrupt("the presentation is damaged: its list of objects is not where it should be")
        numbers = struct.unpack_from(f"<{(directory.end - directory.start) // 4}L", self.data, directory.start)
        at = 0
        while at < len(numbers):
            first, count = numbers[at] & 0xFFFFF, numbers[at] >> 20
            if at + count >= len(numbers):
                raise Corrupt("the presentation is damaged: its list of objects ends within an entry")
            yield from enumerate(numbers[at + 1 : at + 1 + count], first)
            at += 1 + count

    def _check_pictures(self) -> None:
        """Read all pictures, and compressed objects within the presentation."""
        for place in set(self.objects.values()):
            found = self.object_at(place)
            if found.kind == _EMBEDDED and found.instance == 1:
                check_deflated(self.data[found.start + 4 : found.end])
        if self._pictures is None:
            return
        stream, at = self._container.open(self._pictures), 0
        while at + HEADER.size <= self._pictures.size:
            stream.seek(at)
            opening, kind, length = HEADER.unpack(stream.read(HEADER.size))
            record = Record(opening & 0xF, opening >> 4, kind, 0, length)
            if at and not (opening or kind or length) and not stream.read().strip(b"\0"):
                return  # writers fill the stream up
            if not (record.is_picture or record.is_store_entry) or at + HEADER.size + length > self._pictures.size:
                raise Corrupt("the presentation is damaged: there is something between its pictures that is none")
            if length <= PICTURES_MOST:
                check_picture(stream.read(length), record)
            at += HEADER.size + length
