"""The items of HEIF files (HEIC, AVIF): what they are, where their bytes are, which pictures they make up."""
# ISO/IEC 23008-12 specifies pictures, grids and references between items; 14496-12 the `meta` box that lists them.

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sluice_inspect.containers.isobmff import Box, Layout, child, children, read_layout
from sluice_inspect.report import Corrupt, Encrypted, TooComplex, Unsupported
from sluice_inspect.source import Source

_TABLE_BYTES: Final = 16 * 1024**2  # a picture of 10,000 tiles needs a list of 200 KB
_ITEMS_MOST: Final = 65_536
_KNOWN: Final = frozenset(
    {b"ftyp", b"etyp", b"meta", b"mdat", b"moov", b"moof", b"mini", b"free", b"skip", b"uuid", b"mpvd"}
)
_DEPTH_MOST: Final = 8  # pictures derived from pictures derived from pictures
_IN_FILE: Final = 0
_IN_IDAT: Final = 1
_LATEST_IINF: Final = 2  # early writers put this version; it is read as version 1 is
_DERIVED: Final = frozenset({b"grid", b"iovl", b"iden"})
# Metadata, and what only enhances a picture that is shown without it too: tone maps, further layers.
_NO_PICTURES: Final = frozenset({b"Exif", b"mime", b"uri ", b"tmap", b"lhv1"})
_ALPHA: Final = (
    b"urn:mpeg:mpegB:cicp:systems:auxiliary:alpha",
    b"urn:mpeg:hevc:2015:auxid:1",
    b"urn:mpeg:avc:2015:auxid:1",
)


@dataclass(frozen=True, slots=True)
class HeifItem:
    """One item: a coded picture, a picture derived from others, or metadata."""

    number: int
    coding: bytes  # `hvc1`, `av01`, `grid`, `Exif`, ...
    is_hidden: bool = False
    is_protected: bool = False
    extents: tuple[tuple[int, int], ...] | None = ()  # offset and length in the file; None if stored elsewhere
    properties: tuple[Box, ...] = ()

    def find_property(self, name: bytes) -> Box | None:
        """Return the property of this name."""
        return next((box for box in self.properties if box.name == name), None)


@dataclass(frozen=True, slots=True)
class HeifItems:
    """All items of a file."""

    primary: int
    by_number: Mapping[int, HeifItem]
    # The items that an item refers to, by type of reference (`dimg`, `auxl`, `thmb`, `cdsc`) and its own number.
    references: Mapping[tuple[bytes, int], tuple[int, ...]] = field(default_factory=dict)

    def shown(self) -> list[HeifItem]:
        """Return the pictures that a reader shows, the primary one first: no thumbnails, depth maps or tiles."""
        secondary = {number for name, number in self.references if name in {b"thmb", b"auxl", b"cdsc", b"prem"}}
        parts = {number for (name, _), numbers in self.references.items() if name == b"dimg" for number in numbers}
        others = [
            item
            for item in self.by_number.values()
            if item.number not in secondary | parts | {self.primary}
            and not item.is_hidden
            and item.coding not in _NO_PICTURES
            and item.find_property(b"ispe")
        ]
        return [self.by_number[self.primary], *others]

    def parts(self, item: HeifItem) -> list[HeifItem]:
        """Return the items that a derived picture is made of, in order. Raise `Corrupt` if one does not exist."""
        numbers = self.references.get((b"dimg", item.number), ())
        if not numbers or any(number not in self.by_number for number in numbers):
            raise Corrupt(f"picture {item.number} is made of pictures that are not in the file")
        return [self.by_number[number] for number in numbers]

    def coded_parts(self, item: HeifItem, depth: int = 0) -> Iterator[HeifItem]:
        """Yield all coded pictures that a picture needs, itself if it is one. Raises `Corrupt`."""
        if depth > _DEPTH_MOST:
            raise Corrupt(f"picture {item.number} is derived from pictures in a circle")
        if item.coding not in _DERIVED:
            yield item
            return
        for part in self.parts(item):
            yield from self.coded_parts(part, depth + 1)

    def independent(self, coding: bytes) -> list[HeifItem]:
        """Return all pictures of a coding that decode without another: shown ones, tiles, thumbnails, gain maps."""
        predicted = {number for name, number in self.references if name == b"pred"}
        return [
            item
            for item in self.by_number.values()
            if item.coding == coding
            and item.number not in predicted
            and not item.is_protected
            and item.extents is not None
        ]

    def alpha_of(self, source: Source, item: HeifItem) -> HeifItem | None:
        """Return the picture that holds the transparency of another."""
        for (name, number), numbers in self.references.items():
            if name == b"auxl" and item.number in numbers and (alpha := self.by_number.get(number)):
                box = alpha.find_property(b"auxC")
                if box and source.read_at(box.body + 4, 64).startswith(_ALPHA):
                    return alpha
        return None


