"""TIFF without metadata: in its place, zeros; what decides how its pages look stays where it is."""
# TIFF 6.0 and BigTIFF. All that no page needs is overwritten, also what no directory refers to.

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sluice_inspect.report import Corrupt, TooComplex, Unsupported
from sluice_inspect.sanitise import exif, jpeg
from sluice_inspect.sanitise.cleaning import Cleaning

_PAGES_MOST: Final = 5_000
_ENTRIES_MOST: Final = 4_096
_BIG: Final = 43
# Bytes of a value of each field type.
_SIZES: Final[Mapping[int, int]] = {
    1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4, 16: 8, 17: 8, 18: 8,
}  # fmt: skip
_SUBFILE, _COMPRESSION = 254, 259
_REDUCED: Final = 1
_STRIPS, _STRIP_BYTES, _TILES, _TILE_BYTES = 273, 279, 324, 325
_OLD_JPEG, _JPEG = 6, 7
_PIXELS: Final = frozenset({
    _SUBFILE, 255, 256, 257, 258, _COMPRESSION, 262, 263, 264, 265, 266, _STRIPS, exif.ORIENTATION, 277, 278,
    _STRIP_BYTES, 280, 281, 282, 283, 284, 286, 287, 290, 291, 292, 293, 296, 297, 301, 317, 318, 319, 320, 321, 322,
    323, _TILES, _TILE_BYTES, 326, 327, 328, 332, 333, 334, 336, 338, 339, 340, 341, 342, 347, 529, 530, 531, 532,
    34675, 50674,
})  # fmt: skip
_GEOGRAPHIC: Final = frozenset({33550, 33922, 34264, 34735, 34736, 34737})
_RAW: Final = 50706  # the version of a digital negative, whose pictures look by what its other tags say
_WORDS: Final = {**exif.WORDS, **dict.fromkeys(_GEOGRAPHIC, "gps")}


@dataclass(frozen=True, slots=True)
class _Entry:
    tag: int
    raw: bytes
    start: int  # of the values
    size: int
    values: tuple[int, ...]  # of those that are whole numbers, as offsets are


@dataclass(frozen=True, slots=True)
class _Page:
    at: int
    size: int  # of the directory with the offset of the next one
    entries: tuple[_Entry, ...]
    following: int

    def numbers(self, tag: int) -> tuple[int, ...]:
        return next((each.values for each in self.entries if each.tag == tag), ())


class _Layout:
    """How directories are written in this file."""

    def __init__(self, data: bytes) -> None:
        self.order = "<" if data[:2] == b"II" else ">"
        self.is_big = int.from_bytes(data[2:4], "little" if self.order == "<" else "big") == _BIG
        self.offset = struct.Struct(f"{self.order}{'Q' if self.is_big else 'L'}")
        self.count = struct.Struct(f"{self.order}{'Q' if self.is_big else 'H'}")
        self.entry = struct.Struct(f"{self.order}{'HHQ8s' if self.is_big else 'HHL4s'}")
        self.first = 8 if self.is_big else 4

    def read_page(self, data: bytes, at: int) -> _Page:
        (count,) = self.count.unpack_from(data, at)
        if count > _ENTRIES_MOST:
            raise Corrupt(f"the directory at byte {at} of the TIFF has {count} entries")
        size = self.count.size + count * self.entry.size + self.offset.size
        entries = tuple(self._read_entry(data, at + self.count.size + n * self.entry.size) for n in range(count))
        (following,) = self.offset.unpack_from(data, at + size - self.offset.size)
        return _Page(at, size, entries, following)

    def _read_entry(self, data: bytes, at: int) -> _Entry:
        tag, kind, count, inline = self.entry.unpack_from(data, at)
        size = _SIZES.get(kind, 0) * count
        start = at + self.entry.size - len(inline)
        if size > len(inline):
            (start,) = self.offset.unpack(inline)
            if start + size > len(data) and tag in _PIXELS:
                raise Corrupt(f"a value of the TIFF is behind its end: byte {start}")
        letter = {1: "B", 3: "H", 4: "L", 13: "L", 16: "Q", 18: "Q"}.get(kind)
        values = struct.unpack_from(f"{self.order}{count}{letter}", data, start) if letter and tag in _PIXELS else ()
        return _Entry(tag, data[at : at + self.entry.size], start, size, values)


