"""BMP: a header that makes sense, and behind it all rows that it declares."""
# In most rows any value is a colour, so damage cannot be seen. Run lengths are followed here, since decoders clip
# wrong ones silently. What Pillow does not draw of a complete file is unsupported, not corrupt.

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from PIL import Image

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.media import measure_picture
from sluice_inspect.format import Examination, Family, Format, MatchOrder
from sluice_inspect.images.blank import picture_is_blank
from sluice_inspect.images.raster import Decoded, decode_frames, require_within_limits, sample_picture
from sluice_inspect.report import Corrupt, Limits, Unsupported
from sluice_inspect.source import Source, open_pieces

_FILE_HEADER: Final = 14
_CORE: Final = 12
_OS2_SIZES: Final = frozenset({*range(16, 65, 4), 42, 46})
_WINDOWS_SIZES: Final = frozenset({40, 52, 56, 108, 124})
_HEADER_SIZES: Final = _OS2_SIZES | _WINDOWS_SIZES | {_CORE}
_PLAIN, _RUNS_8, _RUNS_4, _MASKS, _JPEG, _PNG, _ALPHA_MASKS = range(7)
_CMYK: Final = range(11, 14)
# Bits per pixel by compression. OS/2 gives 3 and 4 another meaning: fax codes with 1 bit, runs of 24 bits.
_DEPTHS: Final[Mapping[int, frozenset[int]]] = {
    _PLAIN: frozenset({1, 2, 4, 8, 16, 24, 32, 64}),
    _RUNS_8: frozenset({8}),
    _RUNS_4: frozenset({4}),
    _MASKS: frozenset({1, 16, 24, 32}),
    _JPEG: frozenset({0, 24}),
    _PNG: frozenset({0, 24, 32}),
    _ALPHA_MASKS: frozenset({16, 32}),
    **{compression: frozenset({4, 8, 24, 32}) for compression in _CMYK},
}
_PLUGINS: Final = {_JPEG: "JPEG", _PNG: "PNG"}

_WINDOW: Final = 256 * 1024
_TOKEN_MOST: Final = 2 + 256
_END_OF_LINE, _END_OF_PICTURE, _MOVE = 0, 1, 2
_ROW_SLACK: Final = 32  # pixels behind the end of a row with which encoders fill it up; readers clip them
_REST_MOST: Final = 8  # bytes that may be left over behind the last row