def read_boxes(source: Source) -> Layout:
    """Return the boxes of a file. Raise `Corrupt` if it ends inside one that readers need."""
    boxes = read_layout(source)
    if boxes.cut and boxes.cut.name in _KNOWN:  # bytes behind the end that only resemble a box are no damage
        name = boxes.cut.name.decode("ascii")
        raise Corrupt(f"the file ends at byte {source.size}, inside the {name} box, which ends at byte {boxes.cut.end}")
    if not boxes.named(b"meta", b"moov", b"mini"):
        raise Corrupt("the file holds no list of its pictures")
    return boxes


def read_items(source: Source, boxes: Layout) -> HeifItems | None:
    """Return the items of a file, None if no `meta` box names a primary one, as in image sequences.

    Raise `Corrupt` if a box or the primary item is missing.
    """
    meta = next(iter(boxes.named(b"meta")), None)
    if meta is None:
        return None
    tables = {box.name: box for box in children(source, meta, 4)}
    if b"pitm" not in tables and boxes.named(b"moov"):
        return None
    if missing := [name.decode() for name in (b"pitm", b"iloc", b"iinf") if name not in tables]:
        raise Corrupt(f"the list of pictures is damaged: it has no {missing[0]} box")
    infos = _read_infos(source, tables[b"iinf"])
    extents = _read_extents(source, tables[b"iloc"], tables.get(b"idat"))
    properties = _read_properties(source, tables[b"iprp"]) if b"iprp" in tables else {}
    items = {
        number: HeifItem(
            number, coding, bool(flags & 1), bool(protection), extents.get(number, ()), properties.get(number, ())
        )
        for number, (coding, flags, protection) in infos.items()
    }
    pitm = _BoxFields(source, tables[b"pitm"])
    primary = pitm.number(2 if pitm.version == 0 else 4)
    if primary not in items:
        raise Corrupt("the file names a picture to show that it does not hold")
    found = HeifItems(primary, items, _read_references(source, tables[b"iref"]) if b"iref" in tables else {})
    _check_extents(source, boxes, found)
    return found


def read_content(source: Source, item: HeifItem) -> bytes:
    """Return the bytes of an item. Raise `Unsupported` if they are stored in a way that is not read here."""
    if item.extents is None:
        raise Unsupported(f"the bytes of picture {item.number} are part of another item's")
    return b"".join(source.read_at(offset, length) for offset, length in item.extents)


def declared_size(source: Source, item: HeifItem) -> tuple[int, int]:
    """Return the width and height that an item declares, (0, 0) if it declares none."""
    box = item.find_property(b"ispe")
    fields = source.read_at(box.body + 4, 8) if box else b""
    return int.from_bytes(fields[:4], "big"), int.from_bytes(fields[4:8], "big")


def _check_extents(source: Source, boxes: Layout, items: HeifItems) -> None:
    for item in items.by_number.values():
        for offset, length in item.extents or ():
            end = offset + length
            if end > source.size:
                raise Corrupt(f"the file ends at byte {source.size}, before byte {end}, where item {item.number} ends")
            if end > boxes.end and boxes.cut is None:
                raise Corrupt(f"item {item.number} lies behind byte {boxes.end}, where a box is damaged")
    primary = items.by_number[items.primary]
    if primary.is_protected:
        raise Encrypted("the picture is encrypted")
    for item in items.coded_parts(primary):
        if item.extents is not None and not sum(length for _, length in item.extents):
            raise Corrupt(f"picture {item.number} has no bytes in the file")


