"""The sample tables of a movie's track (ISO/IEC 14496-12, 8.7 and 8.8): how many samples they state, and where the last one ends."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sluice.formats.isobmff import Box, children
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, TooComplex

SAMPLES_MOST: Final = 5_000_000
"""A day of video with sound; readers keep some 50 bytes for each."""

_RUN_OFFSET: Final = 0x1
_RUN_FIRST_FLAGS: Final = 0x4
_RUN_SAMPLE_FIELDS: Final = (0x100, 0x200, 0x400, 0x800)

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Samples:
    """The samples of one track outside of fragments."""

    count: int
    end: int
    """Where the last one in the file ends, 0 without any."""


NONE: Final = Samples(0, 0)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Bytes of each sample: one number for all, or one for each."""

    count: int
    uniform: int
    each: Numbers


def samples(source: Source, table: Box) -> Samples:
    """Answer what the tables of an `stbl` box state. Raises `Corrupt` where they contradict themselves, `TooComplex` for too many samples."""
    parts = {box.name: box for box in children(source, table)}
    sizes = _sizes(source, parts)
    offsets = _offsets(source, parts)
    if not sizes.count:
        return NONE
    if sizes.uniform == 0 and sizes.count > SAMPLES_MOST:
        raise TooComplex(f"a track of the movie states {sizes.count} samples")
    if not len(offsets):
        raise Corrupt(f"the {sizes.count} samples of a track have no place in the file")
    return Samples(sizes.count, _end(offsets, _per_chunk(source, parts, len(offsets)), sizes))


def samples_in_fragment(source: Source, fragment: Box) -> int:
    """Answer how many samples a `moof` box states. Raises `Corrupt` when one of its runs is shorter than it states."""
    count = 0
    for traf in children(source, fragment):
        for run in children(source, traf):
            if run.name != b"trun" or traf.name != b"traf":
                continue
            head = source.read_at(run.body, 8)
            flags, stated = int.from_bytes(head[1:4], "big"), int.from_bytes(head[4:], "big")
            fields = 4 * sum(bool(flags & bit) for bit in _RUN_SAMPLE_FIELDS)
            fixed = 8 + 4 * bool(flags & _RUN_OFFSET) + 4 * bool(flags & _RUN_FIRST_FLAGS)
            if fixed + stated * fields > run.end - run.body:
                raise Corrupt(f"the fragment at byte {fragment.offset} of the movie states more samples than it lists")
            count += stated
    return count


def _sizes(source: Source, parts: Mapping[bytes, Box]) -> _Sizes:
    box = parts.get(b"stsz") or parts.get(b"stz2")
    if box is None:
        return _Sizes(0, 0, np.zeros(0, np.int64))
    head = source.read_at(box.body + 4, 8)
    count = int.from_bytes(head[4:], "big")
    if box.name == b"stsz":
        uniform = int.from_bytes(head[:4], "big")
        return _Sizes(count, uniform, np.zeros(0, np.int64) if uniform else _table(source, box, 12, count, ">u4"))
    bits = head[3]
    if bits not in {4, 8, 16}:
        raise Corrupt(f"a track of the movie has sizes of {bits} bits")
    if bits == 4:  # noqa: PLR2004  (two sizes in a byte)
        pairs = _table(source, box, 12, (count + 1) // 2, ">u1")
        return _Sizes(count, 0, np.stack([pairs >> 4, pairs & 15], axis=1).ravel()[:count])
    return _Sizes(count, 0, _table(source, box, 12, count, f">u{bits // 8}"))


def _offsets(source: Source, parts: Mapping[bytes, Box]) -> Numbers:
    box = parts.get(b"stco") or parts.get(b"co64")
    if box is None:
        return np.zeros(0, np.int64)
    count = int.from_bytes(source.read_at(box.body + 4, 4), "big")
    return _table(source, box, 8, count, ">u4" if box.name == b"stco" else ">u8")


def _table(source: Source, box: Box, skip: int, count: int, kind: str) -> Numbers:
    """Answer `count` numbers that stand behind the first `skip` bytes of a box."""
    size = count * np.dtype(kind).itemsize
    if size > box.end - box.body - skip:
        raise Corrupt(f"the {box.name.decode('latin-1')} box of the movie is shorter than the {count} entries that it states")
    if count > SAMPLES_MOST:
        raise TooComplex(f"a table of the movie has {count} entries")
    return np.frombuffer(source.read_at(box.body + skip, size), kind).astype(np.int64)


def _per_chunk(source: Source, parts: Mapping[bytes, Box], chunks: int) -> Numbers:
    """Answer the samples in each chunk."""
    box = parts.get(b"stsc")
    count = int.from_bytes(source.read_at(box.body + 4, 4), "big") if box else 0
    if box is None or not count:
        raise Corrupt("a track of the movie does not say which of its samples stand together")
    runs = _table(source, box, 8, 3 * count, ">u4").reshape(-1, 3)
    firsts = np.clip(runs[:, 0] - 1, 0, chunks)
    lengths = np.diff(np.append(firsts, chunks))
    if firsts[0] or (lengths < 0).any():
        raise Corrupt("the groups of samples of a track of the movie are out of order")
    return np.repeat(runs[:, 1], lengths)


def _end(offsets: Numbers, per_chunk: Numbers, sizes: _Sizes) -> int:
    """Answer the largest end of a chunk. Chunks behind the last sample are left out."""
    behind = np.minimum(np.cumsum(per_chunk), sizes.count)
    before = np.concatenate([[0], behind[:-1]])
    if sizes.uniform:
        ends = offsets + (behind - before) * sizes.uniform
    else:
        sums = np.concatenate([[0], np.cumsum(sizes.each)])
        ends = offsets + sums[behind] - sums[before]
    return int(ends[behind > before].max(initial=0))
