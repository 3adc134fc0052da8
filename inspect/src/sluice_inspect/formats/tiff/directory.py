"""The directories of TIFF and BigTIFF (TIFF 6.0, section 2): which pages there are, and where their data is."""
# A directory or value behind the end proves that the file is cut. Odd values that do not affect pixels are ignored, and
# what readers pass over: an empty directory behind the first page, and an address of metadata in a file that ends with
# a directory, whose writer left the metadata out and copied its address.

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from sluice_inspect.report import Corrupt, TooComplex
from sluice_inspect.source import Source

Order = Literal["<", ">"]

WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC = 256, 257, 258, 259, 262
STRIP_OFFSETS, SAMPLES, ROWS_PER_STRIP, STRIP_BYTES, PLANAR = 273, 277, 278, 279, 284
TILE_WIDTH, TILE_HEIGHT, TILE_OFFSETS, TILE_BYTES = 322, 323, 324, 325
FILL_ORDER, PREDICTOR, COLOUR_MAP, JPEG_TABLES, SUBSAMPLING = 266, 317, 320, 347, 530
_SUB_DIRECTORIES: Final = 330
# Directories of Exif, GPS and interoperability: they must be in the file, and do not affect pixels.
_METADATA: Final = (34665, 34853, 40965)

MAGICS: Final[Mapping[bytes, tuple[Order, bool]]] = {
    b"II*\0": ("<", False),
    b"MM\0*": (">", False),
    b"II+\0\x08\0\0\0": ("<", True),
    b"MM\0+\0\x08\0\0": (">", True),
}
_SIZES: Final = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8}
_INTEGERS: Final = {
    1: "B", 3: "H", 4: "L", 6: "b", 8: "h", 9: "l", 13: "L", 16: "Q", 17: "q", 18: "Q",
}  # fmt: skip
_ENTRIES_MOST: Final = 4096
_HOLE_BYTES: Final = 64  # zeros in place of a directory, of which this many replaced one
_VALUES_MOST: Final = 8 * 1024**2  # bytes of one tag's values: two million strips
# Tags that affect the pixels. Values of other tags are not read, but must be in the file.
DRAWN: Final = frozenset({
    *range(WIDTH, COMPRESSION + 1), PHOTOMETRIC, FILL_ORDER, STRIP_OFFSETS, SAMPLES, ROWS_PER_STRIP, STRIP_BYTES,
    PLANAR, 292, 293, PREDICTOR, 318, 319, COLOUR_MAP, TILE_WIDTH, TILE_HEIGHT, TILE_OFFSETS, TILE_BYTES, 332, 336, 338,
    339, 340, 341, JPEG_TABLES, *range(512, 522), 529, SUBSAMPLING, 531, 532, 34908, 37439, 50674,
})  # fmt: skip
_READ: Final = DRAWN | {_SUB_DIRECTORIES, *_METADATA}


@dataclass(frozen=True, slots=True)
class TiffHeader:
    """How numbers are written, and where the first directory begins."""

    order: Order
    is_big: bool
    first: int


@dataclass(frozen=True, slots=True)
class Tag:
    """One entry of a directory. The values are still bytes, in the order of the file."""

    type: int
    count: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Directory:
    """One directory. `number` is that of the page, from 1 on; `end` is the end of all that the tags point to."""

    number: int
    offset: int
    order: Order
    tags: Mapping[int, Tag]
    end: int

    def numbers(self, tag: int) -> Sequence[int]:
        """Return the integers of a tag, none if it is missing or holds something else."""
        entry = self.tags.get(tag)
        letter = _INTEGERS.get(entry.type) if entry else None
        return struct.unpack(f"{self.order}{entry.count}{letter}", entry.data) if entry and letter else ()

    def first_number(self, tag: int, default: int = 0) -> int:
        """Return the first integer of a tag."""
        return next(iter(self.numbers(tag)), default)


