"""Strict unpacking of TIFF segments: Deflate, LZW, PackBits, group 4 fax, LZMA, Zstandard, WebP and JPEG."""

from __future__ import annotations

import io
import lzma
import zlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import zstandard
from PIL import Image

from sluice_inspect.archives.compression import Decompressor, Inflate
from sluice_inspect.budget import Deadline
from sluice_inspect.formats.tiff import directory as tiff
from sluice_inspect.formats.tiff.directory import Directory
from sluice_inspect.formats.tiff.fax import BYTES_MOST, InvalidFax, has_all_rows
from sluice_inspect.formats.tiff.lzw import InvalidLzw, is_old_style, unpacked_size
from sluice_inspect.formats.tiff.segments import GROUP_4, JPEG, LZW, PACKBITS, PLAIN, PixelLayout, TiffSegment
from sluice_inspect.images.strict_jpeg import is_common_jpeg, jpeg_error
from sluice_inspect.report import Corrupt
from sluice_inspect.source import Source

# Returns whether a segment is sound and was checked completely. Raises `_DamagedSegment`.
_Check = Callable[[bytes, TiffSegment, Deadline], bool]

_LOW_BIT_FIRST: Final = 2
_REVERSED: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
_CHUNK: Final = 256 * 1024
_SEGMENT_MOST: Final = 64 * 1024**2
_SLACK: Final = 64  # bytes that some encoders add to what is asked for
_PACKBITS_NOTHING: Final = 128


class _DamagedSegment(Exception):
    """A segment does not unpack to what it must. `str()` is what is wrong."""


def check_segments(
    source: Source, page: Directory, layout: PixelLayout, segments: list[TiffSegment], deadline: Deadline
) -> bool:
    """Unpack every segment and return whether all were checked completely. Raise `Corrupt` for one that is damaged."""
    check = _check_for(page, layout)
    if check is None:
        return layout.compression == PLAIN
    is_complete = True
    is_reversed = page.first_number(tiff.FILL_ORDER, 1) == _LOW_BIT_FIRST and layout.compression != JPEG
    for segment in segments:
        if deadline.has_passed:
            return False
        if segment.is_omitted or segment.length > _SEGMENT_MOST:
            is_complete = False
            continue
        data = source.read_at(segment.offset, segment.length)
        try:
            is_complete &= check(data.translate(_REVERSED) if is_reversed else data, segment, deadline)
        except _DamagedSegment as error:
            raise Corrupt(f"piece {segment.number} of page {page.number} of the TIFF is damaged: {error}") from error
    return is_complete


def _check_for(page: Directory, layout: PixelLayout) -> _Check | None:
    if layout.compression == JPEG:
        tables = page.tags.get(tiff.JPEG_TABLES)
        return partial(_check_jpeg, tables.data if tables else b"")
    if layout.compression == GROUP_4:
        return partial(_check_fax, layout.side[0])
    return _CHECKS.get(layout.compression)


def _check_stream(unpacking: Decompressor, verb: str, data: bytes, segment: TiffSegment, _deadline: Deadline) -> bool:
    size = 0
    try:
        while size <= segment.full + _SLACK and not unpacking.eof:
            piece = unpacking.decompress(data, _CHUNK)
            data = b""
            size += len(piece)
            if not piece:
                break
    except (zlib.error, lzma.LZMAError) as error:
        raise _DamagedSegment(f"it does not {verb}: {error}") from error
    return _require_enough(size, segment)


def _check_zstandard(data: bytes, segment: TiffSegment, _deadline: Deadline) -> bool:
    size = 0
    try:
        with zstandard.ZstdDecompressor(max_window_size=_SEGMENT_MOST).stream_reader(data) as reader:
            while size <= segment.full + _SLACK and (piece := reader.read(_CHUNK)):
                size += len(piece)
    except zstandard.ZstdError as error:
        raise _DamagedSegment(f"it does not unpack: {error}") from error
    return _require_enough(size, segment)


def _require_enough(size: int, segment: TiffSegment) -> bool:
    if size < segment.least:
        raise _DamagedSegment(f"it unpacks to {size} bytes of {segment.least}")
    return True


def _require_exact(size: int, segment: TiffSegment, *, ended: bool) -> bool:
    """Check the size of codes without a checksum: neither less than the rows need nor, up to an end mark, more."""
    _require_enough(size, segment)
    if ended and size not in {segment.least, segment.full} and not size <= segment.least + _SLACK:
        raise _DamagedSegment(f"it unpacks to {size} bytes and not to {segment.least}")
    return True


def _check_lzw(data: bytes, segment: TiffSegment, deadline: Deadline) -> bool:
    if is_old_style(data):
        return False
    try:
        size, ended = unpacked_size(data, segment.full + _SLACK, deadline)
    except InvalidLzw as error:
        raise _DamagedSegment(f"its codes are wrong: {error}") from error
    return (not ended and deadline.has_passed) or _require_exact(size, segment, ended=ended)


def _check_packbits(data: bytes, segment: TiffSegment, _deadline: Deadline) -> bool:
    at, end, size = 0, len(data), 0
    while at < end and size <= segment.full + _SLACK:
        head = data[at]
        if head < _PACKBITS_NOTHING:
            length, at = head + 1, at + head + 2
        elif head > _PACKBITS_NOTHING:
            length, at = 257 - head, at + 2
        else:
            length, at = 0, at + 1
        if at > end:
            raise _DamagedSegment("its last run continues after its end")
        size += length
    return _require_exact(size, segment, ended=True)


def _check_jpeg(tables: bytes, data: bytes, _segment: TiffSegment, _deadline: Deadline) -> bool:
    # The tables that all segments share are a JPEG file without a picture: joined where it ends and the picture begins.
    picture = tables[:-2] + data[2:] if len(tables) > 4 else data
    if not is_common_jpeg(picture):
        return False
    if error := jpeg_error(picture):
        raise _DamagedSegment(error)
    return True


def _check_fax(width: int, data: bytes, segment: TiffSegment, deadline: Deadline) -> bool:
    if len(data) > BYTES_MOST:
        return False
    try:
        return has_all_rows(data, width, segment.least // -(-width // 8), deadline)
    except InvalidFax as error:
        raise _DamagedSegment(str(error)) from error


def _check_webp(data: bytes, _segment: TiffSegment, _deadline: Deadline) -> bool:
    try:
        with Image.open(io.BytesIO(data), formats=["WEBP"]) as picture:
            picture.load()
    except (OSError, SyntaxError) as error:
        raise _DamagedSegment(f"it does not decode as WebP: {error}") from error
    return True


_CHECKS: Final[Mapping[int, _Check]] = {
    LZW: _check_lzw,
    PACKBITS: _check_packbits,
    **dict.fromkeys(
        (8, 32946), lambda *call: _check_stream(Inflate(zlib.MAX_WBITS, up_to_damage=False), "inflate", *call)
    ),
    34925: lambda *call: _check_stream(lzma.LZMADecompressor(memlimit=2 * _SEGMENT_MOST), "unpack", *call),
    50000: _check_zstandard,
    50001: _check_webp,
}
