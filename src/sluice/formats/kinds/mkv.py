"""Matroska: every element stands in the file, clusters are filled, and all that FFmpeg can decode decodes."""

from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.media import matroska, media, media_samples
from sluice.formats.media.media import LACKS
from sluice.formats.media.media_checks import check_segment
from sluice.formats.source import Source


def _recognises(source: Source) -> bool:
    return matroska.doc_type(source) in {"matroska", ""}


KIND: Final = Kind(
    name="mkv",
    content_type="video/x-matroska",
    extensions=frozenset({"mkv", "mka", "mks", "mk3d"}),
    recognises=_recognises,
    check=check_segment,
    blank=media.blank_media,
    sample=lambda: media_samples.video("matroska", "mpeg4"),
    lacks=LACKS,
)
