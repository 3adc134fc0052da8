"""PowerPoint's binary format ([MS-PPT]): the last edit, the objects it lists, their records."""
# Between listed objects is what earlier edits left behind, which no reader follows.

import struct
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.office.compound import CompoundFile
from sluice_inspect.office.officeart import (
    CONTAINER,
    HEADER,
    MAX_PICTURE_BYTES,
    PictureCheck,
    Record,
    picture_offsets,
    records,
)
from sluice_inspect.report import Corrupt, Encrypted, Measure, TooComplex, Unsupported

# Record types (2.13.24).
DOCUMENT, SLIDE, SLIDE_LIST, SHAPE = 0x03E8, 0x03EE, 0x0FF0, 0xF004
SHAPE_TEXT, SHAPE_DATA, _SLIDE_REFERENCE, _DRAWING_GROUP = 0xF00D, 0xF011, 0x03F3, 0x040B
_DRAWING, _PICTURE_STORE = 0x040C, 0xF001
_SHAPE_GROUPS: Final = frozenset({0xF002, 0xF003})
_EDIT: Final = 0x0FF5
_DIRECTORY: Final = 0x1772
_EMBEDDED: Final = 0x1011  # an object of another program, compressed where its instance is 1
# Containers whose content is records throughout.
_RECORD_CONTAINERS: Final = _SHAPE_GROUPS | {
    DOCUMENT, SLIDE, 0x03F0, 0x03F2, 0x03F8, 0x0409, _DRAWING_GROUP, _DRAWING, 0x07D0, 0x07D5, 0x07E4, 0x07E6, 0x0FC9,
    0x0FCC, 0x0FCE, 0x0FD9, 0x0FEE, SLIDE_LIST, 0x1388, 0x138A, 0x138B, 0xF000, _PICTURE_STORE, SHAPE, SHAPE_TEXT,
    SHAPE_DATA,
}  # fmt: skip

SLIDES, NOTES = 0, 2  # the instances of `SLIDE_LIST`; 1 is that of masters
_PLAIN, _ENCRYPTED = 0xE391C05F, 0xF3D1C4DF
_ENCRYPTED_EDIT_BYTES: Final = 32  # an edit that also states where the encryption is described
_STREAM_OF_95: Final = (
    "persistentstorage directory"  # PowerPoint 95 writes it beside a stream named as in later versions
)
_MAX_DEPTH: Final = 64
_MAX_EDITS: Final = 10_000
_MAX_STREAM_BYTES: Final = 512 * 1024**2
_CLOCK_INTERVAL: Final = 4096