def clean(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the pictures without metadata and smaller versions of them, if that is wanted."""
    if not cleaning.metadata:
        return data
    try:
        layout = _Layout(data)
        pages = _read_pages(data, layout)
        kept = _shown(pages, cleaning.removed)
        return _rewrite(data, layout, kept, cleaning.removed)
    except struct.error as error:
        raise Corrupt(f"the TIFF ends inside a directory: {error}") from error


def _read_pages(data: bytes, layout: _Layout) -> list[_Page]:
    pages: list[_Page] = []
    (at,) = layout.offset.unpack_from(data, layout.first)
    seen = set[int]()
    while at and at not in seen:
        if len(pages) == _PAGES_MOST:
            raise TooComplex(f"the TIFF has more than {_PAGES_MOST} pages")
        seen.add(at)
        pages.append(layout.read_page(data, at))
        at = pages[-1].following
    if not pages:
        raise Corrupt("the TIFF has no page")
    return pages


def _shown(pages: list[_Page], removed: set[str]) -> list[_Page]:
    """Return the pages without smaller versions of others, unless there is nothing else."""
    for page in pages:
        if any(entry.tag == _RAW for entry in page.entries):
            raise Unsupported("a raw picture looks by what its metadata says")
        if page.numbers(_COMPRESSION)[:1] == (_OLD_JPEG,):
            raise Unsupported("what belongs to the pixels of this kind of JPEG in TIFF is not known")
    full = [page for page in pages if not sum(page.numbers(_SUBFILE)[:1]) & _REDUCED]
    if full and len(full) < len(pages):
        removed.add("thumbnail")
        return full
    return pages


def _rewrite(data: bytes, layout: _Layout, pages: list[_Page], removed: set[str]) -> bytes:
    """Return a copy, all zeros, with header, directories, and what they refer to where it was."""
    result = bytearray(len(data))
    end = layout.first + layout.offset.size
    result[:end] = data[:end]
    link, taken = layout.first, end
    for page in pages:
        layout.offset.pack_into(result, link, page.at)
        entries = [entry for entry in page.entries if entry.tag in _PIXELS]
        removed |= {_WORDS.get(entry.tag, "other_metadata") for entry in page.entries if entry.tag not in _PIXELS}
        layout.count.pack_into(result, page.at, len(entries))
        start = page.at + layout.count.size
        directory = b"".join(entry.raw for entry in entries)
        link = start + len(directory)
        result[start : link + layout.offset.size] = directory + bytes(layout.offset.size)
        taken = max(taken, link + layout.offset.size)
        for entry in entries:
            if entry.size > layout.offset.size:
                result[entry.start : entry.start + entry.size] = data[entry.start : entry.start + entry.size]
                taken = max(taken, entry.start + entry.size)
        taken = max(taken, _copy_pixels(data, result, page, removed))
    kept = bytes(result[:taken])
    if not removed and kept != data:
        removed.add("other_metadata")
    return kept


def _copy_pixels(data: bytes, result: bytearray, page: _Page, removed: set[str]) -> int:
    """Copy the strips and tiles of a page; return where the last one ends."""
    taken = 0
    for offsets_tag, sizes_tag in ((_STRIPS, _STRIP_BYTES), (_TILES, _TILE_BYTES)):
        offsets, sizes = page.numbers(offsets_tag), page.numbers(sizes_tag)
        if len(offsets) != len(sizes):
            raise Unsupported("the TIFF does not state how long its strips are")
        for start, size in zip(offsets, sizes, strict=True):
            strip = data[start : start + size]
            if page.numbers(_COMPRESSION)[:1] == (_JPEG,) and strip[:2] == b"\xff\xd8":
                strip = _clean_strip(strip, removed)
            result[start : start + len(strip)] = strip
            taken = max(taken, start + size)
    return min(taken, len(data))


def _clean_strip(strip: bytes, removed: set[str]) -> bytes:
    """Return a JPEG of the same length, filled up with zeros behind its end."""
    found = Cleaning(metadata=True, active_content=False)
    cleaned = jpeg.clean(strip.rstrip(b"\0"), found)
    removed |= found.removed
    return cleaned if found.removed else strip
