"""AAC in ADTS: frames follow each other from the first to the last, and all of them decode. AAC in MP4 is M4A."""

from collections.abc import Mapping
from typing import Final

from sluice.formats import audio_tags, media, media_samples
from sluice.formats.budget import Deadline
from sluice.formats.frame_walk import Frames, Grammar, Header, require_complete
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure, Unsupported

_ADIF: Final = b"ADIF"
_SYNC: Final = 0xFFF
_RATES: Final = 13
_LEAST_BYTES: Final = 7


def _read(header: bytes) -> Header | None:
    """Answer the meaning of seven bytes; ISO/IEC 13818-7, 6.2."""
    value = int.from_bytes(header, "big")
    if value >> 44 != _SYNC or value >> 41 & 3 or value >> 34 & 15 >= _RATES:
        return None
    length = value >> 13 & 0x1FFF
    return (length, value >> 34 & 0x20F) if length >= _LEAST_BYTES else None


GRAMMAR: Final = Grammar(header_bytes=7, read=_read)


def _recognises(source: Source) -> bool:
    if source.head.startswith(_ADIF):
        return True
    try:
        start = audio_tags.behind_front_tags(source)
    except Corrupt:
        return False
    return Frames(source, GRAMMAR).find(start) is not None


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    deadline = Deadline(limits.soft_seconds)
    if source.head.startswith(_ADIF):
        raise Unsupported("AAC with one header for all (ADIF) cannot be judged")
    frames = Frames(source, GRAMMAR)
    first = frames.find(audio_tags.behind_front_tags(source))
    if first is None:
        raise Corrupt("there are no AAC frames in the file")
    walk = frames.walk(first)
    require_complete(source, walk)
    measures: dict[str, Measure] = {"frames": walk.frames, "trailing_bytes": source.size - walk.end}
    return measures | dict(media.play(source, "aac", deadline, pieces=walk.pieces))


KIND: Final = Kind(
    name="aac",
    content_type="audio/aac",
    extensions=frozenset({"aac", "adts", "adt"}),
    recognises=_recognises,
    check=_check,
    blank=media.blank_media,
    sample=lambda: media_samples.sound("adts", "aac", fractions=True),
)
