"""GIF: all blocks up to the trailer are in the file, and every frame decodes."""

import struct
import time
from dataclasses import dataclass
from functools import partial
from typing import Final

from sluice_inspect.facts.media import measure_picture
from sluice_inspect.format import Examination, Family, Format, MatchOrder
from sluice_inspect.images.raster import decode_frames, require_within_limits, sample_picture
from sluice_inspect.report import Corrupt, Finding, Limits, TooComplex, Unsafe
from sluice_inspect.source import Source

_SIGNATURES: Final = (b"GIF87a", b"GIF89a")
_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B
_WINDOW: Final = 256 * 1024
_PIXELS_PER_BYTE: Final = 2731  # at most: a code of 12 bits represents a string of up to 4096 pixels
_SPARSE_PIXELS: Final = 4_000_000  # up to this many pixels cost little, however few bytes they come from
_SPARSE_FRAMES_PIXELS: Final = 500_000_000  # the same for all frames together, each of which is composed as a whole


@dataclass(slots=True)
class _GifLayout:
    """How far the blocks were followed, and the frames on the way. Width and height span the screen and all frames."""

    offset: int
    width: int
    height: int
    frames: int = 0


class _WindowedBytes:
    """Reads a source through a window. Reading past its end raises `Corrupt`, taking too long `TooComplex`."""

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

    def after_blocks(self, offset: int) -> int:
        while size := self.at(offset, 1)[0]:
            offset += 1 + size
        return offset + 1


def _examine(source: Source, limits: Limits) -> Examination:
    layout = _read_layout(source, limits)
    most_pixels = max(_SPARSE_FRAMES_PIXELS, _PIXELS_PER_BYTE * source.size)
    decoded = decode_frames(source.open(), "GIF", limits, most_pixels=most_pixels)
    measures = {"width": layout.width, "height": layout.height, "trailing_bytes": source.size - layout.offset}
    return Examination(measures | decoded.measures, decoded.blank, decoded.measured)


def _read_layout(source: Source, limits: Limits) -> _GifLayout:
    data = _WindowedBytes(source, limits)
    width, height, flags = struct.unpack_from("<HHB", data.at(0, 13), 6)
    layout = _GifLayout(13 + _colour_table_bytes(flags), width, height)
    while layout.offset < source.size:
        introducer = data.at(layout.offset, 1)[0]
        if introducer == _TRAILER:
            layout.offset += 1
            break
        if introducer == _EXTENSION:
            layout.offset = data.after_blocks(layout.offset + 2)
        elif introducer == _IMAGE:
            left, top, width, height, flags = struct.unpack_from("<HHHHB", data.at(layout.offset, 10), 1)
            layout.width, layout.height = max(layout.width, left + width), max(layout.height, top + height)
            layout.frames += 1
            layout.offset = data.after_blocks(layout.offset + 10 + _colour_table_bytes(flags) + 1)
            _check_size(layout, source.size, limits)
        elif introducer == 0:  # an empty block too many, which readers skip
            layout.offset += 1
        elif layout.frames:  # viewers tolerate a missing trailer behind a complete frame
            break
        else:
            raise Corrupt(f"there is no GIF block at byte {layout.offset}, where one must be")
    if not layout.frames:
        raise Corrupt("the GIF holds no picture")
    return layout


def _check_size(layout: _GifLayout, size: int, limits: Limits) -> None:
    """Raise `Unsafe` for a picture that costs its reader far more memory than its bytes can fill."""
    require_within_limits(limits, layout.width, layout.height, layout.frames)
    # Mostly frames that are placed far outside of the screen, for which readers extend it.
    if layout.width * layout.height > max(_SPARSE_PIXELS, _PIXELS_PER_BYTE * size):
        raise Unsafe(
            Finding.IMAGE_TOO_LARGE,
            f"{layout.width} x {layout.height} pixels are more than {size} bytes of GIF can hold",
        )


def _colour_table_bytes(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


FORMAT: Final = Format(
    name="gif",
    family=Family.PICTURE,
    content_type="image/gif",
    extensions=frozenset({"gif"}),
    begins=_SIGNATURES,
    matches=lambda source: source.head.startswith(_SIGNATURES),
    match_order=MatchOrder.PICTURE,
    examine=_examine,
    facts=partial(measure_picture, plugin="GIF", is_animated=True),
    sample=lambda: sample_picture("GIF"),
)
