"""The tracks of an ISO media or QuickTime movie: are its boxes and all samples that they point to in the file?"""
# ISO/IEC 14496-12: sample tables are 8.7, fragments 8.8, protected tracks 8.12 (and Apple's `drms`).

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from sluice_inspect.containers.isobmff import Box, child, children, read_layout
from sluice_inspect.report import Corrupt, TooComplex, Unsupported
from sluice_inspect.source import Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PROTECTED: Final = frozenset({b"encv", b"enca", b"enct", b"encs", b"encm", b"drms", b"drmi", b"drmt"})
# Sample entries of chapter pictures and slides, which do not make a sound file a video.
_STILL_PICTURES: Final = frozenset({b"jpeg", b"png ", b"mjpa", b"mjpb", b"gif "})
_FRAGMENT: Final = b"moof"
_NESTED: Final = frozenset({b"moov", b"trak", b"mdia", b"minf", b"stbl"})
_MAX_BOXES: Final = 20_000  # boxes that describe a movie: a track has some twenty
_MAX_SAMPLES: Final = 5_000_000  # a day of video with sound. Readers keep some 50 bytes for each sample.
_SLACK_BYTES: Final = 8  # tolerated after the last box within another: QuickTime allows a 32-bit terminator there
_SELF_CONTAINED: Final = 1

# Flags of a `trun` box (8.8.8).
_RUN_HAS_OFFSET: Final = 0x1
_RUN_HAS_FIRST_FLAGS: Final = 0x4
_RUN_SAMPLE_FIELDS: Final = (0x100, 0x200, 0x400, 0x800)

_Numbers: TypeAlias = "NDArray[np.int64]"


@dataclass(frozen=True, slots=True)
class MovieTrack:
    """One track as its boxes describe it. `handler` is `vide`, `soun`, `text` and so on."""

    handler: bytes
    entries: tuple[bytes, ...]  # the codes of its sample descriptions: more than one if the format changes midway
    is_external: bool  # whether the samples are in another file

    @property
    def is_protected(self) -> bool:
        """Whether the samples are encrypted."""
        return not _PROTECTED.isdisjoint(self.entries)

    @property
    def is_video(self) -> bool:
        """Whether it holds moving pictures."""
        return self.handler == b"vide" and not _STILL_PICTURES.issuperset(self.entries)


@dataclass(frozen=True, slots=True)
class Movie:
    """A movie whose boxes and samples are all in the file. `trailing` counts the bytes after the last box."""

    tracks: tuple[MovieTrack, ...]
    fragments: int
    trailing: int

    @property
    def undecodable(self) -> str:
        """Why packets of an intact file may not decode; empty if they must."""
        if any(track.is_protected for track in self.tracks):
            return "the media are encrypted (DRM)"
        if any(track.is_external for track in self.tracks):
            return "samples are kept in another file"
        if any(len(track.entries) > 1 for track in self.tracks):
            return "a track changes its format midway"
        return ""


@dataclass(frozen=True, slots=True)
class _TrackSamples:
    """The samples of one track outside of fragments. `end` is where the last one ends in the file, 0 without any."""

    count: int
    end: int


_NO_SAMPLES: Final = _TrackSamples(0, 0)


@dataclass(frozen=True, slots=True)
class _SampleSizes:
    """Bytes of each sample: `uniform` for all of them, or `each`."""

    count: int
    uniform: int
    each: _Numbers


def has_video(source: Source) -> bool:
    """Return whether a track of moving pictures can be found. Raises nothing for damaged files."""
    try:
        movies = read_layout(source).named(b"moov")
    except Corrupt:
        return False
    return any(
        _read_track(source, box).is_video for moov in movies for box in children(source, moov) if box.name == b"trak"
    )


