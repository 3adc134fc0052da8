"""QuickTime: movies with its brand, and those from before there were brands. Checked as MP4 is."""

from typing import Final

from sluice.formats import isobmff
from sluice.formats.kind import Kind
from sluice.formats.media import media, media_samples
from sluice.formats.media.media import LACKS
from sluice.formats.media.media_checks import MP4_NAMES, QUICKTIME_NAMES, check_movie
from sluice.formats.source import Source


def _recognises(source: Source) -> bool:
    return isobmff.family_of(source) == "mov"


KIND: Final = Kind(
    name="mov",
    content_type="video/quicktime",
    extensions=QUICKTIME_NAMES,
    also_named=MP4_NAMES,
    recognises=_recognises,
    check=check_movie,
    blank=media.blank_media,
    sample=lambda: media_samples.video("mov", "mpeg4"),
    lacks=LACKS,
)
