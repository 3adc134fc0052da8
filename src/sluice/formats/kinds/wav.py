"""WAV (RIFF, its big-endian twin RIFX, and RF64 for more than 4 GiB): the format and all samples that it states stand in the file.

The samples are plain numbers in most files: any bytes are some sound, so that damage among them cannot be seen.
"""

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

_LONG: Final = frozenset({b"RF64", b"BW64"})
_MAGICS: Final = frozenset({b"RIFF", b"RIFX"}) | _LONG
_CHUNKS_MOST: Final = 10_000
_FORMAT_BYTES: Final = 16
_OPEN_FROM: Final = 0x7FFF_0000
"""Sizes from here on that pass the end were written before the size was known: by recorders, and into pipes."""
_SLACK: Final = 44
"""Bytes that may be missing: some writers count their header as samples."""
_SLACK_SHARE: Final = 0.01


def _recognises(source: Source) -> bool:
    return source.head[:4] in _MAGICS and source.head[8:12] == b"WAVE"


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    deadline = Deadline(limits.soft_seconds)
    order: riff.Order = "big" if source.head.startswith(b"RIFX") else "little"
    found: dict[bytes, riff.Chunk] = {}
    for chunk in islice(riff.chunks(source, 12, source.size, order), _CHUNKS_MOST):
        found.setdefault(chunk.name, chunk)
    if b"fmt " not in found or found[b"fmt "].size < _FORMAT_BYTES:
        raise Corrupt("the WAV does not say what its samples are like")
    if b"data" not in found:
        raise Corrupt("the WAV holds no samples")
    data = found[b"data"]
    stated = _stated_bytes(source, found)
    there = source.size - data.body
    if stated - there > min(_SLACK, _SLACK_SHARE * stated):
        raise Corrupt(f"the WAV ends at byte {source.size}, but its samples go on to byte {data.body + stated}")
    measures: dict[str, Measure] = {"sample_bytes": min(stated, there), "trailing_bytes": max(0, there - stated)}
    return measures | dict(media.play(source, "wav", deadline, strict=False))


def _stated_bytes(source: Source, found: Mapping[bytes, riff.Chunk]) -> int:
    """Answer the size of the samples as the header states it, 0 where it was not known when the header was written."""
    data = found[b"data"]
    if source.head[:4] in _LONG and b"ds64" in found and data.size == 0xFFFFFFFF:  # noqa: PLR2004  (the mark that RF64 fixes)
        size: int = struct.unpack_from("<Q", source.read_at(found[b"ds64"].body, 16).ljust(16, b"\0"), 8)[0]
        return size if size < 1 << 63 else 0
    return data.size if data.size < _OPEN_FROM or data.end <= source.size else 0


def _sample() -> bytes:
    samples = tone()
    form = struct.pack("<4sLHHLLHH", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16)
    return (
        struct.pack("<4sL4s", b"RIFF", 4 + len(form) + 8 + len(samples), b"WAVE")
        + form
        + struct.pack("<4sL", b"data", len(samples))
        + samples
    )


KIND: Final = Kind(
    name="wav",
    content_type="audio/wav",
    extensions=frozenset({"wav", "wave", "bwf", "rf64"}),
    recognises=_recognises,
    check=_check,
    blank=media.blank_media,
    sample=_sample,
    lacks=LACKS,
)
