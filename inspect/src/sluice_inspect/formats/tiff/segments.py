"""The strips and tiles of one TIFF page: where each is, and how many bytes it must unpack to."""

import math
from dataclasses import dataclass
from typing import Final

from sluice_inspect.formats.tiff import directory as tiff
from sluice_inspect.formats.tiff.directory import Directory
from sluice_inspect.report import Corrupt, TooComplex
from sluice_inspect.source import Source

PLAIN, LZW, OLD_JPEG, JPEG, PACKBITS = 1, 5, 6, 7, 32773
GROUP_4: Final = 4
FAX: Final = frozenset({2, 3, GROUP_4})
_SEPARATE: Final = 2
_YCBCR: Final = 6
_SEGMENTS_MOST: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class TiffSegment:
    """A strip or tile: where it is, the least bytes it must unpack to, and `full` ones if its writer filled it up."""

    number: int
    offset: int
    length: int
    least: int
    full: int

    @property
    def is_omitted(self) -> bool:
        """Whether the writer left the segment out, as those of maps leave out what has no data."""
        return not self.offset and not self.length


@dataclass(frozen=True, slots=True)
class PixelLayout:
    """What a directory declares of its pixels."""

    width: int
    height: int
    compression: int
    bits: tuple[int, ...]  # of each sample of a pixel
    is_separate: bool  # each sample is in a plane of its own
    is_tiled: bool
    side: tuple[int, int]  # width and height of a full strip or tile
    subsampling: tuple[int, int]  # pixels across and down that share a colour

    def unpacked_bytes(self, rows: int, plane: int) -> int:
        """Return the bytes of `rows` rows of a segment in a plane."""
        across, down = self.subsampling
        width = self.side[0]
        if self.is_separate:
            if plane:  # TIFF 6.0, section 21: planes of colours have fewer pixels
                width, rows = -(-width // across), -(-rows // down)
            return rows * -(-width * self.bits[min(plane, len(self.bits) - 1)] // 8)
        if (across, down) != (1, 1):
            return -(-width // across) * -(-rows // down) * (across * down + 2) * self.bits[0] // 8
        return rows * -(-width * sum(self.bits) // 8)


def read_layout(page: Directory) -> PixelLayout | None:
    """Return what a page declares of its pixels, None for a directory without any. Raises `Corrupt`."""
    width, height = page.first_number(tiff.WIDTH), page.first_number(tiff.HEIGHT)
    is_tiled = tiff.TILE_OFFSETS in page.tags or tiff.TILE_WIDTH in page.tags
    if not (is_tiled or tiff.STRIP_OFFSETS in page.tags):
        return None
    samples = page.first_number(tiff.SAMPLES, 1)
    bits = tuple(page.numbers(tiff.BITS)) or (1,)
    if is_tiled:
        side = (page.first_number(tiff.TILE_WIDTH), page.first_number(tiff.TILE_HEIGHT))
    else:
        side = (width, min(page.first_number(tiff.ROWS_PER_STRIP, height) or height, height))
    if min(width, height, samples, *bits, *side) <= 0:
        raise Corrupt(f"page {page.number} of the TIFF is damaged: it has no width, height, depth or tiles")
    subsampling = (1, 1)
    if page.first_number(tiff.PHOTOMETRIC) == _YCBCR and samples == 3:
        across, down, *_ = (*page.numbers(tiff.SUBSAMPLING), 2, 2)
        subsampling = (max(1, across), max(1, down))
    return PixelLayout(
        width=width,
        height=height,
        compression=page.first_number(tiff.COMPRESSION, PLAIN),
        bits=bits if len(bits) == samples else bits[:1] * samples,
        is_separate=page.first_number(tiff.PLANAR) == _SEPARATE and samples > 1,
        is_tiled=is_tiled,
        side=side,
        subsampling=subsampling,
    )


def read_segments(source: Source, page: Directory, layout: PixelLayout) -> list[TiffSegment]:
    """Return the strips or tiles of a page.

    Raise `Corrupt` if one is missing or not in the file, and `TooComplex` if there are too many.
    """
    down = math.ceil(layout.height / layout.side[1])
    across = math.ceil(layout.width / layout.side[0])
    planes = len(layout.bits) if layout.is_separate else 1
    needed = across * down * planes
    if needed > _SEGMENTS_MOST:
        raise TooComplex(f"page {page.number} of the TIFF is cut into more than {_SEGMENTS_MOST} pieces")
    # Some writers list tiles under the tags of strips.
    offsets = page.numbers(tiff.TILE_OFFSETS if layout.is_tiled else tiff.STRIP_OFFSETS)
    offsets = offsets or page.numbers(tiff.STRIP_OFFSETS)
    lengths = page.numbers(tiff.TILE_BYTES if layout.is_tiled else tiff.STRIP_BYTES) or page.numbers(tiff.STRIP_BYTES)
    if len(offsets) < needed:
        raise Corrupt(f"page {page.number} of the TIFF is damaged: it lists {len(offsets)} of {needed} pieces")
    segments = []
    for number, offset in enumerate(offsets[:needed]):
        plane, index = divmod(number, across * down)
        rows = layout.side[1] if layout.is_tiled else min(layout.side[1], layout.height - index * layout.side[1])
        least, full = layout.unpacked_bytes(rows, plane), layout.unpacked_bytes(layout.side[1], plane)
        length = lengths[number] if number < len(lengths) else 0
        segments.append(_located(source, page, TiffSegment(number + 1, offset, length, least, full), layout))
    return segments


def _located(source: Source, page: Directory, segment: TiffSegment, layout: PixelLayout) -> TiffSegment:
    length = segment.length
    if segment.is_omitted:
        return segment
    if layout.compression == PLAIN:
        length = segment.least
    elif not length and layout.compression != OLD_JPEG:  # unknown: all that follows
        length = source.size - segment.offset
    if segment.offset < len(b"II*\0") or segment.offset + length > source.size or length < 0:
        raise Corrupt(
            f"the TIFF is cut or damaged: piece {segment.number} of page {page.number} would lie from byte "
            f"{segment.offset} to {segment.offset + length} of {source.size}"
        )
    return TiffSegment(segment.number, segment.offset, length, segment.least, segment.full)
