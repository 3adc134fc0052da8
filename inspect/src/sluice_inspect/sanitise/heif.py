"""HEIC and AVIF without metadata and thumbnails: their items are taken out of the list, and their bytes are zeros."""
# ISO/IEC 14496-12, 8.11 (items), 23008-12 (pictures). What stays keeps its place, as lists of items name places.

from __future__ import annotations

from typing import Final

from sluice_inspect.containers.isobmff import Box, children
from sluice_inspect.formats.heif.items import HeifItems, read_boxes, read_items
from sluice_inspect.report import Corrupt, TooComplex, Unsupported
from sluice_inspect.sanitise import exif, movie
from sluice_inspect.sanitise.cleaning import Cleaning
from sluice_inspect.source import MemoryBacked

_METADATA: Final = frozenset({b"Exif", b"mime", b"uri "})
# Properties that say who or when.
_REMARKS: Final = {
    b"udes": "comments",
    b"crtt": "dates",
    b"mdft": "dates",
    b"altt": "comments",
    b"uuid": "other_metadata",
}
_HEADER: Final = 8
_SHARED_MOST: Final = 4


def clean(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the pictures without metadata, if that is wanted."""
    if not cleaning.metadata:
        return data
    source = MemoryBacked(data)
    boxes = read_boxes(source)
    items = read_items(source, boxes)
    result = bytearray(data)
    if items is not None:
        meta = boxes.named(b"meta")[0]
        gone = _unwanted(data, items, cleaning.removed)
        storage = [] if boxes.named(b"moov") else boxes.named(b"mdat")
        _zero(result, items, gone, storage)
        if not cleaning.removed and result != data:
            cleaning.removed.add("other_metadata")
        _Lists(source, result, meta, gone, cleaning.removed).rewrite()
    movie.clean_boxes(source, result, boxes, cleaning.removed, keeps_items=items is not None)
    if boxes.cut is not None or boxes.end < len(data):
        cleaning.removed.add("other_metadata")
        del result[boxes.end :]
    return bytes(result)


def _unwanted(data: bytes, items: HeifItems, removed: set[str]) -> set[int]:
    """Return the items that are metadata or thumbnails, and what thumbnails are made of."""
    gone = set[int]()
    for number, item in items.by_number.items():
        if item.coding in _METADATA:
            gone.add(number)
            if item.coding == b"Exif" and item.extents:
                body = b"".join(data[start : start + size] for start, size in item.extents)
                removed |= exif.summarise(body[4 + int.from_bytes(body[:4], "big") :]).words
            else:
                removed.add("xmp" if item.coding == b"mime" else "other_metadata")
    for name, number in items.references:
        if name == b"thmb" and number != items.primary and number in items.by_number:
            removed.add("thumbnail")
            gone |= {number, *items.references.get((b"dimg", number), ())}
    return gone - {items.primary}


def _zero(result: bytearray, items: HeifItems, gone: set[int], storage: list[Box]) -> None:
    """Overwrite the bytes of items that go, and, in `storage`, whatever belongs to none that stays."""
    if any(items.by_number[number].extents is None for number in gone):
        raise Unsupported("metadata is stored within another item")
    kept = [each for number, item in items.by_number.items() if number not in gone for each in item.extents or ()]
    if sum(size for _start, size in kept) > _SHARED_MOST * len(result):
        raise TooComplex("too many pictures share the same bytes")
    stays = [(start, bytes(result[start : start + size])) for start, size in kept]
    cleared = [each for number in gone for each in items.by_number[number].extents or ()]
    if not any(item.extents is None for item in items.by_number.values()):
        cleared += [(box.body, box.end - box.body) for box in storage]
    for start, size in cleared:
        result[start : start + size] = bytes(min(size, max(0, len(result) - start)))
    for start, content in stays:
        result[start : start + len(content)] = content


class _Lists:
    """The box that lists items, written again in its place; the bytes that it no longer needs become free space."""

    def __init__(self, source: MemoryBacked, result: bytearray, meta: Box, gone: set[int], removed: set[str]) -> None:
        self._source = source
        self._result = result
        self._meta = meta
        self._gone = gone
        self._removed = removed

    def rewrite(self) -> None:
        meta = self._meta
        pieces = [bytes(self._result[meta.body : meta.body + 4])]
        for box in children(self._source, meta, 4):
            if box.name == b"uuid":
                self._removed.add("other_metadata")
                continue
            if box.name in {b"free", b"skip"}:
                if any(self._result[box.body : box.end]):
                    self._removed.add("other_metadata")
                pieces.append(self._head(box) + bytes(box.end - box.body))
                continue
            pieces.append(self._rewritten(box))
        body = b"".join(pieces)
        spare = meta.end - meta.offset - _HEADER - len(body)
        if spare and spare < _HEADER:
            if spare < 0 or any(self._result[meta.end - spare : meta.end]):
                raise Corrupt("the list of pictures has bytes that belong to no box")
            body, spare = body + bytes(spare), 0
        if spare and not self._removed and any(self._result[meta.end - spare : meta.end]):
            self._removed.add("other_metadata")
        new = (_HEADER + len(body)).to_bytes(4, "big") + b"meta" + body
        if spare:
            new += spare.to_bytes(4, "big") + b"free" + bytes(spare - _HEADER)
        self._result[meta.offset : meta.end] = new

    def _head(self, box: Box) -> bytes:
        return bytes(self._result[box.offset : box.body])

    def _rewritten(self, box: Box) -> bytes:
        body = bytes(self._result[box.body : box.end])
        if box.name == b"iprp":
            return self._properties(box)
        if not self._gone:
            return self._head(box) + body
        if box.name == b"iinf":
            return _box(box.name, self._infos(box, body))
        if box.name == b"iloc":
            return _box(box.name, self._places(body))
        if box.name == b"iref":
            return _box(box.name, self._references(box, body))
        return self._head(box) + body

    def _infos(self, box: Box, body: bytes) -> bytes:
        wide = 2 if body[0] == 0 else 4
        kept = []
        for entry in children(self._source, box, 4 + wide):
            content = self._source.read_at(entry.body, 8)
            number = int.from_bytes(content[4:6] if content[0] == 2 else content[4:8], "big")
            if entry.name != b"infe" or content[0] not in {2, 3} or number not in self._gone:
                kept.append(self._source.read_at(entry.offset, entry.end - entry.offset))
        return body[:4] + len(kept).to_bytes(wide, "big") + b"".join(kept)

    def _places(self, body: bytes) -> bytes:
        version = body[0]
        sizes = int.from_bytes(body[4:6], "big")
        offset, length, base, index = (sizes >> shift & 15 for shift in (12, 8, 4, 0))
        wide = 4 if version == 2 else 2
        count, at = int.from_bytes(body[6 : 6 + wide], "big"), 6 + wide
        kept = []
        for _ in range(count):
            start = at
            number = int.from_bytes(body[at : at + wide], "big")
            at += wide + (2 if version else 0) + 2 + base
            extents = int.from_bytes(body[at : at + 2], "big")
            at += 2 + extents * (offset + length + (index if version else 0))
            if number not in self._gone:
                kept.append(body[start:at])
        return body[:6] + len(kept).to_bytes(wide, "big") + b"".join(kept)

    def _references(self, box: Box, body: bytes) -> bytes:
        wide = 2 if body[0] == 0 else 4
        kept = []
        for entry in children(self._source, box, 4):
            content = self._source.read_at(entry.body, entry.end - entry.body)
            origin = int.from_bytes(content[:wide], "big")
            targets = [
                int.from_bytes(content[at : at + wide], "big") for at in range(wide + 2, len(content) - wide + 1, wide)
            ]
            left = [each for each in targets if each not in self._gone]
            if origin not in self._gone and left:
                listed = b"".join(each.to_bytes(wide, "big") for each in left)
                kept.append(_box(entry.name, content[:wide] + len(left).to_bytes(2, "big") + listed))
        return body[:4] + b"".join(kept)

    def _properties(self, box: Box) -> bytes:
        """Return properties, those that are remarks as free space, and which items have which."""
        pieces = []
        for each in children(self._source, box):
            body = self._source.read_at(each.body, each.end - each.body)
            if each.name == b"ipco":
                body = b"".join(self._property(one) for one in children(self._source, each))
            elif each.name == b"ipma" and self._gone:
                body = self._associations(body)
            pieces.append(_box(each.name, body))
        return _box(box.name, b"".join(pieces))

    def _property(self, box: Box) -> bytes:
        content = self._source.read_at(box.offset, box.end - box.offset)
        if box.name not in _REMARKS:
            return content
        self._removed.add(_REMARKS[box.name])
        return content[:4] + b"free" + bytes(len(content) - _HEADER)

    def _associations(self, body: bytes) -> bytes:
        wide = 2 if body[0] == 0 else 4
        index = 2 if body[3] & 1 else 1
        count, at = int.from_bytes(body[4:8], "big"), 8
        kept = []
        for _ in range(count):
            if at >= len(body):
                raise Corrupt("the list of properties ends too early")
            end = at + wide + 1 + body[at + wide] * index
            if int.from_bytes(body[at : at + wide], "big") not in self._gone:
                kept.append(body[at:end])
            at = end
        return body[:4] + len(kept).to_bytes(4, "big") + b"".join(kept)


def _box(name: bytes, body: bytes) -> bytes:
    return (_HEADER + len(body)).to_bytes(4, "big") + name + body