@dataclass(frozen=True, slots=True)
class _BmpHeader:
    offset: int  # of the first row in the file
    width: int
    height: int
    bits: int
    compression: int = _PLAIN
    declared_bytes: int = 0  # of all pixels; often 0
    is_os2: bool = False

    @property
    def unpacked_bytes(self) -> int:
        """Bytes of all rows, which are multiples of four bytes; what fills up the last one is not counted."""
        return -(-self.width * self.bits // 32) * 4 * (self.height - 1) + -(-self.width * self.bits // 8)


def _header_start(source: Source) -> int | None:
    """Return where the header begins: OS/2 can keep several pictures in one file, behind a header for all of them."""
    if source.head.startswith(b"BM"):
        return 0
    return _FILE_HEADER if source.head.startswith(b"BA") and source.head[14:16] == b"BM" else None


def _matches(source: Source) -> bool:
    start = _header_start(source)
    return start is not None and int.from_bytes(source.head[start + 14 : start + 18], "little") in _HEADER_SIZES


def _examine(source: Source, limits: Limits) -> Examination:
    start = _header_start(source) or 0
    header = _read_header(source, start)
    require_within_limits(limits, header.width, header.height)
    end = _find_end_of_pixels(source, header, limits)
    if start:
        raise Unsupported("the BMP is an array of pictures for OS/2, which is not drawn here")
    decoded = _decode(source, header, end, limits)
    measures = {
        "width": header.width,
        "height": header.height,
        "bits": header.bits,
        "trailing_bytes": max(0, source.size - end),
    }
    return Examination(measures | decoded.measures, lambda: _blank(source, decoded), decoded.measured)


def _decode(source: Source, header: _BmpHeader, end: int, limits: Limits) -> Decoded:
    if header.compression in _PLUGINS and not header.is_os2:
        inner = open_pieces(source, [(header.offset, end - header.offset)])
        return decode_frames(inner, _PLUGINS[header.compression], limits)
    try:
        return decode_frames(source.open(), "BMP", limits)
    except (Corrupt, ValueError) as error:  # Pillow raises the latter where runs leave the last rows out
        raise Unsupported(f"the BMP is complete, but no installed decoder reads its variant: {error}") from error


def _blank(source: Source, decoded: Decoded) -> str | None:
    if decoded.blank_detail is None:
        return None
    # Many programs leave the transparency at 0 and mean a picture that is not transparent at all.
    with Image.open(source.open(), formats=["BMP", "JPEG", "PNG"]) as picture:
        is_drawn = picture.mode == "RGBA" and not picture_is_blank(picture.convert("RGB"))
    return None if is_drawn else decoded.blank_detail


def _read_header(source: Source, start: int) -> _BmpHeader:
    fixed = source.head[start : start + 124 + _FILE_HEADER]
    size = int.from_bytes(fixed[14:18], "little")
    if size not in _HEADER_SIZES or len(fixed) < _FILE_HEADER + size:
        raise Corrupt("the BMP ends within its header, or the header is damaged")
    (offset,) = struct.unpack_from("<L", fixed, 10)
    offset = offset or start + _FILE_HEADER + size
    if size == _CORE:
        width, height, planes, bits = struct.unpack_from("<HHHH", fixed, 18)
        header = _BmpHeader(offset, width, height, bits, is_os2=True)
    else:
        width, height, planes, bits = struct.unpack_from("<llHH", fixed, 18)  # rows from the top have a negative height
        compression, declared = (
            struct.unpack_from("<LL", fixed.ljust(38, b"\0"), 30) if size > _CORE + 4 else (_PLAIN, 0)
        )
        header = _BmpHeader(offset, width, abs(height), bits, compression, declared, is_os2=size not in _WINDOWS_SIZES)
    if planes != 1 or bits not in _DEPTHS.get(header.compression, ()):
        raise Corrupt(
            f"the header of the BMP is damaged: "
            f"no BMP has {planes} planes of {bits} bits, compressed by method {header.compression}"
        )
    if offset < start + _FILE_HEADER + size:
        raise Corrupt(f"the header of the BMP is damaged: its pixels would begin at byte {offset}, within the header")
    return header


def _find_end_of_pixels(source: Source, header: _BmpHeader, limits: Limits) -> int:
    if header.compression in {_RUNS_4, _RUNS_8}:
        end = _follow_runs(source, header, Deadline(limits.soft_seconds))
        return source.size if end is None else end
    if header.compression in {_PLAIN, _ALPHA_MASKS, *_CMYK[:1]} or (header.compression == _MASKS and not header.is_os2):
        least = header.unpacked_bytes
    else:
        least = header.declared_bytes or 1
    if header.offset + least > source.size:
        raise Corrupt(f"the BMP ends at byte {source.size} of the {header.offset + least} that its header declares")
    return header.offset + least


@dataclass(slots=True)
class _RunPosition:
    bits: int
    column: int = 0
    row: int = 0
    ended: bool = False

    def apply(self, count: int, value: int, following: bytes) -> int:
        """Apply one token, and return how many of the bytes behind it belong to it."""
        if count:
            self.column += count
        elif value == _END_OF_LINE:
            self.row, self.column = self.row + 1, 0
        elif value == _END_OF_PICTURE:
            self.ended = True
        elif value == _MOVE:
            across, up = following[:2].ljust(2, b"\0")
            self.row, self.column = self.row + up, self.column + across
            return 2
        else:  # `value` pixels one by one, padded to 16 bits
            self.column += value
            return (-(-value * self.bits // 8) + 1) // 2 * 2
        return 0


def _follow_runs(source: Source, header: _BmpHeader, deadline: Deadline) -> int | None:
    """Return where the runs of a picture of 4 or 8 bits per pixel end, or None if time ran out before."""
    position = _RunPosition(header.bits)
    window, at, base = b"", 0, header.offset
    while position.row < header.height and not position.ended:
        if at + _TOKEN_MOST > len(window):
            base, at, window = base + at, 0, source.read_at(base + at, _WINDOW)
            if deadline.has_passed:
                return None
        token = window[at : at + 2]
        if len(token) < 2:
            if position.row >= header.height - 1 and position.column >= header.width:
                break
            raise Corrupt(f"the BMP ends at byte {source.size}, in row {position.row + 1} of {header.height}")
        at += 2
        at += position.apply(token[0], token[1], window[at : at + 2])
        if position.column > header.width + _ROW_SLACK:
            raise Corrupt(f"the BMP is damaged before byte {base + at}: a row continues beyond the edge of the picture")
    end = base + at
    if not position.ended and source.read_at(end, 2) == bytes([0, _END_OF_PICTURE]):
        end, position.ended = end + 2, True
    rest = min(header.offset + header.declared_bytes, source.size) - end
    if not position.ended and header.declared_bytes and rest > _REST_MOST:
        raise Corrupt(f"the BMP is damaged before byte {end}: its pixels continue after the last row")
    return end


FORMAT: Final = Format(
    name="bmp",
    family=Family.PICTURE,
    content_type="image/bmp",
    extensions=frozenset({"bmp"}),
    tolerated_extensions=frozenset({"dib"}),  # which may also be a bitmap without the file header
    begins=(b"BM", b"BA"),
    matches=_matches,
    match_order=MatchOrder.PICTURE,
    examine=_examine,
    facts=partial(measure_picture, plugin="BMP"),
    sample=lambda: sample_picture("BMP"),
)
