"""AIFF and AIFF-C: all samples that the file describes are in it; damage among them cannot be detected."""

import struct
from functools import partial
from itertools import islice
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.containers import riff
from sluice_inspect.facts.media import measure_media
from sluice_inspect.format import Examination, Family, Format, MatchOrder, named
from sluice_inspect.media.playback import MISSING_READER, NO_MEDIA, play
from sluice_inspect.media.sample_files import pcm_tone
from sluice_inspect.report import Corrupt, Limits, Measure
from sluice_inspect.source import Source

_MAX_CHUNKS: Final = 10_000
_COMMON_BYTES: Final = 18
_SOUND_HEADER_BYTES: Final = 8  # offset and block size, at the start of the sound chunk
# Some writers count their header as samples: this many bytes may be missing, but no more than the share of all.
_MAX_MISSING_BYTES: Final = 54
_MAX_MISSING_SHARE: Final = 0.01
_UNCOMPRESSED: Final = frozenset(
    {b"NONE", b"twos", b"sowt", b"raw ", b"in24", b"in32", b"fl32", b"FL32", b"fl64", b"FL64"}
)


def _examine(source: Source, limits: Limits) -> Examination:
    deadline = Deadline(limits.soft_seconds)
    chunks: dict[bytes, riff.Chunk] = {}
    for chunk in islice(riff.chunks(source, 12, source.size, "big"), _MAX_CHUNKS):
        chunks.setdefault(chunk.name, chunk)
    common, sound = chunks.get(b"COMM"), chunks.get(b"SSND")
    if common is None or common.size < _COMMON_BYTES or common.end > source.size:
        raise Corrupt("the AIFF does not describe its samples")
    stated = _stated_bytes(source, common)
    if sound is None and stated:
        raise Corrupt("the AIFF holds no samples")
    end = max(sound.end, sound.body + _SOUND_HEADER_BYTES + stated) if sound else 0
    if end - source.size > min(_MAX_MISSING_BYTES, _MAX_MISSING_SHARE * (sound.size if sound else 0)):
        raise Corrupt(f"the AIFF ends at byte {source.size}, but its samples continue to byte {end}")
    last_end = max((chunk.end for chunk in chunks.values()), default=0)
    measures: dict[str, Measure] = {"trailing_bytes": max(0, source.size - last_end)}
    if sound is None:
        return Examination(measures, lambda: NO_MEDIA)
    return play(source, "aiff", deadline, measures=measures, strict=False)


def _stated_bytes(source: Source, common: riff.Chunk) -> int:
    channels, frames, bits = struct.unpack(">HLH", source.read_at(common.body, 8))
    if source.head[8:12] == b"AIFC" and source.read_at(common.body + _COMMON_BYTES, 4) not in _UNCOMPRESSED:
        return 0
    size: int = channels * frames * -(-bits // 8)
    return size


def _sample() -> bytes:
    tone = pcm_tone()
    samples = struct.pack(f">{len(tone) // 2}h", *struct.unpack(f"<{len(tone) // 2}h", tone))
    rate = b"\x40\x0b\xfa\x00\x00\x00\x00\x00\x00\x00"  # 8000 as an 80-bit float
    common = struct.pack(">4sLHLH", b"COMM", 18, 1, len(samples) // 2, 16) + rate
    sound = struct.pack(">4sLLL", b"SSND", 8 + len(samples), 0, 0) + samples
    return struct.pack(">4sL4s", b"FORM", 4 + len(common) + len(sound), b"AIFF") + common + sound


FORMAT: Final = Format(
    name="aiff",
    family=Family.RECORDING,
    content_type="audio/aiff",
    extensions=frozenset({"aif", "aiff", "aifc", "afc"}),
    begins=(b"FORM",),
    matches=lambda source: source.head.startswith(b"FORM") and source.head[8:12] in {b"AIFF", b"AIFC"},
    match_order=MatchOrder.RECORDING,
    examine=_examine,
    facts=partial(measure_media, demuxer="aiff"),
    sample=_sample,
    missing_reader=MISSING_READER,
    names=named("AIFF", "aif"),
)
