"""One page of a TIFF as a small TIFF of its own, so that a decoder meets only what is drawn. Which pages there are is `tiff_directory`'s to say.

Pillow reads a whole file for every page, follows chains of directories itself and stumbles over metadata; of a page alone it does neither.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import BinaryIO, Final

from sluice.formats.images import tiff_directory as tiff
from sluice.formats.images.tiff_directory import Directory, Header, Tag
from sluice.formats.images.tiff_segments import OLD_JPEG, Segment, Shape
from sluice.formats.pieces import Piece, open_pieces
from sluice.formats.source import Source

_MOST: Final = 256 * 1024**2
_HEADER: Final = 8
_ENTRY: Final = 12
_LONG: Final = 4
_PLACES: Final = frozenset({tiff.STRIP_OFFSETS, tiff.STRIP_BYTES, tiff.TILE_OFFSETS, tiff.TILE_BYTES})


def open_page(source: Source, header: Header, page: Directory, shape: Shape, segments: Sequence[Segment]) -> BinaryIO | None:
    """Answer a TIFF of this page alone, None where that cannot be: it would be too large, or parts were left out by its writer."""
    if shape.compression == OLD_JPEG:
        return _from_here(source, header, page)
    size = sum(segment.length for segment in segments)
    if size > _MOST or any(segment.is_left_out for segment in segments):
        return None
    tags = {number: tag for number, tag in page.tags.items() if number in tiff.DRAWN - _PLACES}
    names = (tiff.TILE_OFFSETS, tiff.TILE_BYTES) if shape.is_tiled else (tiff.STRIP_OFFSETS, tiff.STRIP_BYTES)
    many = f"{header.order}{len(segments)}L"
    lengths = Tag(_LONG, len(segments), struct.pack(many, *(segment.length for segment in segments)))
    begin = _size_of({**tags, names[0]: lengths, names[1]: lengths})
    offsets = []
    for segment in segments:
        offsets.append(begin)
        begin += segment.length
    tags |= {names[0]: Tag(_LONG, len(segments), struct.pack(many, *offsets)), names[1]: lengths}
    stretches: list[Piece] = [(segment.offset, segment.length) for segment in segments]
    return open_pieces(source, [_written(header, tags), *stretches])


def _from_here(source: Source, header: Header, page: Directory) -> BinaryIO | None:
    """Answer the whole file with this page as its first: old JPEG data refers to places in the file."""
    if source.size > _MOST or header.is_big:
        return None
    return open_pieces(source, [_first_bytes(header, page.offset), (_HEADER, source.size - _HEADER)])


def _first_bytes(header: Header, first: int) -> bytes:
    return struct.pack(f"{header.order}2sHL", b"II" if header.order == "<" else b"MM", 42, first)


def _size_of(tags: Mapping[int, Tag]) -> int:
    return _HEADER + 2 + _ENTRY * len(tags) + 4 + sum(_even(tag.data) for tag in tags.values() if len(tag.data) > _LONG)


def _even(data: bytes) -> int:
    return len(data) + len(data) % 2


def _written(header: Header, tags: Mapping[int, Tag]) -> bytes:
    """Answer header, directory and values; the data follows."""
    table, values = b"", b""
    begin = _HEADER + 2 + _ENTRY * len(tags) + 4
    for number, tag in sorted(tags.items()):
        field = tag.data.ljust(_LONG, b"\0")
        if len(tag.data) > _LONG:
            field = struct.pack(f"{header.order}L", begin + len(values))
            values += tag.data.ljust(_even(tag.data), b"\0")
        table += struct.pack(f"{header.order}HHL", number, tag.type, tag.count) + field
    count = struct.pack(f"{header.order}H", len(tags))
    return _first_bytes(header, _HEADER) + count + table + bytes(4) + values
