"""Ogg with Vorbis, FLAC, Speex, Theora and others: every page stands in the file unbroken and in order, and all that FFmpeg can decode decodes."""

from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.media import media, media_samples, ogg
from sluice.formats.media.media import LACKS
from sluice.formats.media.media_checks import check_pages
from sluice.formats.source import Source


def _recognises(source: Source) -> bool:
    return source.head.startswith(ogg.CAPTURE) and ogg.first_codecs(source) != ["opus"]


KIND: Final = Kind(
    name="ogg",
    content_type="audio/ogg",
    extensions=frozenset({"ogg", "oga", "ogv", "ogx", "ogm", "spx"}),
    recognises=_recognises,
    check=check_pages,
    blank=media.blank_media,
    sample=lambda: media_samples.sound("ogg", "flac"),
    lacks=LACKS,
)
