"""Opus in Ogg. Checked as Ogg is."""

from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.media import media, media_samples, ogg
from sluice.formats.media.media import LACKS
from sluice.formats.media.media_checks import check_pages
from sluice.formats.source import Source


def _recognises(source: Source) -> bool:
    return ogg.first_codecs(source) == ["opus"]


KIND: Final = Kind(
    name="opus",
    content_type="audio/ogg",
    extensions=frozenset({"opus"}),
    also_named=frozenset({"ogg", "oga"}),
    recognises=_recognises,
    check=check_pages,
    blank=media.blank_media,
    sample=lambda: media_samples.sound("ogg", "libopus"),
    lacks=LACKS,
)
