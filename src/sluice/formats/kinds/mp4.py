"""MP4: every box and sample stands in the file, and all that FFmpeg can decode decodes. QuickTime and M4A are checked alike."""

from collections.abc import Mapping
from typing import Final

from sluice.formats import isobmff, media, media_samples, movie
from sluice.formats.budget import Deadline
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Limits, Measure

NAMES: Final = frozenset({"mp4", "m4v", "mp4v", "3gp", "3gpp", "3g2", "f4v", "ismv"})
QUICKTIME_NAMES: Final = frozenset({"mov", "qt"})
"""Players take a movie of either family under each of these names, and so do people."""


def _recognises(source: Source) -> bool:
    return isobmff.family_of(source) == "mp4"


def check_movie(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Check an ISO media or QuickTime file. Raises `Judgement`s."""
    deadline = Deadline(limits.soft_seconds)
    found = movie.read_movie(source)
    marks = isobmff.brands(source)
    measures: dict[str, Measure] = {"tracks": len(found.tracks), "fragments": found.fragments, "trailing_bytes": found.trailing}
    if marks:
        measures["brand"] = marks[0].decode("latin-1").strip()
    return measures | dict(media.play(source, "mp4", deadline, excuse=found.excuse))


KIND: Final = Kind(
    name="mp4",
    content_type="video/mp4",
    extensions=NAMES,
    also_named=QUICKTIME_NAMES,
    recognises=_recognises,
    check=check_movie,
    blank=media.blank_media,
    sample=lambda: media_samples.video("mp4", "mpeg4"),
)
