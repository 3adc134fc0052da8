"""AVI: its lists and all chunks of media in them stand in the file, and all that FFmpeg can decode decodes."""

from collections.abc import Iterator, Mapping
from typing import Final

from sluice.formats import riff
from sluice.formats.budget import Deadline
from sluice.formats.kind import Kind
from sluice.formats.media import media, media_samples
from sluice.formats.media.media import LACKS
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure

_FORM_BYTES: Final = 4
_UNKNOWN: Final = frozenset({0, 4, 0xFFFFFFFF})
"""Sizes of a list of media that was never finished: its writer ended first, or could not go back. Players look for the chunks themselves."""


def _recognises(source: Source) -> bool:
    return source.head.startswith(b"RIFF") and source.head[8:12] in {b"AVI ", b"AVIX"}


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    deadline = Deadline(limits.soft_seconds)
    names: set[bytes] = set()
    end = 0
    for part in riff.chunks(source, 0, source.size):
        if part.name != b"RIFF":
            break
        for name, end in _lists(source, part, deadline):  # noqa: B007  (the last end is wanted)
            names.add(name)
    if b"hdrl" not in names:
        raise Corrupt("the AVI does not say what its streams are like")
    if b"movi" not in names:
        raise Corrupt("the AVI holds no media")
    measures: dict[str, Measure] = {"trailing_bytes": max(0, source.size - end)}
    return measures | dict(media.play(source, "avi", deadline))


def _lists(source: Source, part: riff.Chunk, deadline: Deadline) -> Iterator[tuple[bytes, int]]:
    """Answer names and ends of the lists and chunks of one RIFF of the file. Raises `Corrupt` where one is damaged or cut."""
    limit = min(source.size, part.end) if part.size > _FORM_BYTES else source.size
    for chunk in riff.chunks(source, part.body + _FORM_BYTES, limit):
        name = source.read_at(chunk.body, 4) if chunk.name == b"LIST" else chunk.name
        if not chunk.is_named:
            return
        if name == b"movi" and chunk.size in _UNKNOWN:
            yield name, source.size
            return
        if chunk.end > source.size:
            raise Corrupt(f"the AVI ends at byte {source.size}, inside the {_said(name)} part, which ends at byte {chunk.end}")
        if name == b"movi":
            _check_media(source, chunk, deadline)
        yield name, chunk.end


def _check_media(source: Source, parent: riff.Chunk, deadline: Deadline) -> None:
    """Raise `Corrupt` unless the chunks of a list of media follow each other to its end."""
    for chunk in riff.chunks(source, parent.body + _FORM_BYTES, parent.end):
        if not chunk.is_named and source.read_at(chunk.offset, min(4096, parent.end - chunk.offset)).strip(b"\0"):
            raise Corrupt(f"there is no chunk at byte {chunk.offset} of the AVI, where one must be")
        if chunk.is_named and chunk.end > parent.end:
            raise Corrupt(f"the chunk at byte {chunk.offset} of the AVI passes the end of the list that it is in")
        if deadline.has_passed:
            return
        if chunk.name == b"LIST":
            _check_media(source, chunk, deadline)


def _said(name: bytes) -> str:
    return name.decode("latin-1").strip()


KIND: Final = Kind(
    name="avi",
    content_type="video/x-msvideo",
    extensions=frozenset({"avi", "divx"}),
    recognises=_recognises,
    check=_check,
    blank=media.blank_media,
    sample=lambda: media_samples.video("avi", "mpeg4"),
    lacks=LACKS,
)
