"""The directories of TIFF and BigTIFF (TIFF 6.0, section 2): which pages there are and where their data lies. Decodes no pixel.

A directory, or a value that one points to, behind the end of the file is proof that the file is cut. Odd values of tags that say nothing
of the pixels are not looked at.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, TooComplex

Order = Literal["<", ">"]

WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC = 256, 257, 258, 259, 262
STRIP_OFFSETS, SAMPLES, ROWS_PER_STRIP, STRIP_BYTES, PLANAR = 273, 277, 278, 279, 284
TILE_WIDTH, TILE_HEIGHT, TILE_OFFSETS, TILE_BYTES = 322, 323, 324, 325
FILL_ORDER, PREDICTOR, JPEG_TABLES, SUBSAMPLING, CCITT_OPTIONS = 266, 317, 347, 530, 292
_SUB_DIRECTORIES: Final = 330
_METADATA: Final = (34665, 34853, 40965)
"""Directories of Exif, GPS and interoperability: they must be there, and say nothing of pixels."""

_MAGICS: Final[Mapping[bytes, tuple[Order, bool]]] = {
    b"II*\0": ("<", False),
    b"MM\0*": (">", False),
    b"II+\0\x08\0\0\0": ("<", True),
    b"MM\0+\0\x08\0\0": (">", True),
}
_SIZES: Final = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_WHOLE: Final = {1: "B", 3: "H", 4: "L", 6: "b", 8: "h", 9: "l", 13: "L", 16: "Q", 17: "q", 18: "Q"}
_ENTRIES_MOST: Final = 4096
_VALUES_MOST: Final = 8 * 1024**2
"""Bytes of one tag's values: two million strips."""
DRAWN: Final = frozenset({
    *range(WIDTH, COMPRESSION + 1), PHOTOMETRIC, FILL_ORDER, STRIP_OFFSETS, SAMPLES, ROWS_PER_STRIP, STRIP_BYTES, PLANAR, 292, 293, PREDICTOR,
    318, 319, 320, TILE_WIDTH, TILE_HEIGHT, TILE_OFFSETS, TILE_BYTES, 332, 336, 338, 339, 340, 341, JPEG_TABLES, *range(512, 522), 529,
    SUBSAMPLING, 531, 532, 34908, 37439, 50674,
})  # fmt: skip
"""What has a bearing on the pixels. Other values are not read, but must be there."""
_READ: Final = DRAWN | {_SUB_DIRECTORIES, *_METADATA}


@dataclass(frozen=True, slots=True)
class Header:
    """How numbers are written, and where the first directory begins."""

    order: Order
    is_big: bool
    first: int


@dataclass(frozen=True, slots=True)
class Tag:
    """One entry of a directory: its values are still bytes, in the order of the file."""

    type: int
    count: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Directory:
    """One directory. `end` is where it and all that its tags point to end in the file."""

    number: int
    """Of the page, from 1 on."""
    offset: int
    order: Order
    tags: Mapping[int, Tag]
    end: int

    def numbers(self, tag: int) -> Sequence[int]:
        """Answer the whole numbers of a tag, none where it is missing or holds something else."""
        entry = self.tags.get(tag)
        letter = _WHOLE.get(entry.type) if entry else None
        return struct.unpack(f"{self.order}{entry.count}{letter}", entry.data) if entry and letter else ()

    def number_of(self, tag: int, otherwise: int = 0) -> int:
        """Answer the first number of a tag."""
        return next(iter(self.numbers(tag)), otherwise)


@dataclass(slots=True)
class _Entry:
    tag: int
    type: int
    count: int
    field: bytes

    @property
    def size(self) -> int:
        return self.count * _SIZES.get(self.type, 0)


def header_of(source: Source) -> Header | None:
    """Answer what a TIFF's first bytes say, None for other files."""
    for magic, (order, is_big) in _MAGICS.items():
        if source.head.startswith(magic):
            first = source.head[8:16] if is_big else source.head[4:8]
            return Header(order, is_big, int.from_bytes(first, "little" if order == "<" else "big"))
    return None


@dataclass(slots=True)
class Walk:
    """Follows the directories of a file. A chain that comes back to a directory ends there, as readers end it."""

    source: Source
    header: Header
    most: int
    end: int = 0
    """Where the last byte is that any directory names."""
    _seen: set[tuple[int, bool]] = field(default_factory=set)

    def pages(self) -> Iterator[Directory]:
        """Yield the directories of the chain. Raises `Corrupt` when one is not there, `TooComplex` for more than `most`."""
        yield from self._chain(self.header.first, is_main=True)

    def below(self, page: Directory) -> Iterator[Directory]:
        """Yield the directories that a page lists as its own: smaller pictures, the raw picture of a camera."""
        for offset in page.numbers(_SUB_DIRECTORIES):
            yield from self._chain(offset, is_main=False, number=page.number)

    def _chain(self, offset: int, *, is_main: bool, number: int = 0) -> Iterator[Directory]:
        while offset and (offset, is_main) not in self._seen:
            self._seen.add((offset, is_main))
            if len(self._seen) > self.most:
                raise TooComplex(f"the TIFF has more than {self.most} directories")
            number += is_main
            page, offset = self._read(offset, number)
            self.end = max(self.end, page.end)
            yield page

    def _read(self, offset: int, number: int) -> tuple[Directory, int]:
        entries, end, following = self._entries(offset, number)
        tags = {}
        for entry in entries:
            inline = 8 if self.header.is_big else 4
            data = entry.field[: entry.size]
            if entry.size > inline:
                place = self._number(entry.field)
                self._require(place, entry.size, f"a value (tag {entry.tag}) of page {number}")
                end = max(end, place + entry.size)
                data = self.source.read_at(place, entry.size) if entry.tag in _READ and entry.size <= _VALUES_MOST else b""
            if entry.tag in _READ and entry.size and len(data) == entry.size:
                tags[entry.tag] = Tag(entry.type, entry.count, data)
        page = Directory(number, offset, self.header.order, tags, end)
        for tag in _METADATA:
            if place := page.number_of(tag):
                self._require(place, 2, f"the metadata (tag {tag}) of page {number}")
        return page, following

    def _entries(self, offset: int, number: int) -> tuple[list[_Entry], int, int]:
        """Answer the entries of a directory, where it ends, and where the next one begins."""
        wide = self.header.is_big
        counter, entry_bytes, pointer = (8, 20, 8) if wide else (2, 12, 4)
        self._require(offset, counter, f"the directory of page {number}")
        count = self._number(self.source.read_at(offset, counter))
        if not count:
            raise Corrupt(f"the directory of page {number} is empty")
        if count > _ENTRIES_MOST:
            raise Corrupt(f"the directory of page {number} is damaged: it would have {count} entries")
        begin, end = offset + counter, offset + counter + count * entry_bytes
        self._require(begin, count * entry_bytes, f"the directory of page {number}")
        table = self.source.read_at(begin, count * entry_bytes)
        layout = struct.Struct(f"{self.header.order}HH{'Q8s' if wide else 'L4s'}")
        entries = [_Entry(*fields) for fields in layout.iter_unpack(table)]
        return entries, min(end + pointer, self.source.size), self._number(self.source.read_at(end, pointer))

    def _number(self, data: bytes) -> int:
        return int.from_bytes(data, "little" if self.header.order == "<" else "big")

    def _require(self, offset: int, size: int, what: str) -> None:
        if offset + size > self.source.size:
            raise Corrupt(f"the TIFF is cut or damaged: {what} would end at byte {offset + size} of {self.source.size}")