def read_movie(source: Source) -> Movie:
    """Return the movie of a file.

    Raise `Corrupt` if it is damaged or provably incomplete, `Unsupported` for a lone fragment, and `TooComplex` if it
    states too many samples.
    """
    layout = read_layout(source)
    moov = next(iter(layout.named(b"moov")), None)
    fragments = layout.named(_FRAGMENT)
    if moov is None and layout.cut:
        raise Corrupt(_cut_detail(source, layout.cut))
    if moov is None and fragments:
        raise Unsupported("it is a lone fragment of a movie")
    if moov is None:
        raise Corrupt("the index of the movie (moov) is missing: it was never finished, or its end was lost")
    _require_complete_boxes(source, moov, 0)
    boxes = [box for box in children(source, moov) if box.name == b"trak"]
    tracks = tuple(_read_track(source, box) for box in boxes)
    samples = [_read_samples(source, box, track) for box, track in zip(boxes, tracks, strict=True)]
    count = sum(each.count for each in samples)
    for fragment in fragments:
        count += _count_fragment_samples(source, fragment)
        if count > _MAX_SAMPLES * len(tracks):
            raise TooComplex(f"the movie states {count} samples")
    if not any(track.is_external for track in tracks):
        end = max((each.end for each in samples), default=0)
        if end > source.size:
            raise Corrupt(f"the file ends at byte {source.size}, but its samples continue to byte {end}")
        # A cut behind the last sample does no harm.
        if layout.cut and (fragments or not end) and layout.cut.name in {_FRAGMENT, b"mdat"}:
            raise Corrupt(_cut_detail(source, layout.cut))
    return Movie(tracks, len(fragments), source.size - layout.end)


def _require_complete_boxes(source: Source, parent: Box, count: int) -> int:
    """Return `count` plus the boxes within a box. Raise `Corrupt` unless they fill it, `TooComplex` for too many."""
    end = parent.body
    for box in children(source, parent):
        end = box.end
        count += 1
        if count > _MAX_BOXES:
            raise TooComplex(f"the movie is described in more than {_MAX_BOXES} boxes")
        if box.name in _NESTED:
            count = _require_complete_boxes(source, box, count)
    if parent.end - end > _SLACK_BYTES and source.read_at(end, min(parent.end - end, 4096)).strip(b"\0"):
        raise Corrupt(f"the {_text(parent.name)} box of the movie is damaged at byte {end}")
    return count


def _cut_detail(source: Source, box: Box) -> str:
    return f"the file ends at byte {source.size}, inside the {_text(box.name)} box, which ends at byte {box.end}"


def _text(name: bytes) -> str:
    return name.decode("latin-1").strip()


def _read_track(source: Source, trak: Box) -> MovieTrack:
    handler = child(source, trak, b"mdia", b"hdlr")
    descriptions = child(source, trak, b"mdia", b"minf", b"stbl", b"stsd")
    data_references = child(source, trak, b"mdia", b"minf", b"dinf", b"dref")
    references = list(children(source, data_references, skip=8)) if data_references else []
    flags = [int.from_bytes(source.read_at(reference.body, 4), "big") for reference in references]
    return MovieTrack(
        handler=source.read_at(handler.body + 8, 4) if handler else b"",
        entries=tuple(box.name for box in children(source, descriptions, skip=8)) if descriptions else (),
        is_external=bool(references) and not any(flag & _SELF_CONTAINED for flag in flags),
    )


def _read_samples(source: Source, trak: Box, track: MovieTrack) -> _TrackSamples:
    table = child(source, trak, b"mdia", b"minf", b"stbl")
    if table is None:
        return _NO_SAMPLES
    try:
        return _read_sample_table(source, table)
    except Corrupt:
        # Wrong tables of what is neither shown nor heard (timed metadata) do no harm.
        if track.handler in {b"vide", b"soun"}:
            raise
        return _NO_SAMPLES


def _read_sample_table(source: Source, stbl: Box) -> _TrackSamples:
    tables = {box.name: box for box in children(source, stbl)}
    sizes = _read_sizes(source, tables)
    offsets = _read_chunk_offsets(source, tables)
    if not sizes.count:
        return _NO_SAMPLES
    if sizes.uniform == 0 and sizes.count > _MAX_SAMPLES:
        raise TooComplex(f"a track of the movie states {sizes.count} samples")
    if not len(offsets):
        raise Corrupt(f"the {sizes.count} samples of a track have no offsets in the file")
    return _TrackSamples(sizes.count, _last_end(offsets, _read_chunk_lengths(source, tables, len(offsets)), sizes))


