"""The strips and tiles of one page of a TIFF: where each lies, and how many bytes it must unpack to. Whether it does is asked in `tiff_unpack`."""

import math
from dataclasses import dataclass
from typing import Final

from sluice.formats.images import tiff_directory as tiff
from sluice.formats.images.tiff_directory import Directory
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, TooComplex

PLAIN, LZW, OLD_JPEG, JPEG, PACKBITS = 1, 5, 6, 7, 32773
GROUP_4: Final = 4
FAX: Final = frozenset({2, 3, GROUP_4})
_SEPARATE: Final = 2
_YCBCR: Final = 6
_SEGMENTS_MOST: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Segment:
    """A strip or tile: its place, the bytes that it must unpack to, and the bytes that it may unpack to if its writer filled it up."""

    number: int
    offset: int
    length: int
    least: int
    full: int

    @property
    def is_left_out(self) -> bool:
        """Whether the writer left the segment out, as those of maps leave out what has no data."""
        return not self.offset and not self.length


@dataclass(frozen=True, slots=True)
class Shape:
    """What a directory says of its pixels."""

    width: int
    height: int
    compression: int
    bits: tuple[int, ...]
    """Of each sample of a pixel."""
    is_separate: bool
    is_tiled: bool
    side: tuple[int, int]
    """Width and height of a full strip or tile."""
    shared: tuple[int, int]
    """Pixels across and down that share a colour."""

    def unpacked(self, rows: int, plane: int) -> int:
        """Answer the bytes of so many rows of a segment in a plane."""
        across, down = self.shared
        width = self.side[0]
        if self.is_separate:
            return rows * -(-width * self.bits[min(plane, len(self.bits) - 1)] // 8)
        if (across, down) != (1, 1):
            return -(-width // across) * -(-rows // down) * (across * down + 2) * self.bits[0] // 8
        return rows * -(-width * sum(self.bits) // 8)


def shape_of(page: Directory) -> Shape | None:
    """Answer what a page says of its pixels, None for a directory that has none. Raises `Corrupt` when it cannot be."""
    width, height = page.number_of(tiff.WIDTH), page.number_of(tiff.HEIGHT)
    is_tiled = tiff.TILE_OFFSETS in page.tags or tiff.TILE_WIDTH in page.tags
    if not (is_tiled or tiff.STRIP_OFFSETS in page.tags):
        return None
    samples = page.number_of(tiff.SAMPLES, 1)
    bits = tuple(page.numbers(tiff.BITS)) or (1,)
    rows = page.number_of(tiff.ROWS_PER_STRIP, height) or height
    side = (page.number_of(tiff.TILE_WIDTH), page.number_of(tiff.TILE_HEIGHT)) if is_tiled else (width, min(rows, height))
    if min(width, height, samples, *bits, *side) <= 0:
        raise Corrupt(f"page {page.number} of the TIFF is damaged: it has no width, height, depth or tiles")
    shared = (1, 1)
    if page.number_of(tiff.PHOTOMETRIC) == _YCBCR and samples == 3:  # noqa: PLR2004  (brightness and two colours)
        across, down, *_ = (*page.numbers(tiff.SUBSAMPLING), 2, 2)
        shared = (max(1, across), max(1, down))
    return Shape(
        width=width,
        height=height,
        compression=page.number_of(tiff.COMPRESSION, PLAIN),
        bits=bits if len(bits) == samples else bits[:1] * samples,
        is_separate=page.number_of(tiff.PLANAR) == _SEPARATE and samples > 1,
        is_tiled=is_tiled,
        side=side,
        shared=shared,
    )


def segments_of(source: Source, page: Directory, shape: Shape) -> list[Segment]:
    """Answer the strips or tiles of a page. Raises `Corrupt` when one is missing or not in the file, `TooComplex` for too many."""
    down = math.ceil(shape.height / shape.side[1])
    across = math.ceil(shape.width / shape.side[0])
    planes = len(shape.bits) if shape.is_separate else 1
    needed = across * down * planes
    if needed > _SEGMENTS_MOST:
        raise TooComplex(f"page {page.number} of the TIFF is cut into more than {_SEGMENTS_MOST} pieces")
    offsets = page.numbers(tiff.TILE_OFFSETS if shape.is_tiled else tiff.STRIP_OFFSETS) or page.numbers(tiff.STRIP_OFFSETS)
    lengths = page.numbers(tiff.TILE_BYTES if shape.is_tiled else tiff.STRIP_BYTES) or page.numbers(tiff.STRIP_BYTES)
    if len(offsets) < needed:
        raise Corrupt(f"page {page.number} of the TIFF is damaged: it lists {len(offsets)} of {needed} pieces")
    segments = []
    for number, offset in enumerate(offsets[:needed]):
        plane, place = divmod(number, across * down)
        rows = shape.side[1] if shape.is_tiled else min(shape.side[1], shape.height - place * shape.side[1])
        least, full = shape.unpacked(rows, plane), shape.unpacked(shape.side[1], plane)
        length = lengths[number] if number < len(lengths) else 0
        segments.append(_placed(source, page, Segment(number + 1, offset, length, least, full), shape))
    return segments


def _placed(source: Source, page: Directory, segment: Segment, shape: Shape) -> Segment:
    """Answer the segment with the length that it has. Raises `Corrupt` when it does not lie in the file."""
    length = segment.length
    if segment.is_left_out:
        return segment
    if shape.compression == PLAIN and not (shape.is_separate and shape.shared != (1, 1)):
        length = segment.least
    elif not length and shape.compression != OLD_JPEG:
        length = source.size - segment.offset
    if segment.offset < len(b"II*\0") or segment.offset + length > source.size or length < 0:
        raise Corrupt(
            f"the TIFF is cut or damaged: piece {segment.number} of page {page.number} would lie from byte {segment.offset} "
            f"to {segment.offset + length} of {source.size}"
        )
    return Segment(segment.number, segment.offset, length, segment.least, segment.full)
