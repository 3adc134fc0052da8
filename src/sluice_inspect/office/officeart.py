"""Drawing records of the binary Office formats ([MS-ODRAW]): how they nest, and the pictures in them. What a document places is known by its kind."""

import io
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sluice.formats.images.embedded import embedded_is_blank
from sluice.formats.verdict import Corrupt, Limits

HEADER: Final = struct.Struct("<HHL")
CONTAINER: Final = 0xF
"""Version of records that hold records."""
PICTURES_MOST: Final = 64 * 1024**2
"""Bytes of pictures beyond which they are not looked at."""

_STORE_ENTRY: Final = 0xF007
"""A picture's place in the store: a description, a name, and often the picture."""
_STORE_ENTRY_BYTES: Final = 36
_REFERENCES_AT: Final = 24
_NAME_LENGTH_AT: Final = 33
_NOWHERE: Final = 0xFFFFFFFF

_METAFILES: Final = {0xF01A: 0x3D5, 0xF01B: 0x217, 0xF01C: 0x543}
_PNG: Final = 0xF01E
_BITMAPS: Final = {0xF01D: {0x46B, 0x6E3}, _PNG: {0x6E1}, 0xF02A: {0x46B, 0x6E3}}
"""Pictures that a picture reader reads. The numbers are instances that carry a second identifier."""
_OTHERS: Final = frozenset({0xF01F, 0xF029})
"""Bare bitmaps, TIFF."""
_IDENTIFIER: Final = 16
_METAFILE_HEADER: Final = struct.Struct("<28xLBx")
_INFLATED_MOST: Final = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class Record:
    """One record: header and the place of its body in the bytes that were walked."""

    version: int
    instance: int
    kind: int
    start: int
    end: int

    @property
    def is_picture(self) -> bool:
        """Whether it is a picture of any kind."""
        return self.kind in _BITMAPS or self.kind in _METAFILES or self.kind in _OTHERS

    @property
    def is_store_entry(self) -> bool:
        """Whether it describes a picture, and may hold it."""
        return self.kind == _STORE_ENTRY


def records(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Record]:
    """Yield the records side by side in a stretch, the last one cut where the stretch ends."""
    end = len(data) if end is None else end
    while start + HEADER.size <= end:
        opening, kind, length = HEADER.unpack_from(data, start)
        start += HEADER.size
        yield Record(opening & 0xF, opening >> 4, kind, start, min(start + length, end))
        start += length


def pictures(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Record]:
    """Yield the pictures among these records and within those that hold records."""
    for record in records(data, start, end):
        if record.is_picture:
            yield record
        elif record.is_store_entry and record.end - record.start > _STORE_ENTRY_BYTES:
            yield from pictures(data, record.start + _STORE_ENTRY_BYTES + data[record.start + _NAME_LENGTH_AT], record.end)
        elif record.version == CONTAINER:
            yield from pictures(data, record.start, record.end)


def store_places(data: bytes, start: int = 0, end: int | None = None) -> Iterator[int | None]:
    """Yield, for each entry of the picture store among these records, where its picture lies in another stream; None where nobody uses it."""
    for record in records(data, start, end):
        if record.is_store_entry:
            known = record.end - record.start >= _STORE_ENTRY_BYTES
            used, place = struct.unpack_from("<LL", data, record.start + _REFERENCES_AT) if known else (0, _NOWHERE)
            yield place if used and place != _NOWHERE else None
        elif record.version == CONTAINER:
            yield from store_places(data, record.start, record.end)


def picture_shows(data: bytes, picture: Record, limits: Limits) -> bool:
    """Whether a reader sees something on a picture; of those that are no bitmaps nothing is known: yes."""
    if picture.kind not in _BITMAPS:
        return True
    return not embedded_is_blank(io.BytesIO(_content(data, picture)), limits)


def check_picture(data: bytes, picture: Record) -> None:
    """Raise `Corrupt` when a picture's own checksums tell that it is damaged: those of PNG and of compressed metafiles."""
    if picture.kind == _PNG:
        _check_png(_content(data, picture))
    elif picture.kind in _METAFILES:
        start = picture.start + _IDENTIFIER * (2 if picture.instance == _METAFILES[picture.kind] else 1)
        if start + _METAFILE_HEADER.size > picture.end:
            return
        size, compression = _METAFILE_HEADER.unpack_from(data, start)
        start += _METAFILE_HEADER.size
        if not compression:
            check_deflated(data[start : min(picture.end, start + size)])


def check_deflated(packed: bytes) -> None:
    """Raise `Corrupt` when bytes do not inflate. A missing end is passed."""
    inflating, left = zlib.decompressobj(), _INFLATED_MOST
    try:
        while packed and left > 0 and not inflating.eof:
            left -= len(inflating.decompress(packed, 256 * 1024))
            packed = inflating.unconsumed_tail
    except zlib.error as error:
        raise Corrupt(f"a picture or an object in the document is damaged: {error}") from error


def _content(data: bytes, picture: Record) -> bytes:
    skipped = _IDENTIFIER * (2 if picture.instance in _BITMAPS[picture.kind] else 1) + 1
    return data[picture.start + skipped : picture.end]


def _check_png(content: bytes) -> None:
    at = 8
    while at + 12 <= len(content):
        end = at + 8 + int.from_bytes(content[at : at + 4], "big")
        if zlib.crc32(content[at + 4 : end]) != int.from_bytes(content[end : end + 4], "big"):
            raise Corrupt("a picture in the document is damaged: a checksum in it is wrong")
        if content[at + 4 : at + 8] == b"IEND":
            return
        at = end + 4