class _BoxFields:
    def __init__(self, source: Source, box: Box) -> None:
        if box.end - box.body > _TABLE_BYTES:
            raise TooComplex(f"the {box.name.decode('latin-1')} box has {box.end - box.body} bytes")
        self._name = box.name.decode("latin-1")
        self._data = source.read_at(box.body, box.end - box.body)
        self._at = 0
        self.version = self.number(1)
        self.flags = self.number(3)

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def take(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if len(found) < size:
            raise Corrupt(f"the {self._name} box of the file is damaged: it ends too early")
        self._at += size
        return found

    def count(self, size: int) -> int:
        found = self.number(size)
        if found > _ITEMS_MOST:
            raise Corrupt(f"the {self._name} box of the file is damaged: it declares {found} entries")
        return found


def _read_infos(source: Source, box: Box) -> dict[int, tuple[bytes, int, int]]:
    """Return coding, flags and protection by item, from the `iinf` box (14496-12, 8.11.6)."""
    fields = _BoxFields(source, box)
    if fields.version > _LATEST_IINF:
        raise Corrupt(f"the iinf box of the file is damaged: its version is {fields.version}")
    found: dict[int, tuple[bytes, int, int]] = {}
    for entry in children(source, box, 4 + (2 if fields.version == 0 else 4)):
        info = _BoxFields(source, entry)
        if entry.name == b"infe" and info.version in {2, 3}:
            number = info.number(2 if info.version == 2 else 4)
            protection = info.number(2)
            found[number] = (info.take(4), info.flags, protection)
        if len(found) > _ITEMS_MOST:
            raise TooComplex(f"the file holds more than {_ITEMS_MOST} items")
    return found


def _read_extents(source: Source, box: Box, idat: Box | None) -> dict[int, tuple[tuple[int, int], ...] | None]:
    """Return the extents by item, from the `iloc` box (14496-12, 8.11.3)."""
    fields = _BoxFields(source, box)
    if fields.version > 2:
        raise Corrupt(f"the iloc box of the file is damaged: its version is {fields.version}")
    sizes = fields.number(2)
    offset_size, length_size, base_size, index_size = (sizes >> shift & 15 for shift in (12, 8, 4, 0))
    wide = 4 if fields.version == 2 else 2
    found: dict[int, tuple[tuple[int, int], ...] | None] = {}
    for _ in range(fields.count(wide)):
        number = fields.number(wide)
        method = fields.number(2) & 15 if fields.version else _IN_FILE
        fields.take(2)
        base = fields.number(base_size)
        extents = []
        for _ in range(fields.count(2)):
            fields.take(index_size if fields.version else 0)
            offset = base + fields.number(offset_size)
            extents.append(_extent(source, method, idat, offset, fields.number(length_size)))
        known = [extent for extent in extents if extent is not None]
        found[number] = tuple(known) if len(known) == len(extents) else None
    return found


def _extent(source: Source, method: int, idat: Box | None, offset: int, length: int) -> tuple[int, int] | None:
    """Return where in the file an extent is; a length of 0 means up to the end."""
    if method == _IN_FILE:
        return offset, length or max(0, source.size - offset)
    if method != _IN_IDAT:
        return None
    if idat is None or idat.body + offset + length > idat.end:
        raise Corrupt("the file is damaged: an item lies in a box that is missing or too short")
    return idat.body + offset, length or idat.end - idat.body - offset


def _read_properties(source: Source, box: Box) -> dict[int, tuple[Box, ...]]:
    """Return the properties by item: `ipco` holds all of them, `ipma` says which belong to which item."""
    container = child(source, box, b"ipco")
    known = list(children(source, container)) if container else []
    found: dict[int, tuple[Box, ...]] = {}
    for entry in children(source, box):
        if entry.name == b"ipma":
            found |= _read_associations(_BoxFields(source, entry), known)
    return found


def _read_associations(fields: _BoxFields, known: list[Box]) -> dict[int, tuple[Box, ...]]:
    found: dict[int, tuple[Box, ...]] = {}
    wide = bool(fields.flags & 1)
    for _ in range(fields.count(4)):
        number = fields.number(2 if fields.version == 0 else 4)
        # The highest bit marks a property that readers must understand; index 0 means none.
        indices = [fields.number(2) & 0x7FFF if wide else fields.number(1) & 0x7F for _ in range(fields.number(1))]
        if any(index > len(known) for index in indices):
            raise Corrupt(f"item {number} of the file has a property that does not exist")
        found[number] = tuple(known[index - 1] for index in indices if index)
    return found


def _read_references(source: Source, box: Box) -> dict[tuple[bytes, int], tuple[int, ...]]:
    """Return the items that each item refers to, by type and number, from the `iref` box (14496-12, 8.11.12)."""
    fields = _BoxFields(source, box)
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