def _read_sizes(source: Source, tables: Mapping[bytes, Box]) -> _SampleSizes:
    box = tables.get(b"stsz") or tables.get(b"stz2")
    if box is None:
        return _SampleSizes(0, 0, np.zeros(0, np.int64))
    head = source.read_at(box.body + 4, 8)
    count = int.from_bytes(head[4:], "big")
    if box.name == b"stsz":
        uniform = int.from_bytes(head[:4], "big")
        each = np.zeros(0, np.int64) if uniform else _read_numbers(source, box, 12, count, ">u4")
        return _SampleSizes(count, uniform, each)
    bits = head[3]
    if bits not in {4, 8, 16}:
        raise Corrupt(f"a track of the movie has sizes of {bits} bits")
    if bits == 4:
        pairs = _read_numbers(source, box, 12, (count + 1) // 2, ">u1")
        return _SampleSizes(count, 0, np.stack([pairs >> 4, pairs & 15], axis=1).ravel()[:count])
    return _SampleSizes(count, 0, _read_numbers(source, box, 12, count, f">u{bits // 8}"))


def _read_chunk_offsets(source: Source, tables: Mapping[bytes, Box]) -> _Numbers:
    box = tables.get(b"stco") or tables.get(b"co64")
    if box is None:
        return np.zeros(0, np.int64)
    count = int.from_bytes(source.read_at(box.body + 4, 4), "big")
    return _read_numbers(source, box, 8, count, ">u4" if box.name == b"stco" else ">u8")


def _read_chunk_lengths(source: Source, tables: Mapping[bytes, Box], chunks: int) -> _Numbers:
    box = tables.get(b"stsc")
    count = int.from_bytes(source.read_at(box.body + 4, 4), "big") if box else 0
    if box is None or not count:
        raise Corrupt("a track of the movie does not state how its samples are grouped")
    runs = _read_numbers(source, box, 8, 3 * count, ">u4").reshape(-1, 3)
    firsts = np.clip(runs[:, 0] - 1, 0, chunks)
    lengths = np.diff(np.append(firsts, chunks))
    if firsts[0] or (lengths < 0).any():
        raise Corrupt("the groups of samples of a track of the movie are out of order")
    return np.repeat(runs[:, 1], lengths)


def _read_numbers(source: Source, box: Box, skip: int, count: int, dtype: str) -> _Numbers:
    size = count * np.dtype(dtype).itemsize
    if size > box.end - box.body - skip:
        name = box.name.decode("latin-1")
        raise Corrupt(f"the {name} box of the movie is shorter than the {count} entries that it states")
    if count > _MAX_SAMPLES:
        raise TooComplex(f"a table of the movie has {count} entries")
    return np.frombuffer(source.read_at(box.body + skip, size), dtype).astype(np.int64)


def _last_end(offsets: _Numbers, lengths: _Numbers, sizes: _SampleSizes) -> int:
    """Return the largest end of a chunk. Chunks after the last sample are ignored."""
    after = np.minimum(np.cumsum(lengths), sizes.count)
    before = np.concatenate([[0], after[:-1]])
    if sizes.uniform:
        ends = offsets + (after - before) * sizes.uniform
    else:
        sums = np.concatenate([[0], np.cumsum(sizes.each)])
        ends = offsets + sums[after] - sums[before]
    return int(ends[after > before].max(initial=0))


def _count_fragment_samples(source: Source, fragment: Box) -> int:
    """Return how many samples a `moof` box states. Raise `Corrupt` if one of its runs is shorter than it states."""
    count = 0
    for track in children(source, fragment):
        for run in children(source, track):
            if run.name != b"trun" or track.name != b"traf":
                continue
            head = source.read_at(run.body, 8)
            flags, stated = int.from_bytes(head[1:4], "big"), int.from_bytes(head[4:], "big")
            sample_bytes = 4 * sum(bool(flags & bit) for bit in _RUN_SAMPLE_FIELDS)
            head_bytes = 8 + 4 * bool(flags & _RUN_HAS_OFFSET) + 4 * bool(flags & _RUN_HAS_FIRST_FLAGS)
            if head_bytes + stated * sample_bytes > run.end - run.body:
                raise Corrupt(f"the fragment at byte {fragment.offset} of the movie states more samples than it lists")
            count += stated
    return count
