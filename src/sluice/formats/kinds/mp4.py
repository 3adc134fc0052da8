"""MP4: every box and sample stands in the file, and all that FFmpeg can decode decodes. QuickTime and M4A are checked alike."""

from typing import Final

from sluice.formats import isobmff
from sluice.formats.kind import Kind
from sluice.formats.media import media, media_samples
from sluice.formats.media.media import LACKS
from sluice.formats.media.media_checks import MP4_NAMES, QUICKTIME_NAMES, check_movie
from sluice.formats.source import Source


def _recognises(source: Source) -> bool:
    return isobmff.family_of(source) == "mp4"


KIND: Final = Kind(
    name="mp4",
    content_type="video/mp4",
    extensions=MP4_NAMES,
    also_named=QUICKTIME_NAMES,
    recognises=_recognises,
    check=check_movie,
    blank=media.blank_media,
    sample=lambda: media_samples.video("mp4", "mpeg4"),
    lacks=LACKS,
)
