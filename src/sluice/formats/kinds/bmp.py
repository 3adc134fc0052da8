"""BMP: a header that makes sense, and behind it all the rows that it declares. What Pillow does not draw of that is unsupported, not broken.

The rows of most files are plain: any value is a colour, so damage within them cannot be seen.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from PIL import Image

from sluice.formats.budget import Deadline
from sluice.formats.images.bmp_runs import follow_runs
from sluice.formats.images.pictures import picture_is_blank
from sluice.formats.images.raster import blank_picture, decode, keep_within, sample_picture
from sluice.formats.kind import Kind
from sluice.formats.pieces import open_pieces
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure, Unsupported

_FILE_HEADER: Final = 14
_CORE: Final = 12
_OS2_SIZES: Final = frozenset({*range(16, 65, 4), 42, 46})
_WINDOWS_SIZES: Final = frozenset({40, 52, 56, 108, 124})
_HEADER_SIZES: Final = _OS2_SIZES | _WINDOWS_SIZES | {_CORE}
_PLAIN, _RUNS_8, _RUNS_4, _MASKS, _JPEG, _PNG, _ALPHA_MASKS = range(7)
_CMYK: Final = range(11, 14)
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
"""Bits a pixel by compression. OS/2 gives 3 and 4 a meaning of its own: fax codes with 1 bit, runs of 24 bits."""
_PLUGINS: Final = {_JPEG: "JPEG", _PNG: "PNG"}


@dataclass(frozen=True, slots=True)
class _Header:
    offset: int
    """Of the first row in the file."""
    width: int
    height: int
    bits: int
    compression: int = _PLAIN
    stated: int = 0
    """Bytes of pixels as the header states them, often 0."""
    is_os2: bool = False

    @property
    def row(self) -> int:
        """Bytes of one row: a multiple of four."""
        return -(-self.width * self.bits // 32) * 4

    @property
    def least(self) -> int:
        """Bytes of all rows, without what fills up the last one."""
        return self.row * (self.height - 1) + -(-self.width * self.bits // 8)


def _recognises(source: Source) -> bool:
    start = _start(source)
    return start is not None and int.from_bytes(source.head[start + 14 : start + 18], "little") in _HEADER_SIZES


def _start(source: Source) -> int | None:
    """Answer where the header begins: OS/2 could keep several pictures in one file, behind a header of its own."""
    if source.head.startswith(b"BM"):
        return 0
    return _FILE_HEADER if source.head.startswith(b"BA") and source.head[14:16] == b"BM" else None


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    start = _start(source) or 0
    header = _read_header(source, start)
    keep_within(limits, header.width, header.height)
    end = _end_of_pixels(source, header, limits)
    measures = {"width": header.width, "height": header.height, "bits": header.bits, "trailing_bytes": max(0, source.size - end)}
    if start:
        raise Unsupported("the BMP is an array of pictures for OS/2, which is not drawn here")
    if header.compression in _PLUGINS and not header.is_os2:
        inner = open_pieces(source, [(header.offset, end - header.offset)])
        return measures | decode(source, inner, _PLUGINS[header.compression], limits)
    try:
        return measures | decode(source, source.open(), "BMP", limits)
    except (Corrupt, ValueError) as error:  # the latter where runs leave the last rows out
        raise Unsupported(f"the BMP is whole, but there is no decoder at hand for its variant: {error}") from error


def _read_header(source: Source, start: int) -> _Header:
    fixed = source.head[start : start + 124 + _FILE_HEADER]
    size = int.from_bytes(fixed[14:18], "little")
    if size not in _HEADER_SIZES or len(fixed) < _FILE_HEADER + size:
        raise Corrupt("the BMP ends within its header, or the header is damaged")
    (offset,) = struct.unpack_from("<L", fixed, 10)
    offset = offset or start + _FILE_HEADER + size
    if size == _CORE:
        width, height, planes, bits = struct.unpack_from("<HHHH", fixed, 18)
        header = _Header(offset, width, height, bits, is_os2=True)
    else:
        width, height, planes, bits = struct.unpack_from("<llHH", fixed, 18)
        compression, stated = struct.unpack_from("<LL", fixed.ljust(38, b"\0"), 30) if size > _CORE + 4 else (_PLAIN, 0)
        header = _Header(offset, width, abs(height), bits, compression, stated, is_os2=size not in _WINDOWS_SIZES)
    if planes != 1 or bits not in _DEPTHS.get(header.compression, ()):
        raise Corrupt(
            f"the header of the BMP is damaged: no BMP has {planes} planes of {bits} bits, compressed by method {header.compression}"
        )
    if offset < start + _FILE_HEADER + size:
        raise Corrupt(f"the header of the BMP is damaged: its pixels would begin at byte {offset}, within the header")
    return header


def _end_of_pixels(source: Source, header: _Header, limits: Limits) -> int:
    """Answer where the pixels end. Raises `Corrupt` when that is behind the end of the file."""
    if header.compression in {_RUNS_4, _RUNS_8}:
        deadline = Deadline(limits.soft_seconds)
        end = follow_runs(
            source, header.offset, header.stated, size=(header.width, header.height), bits=header.bits, deadline=deadline
        )
        return source.size if end is None else end
    if header.compression in {_PLAIN, _ALPHA_MASKS, *_CMYK[:1]} or (header.compression == _MASKS and not header.is_os2):
        least = header.least
    else:
        least = header.stated or 1
    if header.offset + least > source.size:
        raise Corrupt(f"the BMP ends at byte {source.size} of the {header.offset + least} that its header declares")
    return header.offset + least


def _blank(source: Source, limits: Limits) -> str | None:
    """Answer the blank rule. Many programs leave the transparency at 0 and mean a picture that is not transparent at all."""
    found = blank_picture(source, limits)
    if found is None:
        return None
    with Image.open(source.open(), formats=["BMP", "JPEG", "PNG"]) as picture:
        return None if picture.mode == "RGBA" and not picture_is_blank(picture.convert("RGB")) else found


KIND: Final = Kind(
    name="bmp",
    content_type="image/bmp",
    extensions=frozenset({"bmp"}),
    also_named=frozenset({"dib"}),  # which may be a bitmap without the header of a file as well
    recognises=_recognises,
    check=_check,
    blank=_blank,
    sample=lambda: sample_picture("BMP"),
)
