"""GIF: all blocks stand in the file up to the trailer, and every frame decodes. Viewers forgive a missing trailer behind a whole frame."""

import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sluice.formats.images.raster import blank_picture, decode, keep_within, sample_picture
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Finding, Limits, Measure, TooComplex, Unsafe

_SIGNATURES: Final = (b"GIF87a", b"GIF89a")
_EXTENSION: Final = 0x21
_IMAGE: Final = 0x2C
_TRAILER: Final = 0x3B
_WINDOW: Final = 256 * 1024
_PIXELS_PER_BYTE: Final = 2731
"""At most: a code of 12 bits stands for a string of up to 4096 pixels."""
_HOLLOW_PIXELS: Final = 4_000_000
"""Pixels up to which it does not matter."""


@dataclass(slots=True)
class _Walk:
    """How far the blocks were followed, and the frames met on the way."""

    offset: int = 0
    frames: int = 0
    width: int = 0
    height: int = 0


class _Bytes:
    """A source read byte by byte through a window; a read past the end is damage, and too many reads are too complex."""

    def __init__(self, source: Source, limits: Limits) -> None:
        self._source = source
        self._deadline = time.monotonic() + limits.soft_seconds
        self._start = 0
        self._window = source.head

    def at(self, offset: int, length: int) -> bytes:
        if offset < self._start or offset + length > self._start + len(self._window):
            if time.monotonic() > self._deadline:
                raise TooComplex("the GIF is cut into too many blocks to follow them all")
            self._start, self._window = offset, self._source.read_at(offset, max(length, _WINDOW))
        found = self._window[offset - self._start : offset - self._start + length]
        if len(found) < length:
            raise Corrupt(f"the GIF ends at byte {self._source.size}, inside a block")
        return found


def _recognises(source: Source) -> bool:
    return source.head.startswith(_SIGNATURES)


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    walk = _walk(source, limits)
    decoded = decode(source, source.open(), "GIF", limits)
    return {"width": walk.width, "height": walk.height, "trailing_bytes": source.size - walk.offset} | decoded


def _walk(source: Source, limits: Limits) -> _Walk:
    """Follow the blocks to the trailer, or to the end of the file behind a whole frame. Raises `Corrupt` and `Unsafe`."""
    data = _Bytes(source, limits)
    screen = data.at(0, 13)
    width, height, flags = struct.unpack_from("<HHB", screen, 6)
    walk = _Walk(offset=13 + _table_bytes(flags), width=width, height=height)
    while walk.offset < source.size:
        introducer = data.at(walk.offset, 1)[0]
        if introducer == _TRAILER:
            walk.offset += 1
            break
        if introducer == _EXTENSION:
            walk.offset = _behind_blocks(data, walk.offset + 2)
        elif introducer == _IMAGE:
            _step_over_frame(data, walk)
            keep_within(limits, walk.width, walk.height, walk.frames)
            _refuse_hollow(walk, source.size)
        elif introducer == 0:
            walk.offset += 1
        elif walk.frames:
            break
        else:
            raise Corrupt(f"there is no GIF block at byte {walk.offset}, where one must be")
    if not walk.frames:
        raise Corrupt("the GIF holds no picture")
    return walk


def _refuse_hollow(walk: _Walk, size: int) -> None:
    """Refuse a picture that costs its reader far more memory than its bytes can fill: frames that are laid far outside of the screen, mostly."""
    pixels = walk.width * walk.height
    if pixels > max(_HOLLOW_PIXELS, _PIXELS_PER_BYTE * size):
        raise Unsafe(Finding.IMAGE_TOO_LARGE, f"{walk.width} x {walk.height} pixels are more than {size} bytes of GIF can hold")


def _step_over_frame(data: _Bytes, walk: _Walk) -> None:
    left, top, width, height, flags = struct.unpack_from("<HHHHB", data.at(walk.offset, 10), 1)
    walk.width, walk.height = max(walk.width, left + width), max(walk.height, top + height)
    walk.frames += 1
    walk.offset = _behind_blocks(data, walk.offset + 10 + _table_bytes(flags) + 1)


def _table_bytes(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _behind_blocks(data: _Bytes, offset: int) -> int:
    while size := data.at(offset, 1)[0]:
        offset += 1 + size
    return offset + 1


KIND: Final = Kind(
    name="gif",
    content_type="image/gif",
    extensions=frozenset({"gif"}),
    recognises=_recognises,
    check=_check,
    blank=blank_picture,
    sample=lambda: sample_picture("GIF"),
)
