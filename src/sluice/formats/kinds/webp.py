"""WebP: the RIFF container ends inside the file, its chunks fill it, and every frame decodes and needs all of its data."""

import struct
from collections.abc import Mapping
from typing import Final

from sluice.formats import riff
from sluice.formats.budget import Deadline
from sluice.formats.images.raster import blank_picture, decode, keep_within, sample_picture
from sluice.formats.images.webp_ends import check_ends
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure, TooComplex

_PICTURE_CHUNKS: Final = frozenset({b"VP8 ", b"VP8L", b"ANMF"})
_CHUNKS_MAX: Final = 500_000
_LOSSY_START: Final = b"\x9d\x01\x2a"
_LOSSLESS_START: Final = 0x2F


def _recognises(source: Source) -> bool:
    return source.head[:4] == b"RIFF" and source.head[8:12] == b"WEBP"


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    end = 8 + int.from_bytes(source.head[4:8], "little")
    if end > source.size + (end & 1):  # writers forget the last padding byte
        raise Corrupt(f"the WebP ends at byte {source.size} of the {end} that it declares")
    width, height, frames = _survey(source, min(end, source.size))
    keep_within(limits, width, height, frames)
    deadline = Deadline(limits.soft_seconds)
    decoded = decode(source, source.open(), "WEBP", limits)
    check_ends(source, min(end, source.size), limits, deadline)
    return {"width": width, "height": height, "trailing_bytes": max(0, source.size - end)} | decoded


def _survey(source: Source, end: int) -> tuple[int, int, int]:
    """Answer width, height and number of frames as the chunk headers declare them. Raises `Corrupt` where a chunk passes the end."""
    frames, size = 0, (0, 0)
    for number, chunk in enumerate(riff.chunks(source, 12, end)):
        if number >= _CHUNKS_MAX:
            raise TooComplex(f"the WebP is cut into more than {_CHUNKS_MAX} chunks")
        if chunk.end > end:
            raise Corrupt(f"the chunk at byte {chunk.offset} of the WebP passes the end of the file")
        frames += chunk.name in _PICTURE_CHUNKS
        size = _larger(size, _declared(chunk.name, source.read_at(chunk.body, min(chunk.size, 16))))
    if not frames:
        raise Corrupt("the WebP holds no picture")
    return *size, frames


def _declared(name: bytes, start: bytes) -> tuple[int, int]:
    """Answer the pixels that a chunk declares in its first bytes, (0, 0) for one that declares none."""
    if name == b"VP8X" and len(start) >= 10:  # noqa: PLR2004  (the size that the format fixes)
        return 1 + int.from_bytes(start[4:7], "little"), 1 + int.from_bytes(start[7:10], "little")
    if name == b"VP8L" and len(start) >= 5 and start[0] == _LOSSLESS_START:  # noqa: PLR2004  (14 + 14 bits behind one byte)
        packed = int.from_bytes(start[1:5], "little")
        return 1 + (packed & 0x3FFF), 1 + (packed >> 14 & 0x3FFF)
    if name == b"VP8 " and start[3:6] == _LOSSY_START:
        width, height = struct.unpack_from("<HH", start, 6)
        return width & 0x3FFF, height & 0x3FFF
    if name == b"ANMF" and len(start) >= 12:  # noqa: PLR2004  (offsets and sizes of 3 bytes each)
        return 1 + int.from_bytes(start[6:9], "little"), 1 + int.from_bytes(start[9:12], "little")
    return 0, 0


def _larger(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return max(one[0], other[0]), max(one[1], other[1])


KIND: Final = Kind(
    name="webp",
    content_type="image/webp",
    extensions=frozenset({"webp"}),
    recognises=_recognises,
    check=_check,
    blank=blank_picture,
    sample=lambda: sample_picture("WEBP"),
)
