"""The boxes of ISO base media files (MP4, QuickTime, HEIF and their kin) and what their brands name. Decodes no sample and no picture.

ISO/IEC 14496-12 for boxes and `ftyp`; 23008-12 for image brands; the QuickTime File Format for files without `ftyp`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt

_PICTURES: Final = {
    **dict.fromkeys((b"avif", b"avis", b"avio"), "avif"),
    **dict.fromkeys((b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"heif"), "heic"),
}
_ANY_PICTURE: Final = frozenset({b"mif1", b"mif2", b"mif3", b"msf1", b"miaf"})
"""Brands of image files that leave the coding to the others: HEIC unless AVIF is named."""
_SOUND: Final = frozenset({b"M4A ", b"M4B ", b"M4P ", b"M4R ", b"F4A ", b"F4B "})
_ELSEWHERE: Final = frozenset({b"jp2 ", b"jpx ", b"jpm ", b"jxl ", b"crx "})
"""Boxes too, but no media: JPEG 2000, JPEG XL, Canon raw files."""
_FTYP_SIZES: Final = range(4, 4097)
_NAME: Final = re.compile(rb"[\xa9A-Za-z0-9 _-][A-Za-z0-9 _.-]{3}")
_SEGMENT: Final = frozenset({b"styp", b"moof", b"sidx"})
"""First boxes of a lone piece of a movie, as it is streamed."""
_FIRST_OF_QUICKTIME: Final = frozenset({b"moov", b"mdat", b"wide", b"free", b"skip", b"pnot"})
_MOST: Final = 200_000
"""Boxes in one container; a day of fragments has fewer."""


@dataclass(frozen=True, slots=True)
class Box:
    """One box as its header declares it, in bytes from the start of the file."""

    name: bytes
    offset: int
    body: int
    """Where the content begins, behind size and name."""
    end: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The boxes of a whole file."""

    boxes: tuple[Box, ...]
    end: int
    """Where they stop: the size of the file unless something follows that is no box."""
    cut: Box | None
    """The last box if the file ends before it does; it is not among `boxes`."""

    def named(self, *names: bytes) -> list[Box]:
        """Answer the boxes of these names, in the order of the file."""
        return [box for box in self.boxes if box.name in names]


def family_of(source: Source) -> str | None:
    """Answer `avif`, `heic`, `m4a`, `mov` or `mp4`: what the file's brands name; None for what is none of these. Looks at no track."""
    marks = brands(source)
    if not marks:
        return _family_without_brands(source)
    if marks[0] in _ELSEWHERE:
        return None
    if picture := _PICTURES.get(marks[0]):
        return picture
    if marks[0] in _ANY_PICTURE or not marks[0].strip(b"\0 "):
        named = {_PICTURES[mark] for mark in marks if mark in _PICTURES}
        if named or not _ANY_PICTURE.isdisjoint(marks):
            return "avif" if "avif" in named else "heic"
    if marks[0] == b"qt  ":
        return "mov"
    return "m4a" if marks[0] in _SOUND else "mp4"


def brands(source: Source) -> tuple[bytes, ...]:
    """Answer the major and then the compatible brands of the `ftyp` box that the file begins with; none when it begins otherwise."""
    box = _box_at(source, 0, source.size)
    if box is None or box.name != b"ftyp" or box.end - box.body not in _FTYP_SIZES:
        return ()
    data = source.read_at(box.body, box.end - box.body)
    return data[:4], *(data[at : at + 4] for at in range(8, len(data) - 3, 4))


def layout(source: Source) -> Layout:
    """Follow the boxes of a file from its start. Raises `Corrupt` when it begins with none."""
    found: list[Box] = []
    offset = 0
    while offset < source.size and len(found) < _MOST:
        box = _box_at(source, offset, source.size)
        if box is None:
            break
        if box.end > source.size:
            return Layout(tuple(found), offset, box)
        found.append(box)
        offset = box.end
    if not found:
        raise Corrupt("the file does not begin with a box")
    return Layout(tuple(found), offset, None)


def children(source: Source, parent: Box, skip: int = 0) -> Iterator[Box]:
    """Answer the boxes within a box, behind `skip` bytes of its own fields, up to the first that does not fit."""
    offset, count = parent.body + skip, 0
    while offset + 8 <= parent.end and count < _MOST:
        box = _box_at(source, offset, parent.end)
        if box is None or box.end > parent.end:
            return
        yield box
        offset, count = box.end, count + 1


def child(source: Source, parent: Box, *path: bytes) -> Box | None:
    """Answer the first box at the end of a path of names below a box."""
    found: Box | None = parent
    for name in path:
        found = next((box for box in children(source, found) if box.name == name), None) if found else None
    return found


def _box_at(source: Source, offset: int, limit: int) -> Box | None:
    """Answer the box that begins at `offset`, whether or not it ends before `limit`; None when there is no header of one."""
    head = source.read_at(offset, 16)
    if len(head) < 8 or not _NAME.fullmatch(head, 4, 8):  # noqa: PLR2004  (size and name)
        return None
    size, header = int.from_bytes(head[:4], "big"), 8
    if size == 1 and len(head) == 16:  # noqa: PLR2004  (with a long size)
        size, header = int.from_bytes(head[8:], "big"), 16
    elif size == 0:
        size = limit - offset
    return Box(head[4:8], offset, offset + header, offset + size) if size >= header else None


def _family_without_brands(source: Source) -> str | None:
    """Answer `mov` for what begins as QuickTime files did before they had brands, `mp4` for a piece of a movie."""
    offset = 0
    for _ in range(8):
        box = _box_at(source, offset, source.size)
        if box is None or box.name not in _FIRST_OF_QUICKTIME | _SEGMENT:
            return None
        if box.name in {b"moov", b"mdat"}:
            return "mov"
        if box.name in _SEGMENT:
            return "mp4"
        offset = box.end
    return None
