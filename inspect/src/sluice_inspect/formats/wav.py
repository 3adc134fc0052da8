"""WAV (RIFF, its big-endian twin RIFX, RF64 for more than 4 GiB): all samples that it states are in the file."""
# They are plain numbers in most files: any bytes are some sound, so that damage among them cannot be detected.

import struct
from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.containers import riff
from sluice_inspect.facts.media import measure_media
from sluice_inspect.format import Examination, Family, Format, MatchOrder, named
from sluice_inspect.media.playback import MISSING_READER, play
from sluice_inspect.media.sample_files import pcm_tone
from sluice_inspect.report import Corrupt, Limits, Measure
from sluice_inspect.source import Source

_LONG_MAGICS: Final = frozenset({b"RF64", b"BW64"})
_MAGICS: Final = frozenset({b"RIFF", b"RIFX"}) | _LONG_MAGICS
_MAX_CHUNKS: Final = 10_000
_FORMAT_BYTES: Final = 16
# Recorders and programs that write into pipes state sizes from here on, before they know the true one.
_MIN_PLACEHOLDER_SIZE: Final = 0x7FFF_0000
_SIZE_IN_DS64: Final = 0xFFFFFFFF
# Some writers count their header as samples: this many bytes may be missing, but no more than the share of all.
_MAX_MISSING_BYTES: Final = 44
_MAX_MISSING_SHARE: Final = 0.01


def _examine(source: Source, limits: Limits) -> Examination:
    deadline = Deadline(limits.soft_seconds)
    order: riff.Order = "big" if source.head.startswith(b"RIFX") else "little"
    chunks: dict[bytes, riff.Chunk] = {}
    for chunk in islice(riff.chunks(source, 12, source.size, order), _MAX_CHUNKS):
        chunks.setdefault(chunk.name, chunk)
    if b"fmt " not in chunks or chunks[b"fmt "].size < _FORMAT_BYTES:
        raise Corrupt("the WAV does not describe its samples")
    if b"data" not in chunks:
        raise Corrupt("the WAV holds no samples")
    data = chunks[b"data"]
    stated = _stated_bytes(source, chunks)
    present = source.size - data.body
    if stated - present > min(_MAX_MISSING_BYTES, _MAX_MISSING_SHARE * stated):
        raise Corrupt(f"the WAV ends at byte {source.size}, but its samples continue to byte {data.body + stated}")
    measures: dict[str, Measure] = {
        "sample_bytes": min(stated, present),
        "trailing_bytes": max(0, present - stated),
    }
    return play(source, "wav", deadline, measures=measures, strict=False)


def _stated_bytes(source: Source, chunks: Mapping[bytes, riff.Chunk]) -> int:
    """Return the size of the samples as the header states it, 0 if it was unknown when the header was written."""
    data = chunks[b"data"]
    if source.head[:4] in _LONG_MAGICS and b"ds64" in chunks and data.size == _SIZE_IN_DS64:
        size: int = struct.unpack_from("<Q", source.read_at(chunks[b"ds64"].body, 16).ljust(16, b"\0"), 8)[0]
        return size if size < 1 << 63 else 0
    return data.size if data.size < _MIN_PLACEHOLDER_SIZE or data.end <= source.size else 0


def _sample() -> bytes:
    samples = pcm_tone()
    form = struct.pack("<4sLHHLLHH", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16)
    return (
        struct.pack("<4sL4s", b"RIFF", 4 + len(form) + 8 + len(samples), b"WAVE")
        + form
        + struct.pack("<4sL", b"data", len(samples))
        + samples
    )


FORMAT: Final = Format(
    name="wav",
    family=Family.RECORDING,
    content_type="audio/wav",
    extensions=frozenset({"wav", "wave", "bwf", "rf64"}),
    begins=tuple(_MAGICS),
    matches=lambda source: source.head[:4] in _MAGICS and source.head[8:12] == b"WAVE",
    match_order=MatchOrder.RECORDING,
    examine=_examine,
    facts=partial(measure_media, demuxer="wav"),
    sample=_sample,
    missing_reader=MISSING_READER,
    names=named("WAV", "wave"),
)
