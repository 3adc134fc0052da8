"""Ogg with Vorbis, FLAC, Speex, Theora and others: every page stands in the file unbroken and in order, and all that FFmpeg can decode decodes."""

from collections.abc import Mapping
from typing import Final

from sluice.formats import media, media_samples, ogg
from sluice.formats.budget import Deadline
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Limits, Measure


def _recognises(source: Source) -> bool:
    return source.head.startswith(ogg.CAPTURE) and ogg.first_codecs(source) != ["opus"]


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


KIND: Final = Kind(
    name="ogg",
    content_type="audio/ogg",
    extensions=frozenset({"ogg", "oga", "ogv", "ogx", "ogm", "spx"}),
    recognises=_recognises,
    check=check_pages,
    blank=media.blank_media,
    sample=lambda: media_samples.sound("ogg", "flac"),
)
