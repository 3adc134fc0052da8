"""Drawing records of the binary Office formats ([MS-ODRAW]): how they nest, and the pictures in them. What a document places is known by its kind."""

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sluice.formats.embedded import embedded_is_blank
from sluice.formats.verdict import Limits

HEADER: Final = struct.Struct("<HHL")
CONTAINER: Final = 0xF
"""Version of records that hold records."""
STORE_ENTRY: Final = 0xF007
"""A picture's place in the store: 36 bytes of description, a name, and often the picture."""
_STORE_ENTRY_BYTES: Final = 36
_NAME_LENGTH_AT: Final = 33

_BITMAPS: Final = {0xF01D: {0x46B, 0x6E3}, 0xF01E: {0x6E1}, 0xF02A: {0x46B, 0x6E3}}
"""Pictures that a picture reader reads, and which of their instances carry a second identifier."""
_OTHER_PICTURES: Final = frozenset({0xF01A, 0xF01B, 0xF01C, 0xF01F, 0xF029})
"""Metafiles, bare bitmaps, TIFF."""
_IDENTIFIER: Final = 16


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
        return self.kind in _BITMAPS or self.kind in _OTHER_PICTURES


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
        elif record.kind == STORE_ENTRY and record.end - record.start > _STORE_ENTRY_BYTES:
            yield from pictures(data, record.start + _STORE_ENTRY_BYTES + data[record.start + _NAME_LENGTH_AT], record.end)
        elif record.version == CONTAINER:
            yield from pictures(data, record.start, record.end)


def picture_shows(data: bytes, picture: Record, limits: Limits) -> bool:
    """Whether a reader sees something on a picture; of those that are no bitmaps nothing is known: yes."""
    if picture.kind not in _BITMAPS:
        return True
    skipped = _IDENTIFIER * (2 if picture.instance in _BITMAPS[picture.kind] else 1) + 1
    return not embedded_is_blank(io.BytesIO(data[picture.start + skipped : picture.end]), limits)
