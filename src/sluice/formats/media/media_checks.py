"""The checks that several kinds of sound and video share, one per container. Which names a kind has is said in `kinds`."""

from collections.abc import Mapping
from typing import Final

from sluice.formats import isobmff
from sluice.formats.budget import Deadline
from sluice.formats.media import matroska, media, movie, ogg
from sluice.formats.source import Source
from sluice.formats.verdict import Limits, Measure

MP4_NAMES: Final = frozenset({"mp4", "m4v", "mp4v", "3gp", "3gpp", "3g2", "f4v", "ismv"})
QUICKTIME_NAMES: Final = frozenset({"mov", "qt"})
"""Players take a movie of either family under each of these names, and so do people."""


def check_movie(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Check an ISO media or QuickTime file. Raises `Judgement`s."""
    deadline = Deadline(limits.soft_seconds)
    found = movie.read_movie(source)
    marks = isobmff.brands(source)
    measures: dict[str, Measure] = {"tracks": len(found.tracks), "fragments": found.fragments, "trailing_bytes": found.trailing}
    if marks:
        measures["brand"] = marks[0].decode("latin-1").strip()
    return measures | dict(media.play(source, "mp4", deadline, excuse=found.excuse))


def check_pages(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Check an Ogg file. Raises `Judgement`s."""
    deadline = Deadline(limits.soft_seconds)
    survey = ogg.survey(source)
    measures: dict[str, Measure] = {
        "pages": survey.pages,
        "streams": ", ".join(survey.codecs)[:100],
        "trailing_bytes": survey.trailing,
    }
    return measures | dict(media.play(source, "ogg", deadline))


def check_segment(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Check a Matroska or WebM file. Raises `Judgement`s."""
    deadline = Deadline(limits.soft_seconds)
    segment = matroska.read_segment(source, deadline)
    excuse = "the media are encrypted (DRM)" if any(track.is_encrypted for track in segment.tracks) else ""
    measures: dict[str, Measure] = {"clusters": segment.clusters, "trailing_bytes": segment.trailing}
    return measures | dict(media.play(source, "matroska", deadline, excuse=excuse))