def read_header(source: Source) -> TiffHeader | None:
    """Return what the first bytes of a TIFF declare, None for other files."""
    for magic, (order, is_big) in MAGICS.items():
        if source.head.startswith(magic):
            first = source.head[8:16] if is_big else source.head[4:8]
            return TiffHeader(order, is_big, int.from_bytes(first, "little" if order == "<" else "big"))
    return None


@dataclass(slots=True)
class _TagEntry:
    tag: int
    type: int
    count: int
    field: bytes  # the values if they fit, else where they are

    @property
    def size(self) -> int:
        return self.count * _SIZES.get(self.type, 0)


@dataclass(slots=True)
class DirectoryReader:
    """Follows the directories of a file. `end` is the end of all that they point to, as far as they were read."""

    source: Source
    header: TiffHeader
    most: int
    end: int = 0
    _visited: set[tuple[int, bool]] = field(default_factory=set)

    def pages(self) -> Iterator[Directory]:
        """Yield the directories of the main chain. Raise `Corrupt` if one is not in the file."""
        yield from self._chain(self.header.first, is_main=True)

    def subpages(self, page: Directory) -> Iterator[Directory]:
        """Yield the directories that a page lists as its own: smaller pictures, the raw picture of a camera."""
        for offset in page.numbers(_SUB_DIRECTORIES):
            yield from self._chain(offset, is_main=False, number=page.number)

    def _chain(self, offset: int, *, is_main: bool, number: int = 0) -> Iterator[Directory]:
        # A chain that comes back to a directory ends there, as readers end it.
        while offset and (offset, is_main) not in self._visited:
            if is_main and number and self._is_stub(offset):
                return
            self._visited.add((offset, is_main))
            if len(self._visited) > self.most:
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
                at = self._number(entry.field)
                self._require_in_file(at, entry.size, f"a value (tag {entry.tag}) of page {number}")
                end = max(end, at + entry.size)
                data = self.source.read_at(at, entry.size) if entry.tag in _READ and entry.size <= _VALUES_MOST else b""
            if entry.tag in _READ and entry.size and len(data) == entry.size:
                tags[entry.tag] = Tag(entry.type, entry.count, data)
        page = Directory(number, offset, self.header.order, tags, end)
        for tag in _METADATA:
            if (at := page.first_number(tag)) and page.end != self.source.size:
                self._require_in_file(at, 2, f"the metadata (tag {tag}) of page {number}")
        return page, following

    def _is_stub(self, offset: int) -> bool:
        """Return whether a directory has no entries, and no zeros replaced them."""
        counter = 8 if self.header.is_big else 2
        data = self.source.read_at(offset, _HOLE_BYTES)
        return data[:counter] == bytes(counter) and (len(data) < _HOLE_BYTES or any(data))

    def _entries(self, offset: int, number: int) -> tuple[list[_TagEntry], int, int]:
        wide = self.header.is_big
        counter, entry_bytes, pointer = (8, 20, 8) if wide else (2, 12, 4)
        self._require_in_file(offset, counter, f"the directory of page {number}")
        count = self._number(self.source.read_at(offset, counter))
        if not count:
            raise Corrupt(f"the directory of page {number} is empty")
        if count > _ENTRIES_MOST:
            raise Corrupt(f"the directory of page {number} is damaged: it would have {count} entries")
        begin, end = offset + counter, offset + counter + count * entry_bytes
        self._require_in_file(begin, count * entry_bytes, f"the directory of page {number}")
        table = self.source.read_at(begin, count * entry_bytes)
        layout = struct.Struct(f"{self.header.order}HH{'Q8s' if wide else 'L4s'}")
        entries = [_TagEntry(*fields) for fields in layout.iter_unpack(table)]
        return entries, min(end + pointer, self.source.size), self._number(self.source.read_at(end, pointer))

    def _number(self, data: bytes) -> int:
        return int.from_bytes(data, "little" if self.header.order == "<" else "big")

    def _require_in_file(self, offset: int, size: int, what: str) -> None:
        if offset + size > self.source.size:
            raise Corrupt(f"the TIFF is cut or damaged: {what} would end at byte {offset + size} of {self.source.size}")
