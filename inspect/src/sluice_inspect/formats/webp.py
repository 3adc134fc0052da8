"""WebP: the RIFF container ends in the file, its chunks fill it, every frame decodes and needs all of its data."""

import io
import struct
from functools import partial
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.containers import riff
from sluice_inspect.facts.media import measure_picture
from sluice_inspect.format import Examination, Family, Format, MatchOrder, named
from sluice_inspect.images.raster import decode_frames, decode_still, require_within_limits, sample_picture
from sluice_inspect.report import Corrupt, InspectionError, Limits, TooComplex
from sluice_inspect.source import Source

_PICTURE_CHUNKS: Final = frozenset({b"VP8 ", b"VP8L", b"ANMF"})
_CHUNKS_MAX: Final = 500_000
_NO_DECODER: Final = "could not create decoder object"
_CANVAS_BYTES: Final = 8  # of a pixel, in both canvases
_CANVAS_LEAST: Final = 256 * 1024**2  # for less there is always memory
_LOSSY_START: Final = b"\x9d\x01\x2a"
_LOSSLESS_START: Final = 0x2F
_CODED: Final = frozenset({b"VP8 ", b"VP8L"})
_FRAME_HEADER: Final = 16
_SPARE_BYTES: Final = 16  # that an encoder may leave behind its data besides zeros: four times what any does leave
_CODED_MOST: Final = 64 * 1024**2
# Zeros at the end of coded data, more than encoders leave behind it. Of an even area they code kilobytes of zeros, too.
# Such a picture takes all of them; where zeros replaced other data, it mostly leaves some.
_LOST_ZEROS: Final = {b"VP8 ": 128, b"VP8L": 1024}


def _examine(source: Source, limits: Limits) -> Examination:
    declared_end = 8 + int.from_bytes(source.head[4:8], "little")
    if declared_end > source.size + (declared_end & 1):  # writers forget the last padding byte
        raise Corrupt(f"the WebP ends at byte {source.size} of the {declared_end} that it declares")
    end = min(declared_end, source.size)
    width, height, frames = _read_chunks(source, end)
    require_within_limits(limits, width, height, frames)
    deadline = Deadline(limits.soft_seconds)
    try:
        decoded = decode_frames(source.open(), "WEBP", limits)
    except Corrupt as fault:
        # libwebp does not say whether it had no memory for its two canvases.
        if _NO_DECODER in str(fault) and width * height * _CANVAS_BYTES > _CANVAS_LEAST:
            raise TooComplex(f"the WebP of {width} x {height} pixels needs more memory than a check has") from fault
        raise
    _check_ends(source, end, limits, deadline)
    measures = {"width": width, "height": height, "trailing_bytes": max(0, source.size - declared_end)}
    return Examination(measures | decoded.measures, decoded.blank, decoded.measured)


def _read_chunks(source: Source, end: int) -> tuple[int, int, int]:
    """Return width, height and number of frames that the chunk headers declare."""
    frames = width = height = 0
    for number, chunk in enumerate(riff.chunks(source, 12, end)):
        if number >= _CHUNKS_MAX:
            raise TooComplex(f"the WebP is cut into more than {_CHUNKS_MAX} chunks")
        if chunk.end > end:
            raise Corrupt(f"the chunk at byte {chunk.offset} of the WebP passes the end of the file")
        if not chunk.is_named:
            raise Corrupt(f"there is no chunk at byte {chunk.offset} of the WebP, where one must be")
        frames += chunk.name in _PICTURE_CHUNKS
        chunk_width, chunk_height = _declared_size(chunk.name, source.read_at(chunk.body, min(chunk.size, 16)))
        width, height = max(width, chunk_width), max(height, chunk_height)
    if not frames:
        raise Corrupt("the WebP holds no picture")
    return width, height, frames


