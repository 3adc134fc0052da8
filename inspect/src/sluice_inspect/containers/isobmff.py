"""The boxes of ISO base media files (MP4, QuickTime, HEIF and others) and their brands. Decodes no media."""
# ISO/IEC 14496-12 (boxes, `ftyp`), 23008-12 (image brands), QuickTime File Format (files without `ftyp`).

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sluice_inspect.report import Corrupt
from sluice_inspect.source import Source

_PICTURE_BRANDS: Final = {
    **dict.fromkeys((b"avif", b"avis", b"avio"), "avif"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"heif"), "heic"),
}
# Brands of image files of any coding: the compatible brands then name it, and it is HEIC unless one of them is AVIF.
_GENERIC_PICTURE_BRANDS: Final = frozenset({b"mif1", b"mif2", b"mif3", b"msf1", b"miaf"})
_SOUND_BRANDS: Final = frozenset({b"M4A ", b"M4B ", b"M4P ", b"M4R ", b"F4A ", b"F4B "})
# JPEG 2000, JPEG XL and Canon raw files consist of boxes too, but are none of these formats.
_FOREIGN_BRANDS: Final = frozenset({b"jp2 ", b"jpx ", b"jpm ", b"jxl ", b"crx "})
_FTYP_BYTES: Final = range(4, 4097)
_NAME: Final = re.compile(rb"[\xa9A-Za-z0-9 _-][A-Za-z0-9 _.-]{3}")
# The first box of a segment of a movie, as DASH and HLS serve them.
_SEGMENT_BOXES: Final = frozenset({b"styp", b"moof", b"sidx"})
_FIRST_QUICKTIME_BOXES: Final = frozenset({b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot"})
_MAX_BOXES: Final = 200_000  # a day of video in fragments has fewer


@dataclass(frozen=True, slots=True)
class Box:
    """One box as its header declares it, in bytes from the start of the file. `body` follows size and name."""

    name: bytes
    offset: int
    body: int
    end: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The top-level boxes: `end` is where something follows that is no box, `cut` the box in which the file ends."""

    boxes: tuple[Box, ...]
    end: int
    cut: Box | None

    def named(self, *names: bytes) -> list[Box]:
        """Return the boxes of these names, in the order of the file."""
        return [box for box in self.boxes if box.name in names]


def family_of(source: Source) -> str | None:
    """Return `avif`, `heic`, `m4a`, `mov` or `mp4` by the brands of the file, None if they name none of these."""
    named = read_brands(source)
    if not named:
        return _family_without_brands(source)
    major = named[0]
    if major in _FOREIGN_BRANDS:
        return None
    if picture := _PICTURE_BRANDS.get(major):
        return picture
    if major in _GENERIC_PICTURE_BRANDS or not major.strip(b"\0 "):
        pictures = {_PICTURE_BRANDS[brand] for brand in named if brand in _PICTURE_BRANDS}
        if pictures or not _GENERIC_PICTURE_BRANDS.isdisjoint(named):
            return "avif" if "avif" in pictures else "heic"
    if major == b"qt  ":
        return "mov"
    return "m4a" if major in _SOUND_BRANDS else "mp4"


def _family_without_brands(source: Source) -> str | None:
    """Return `mov` for a start as in QuickTime files older than brands (2001), `mp4` for a segment of a movie."""
    offset = 0
    for _ in range(8):
        box = _read_box(source, offset, source.size)
        if box is None or box.name not in _FIRST_QUICKTIME_BOXES | _SEGMENT_BOXES:
            return None
        if box.name in {b"moov", b"mdat"}:
            return "mov"
        if box.name in _SEGMENT_BOXES:
            return "mp4"
        offset = box.end
    return None


def read_brands(source: Source) -> tuple[bytes, ...]:
    """Return the major and the compatible brands of the leading `ftyp` box, nothing if the file begins otherwise."""
    box = _read_box(source, 0, source.size)
    if box is None or box.name != b"ftyp" or box.end - box.body not in _FTYP_BYTES:
        return ()
    data = source.read_at(box.body, box.end - box.body)
    return data[:4], *(data[at : at + 4] for at in range(8, len(data) - 3, 4))  # bytes 4 to 7 are the minor version


def read_layout(source: Source) -> Layout:
    """Return the top-level boxes. Raise `Corrupt` if the file begins with none."""
    boxes: list[Box] = []
    offset = 0
    while offset < source.size and len(boxes) < _MAX_BOXES:
        box = _read_box(source, offset, source.size)
        if box is None:
            break
        if box.end > source.size:
            return Layout(tuple(boxes), offset, box)
        boxes.append(box)
        offset = box.end
    if not boxes:
        raise Corrupt("the file does not begin with a box")
    return Layout(tuple(boxes), offset, None)


def children(source: Source, parent: Box, skip: int = 0) -> Iterator[Box]:
    """Yield the boxes within a box, after `skip` bytes of its own fields, up to the first that does not fit."""
    offset, count = parent.body + skip, 0
    while offset + 8 <= parent.end and count < _MAX_BOXES:
        box = _read_box(source, offset, parent.end)
        if box is None or box.end > parent.end:
            return
        yield box
        offset, count = box.end, count + 1


def child(source: Source, parent: Box, *path: bytes) -> Box | None:
    """Return the first box at the end of a path of names below a box."""
    found: Box | None = parent
    for name in path:
        found = next((box for box in children(source, found) if box.name == name), None) if found else None
    return found


def _read_box(source: Source, offset: int, limit: int) -> Box | None:
    """Return the box at `offset`, which may end after `limit`; None if there is no valid header."""
    head = source.read_at(offset, 16)
    if len(head) < 8 or not _NAME.fullmatch(head, 4, 8):
        return None
    size, header = int.from_bytes(head[:4], "big"), 8
    if size == 1 and len(head) == 16:  # a 64-bit size follows the name
        size, header = int.from_bytes(head[8:], "big"), 16
    elif size == 0:  # the box extends to the end
        size = limit - offset
    return Box(head[4:8], offset, offset + header, offset + size) if size >= header else None
