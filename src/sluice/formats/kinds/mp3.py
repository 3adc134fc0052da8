"""MP3, and MPEG audio layers I and II: frames follow each other from the first to the last, as many as the file says, and all of them decode."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from sluice.formats.budget import Deadline
from sluice.formats.kind import Kind
from sluice.formats.media import audio_tags, media, media_samples
from sluice.formats.media.adts import is_aac
from sluice.formats.media.frame_walk import Frames, Grammar, Header, require_complete
from sluice.formats.media.media import LACKS
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure, Unsupported

_MPEG_1: Final = 3
_RESERVED_VERSION: Final = 1
_RESERVED_LAYER: Final = 0
_RESERVED_RATE: Final = 3
_RESERVED_BITS: Final = 15
_FREE_BITS: Final = 0
_HERTZ: Final = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
_LOW_KBITS: Final = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_KBITS: Final = {
    (True, 1): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): _LOW_KBITS,
    (False, 3): _LOW_KBITS,
}
"""Bit rates by whether the version is MPEG-1, and by layer."""
_COMMON: Final = 0xFFFE0C00
"""Version, layer and sample rate; bit rate, padding and channel mode may change with each frame."""
_FRAME_MOST: Final = 4608
_FEWEST_PLAYED: Final = 3
"""FFmpeg wants frames that follow each other to believe in them."""


@lru_cache(maxsize=4096)
def _read(header: bytes) -> Header | None:
    """Answer the meaning of four bytes; ISO/IEC 11172-3, 2.4.1.3, and 13818-3."""
    value = int.from_bytes(header, "big")
    bits = value >> 12 & 15
    if not _is_header(value) or bits == _FREE_BITS:
        return None
    version, layer = value >> 19 & 3, 4 - (value >> 17 & 3)
    hertz = _HERTZ[version][value >> 10 & 3]
    bits_per_second = 1000 * _KBITS[version == _MPEG_1, layer][bits - 1]
    padding = value >> 9 & 1
    if layer == 1:
        return 4 * (12 * bits_per_second // hertz + padding), value & _COMMON
    samples = 576 if layer == 3 and version != _MPEG_1 else 1152  # noqa: PLR2004  (layer III halves its frames at low rates)
    return samples // 8 * bits_per_second // hertz + padding, value & _COMMON


def _is_header(value: int) -> bool:
    return (
        value >> 21 == 0x7FF  # noqa: PLR2004  (the sync word)
        and value >> 19 & 3 != _RESERVED_VERSION
        and value >> 17 & 3 != _RESERVED_LAYER
        and value >> 12 & 15 != _RESERVED_BITS
        and value >> 10 & 3 != _RESERVED_RATE
    )


_GRAMMAR: Final = Grammar(header_bytes=4, read=_read)


def _recognises(source: Source) -> bool:
    try:
        start = audio_tags.behind_front_tags(source)
    except Corrupt:
        return True
    if Frames(source, _GRAMMAR).find(start) is not None or _is_free_format(source, start):
        return True
    return start > 0 and source.read_at(start, 4) != b"fLaC" and not is_aac(source)


def _is_free_format(source: Source, start: int) -> bool:
    """Answer whether the frames have a length of their own, which only their distance tells."""
    data = source.read_at(start, 3 * _FRAME_MOST)
    value = int.from_bytes(data[:4], "big")
    if not _is_header(value) or value >> 12 & 15 != _FREE_BITS:
        return False
    second = data.find(data[:2], 32)
    return second > 0 and data[2 * second - 1 : 2 * second + 3].find(data[:2]) >= 0


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    deadline = Deadline(limits.soft_seconds)
    start = audio_tags.behind_front_tags(source)
    frames = Frames(source, _GRAMMAR)
    first = frames.find(start)
    if first is None and _is_free_format(source, start):
        raise Unsupported("MPEG audio of free bit rate cannot be judged")
    if first is None:
        raise Corrupt("there are no MPEG audio frames in the file")
    walk = frames.walk(first, deadline)
    stated = _stated_frames(frames.at(first, 256))
    require_complete(source, walk, stated)
    measures: dict[str, Measure] = {"frames": walk.frames, "stated_frames": stated, "trailing_bytes": source.size - walk.end}
    if walk.frames < _FEWEST_PLAYED:
        return measures
    return measures | dict(media.play(source, "mp3", deadline, pieces=walk.pieces))


def _stated_frames(frame: bytes) -> int:
    """Answer the number of frames that the first one states (Xing, Info or VBRI), 0 when it states none."""
    for name in (b"Xing", b"Info"):
        place = frame.find(name, 4, 48)
        if place > 0 and frame[place + 7] & 1:
            return int.from_bytes(frame[place + 8 : place + 12], "big")
    place = frame.find(b"VBRI", 36, 44)
    return int.from_bytes(frame[place + 14 : place + 18], "big") if place > 0 else 0


KIND: Final = Kind(
    name="mp3",
    content_type="audio/mpeg",
    extensions=frozenset({"mp3", "mp2", "mp1", "mpa", "mpga"}),
    recognises=_recognises,
    check=_check,
    blank=media.blank_media,
    sample=lambda: media_samples.sound("mp2", "mp2"),
    lacks=LACKS,
)
