"""MP4, QuickTime and M4A: every box and sample is in the file, and all that FFmpeg can decode decodes."""

from functools import partial
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.containers.isobmff import family_of, read_brands
from sluice_inspect.containers.movie import has_video, read_movie
from sluice_inspect.facts.media import measure_media
from sluice_inspect.format import Examination, Family, Format, MatchOrder, named
from sluice_inspect.media.playback import MISSING_READER, play
from sluice_inspect.media.sample_files import encode_sound, encode_video
from sluice_inspect.report import Limits, Measure
from sluice_inspect.source import Source

# Players open a movie of either family under each of these names, and people exchange them freely.
_MP4_EXTENSIONS: Final = frozenset({"mp4", "m4v", "mp4v", "3gp", "3gpp", "3g2", "f4v", "ismv"})
_QUICKTIME_EXTENSIONS: Final = frozenset({"mov", "qt"})


def _is_m4a(source: Source) -> bool:
    # Sound by its brand, or because it has no video track: chapter pictures and slides do not make sound a video.
    family = family_of(source)
    return family == "m4a" or (family in {"mp4", "mov"} and not has_video(source))


def _examine(source: Source, limits: Limits) -> Examination:
    deadline = Deadline(limits.soft_seconds)
    movie = read_movie(source)
    measures: dict[str, Measure] = {
        "tracks": len(movie.tracks),
        "fragments": movie.fragments,
        "trailing_bytes": movie.trailing,
    }
    if brands := read_brands(source):
        measures["brand"] = brands[0].decode("latin-1").strip()
    return play(source, "mp4", deadline, measures=measures, undecodable=movie.undecodable)


MP4: Final = Format(
    name="mp4",
    family=Family.RECORDING,
    content_type="video/mp4",
    extensions=_MP4_EXTENSIONS,
    tolerated_extensions=_QUICKTIME_EXTENSIONS,
    matches=lambda source: family_of(source) == "mp4",
    match_order=MatchOrder.RECORDING,
    examine=_examine,
    facts=partial(measure_media, demuxer="mp4"),
    sample=lambda: encode_video("mp4", "mpeg4"),
    missing_reader=MISSING_READER,
)

MOV: Final = Format(
    name="mov",
    family=Family.RECORDING,
    content_type="video/quicktime",
    extensions=_QUICKTIME_EXTENSIONS,
    tolerated_extensions=_MP4_EXTENSIONS,
    matches=lambda source: family_of(source) == "mov",
    match_order=MatchOrder.RECORDING,
    examine=_examine,
    facts=partial(measure_media, demuxer="mp4"),
    sample=lambda: encode_video("mov", "mpeg4"),
    missing_reader=MISSING_READER,
    names=named("MOV", "qt"),
)

M4A: Final = Format(
    name="m4a",
    family=Family.RECORDING,
    content_type="audio/mp4",
    extensions=frozenset({"m4a", "m4b", "m4p", "m4r", "f4a"}),
    # A video under the name of a sound file is a mismatch: MP4 and QuickTime do not tolerate these names in turn.
    tolerated_extensions=_MP4_EXTENSIONS | _QUICKTIME_EXTENSIONS | {"aac"},
    matches=_is_m4a,
    match_order=MatchOrder.LAST,
    examine=_examine,
    facts=partial(measure_media, demuxer="mp4"),
    sample=lambda: encode_sound("ipod", "aac", takes_floats=True),
    missing_reader=MISSING_READER,
)