def _declared_size(name: bytes, start: bytes) -> tuple[int, int]:
    if name == b"VP8X" and len(start) >= 10:
        return 1 + int.from_bytes(start[4:7], "little"), 1 + int.from_bytes(start[7:10], "little")
    if name == b"VP8L" and len(start) >= 5 and start[0] == _LOSSLESS_START:
        packed = int.from_bytes(start[1:5], "little")
        return 1 + (packed & 0x3FFF), 1 + (packed >> 14 & 0x3FFF)
    if name == b"VP8 " and start[3:6] == _LOSSY_START:
        width, height = struct.unpack_from("<HH", start, 6)
        return width & 0x3FFF, height & 0x3FFF
    if name == b"ANMF" and len(start) >= 12:
        return 1 + int.from_bytes(start[6:9], "little"), 1 + int.from_bytes(start[9:12], "little")
    return 0, 0


def _check_ends(source: Source, end: int, limits: Limits, deadline: Deadline) -> None:
    """Raise `Corrupt` for a coded picture that decodes without its last bytes; stop at the deadline."""
    # VP8 (RFC 6386, section 7) and VP8L (RFC 9649, section 3) are read bit by bit, without marks or checksums. Damaged
    # data decodes to other pixels, but takes more or fewer bytes for them. If it takes more, the decoder refuses it. If
    # it takes fewer, it still decodes when the end is cut off, which intact data does not: an encoder fills at most 32
    # bits when it ends. Of 86 pictures from nine encoders, each failed without its last four bytes.
    for chunk in riff.chunks(source, 12, end):
        for coded in (
            riff.chunks(source, chunk.body + _FRAME_HEADER, min(chunk.end, end)) if chunk.name == b"ANMF" else (chunk,)
        ):
            if deadline.has_passed:
                return
            if coded.name in _CODED and coded.size <= _CODED_MOST:
                data = source.read_at(coded.body, coded.size)
                written = data.rstrip(b"\0")
                has_zeros = len(data) - len(written) >= _LOST_ZEROS[coded.name]
                is_even = has_zeros and not _decodes(coded.name, data[:-_SPARE_BYTES], limits)
                if has_zeros and not is_even and not _decodes(coded.name, written, limits):
                    raise Corrupt(
                        f"the picture in the chunk at byte {coded.offset} of the WebP is damaged: its end is all zeros"
                    )
                needed = len(written) - _SPARE_BYTES
                if needed > 0 and _decodes(coded.name, data[:needed], limits):
                    raise Corrupt(
                        f"the picture in the chunk at byte {coded.offset} of the WebP is damaged: "
                        "it decodes without its last bytes"
                    )


def _decodes(name: bytes, data: bytes, limits: Limits) -> bool:
    padding = b"\0" * (len(data) & 1)
    header = struct.pack("<4sI4s4sI", b"RIFF", 12 + len(data) + len(padding), b"WEBP", name, len(data))
    try:
        decode_still(io.BytesIO(b"".join((header, data, padding))), "WEBP", limits)
    except InspectionError:
        return False
    return True


def _read_size(head: bytes) -> tuple[int, int]:
    # Pillow would set up a decoder for all of the file. The chunks are those of RFC 9649, section 2.
    name, start = head[12:16], head[20:30]
    if name == b"VP8X":
        return 1 + int.from_bytes(start[4:7], "little"), 1 + int.from_bytes(start[7:10], "little")
    if name == b"VP8L":
        packed = int.from_bytes(start[1:5], "little")
        return 1 + (packed & 0x3FFF), 1 + (packed >> 14 & 0x3FFF)
    return int.from_bytes(start[6:8], "little") & 0x3FFF, int.from_bytes(start[8:10], "little") & 0x3FFF


FORMAT: Final = Format(
    name="webp",
    family=Family.PICTURE,
    content_type="image/webp",
    extensions=frozenset({"webp"}),
    begins=(b"RIFF",),
    matches=lambda source: source.head[:4] == b"RIFF" and source.head[8:12] == b"WEBP",
    match_order=MatchOrder.PICTURE,
    examine=_examine,
    facts=partial(measure_picture, read_size=_read_size, is_animated=True),
    sample=lambda: sample_picture("WEBP"),
    names=named("WebP", "webp"),
)
