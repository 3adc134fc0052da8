"""M4A: MP4 with the brand of a sound file, or without a track of moving pictures. Checked as MP4 is.

A video under the name of a sound file is a mismatch; slides and chapter pictures do not make sound a video.
"""

from typing import Final

from sluice.formats import isobmff
from sluice.formats.kind import Kind
from sluice.formats.media import media, media_samples
from sluice.formats.media.media import LACKS
from sluice.formats.media.media_checks import MP4_NAMES, QUICKTIME_NAMES, check_movie
from sluice.formats.media.movie import moves
from sluice.formats.source import Source


def _recognises(source: Source) -> bool:
    family = isobmff.family_of(source)
    return family == "m4a" or (family in {"mp4", "mov"} and not moves(source))


KIND: Final = Kind(
    name="m4a",
    content_type="audio/mp4",
    extensions=frozenset({"m4a", "m4b", "m4p", "m4r", "f4a"}),
    also_named=MP4_NAMES | QUICKTIME_NAMES | {"aac"},
    recognises=_recognises,
    check=check_movie,
    blank=media.blank_media,
    sample=lambda: media_samples.sound("ipod", "aac", fractions=True),
    lacks=LACKS,
)
