"""Do the strips and tiles of a TIFF unpack to what they must? Strict on Deflate, LZW, PackBits, fax of group 4, LZMA, Zstandard, WebP, JPEG.

Of other methods nothing is known here; where a segment lies is `tiff_segments`' to say.
"""

import io
import lzma
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import zstandard
from PIL import Image

from sluice.formats.budget import Deadline
from sluice.formats.images import tiff_directory as tiff
from sluice.formats.images.strict_jpeg import is_common_jpeg, jpeg_complaint
from sluice.formats.images.tiff_directory import Directory
from sluice.formats.images.tiff_fax import BYTES_MOST, BadFax, rows_of_fax
from sluice.formats.images.tiff_lzw import BadCode, is_old_style, unpacked_size
from sluice.formats.images.tiff_segments import GROUP_4, JPEG, LZW, PACKBITS, PLAIN, Segment, Shape
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt

_BACKWARDS: Final = 2
_REVERSED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_CHUNK: Final = 256 * 1024
_AT_ONCE_MOST: Final = 64 * 1024**2
_SLACK: Final = 64
"""Bytes that some encoders unpack to beyond what is asked for."""
_PACKED_NOTHING: Final = 128


def check_segments(source: Source, page: Directory, shape: Shape, segments: list[Segment], deadline: Deadline) -> bool:
    """Unpack every segment; answer whether all of them were, and gave what they must. Raises `Corrupt` for one that does not."""
    judge = _judge_of(page, shape)
    if judge is None:
        return shape.compression == PLAIN
    sure = True
    backwards = page.number_of(tiff.FILL_ORDER, 1) == _BACKWARDS and shape.compression != JPEG
    for segment in segments:
        if deadline.has_passed:
            return False
        if segment.is_left_out or segment.length > _AT_ONCE_MOST:
            sure = False
            continue
        data = source.read_at(segment.offset, segment.length)
        try:
            sure &= judge(data.translate(_REVERSED) if backwards else data, segment, deadline)
        except _Damaged as error:
            raise Corrupt(f"piece {segment.number} of page {page.number} of the TIFF is damaged: {error}") from error
    return sure


class _Damaged(Exception):
    """A segment is not what it should be. `str()` says what is wrong."""


class _Judge(Protocol):
    """Answers whether a segment is sound and was seen whole. Raises `_Damaged`."""

    def __call__(self, data: bytes, segment: Segment, deadline: Deadline, /) -> bool: ...


def _judge_of(page: Directory, shape: Shape) -> _Judge | None:
    if shape.compression == JPEG:
        tables = page.tags.get(tiff.JPEG_TABLES)
        return _Jpeg(tables.data if tables else b"")
    if shape.compression == GROUP_4:
        return _Fax(shape.side[0])
    return _JUDGES.get(shape.compression)


def _deflated(data: bytes, segment: Segment, _deadline: Deadline) -> bool:
    inflating = zlib.decompressobj()
    size = 0
    try:
        while size <= segment.full + _SLACK and not inflating.eof:
            piece = inflating.decompress(data, _CHUNK)
            data = inflating.unconsumed_tail
            size += len(piece)
            if not piece:
                break
    except zlib.error as error:
        raise _Damaged(f"it does not inflate: {error}") from error
    return _enough(size, segment)


def _lzma(data: bytes, segment: Segment, _deadline: Deadline) -> bool:
    unpacking = lzma.LZMADecompressor(memlimit=_AT_ONCE_MOST * 2)
    size = 0
    try:
        while size <= segment.full + _SLACK and not unpacking.eof:
            piece = unpacking.decompress(data, _CHUNK)
            data = b""
            size += len(piece)
            if not piece:
                break
    except lzma.LZMAError as error:
        raise _Damaged(f"it does not unpack: {error}") from error
    return _enough(size, segment)


def _zstandard(data: bytes, segment: Segment, _deadline: Deadline) -> bool:
    size = 0
    try:
        with zstandard.ZstdDecompressor(max_window_size=_AT_ONCE_MOST).stream_reader(data) as reader:
            while size <= segment.full + _SLACK and (piece := reader.read(_CHUNK)):
                size += len(piece)
    except zstandard.ZstdError as error:
        raise _Damaged(f"it does not unpack: {error}") from error
    return _enough(size, segment)


def _enough(size: int, segment: Segment) -> bool:
    if size < segment.least:
        raise _Damaged(f"it unpacks to {size} bytes of {segment.least}")
    return True


def _lzw(data: bytes, segment: Segment, deadline: Deadline) -> bool:
    if is_old_style(data):
        return False
    try:
        size, ended = unpacked_size(data, segment.full + _SLACK, deadline)
    except BadCode as error:
        raise _Damaged(f"its codes are wrong: {error}") from error
    return (not ended and deadline.has_passed) or _exactly(size, segment, ended=ended)


def _exactly(size: int, segment: Segment, *, ended: bool) -> bool:
    """Answer for codes without a checksum: they must stand for as much as the rows need, no more where they say that they end."""
    _enough(size, segment)
    if ended and size not in {segment.least, segment.full} and not size <= segment.least + _SLACK:
        raise _Damaged(f"it unpacks to {size} bytes and not to {segment.least}")
    return True


def _packed(data: bytes, segment: Segment, _deadline: Deadline) -> bool:
    size = sum(_lengths(data, segment.full + _SLACK))
    return _exactly(size, segment, ended=True)


def _lengths(data: bytes, most: int) -> Iterator[int]:
    """Yield how many bytes each run of PackBits stands for, up to `most`. Raises `_Damaged` where one goes on behind the end."""
    at, end = 0, len(data)
    while at < end and most >= 0:
        head = data[at]
        if head < _PACKED_NOTHING:
            length, at = head + 1, at + head + 2
        elif head > _PACKED_NOTHING:
            length, at = 257 - head, at + 2
        else:
            length, at = 0, at + 1
        if at > end:
            raise _Damaged("its last run goes on behind its end")
        most -= length
        yield length


@dataclass(frozen=True, slots=True)
class _Jpeg:
    """Pictures of which the tables stand in the directory."""

    tables: bytes

    def __call__(self, data: bytes, segment: Segment, _deadline: Deadline) -> bool:  # noqa: ARG002  (all judges are asked alike)
        whole = self.tables[:-2] + data[2:] if len(self.tables) > 4 else data  # noqa: PLR2004  (begin and end markers alone)
        if not is_common_jpeg(whole):
            return False
        if complaint := jpeg_complaint(whole):
            raise _Damaged(complaint)
        return True


@dataclass(frozen=True, slots=True)
class _Fax:
    """Black and white rows of a width."""

    width: int

    def __call__(self, data: bytes, segment: Segment, deadline: Deadline) -> bool:
        if len(data) > BYTES_MOST:
            return False
        try:
            return rows_of_fax(data, self.width, segment.least // -(-self.width // 8), deadline)
        except BadFax as error:
            raise _Damaged(str(error)) from error


def _webp(data: bytes, _segment: Segment, _deadline: Deadline) -> bool:
    try:
        with Image.open(io.BytesIO(data), formats=["WEBP"]) as picture:
            picture.load()
    except (OSError, SyntaxError) as error:
        raise _Damaged(f"it does not decode as WebP: {error}") from error
    return True


_JUDGES: Final[Mapping[int, _Judge]] = {
    LZW: _lzw,
    PACKBITS: _packed,
    8: _deflated,
    32946: _deflated,
    34925: _lzma,
    50000: _zstandard,
    50001: _webp,
}
