"""The items of HEIF files (HEIC, AVIF): what they are, where their bytes lie, which pictures they make up. Decodes none of them.

ISO/IEC 23008-12 for pictures, grids and references between items; 14496-12 for the `meta` box that lists them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sluice.formats.isobmff import Box, Layout, child, children, layout
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Encrypted, TooComplex, Unsupported

_TABLE_BYTES: Final = 16 * 1024**2
"""A larger list of items is not read; a picture of 10,000 tiles needs 200 KB."""
_ITEMS_MOST: Final = 65_536
_KNOWN: Final = frozenset({b"ftyp", b"etyp", b"meta", b"mdat", b"moov", b"moof", b"mini", b"free", b"skip", b"uuid", b"mpvd"})
_DEPTH_MOST: Final = 8
"""Pictures derived from pictures derived from pictures."""
_IN_FILE: Final = 0
_IN_IDAT: Final = 1
_LATEST_INFOS: Final = 2
"""Early writers put this version; it is read as version 1 is."""
_DERIVED: Final = frozenset({b"grid", b"iovl", b"iden"})
_NO_PICTURES: Final = frozenset({b"Exif", b"mime", b"uri ", b"tmap", b"lhv1"})
"""Metadata, and what only enhances a picture that is shown without it too: tone maps, further layers."""
_ALPHA: Final = (b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha", b"urn:mpeg:hevc:2015:auxid:1", b"urn:mpeg:avc:2015:auxid:1")


@dataclass(frozen=True, slots=True)
class Item:
    """One item: a coded picture, a picture derived from others, or metadata."""

    number: int
    coding: bytes
    """`hvc1`, `av01`, `grid`, `Exif`, ..."""
    hidden: bool = False
    protected: bool = False
    stretches: tuple[tuple[int, int], ...] | None = ()
    """Offset and length in the file of its bytes; None where they lie in a way that is not read here."""
    properties: tuple[Box, ...] = ()

    def property_of(self, name: bytes) -> Box | None:
        """Answer its property of this name."""
        return next((box for box in self.properties if box.name == name), None)


@dataclass(frozen=True, slots=True)
class Items:
    """All items of a file."""

    primary: int
    by_number: Mapping[int, Item]
    sources: Mapping[tuple[bytes, int], tuple[int, ...]] = field(default_factory=dict)
    """The items that an item refers to, by kind of reference (`dimg`, `auxl`, `thmb`, `cdsc`) and its number."""

    def shown(self) -> list[Item]:
        """Answer the pictures that a reader shows, the primary one first. Thumbnails, depth maps, tiles and hidden ones are none."""
        secondary = {number for kind, number in self.sources if kind in {b"thmb", b"auxl", b"cdsc", b"prem"}}
        parts = {number for (kind, _), numbers in self.sources.items() if kind == b"dimg" for number in numbers}
        others = [
            item
            for item in self.by_number.values()
            if item.number not in secondary | parts | {self.primary} and not item.hidden and _is_picture(item)
        ]
        return [self.by_number[self.primary], *others]

    def parts(self, item: Item) -> list[Item]:
        """Answer the items that a derived picture is made of, in their order; raises `Corrupt` where one does not exist."""
        numbers = self.sources.get((b"dimg", item.number), ())
        if not numbers or any(number not in self.by_number for number in numbers):
            raise Corrupt(f"picture {item.number} is made of pictures that are not in the file")
        return [self.by_number[number] for number in numbers]

    def coded(self, item: Item, depth: int = 0) -> Iterator[Item]:
        """Answer all coded pictures that a picture needs, itself if it is one. Raises `Corrupt`."""
        if depth > _DEPTH_MOST:
            raise Corrupt(f"picture {item.number} is derived from pictures in a circle")
        if item.coding not in _DERIVED:
            yield item
            return
        for part in self.parts(item):
            yield from self.coded(part, depth + 1)

    def alone(self, coding: bytes) -> list[Item]:
        """Answer all pictures of a coding that need no other to be decoded: shown ones, tiles, thumbnails, depth and gain maps."""
        predicted = {number for kind, number in self.sources if kind == b"pred"}
        return [
            item
            for item in self.by_number.values()
            if item.coding == coding and item.number not in predicted and not item.protected and item.stretches is not None
        ]

    def alpha_of(self, source: Source, item: Item) -> Item | None:
        """Answer the picture that holds the transparency of another."""
        for (kind, number), numbers in self.sources.items():
            if kind == b"auxl" and item.number in numbers and (alpha := self.by_number.get(number)) and _is_alpha(source, alpha):
                return alpha
        return None


def check_boxes(source: Source) -> Layout:
    """Answer the boxes of a file. Raises `Corrupt` when it ends inside one that readers need; what only looks like a box is no damage."""
    boxes = layout(source)
    if boxes.cut and boxes.cut.name in _KNOWN:
        name = boxes.cut.name.decode("ascii")
        raise Corrupt(f"the file ends at byte {source.size}, inside the {name} box, which ends at byte {boxes.cut.end}")
    if not boxes.named(b"meta", b"moov", b"mini"):
        raise Corrupt("the file holds no list of its pictures")
    return boxes


def read_items(source: Source, boxes: Layout) -> Items | None:
    """Answer the items of a file; None where no `meta` box lists them and which is shown, as in films of pictures.

    Raises `Corrupt` when the list makes no sense, lies behind the end of the file, or says that a picture's bytes do.
    """
    meta = next(iter(boxes.named(b"meta")), None)
    if meta is None:
        return None
    tables = {box.name: box for box in children(source, meta, 4)}
    if b"pitm" not in tables and boxes.named(b"moov"):
        return None
    if missing := [name.decode() for name in (b"pitm", b"iloc", b"iinf") if name not in tables]:
        raise Corrupt(f"the list of pictures is damaged: it has no {missing[0]} box")
    items = _read_infos(source, tables[b"iinf"])
    places = _read_places(source, tables[b"iloc"], tables.get(b"idat"))
    properties = _read_properties(source, tables[b"iprp"]) if b"iprp" in tables else {}
    whole = {
        number: Item(number, coding, bool(flags & 1), bool(guard), places.get(number, ()), properties.get(number, ()))
        for number, (coding, flags, guard) in items.items()
    }
    primary = _read_primary(source, tables[b"pitm"])
    if primary not in whole:
        raise Corrupt("the file names a picture to show that it does not hold")
    found = Items(primary, whole, _read_references(source, tables[b"iref"]) if b"iref" in tables else {})
    _check_bytes(source, boxes, found)
    return found


def content_of(source: Source, item: Item) -> bytes:
    """Answer the bytes of an item. Raises `Unsupported` where they lie in a way that is not read here."""
    if item.stretches is None:
        raise Unsupported(f"the bytes of picture {item.number} are part of another item's")
    return b"".join(source.read_at(offset, length) for offset, length in item.stretches)


def size_of(source: Source, item: Item) -> tuple[int, int]:
    """Answer the width and height that an item declares, 0 and 0 where it declares none."""
    box = item.property_of(b"ispe")
    fields = source.read_at(box.body + 4, 8) if box else b""
    return int.from_bytes(fields[:4], "big"), int.from_bytes(fields[4:8], "big")


def _is_picture(item: Item) -> bool:
    return item.coding not in _NO_PICTURES and any(box.name == b"ispe" for box in item.properties)


def _is_alpha(source: Source, item: Item) -> bool:
    box = item.property_of(b"auxC")
    return box is not None and source.read_at(box.body + 4, 64).startswith(_ALPHA)


def _check_bytes(source: Source, boxes: Layout, items: Items) -> None:
    for item in items.by_number.values():
        for offset, length in item.stretches or ():
            end = offset + length
            if end > source.size:
                raise Corrupt(f"the file ends at byte {source.size}, before byte {end}, where item {item.number} ends")
            if end > boxes.end and boxes.cut is None:
                raise Corrupt(f"item {item.number} lies behind byte {boxes.end}, where a box is damaged")
    primary = items.by_number[items.primary]
    if primary.protected:
        raise Encrypted("the picture is encrypted")
    for item in items.coded(primary):
        if item.stretches is not None and not sum(length for _, length in item.stretches):
            raise Corrupt(f"picture {item.number} has no bytes in the file")


class _Fields:
    """Numbers one after the other in the body of a box; what is missing is damage."""

    def __init__(self, source: Source, box: Box) -> None:
        if box.end - box.body > _TABLE_BYTES:
            raise TooComplex(f"the {box.name.decode('latin-1')} box has {box.end - box.body} bytes")
        self._name = box.name.decode("latin-1")
        self._data = source.read_at(box.body, box.end - box.body)
        self._place = 0
        self.version = self.number(1)
        self.flags = self.number(3)

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def take(self, size: int) -> bytes:
        found = self._data[self._place : self._place + size]
        if len(found) < size:
            raise Corrupt(f"the {self._name} box of the file is damaged: it ends too early")
        self._place += size
        return found

    def count(self, size: int) -> int:
        found = self.number(size)
        if found > _ITEMS_MOST:
            raise Corrupt(f"the {self._name} box of the file is damaged: it declares {found} entries")
        return found

    def ends(self, least: int) -> bool:
        return self._place + least > len(self._data)


def _read_primary(source: Source, box: Box) -> int:
    fields = _Fields(source, box)
    return fields.number(2 if fields.version == 0 else 4)


def _read_infos(source: Source, box: Box) -> dict[int, tuple[bytes, int, int]]:
    """Answer coding, flags and protection by item."""
    fields = _Fields(source, box)
    if fields.version > _LATEST_INFOS:
        raise Corrupt(f"the iinf box of the file is damaged: its version is {fields.version}")
    found: dict[int, tuple[bytes, int, int]] = {}
    for entry in children(source, box, 4 + (2 if fields.version == 0 else 4)):
        info = _Fields(source, entry)
        if entry.name == b"infe" and info.version in {2, 3}:
            number = info.number(2 if info.version == 2 else 4)  # noqa: PLR2004  (the version with 16-bit numbers)
            guard = info.number(2)
            found[number] = (info.take(4), info.flags, guard)
        if len(found) > _ITEMS_MOST:
            raise TooComplex(f"the file holds more than {_ITEMS_MOST} items")
    return found


def _read_places(source: Source, box: Box, idat: Box | None) -> dict[int, tuple[tuple[int, int], ...] | None]:
    fields = _Fields(source, box)
    if fields.version > 2:  # noqa: PLR2004  (the last version there is)
        raise Corrupt(f"the iloc box of the file is damaged: its version is {fields.version}")
    sizes = fields.number(2)
    offset_size, length_size, base_size, index_size = (sizes >> shift & 15 for shift in (12, 8, 4, 0))
    wide = 4 if fields.version == 2 else 2  # noqa: PLR2004  (the version with 32-bit numbers)
    found: dict[int, tuple[tuple[int, int], ...] | None] = {}
    for _ in range(fields.count(wide)):
        number = fields.number(wide)
        method = fields.number(2) & 15 if fields.version else _IN_FILE
        fields.take(2)
        base = fields.number(base_size)
        stretches = []
        for _ in range(fields.count(2)):
            fields.take(index_size if fields.version else 0)
            offset = base + fields.number(offset_size)
            stretches.append(_placed(source, method, idat, offset, fields.number(length_size)))
        known = [stretch for stretch in stretches if stretch is not None]
        found[number] = tuple(known) if len(known) == len(stretches) else None
    return found


def _placed(source: Source, method: int, idat: Box | None, offset: int, length: int) -> tuple[int, int] | None:
    """Answer where in the file a stretch lies; a length of 0 means all that there is."""
    if method == _IN_FILE:
        return offset, length or max(0, source.size - offset)
    if method != _IN_IDAT:
        return None
    if idat is None or idat.body + offset + length > idat.end:
        raise Corrupt("the file is damaged: an item lies in a box that is missing or too short")
    return idat.body + offset, length or idat.end - idat.body - offset


def _read_properties(source: Source, box: Box) -> dict[int, tuple[Box, ...]]:
    container = child(source, box, b"ipco")
    known = list(children(source, container)) if container else []
    found: dict[int, tuple[Box, ...]] = {}
    for entry in children(source, box):
        if entry.name == b"ipma":
            found |= _read_associations(_Fields(source, entry), known)
    return found


def _read_associations(fields: _Fields, known: list[Box]) -> dict[int, tuple[Box, ...]]:
    found: dict[int, tuple[Box, ...]] = {}
    wide = bool(fields.flags & 1)
    for _ in range(fields.count(4)):
        number = fields.number(2 if fields.version == 0 else 4)
        indices = [fields.number(2) & 0x7FFF if wide else fields.number(1) & 0x7F for _ in range(fields.number(1))]
        if any(index > len(known) for index in indices):
            raise Corrupt(f"item {number} of the file has a property that does not exist")
        found[number] = tuple(known[index - 1] for index in indices if index)
    return found


def _read_references(source: Source, box: Box) -> dict[tuple[bytes, int], tuple[int, ...]]:
    fields = _Fields(source, box)
    wide = 2 if fields.version == 0 else 4
    found: dict[tuple[bytes, int], tuple[int, ...]] = {}
    for entry in children(source, box, 4):
        data = source.read_at(entry.body, min(entry.end - entry.body, _TABLE_BYTES))
        start = wide + 2
        count = int.from_bytes(data[wide:start], "big")
        if len(data) < start + count * wide:
            raise Corrupt("the iref box of the file is damaged: it ends too early")
        numbers = tuple(int.from_bytes(data[start + at * wide : start + (at + 1) * wide], "big") for at in range(count))
        found[entry.name, int.from_bytes(data[:wide], "big")] = numbers
    return found
