"""Matroska: every element stands in the file, clusters are filled, and all that FFmpeg can decode decodes."""

from collections.abc import Mapping
from typing import Final

from sluice.formats import matroska, media, media_samples
from sluice.formats.budget import Deadline
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Limits, Measure


def _recognises(source: Source) -> bool:
    return matroska.doc_type(source) in {"matroska", ""}


def check_segment(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Check a Matroska or WebM file. Raises `Judgement`s."""
    deadline = Deadline(limits.soft_seconds)
    segment = matroska.read_segment(source, deadline)
    excuse = "the media are encrypted (DRM)" if any(track.is_encrypted for track in segment.tracks) else ""
    measures: dict[str, Measure] = {"clusters": segment.clusters, "trailing_bytes": segment.trailing}
    return measures | dict(media.play(source, "matroska", deadline, excuse=excuse))


KIND: Final = Kind(
    name="mkv",
    content_type="video/x-matroska",
    extensions=frozenset({"mkv", "mka", "mks", "mk3d"}),
    recognises=_recognises,
    check=check_segment,
    blank=media.blank_media,
    sample=lambda: media_samples.video("matroska", "mpeg4"),
)
