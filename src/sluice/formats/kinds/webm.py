"""WebM: Matroska that says so, or that holds nothing but what WebM may. Checked as Matroska is."""

from typing import Final

from sluice.formats.kind import Kind
from sluice.formats.media import matroska, media, media_samples
from sluice.formats.media.media import LACKS
from sluice.formats.media.media_checks import check_segment

KIND: Final = Kind(
    name="webm",
    content_type="video/webm",
    extensions=frozenset({"webm", "weba"}),
    # every reader of Matroska reads WebM; browsers do not read all Matroska under WebM's name
    also_named=frozenset({"mkv", "mka"}),
    recognises=matroska.is_webm,
    check=check_segment,
    blank=media.blank_media,
    sample=lambda: media_samples.video("webm", "libvpx"),
    lacks=LACKS,
)
