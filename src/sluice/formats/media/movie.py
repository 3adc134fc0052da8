"""The tracks of an ISO media or QuickTime movie: whether its boxes and every sample they point to stand in the file. Decodes nothing.

What a movie and its fragments are is ISO/IEC 14496-12; protected tracks are 8.12 there, and Apple's `drms`.
"""

from dataclasses import dataclass
from typing import Final

from sluice.formats.isobmff import Box, Layout, child, children, layout
from sluice.formats.media.movie_tables import NONE, SAMPLES_MOST, Samples, samples, samples_in_fragment
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, TooComplex, Unsupported

_PROTECTED: Final = frozenset({b"encv", b"enca", b"enct", b"encs", b"encm", b"drms", b"drmi", b"drmt"})
_STILLS: Final = frozenset({b"jpeg", b"png ", b"mjpa", b"mjpb", b"gif "})
"""Sample entries of chapter pictures and slides: no moving pictures."""
_FRAGMENT: Final = b"moof"
_NESTED: Final = frozenset({b"moov", b"trak", b"mdia", b"minf", b"stbl"})
_BOXES_MOST: Final = 20_000
"""Boxes that describe a movie; a track has some twenty."""
_SLACK: Final = 8
_SELF_CONTAINED: Final = 1


@dataclass(frozen=True, slots=True)
class Track:
    """One track, as its boxes describe it."""

    handler: bytes
    """`vide`, `soun`, `text` and so on."""
    entries: tuple[bytes, ...]
    """The codes of its sample descriptions; more than one where the form changes midway."""
    elsewhere: bool
    """Whether the samples are in another file."""

    @property
    def is_protected(self) -> bool:
        """Whether the samples are encrypted."""
        return not _PROTECTED.isdisjoint(self.entries)

    @property
    def moves(self) -> bool:
        """Whether it holds moving pictures."""
        return self.handler == b"vide" and not _STILLS.issuperset(self.entries)


@dataclass(frozen=True, slots=True)
class Movie:
    """A movie all of whose boxes and samples are there."""

    tracks: tuple[Track, ...]
    fragments: int
    trailing: int
    """Bytes behind the last box."""

    @property
    def excuse(self) -> str:
        """Answer why packets that do not decode would say nothing against the file, empty when they would."""
        if any(track.is_protected for track in self.tracks):
            return "the media are encrypted (DRM)"
        if any(track.elsewhere for track in self.tracks):
            return "samples are kept in another file"
        if any(len(track.entries) > 1 for track in self.tracks):
            return "a track changes its form midway"
        return ""


def moves(source: Source) -> bool:
    """Answer whether a track of moving pictures can be found. Judges nothing."""
    try:
        moovs = layout(source).named(b"moov")
    except Corrupt:
        return False
    return any(_track(source, box).moves for moov in moovs for box in children(source, moov) if box.name == b"trak")


def read_movie(source: Source) -> Movie:
    """Answer the movie that a whole file is.

    Raises `Corrupt` for one that is damaged or provably incomplete, `Unsupported` for a lone fragment, `TooComplex` for one that states
    more samples than a reader could keep.
    """
    boxes = layout(source)
    moov = next(iter(boxes.named(b"moov")), None)
    if moov is None:
        raise _without_movie(source, boxes)
    _require_whole(source, moov, _Count())
    traks = [box for box in children(source, moov) if box.name == b"trak"]
    tracks = tuple(_track(source, trak) for trak in traks)
    tables = [_samples(source, trak, track) for trak, track in zip(traks, tracks, strict=True)]
    fragments = boxes.named(_FRAGMENT)
    count = sum(table.count for table in tables)
    for fragment in fragments:
        count += samples_in_fragment(source, fragment)
        if count > SAMPLES_MOST * len(tracks):
            raise TooComplex(f"the movie states {count} samples")
    if not any(track.elsewhere for track in tracks):
        _require_samples(source, boxes, max((table.end for table in tables), default=0), fragmented=bool(fragments))
    return Movie(tracks, len(fragments), source.size - boxes.end)


def _samples(source: Source, trak: Box, track: Track) -> Samples:
    """Answer the samples of a track. Tables of what is neither seen nor heard (timed metadata) may be wrong without harm."""
    table = child(source, trak, b"mdia", b"minf", b"stbl")
    if table is None:
        return NONE
    try:
        return samples(source, table)
    except Corrupt:
        if track.handler in {b"vide", b"soun"}:
            raise
        return NONE


def _without_movie(source: Source, boxes: Layout) -> Corrupt | Unsupported:
    if boxes.cut:
        return Corrupt(_cut(source, boxes.cut))
    if boxes.named(_FRAGMENT):
        return Unsupported("it is a lone fragment of a movie")
    return Corrupt("the index of the movie (moov) is missing: it was never finished, or its end was lost")


def _cut(source: Source, box: Box) -> str:
    return f"the file ends at byte {source.size}, inside the {_name(box)} box, which ends at byte {box.end}"


def _name(box: Box) -> str:
    return box.name.decode("latin-1").strip()


@dataclass(slots=True)
class _Count:
    """Boxes met so far."""

    boxes: int = 0


def _require_whole(source: Source, parent: Box, met: _Count) -> None:
    """Raise `Corrupt` unless the boxes within a box fill it, `TooComplex` when they are too many."""
    end = parent.body
    for box in children(source, parent):
        end = box.end
        met.boxes += 1
        if met.boxes > _BOXES_MOST:
            raise TooComplex(f"the movie is described in more than {_BOXES_MOST} boxes")
        if box.name in _NESTED:
            _require_whole(source, box, met)
    if parent.end - end > _SLACK and source.read_at(end, min(parent.end - end, 4096)).strip(b"\0"):
        raise Corrupt(f"the {_name(parent)} box of the movie is damaged at byte {end}")


def _require_samples(source: Source, boxes: Layout, end: int, *, fragmented: bool) -> None:
    """Raise `Corrupt` when samples, up to `end`, or a fragment's media do not stand in the file. A cut behind all samples does no harm."""
    if end > source.size:
        raise Corrupt(f"the file ends at byte {source.size}, but its samples go on to byte {end}")
    if boxes.cut and (fragmented or not end) and boxes.cut.name in {_FRAGMENT, b"mdat"}:
        raise Corrupt(_cut(source, boxes.cut))


def _track(source: Source, trak: Box) -> Track:
    handler = child(source, trak, b"mdia", b"hdlr")
    stsd = child(source, trak, b"mdia", b"minf", b"stbl", b"stsd")
    dref = child(source, trak, b"mdia", b"minf", b"dinf", b"dref")
    references = list(children(source, dref, skip=8)) if dref else []
    return Track(
        handler=source.read_at(handler.body + 8, 4) if handler else b"",
        entries=tuple(box.name for box in children(source, stsd, skip=8)) if stsd else (),
        elsewhere=bool(references) and not any(_is_here(source, reference) for reference in references),
    )


def _is_here(source: Source, reference: Box) -> bool:
    flags = int.from_bytes(source.read_at(reference.body, 4), "big")
    return bool(flags & _SELF_CONTAINED)
