"""Drawing records of the binary Office formats ([MS-ODRAW]): how they nest, and the pictures in them."""

import io
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sluice_inspect.images.embedded import embedded_is_blank
from sluice_inspect.report import Corrupt, Limits

HEADER: Final = struct.Struct("<HHL")
CONTAINER: Final = 0xF  # the version of records that hold records
MAX_PICTURE_BYTES: Final = 64 * 1024**2  # more bytes of pictures than this are not decoded

_STORE_ENTRY: Final = 0xF007  # a picture in the store: a description, a name, and often the picture
_STORE_ENTRY_BYTES: Final = 36
_REFERENCES_AT: Final = 24
_NAME_LENGTH_AT: Final = 33
_NOWHERE: Final = 0xFFFFFFFF

# The numbers behind the record types are the instances that carry a second identifier (2.2.23 and later).
_METAFILES: Final = {0xF01A: 0x3D5, 0xF01B: 0x217, 0xF01C: 0x543}
_PNG: Final = 0xF01E
_BITMAPS: Final = {0xF01D: {0x46B, 0x6E3}, _PNG: {0x6E1}, 0xF02A: {0x46B, 0x6E3}}
_OTHERS: Final = frozenset({0xF01F, 0xF029})  # bare bitmaps (DIB), TIFF
_IDENTIFIER: Final = 16
_METAFILE_HEADER: Final = struct.Struct("<28xLBx")
_MAX_INFLATED: Final = 64 * 1024**2
_FORGIVEN_SHARE: Final = 0.1  # of the pictures; one among others is forgiven however few they are
_PNG_MAGIC: Final = b"\x89PNG\r\n\x1a\n"
_HOLE: Final = bytes(512)  # zeros that no packed data has: what is missing there was lost with the file


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its header, and start and end of its body in the bytes that it was read from."""

    version: int
    instance: int
    type: int
    start: int
    end: int

    @classmethod
    def of_header(cls, header: tuple[int, int, int], start: int) -> "Record":
        """Return the record whose unpacked header this is and whose body begins at `start`."""
        opening, record_type, length = header
        return cls(opening & 0xF, opening >> 4, record_type, start, start + length)

    @property
    def is_picture(self) -> bool:
        """Whether it is a picture of any format."""
        return self.type in _BITMAPS or self.type in _METAFILES or self.type in _OTHERS

    @property
    def is_store_entry(self) -> bool:
        """Whether it describes a picture, and may hold it."""
        return self.type == _STORE_ENTRY


def records(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Record]:
    """Yield the records side by side in a stretch of bytes. The last one is cut where the stretch ends."""
    end = len(data) if end is None else end
    while start + HEADER.size <= end:
        opening, record_type, length = HEADER.unpack_from(data, start)
        start += HEADER.size
        yield Record(opening & 0xF, opening >> 4, record_type, start, min(start + length, end))
        start += length


def pictures(data: bytes, start: int = 0, end: int | None = None) -> Iterator[Record]:
    """Yield the pictures among these records and within those that hold records."""
    for record in records(data, start, end):
        if record.is_picture:
            yield record
        elif record.is_store_entry and record.end - record.start > _STORE_ENTRY_BYTES:
            name_bytes = data[record.start + _NAME_LENGTH_AT]
            yield from pictures(data, record.start + _STORE_ENTRY_BYTES + name_bytes, record.end)
        elif record.version == CONTAINER:
            yield from pictures(data, record.start, record.end)


def picture_offsets(data: bytes, start: int = 0, end: int | None = None) -> Iterator[int | None]:
    """Yield the offset of each picture of the store in another stream, None for one that nothing uses."""
    for record in records(data, start, end):
        if record.is_store_entry:
            is_whole = record.end - record.start >= _STORE_ENTRY_BYTES
            used, offset = struct.unpack_from("<LL", data, record.start + _REFERENCES_AT) if is_whole else (0, 0)
            yield offset if used and offset != _NOWHERE else None
        elif record.version == CONTAINER:
            yield from picture_offsets(data, record.start, record.end)


def has_picture_ink(data: bytes, picture: Record, limits: Limits) -> bool:
    """Whether a reader would see something on a picture. Metafiles and TIFF are not decoded: True."""
    if picture.type not in _BITMAPS:
        return True
    return not embedded_is_blank(io.BytesIO(_bitmap(data, picture)), limits)


@dataclass(slots=True)
class PictureCheck:
    """Checks pictures and packed objects of one document. Programs show a document without a few of them."""

    parts: int = 0
    damaged: int = 0
    _first: Corrupt | None = None

    def add(self, data: bytes, picture: Record) -> None:
        """Count a picture. Raise `Corrupt` for one that its checksums show to be damaged and that has a hole."""
        self._count(lambda: _check_picture(data, picture), data[picture.start : picture.end])

    def add_packed(self, packed: bytes) -> None:
        """Count an object that is packed. Raise `Corrupt` for a damaged one that has a hole."""
        self._count(lambda: _check_deflated(packed), packed)

    def measures(self) -> Mapping[str, int]:
        """Return how many are damaged, if any are. Raise `Corrupt` if it is the only one, or too many are."""
        most = min(self.parts - 1, max(1, int(_FORGIVEN_SHARE * self.parts)))
        if self._first and self.damaged > most:
            raise self._first
        return {"pictures_damaged": self.damaged} if self.damaged else {}

    def _count(self, check: Callable[[], None], content: bytes) -> None:
        self.parts += 1
        try:
            check()
        except Corrupt as error:
            if _HOLE in content:
                raise
            self.damaged += 1
            self._first = self._first or error


def _check_picture(data: bytes, picture: Record) -> None:
    """Raise `Corrupt` when the checksums of a PNG or a compressed metafile show damage."""
    if picture.type == _PNG:
        _check_png(_bitmap(data, picture))
    elif picture.type in _METAFILES:
        start = picture.start + _IDENTIFIER * (2 if picture.instance == _METAFILES[picture.type] else 1)
        if start + _METAFILE_HEADER.size > picture.end:
            return
        size, compression = _METAFILE_HEADER.unpack_from(data, start)
        start += _METAFILE_HEADER.size
        if not compression:
            _check_deflated(data[start : min(picture.end, start + size)])


def _check_deflated(packed: bytes) -> None:
    """Raise `Corrupt` when bytes do not inflate. A missing end is accepted."""
    inflating, left = zlib.decompressobj(), _MAX_INFLATED
    try:
        while packed and left > 0 and not inflating.eof:
            left -= len(inflating.decompress(packed, 256 * 1024))
            packed = inflating.unconsumed_tail
    except zlib.error as error:
        raise Corrupt(f"a picture or an object in the document is damaged: {error}") from error


def _bitmap(data: bytes, picture: Record) -> bytes:
    skipped = _IDENTIFIER * (2 if picture.instance in _BITMAPS[picture.type] else 1) + 1
    return data[picture.start + skipped : picture.end]


def _check_png(content: bytes) -> None:
    if not content.startswith(_PNG_MAGIC):
        return  # writers store pictures of other formats as PNG, and programs show them
    at = len(_PNG_MAGIC)
    while at + 12 <= len(content):
        end = at + 8 + int.from_bytes(content[at : at + 4], "big")
        if zlib.crc32(content[at + 4 : end]) != int.from_bytes(content[end : end + 4], "big"):
            raise Corrupt("a picture in the document is damaged: a checksum in it is wrong")
        if content[at + 4 : at + 8] == b"IEND":
            return
        at = end + 4
