"""AVI: its lists and all chunks of media in them are in the file, and all that FFmpeg can decode decodes."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.containers import riff
from sluice_inspect.facts.media import measure_media
from sluice_inspect.format import Examination, Family, Format, MatchOrder
from sluice_inspect.media.playback import MISSING_READER, play
from sluice_inspect.media.sample_files import encode_video
from sluice_inspect.report import Corrupt, Limits, Measure
from sluice_inspect.source import Source

_FORM_BYTES: Final = 4
# Sizes of a list of media whose writer was interrupted or could not seek back. Players then search for the chunks.
_UNKNOWN_SIZES: Final = frozenset({0, 4, 0xFFFFFFFF})
_INDEX_ENTRIES_BYTES: Final = 64  # of four entries, each of which begins with the name of a chunk
_PADDING_MOST: Final = 4096  # zeros in place of chunks; recorders pad to a sector or a page
_PADDING_BETWEEN_LISTS: Final = 512


def _examine(source: Source, limits: Limits) -> Examination:
    deadline = Deadline(limits.soft_seconds)
    names: set[bytes] = set()
    end = 0
    # OpenDML: a file of more than a gigabyte has several RIFF parts.
    for part in riff.chunks(source, 0, source.size):
        if part.name != b"RIFF":
            break
        for name, end in _read_lists(source, part, deadline):  # noqa: B007  (the last end is needed)
            names.add(name)
    if b"hdrl" not in names:
        raise Corrupt("the AVI does not describe its streams")
    if b"movi" not in names:
        raise Corrupt("the AVI holds no media")
    measures: dict[str, Measure] = {"trailing_bytes": max(0, source.size - end)}
    return play(source, "avi", deadline, measures=measures)


def _read_lists(source: Source, part: riff.Chunk, deadline: Deadline) -> Iterator[tuple[bytes, int]]:
    """Yield names and ends of the lists and chunks of one RIFF part. Raise `Corrupt` if one is damaged or cut."""
    limit = min(source.size, part.end) if part.size > _FORM_BYTES else source.size
    for chunk in riff.chunks(source, part.body + _FORM_BYTES, limit):
        if not chunk.is_named:
            _refuse_lost(source, chunk.offset, limit, _PADDING_BETWEEN_LISTS)
            return
        name = source.read_at(chunk.body, 4) if chunk.name == b"LIST" else chunk.name
        if name == b"movi" and chunk.size in _UNKNOWN_SIZES:
            yield name, source.size
            return
        if chunk.end > source.size:
            raise Corrupt(
                f"the AVI ends at byte {source.size}, inside the {name.decode('latin-1').strip()} part, which ends at"
                f" byte {chunk.end}"
            )
        if name == b"movi":
            _check_media(source, chunk, deadline)
        if name == b"idx1" and chunk.size >= _INDEX_ENTRIES_BYTES:
            entries = source.read_at(chunk.end - _INDEX_ENTRIES_BYTES, _INDEX_ENTRIES_BYTES)
            if not entries.strip(b"\0"):
                raise Corrupt(f"the end of the AVI is missing: its index ends in zeros at byte {chunk.end}")
        yield name, chunk.end


def _check_media(source: Source, parent: riff.Chunk, deadline: Deadline) -> None:
    for chunk in riff.chunks(source, parent.body + _FORM_BYTES, parent.end):
        if not chunk.is_named and source.read_at(chunk.offset, min(_PADDING_MOST, parent.end - chunk.offset)).strip(
            b"\0"
        ):
            raise Corrupt(f"there is no chunk at byte {chunk.offset} of the AVI, where one must be")
        if not chunk.is_named:
            _refuse_lost(source, chunk.offset, parent.end, _PADDING_MOST)
        if chunk.is_named and chunk.end > parent.end:
            raise Corrupt(f"the chunk at byte {chunk.offset} of the AVI passes the end of the list that it is in")
        if deadline.has_passed:
            return
        if chunk.name == b"LIST":
            _check_media(source, chunk, deadline)


def _refuse_lost(source: Source, start: int, end: int, most: int) -> None:
    """Raise `Corrupt` if a part that its list counts is more zeros than padding is."""
    if end - start > most and not source.read_at(start, most).strip(b"\0"):
        raise Corrupt(f"a part of the AVI is missing: there are only zeros from byte {start} on")


FORMAT: Final = Format(
    name="avi",
    family=Family.RECORDING,
    content_type="video/x-msvideo",
    extensions=frozenset({"avi", "divx"}),
    begins=(b"RIFF",),
    matches=lambda source: source.head.startswith(b"RIFF") and source.head[8:12] in {b"AVI ", b"AVIX"},
    match_order=MatchOrder.RECORDING,
    examine=_examine,
    facts=partial(measure_media, demuxer="avi"),
    sample=lambda: encode_video("avi", "mpeg4"),
    missing_reader=MISSING_READER,
)
