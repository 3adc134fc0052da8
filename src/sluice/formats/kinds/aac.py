"""AAC in ADTS: frames follow each other from the first to the last, and all of them decode. AAC in MP4 is M4A."""

from collections.abc import Mapping
from typing import Final

from sluice.formats.budget import Deadline
from sluice.formats.kind import Kind
from sluice.formats.media import audio_tags, media, media_samples
from sluice.formats.media.adts import ADIF, GRAMMAR, is_aac
from sluice.formats.media.frame_walk import Frames, require_complete
from sluice.formats.media.media import LACKS
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure, Unsupported


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    deadline = Deadline(limits.soft_seconds)
    if source.head.startswith(ADIF):
        raise Unsupported("AAC with one header for all (ADIF) cannot be judged")
    frames = Frames(source, GRAMMAR)
    first = frames.find(audio_tags.behind_front_tags(source))
    if first is None:
        raise Corrupt("there are no AAC frames in the file")
    walk = frames.walk(first, deadline)
    require_complete(source, walk)
    measures: dict[str, Measure] = {"frames": walk.frames, "trailing_bytes": source.size - walk.end}
    return measures | dict(media.play(source, "aac", deadline, pieces=walk.pieces))


KIND: Final = Kind(
    name="aac",
    content_type="audio/aac",
    extensions=frozenset({"aac", "adts", "adt"}),
    recognises=is_aac,
    check=_check,
    blank=media.blank_media,
    sample=lambda: media_samples.sound("adts", "aac", fractions=True),
    lacks=LACKS,
)