class Presentation:
    """The objects of a presentation: `objects` are offsets of listed objects by number, in the stream `data`."""

    def __init__(self, container: CompoundFile) -> None:
        stream = container.root.stream("powerpoint document")
        if stream is None or container.root.stream(_STREAM_OF_95) is not None:
            raise Unsupported(
                "the presentation was written by PowerPoint 95 or older, whose files cannot be judged here"
            )
        if stream.size > _MAX_STREAM_BYTES:
            raise TooComplex("the presentation is too large to be checked")
        user = container.root.stream("current user")
        token, last_edit = 0, 0
        if user is not None and user.size >= 20:
            token, last_edit = struct.unpack("<12xLL", container.read(user, 20))
        if token not in {_PLAIN, _ENCRYPTED}:
            raise Corrupt("the presentation is damaged: it does not say where its last edit is")
        self.data = container.read(stream)
        self._is_encrypted = token == _ENCRYPTED
        self.objects = self._read_edits(last_edit)
        if self._is_encrypted:
            raise Encrypted("the presentation is protected by a password")
        self._pictures = container.root.stream("pictures")
        self._container = container

    @cached_property
    def pictures(self) -> bytes:
        """The stream of pictures."""
        return b"" if self._pictures is None else self._container.read(self._pictures)

    @cached_property
    def picture_offsets(self) -> list[int | None]:
        """The offset in `pictures` of each picture of the store, None for one that nothing uses."""
        groups = (record for record in self.document() if record.type == _DRAWING_GROUP)
        return [offset for group in groups for offset in picture_offsets(self.data, group.start, group.end)]

    def check(self, soft_seconds: float) -> Mapping[str, Measure]:
        """Read all records of all objects, and the pictures. Raises `Corrupt`; returns what was measured."""
        deadline, count = Deadline(soft_seconds), 0
        for offset in sorted(set(self.objects.values())):
            for _ in self.walk(self.object_at(offset)):
                count += 1
                if count % _CLOCK_INTERVAL == 0 and deadline.has_passed:
                    return {"partially_checked": True}
        return self._check_pictures()

    def document(self) -> Iterator[Record]:
        """Yield the records of the document itself."""
        for offset in self.objects.values():
            found = self.object_at(offset)
            if found.type == DOCUMENT:
                yield from self.inside(found)

    def listed(self, instance: int) -> Iterator[Record]:
        """Yield the `SLIDES` or `NOTES` that the presentation lists."""
        for found in self.document():
            if found.type == SLIDE_LIST and found.instance == instance:
                for reference in self.inside(found):
                    if reference.type == _SLIDE_REFERENCE:
                        number: int = struct.unpack_from("<L", self.data, reference.start)[0]
                        if number in self.objects:
                            yield self.object_at(self.objects[number])

    def object_at(self, offset: int) -> Record:
        """Return the record at an offset of the stream. Raises `Corrupt` when there is none."""
        found = self._record_at(offset, len(self.data)) if offset >= 0 else None
        if found is None:
            raise Corrupt("the presentation is damaged: one of its objects is not where the list of objects says")
        return found

    def inside(self, record: Record) -> Iterator[Record]:
        """Yield the records directly within one."""
        return records(self.data, record.start, record.end)

    def walk(self, record: Record, depth: int = 0) -> Iterator[Record]:
        """Yield a record and all within it.

        Raise `Corrupt` if those do not fill it, and `TooComplex` if records are nested too deeply.
        """
        yield record
        if record.version != CONTAINER or record.type not in _RECORD_CONTAINERS:
            return
        if depth > _MAX_DEPTH:
            raise TooComplex("the presentation nests its records too deeply")
        at = record.start
        while at < record.end:
            found = self._record_at(at, record.end)
            if found is None:
                raise Corrupt(f"the presentation is damaged at byte {at} of its stream: there is no such record")
            yield from self.walk(found, depth + 1)
            at = found.end

    def body(self, record: Record) -> bytes:
        """Return the bytes of a record."""
        return self.data[record.start : record.end]

    def _record_at(self, at: int, end: int) -> Record | None:
        if at + HEADER.size > end:
            return None
        found = Record.of_header(HEADER.unpack_from(self.data, at), at + HEADER.size)
        return found if found.type and found.end <= end else None

    def _read_edits(self, offset: int) -> dict[int, int]:
        """Return the offset of each object by number, as the latest edit that names it states."""
        objects: dict[int, int] = {}
        visited: set[int] = set()
        main = 0
        while offset and offset not in visited and len(visited) < _MAX_EDITS:
            visited.add(offset)
            edit = self.object_at(offset)
            if edit.type != _EDIT or edit.end - edit.start < 28:
                raise Corrupt("the presentation is damaged: an edit is not where it should be")
            self._is_encrypted |= edit.end - edit.start >= _ENCRYPTED_EDIT_BYTES
            offset, directory, document = struct.unpack_from("<8x3L", self.data, edit.start)
            main = main or document
            for number, position in self._read_directory(self.object_at(directory)):
                objects.setdefault(number, position)
        if main not in objects:
            raise Corrupt("the presentation is damaged: its last edit does not list the document itself")
        # Objects of an encrypted presentation are not readable here, the edits are.
        if not self._is_encrypted and self.object_at(objects[main]).type != DOCUMENT:
            raise Corrupt("the presentation is damaged: its document is not where its last edit says")
        return objects

    def _read_directory(self, directory: Record) -> Iterator[tuple[int, int]]:
        if directory.type != _DIRECTORY:
            raise Corrupt("the presentation is damaged: its list of objects is not where it should be")
        numbers = struct.unpack_from(f"<{(directory.end - directory.start) // 4}L", self.data, directory.start)
        at = 0
        while at < len(numbers):
            first, count = numbers[at] & 0xFFFFF, numbers[at] >> 20
            if at + count >= len(numbers):
                raise Corrupt("the presentation is damaged: its list of objects ends within an entry")
            yield from enumerate(numbers[at + 1 : at + 1 + count], first)
            at += 1 + count

    def _check_pictures(self) -> Mapping[str, int]:
        checked = PictureCheck()
        for offset in set(self.objects.values()):
            found = self.object_at(offset)
            if found.type == _EMBEDDED and found.instance == 1:
                checked.add_packed(self.data[found.start + 4 : found.end])
        if self._pictures is None:
            return checked.measures()
        stream, at = self._container.open(self._pictures), 0
        while at + HEADER.size <= self._pictures.size:
            stream.seek(at)
            header = stream.read(HEADER.size)
            record = Record.of_header(HEADER.unpack(header), 0)
            if at and not header.strip(b"\0") and not stream.read().strip(b"\0"):
                break  # some writers fill the stream up with zeros
            is_inside = at + HEADER.size + record.end <= self._pictures.size
            if not (record.is_picture or record.is_store_entry) or not is_inside:
                raise Corrupt("the presentation is damaged: there is something between its pictures that is none")
            if record.end <= MAX_PICTURE_BYTES:
                checked.add(stream.read(record.end), record)
            at += HEADER.size + record.end
        return checked.measures()
