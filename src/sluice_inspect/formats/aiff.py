"""AIFF and AIFF-C: the format and all samples that it states stand in the file. Damage among plain samples cannot be seen."""

import struct
from collections.abc import Mapping
from itertools import islice
from typing import Final

from sluice.formats import riff
from sluice.formats.budget import Deadline
from sluice.formats.kind import Kind
from sluice.formats.media import media
from sluice.formats.media.media import LACKS
from sluice.formats.media.media_samples import tone
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure

_CHUNKS_MOST: Final = 10_000
_COMMON_BYTES: Final = 18
_SOUND_HEADER: Final = 8
_SLACK: Final = 54
"""Bytes that may be missing: some writers count their header as samples."""
_SLACK_SHARE: Final = 0.01
_PLAIN: Final = frozenset({b"NONE", b"twos", b"sowt", b"raw ", b"in24", b"in32", b"fl32", b"FL32", b"fl64", b"FL64"})


def _recognises(source: Source) -> bool:
    return source.head.startswith(b"FORM") and source.head[8:12] in {b"AIFF", b"AIFC"}


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    deadline = Deadline(limits.soft_seconds)
    found: dict[bytes, riff.Chunk] = {}
    for chunk in islice(riff.chunks(source, 12, source.size, "big"), _CHUNKS_MOST):
        found.setdefault(chunk.name, chunk)
    common, sound = found.get(b"COMM"), found.get(b"SSND")
    if common is None or common.size < _COMMON_BYTES or common.end > source.size:
        raise Corrupt("the AIFF does not say what its samples are like")
    stated = _stated_bytes(source, common)
    if sound is None and stated:
        raise Corrupt("the AIFF holds no samples")
    end = max(sound.end, sound.body + _SOUND_HEADER + stated) if sound else 0
    if end - source.size > min(_SLACK, _SLACK_SHARE * (sound.size if sound else 0)):
        raise Corrupt(f"the AIFF ends at byte {source.size}, but its samples go on to byte {end}")
    measures: dict[str, Measure] = {"trailing_bytes": max(0, source.size - max((chunk.end for chunk in found.values()), default=0))}
    if sound is None:
        media.note_nothing(source)
        return measures
    return measures | dict(media.play(source, "aiff", deadline, strict=False))


def _stated_bytes(source: Source, common: riff.Chunk) -> int:
    """Answer the size of the samples, 0 where it depends on how they are packed."""
    channels, frames, bits = struct.unpack(">HLH", source.read_at(common.body, 8))
    if source.head[8:12] == b"AIFC" and source.read_at(common.body + _COMMON_BYTES, 4) not in _PLAIN:
        return 0
    size: int = channels * frames * -(-bits // 8)
    return size


def _sample() -> bytes:
    samples = struct.pack(f">{len(tone()) // 2}h", *struct.unpack(f"<{len(tone()) // 2}h", tone()))
    rate = b"\x40\x0b\xfa\x00\x00\x00\x00\x00\x00\x00"  # 8000 as a float of 80 bits
    common = struct.pack(">4sLHLH", b"COMM", 18, 1, len(samples) // 2, 16) + rate
    sound = struct.pack(">4sLLL", b"SSND", 8 + len(samples), 0, 0) + samples
    return struct.pack(">4sL4s", b"FORM", 4 + len(common) + len(sound), b"AIFF") + common + sound


KIND: Final = Kind(
    name="aiff",
    content_type="audio/aiff",
    extensions=frozenset({"aif", "aiff", "aifc", "afc"}),
    recognises=_recognises,
    check=_check,
    blank=media.blank_media,
    sample=_sample,
    lacks=LACKS,
)
