"""Follows streams of bare audio frames (MPEG audio, ADTS) from header to header. What a header says is told by the formats; nothing is decoded."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sluice.formats.budget import Deadline
from sluice.formats.magics import begins_otherwise
from sluice.formats.media import audio_tags
from sluice.formats.pieces import Piece
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt

_WINDOW: Final = 1024 * 1024
_JUNK_MOST: Final = 4608
"""Bytes before the first frame: the rest of one that was cut."""
_CHAIN: Final = 4
"""Frames that must follow each other for the first to be believed behind junk; half of them suffice where it stands in its place."""
_SPARE_BYTES: Final = 8
"""So many bytes of its last frame an encoder may leave out."""
_MISSING_LEAST: Final = 2
_MISSING_SHARE: Final = 0.02
"""Frames that may be fewer than stated: encoders count their frame of information or not, and round."""
_FRAMES_AT_ONCE: Final = 4096
_TRIES_MOST: Final = 200_000
"""Places looked at for a frame outside the stream, so that hostile bytes cost no more than a second."""

Header = tuple[int, int]
"""Length of the frame in bytes, and what all frames of a stream have in common."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """How the frames of one format are told: `read` answers what a header means, or None for bytes that are no header."""

    header_bytes: int
    read: Callable[[bytes], Header | None]


@dataclass(slots=True)
class Walk:
    """What was found between the tags of a file. Offsets are in bytes from its start."""

    first: int
    end: int
    """Where the last whole frame ends."""
    frames: int = 0
    gaps: int = 0
    """Stretches between frames that are none: neither tags nor padding."""
    gap_at: int = 0
    cut_at: int | None = None
    """Where the last frame begins if the file ends before it does."""
    partial: bool = False
    """Whether the time was over before the end was reached."""
    pieces: list[Piece] = field(default_factory=list)
    """Stretches of frames, without what stands between them."""


class Frames:
    """The frames of one file, as a grammar tells them."""

    def __init__(self, source: Source, grammar: Grammar) -> None:
        self._source = source
        self._grammar = grammar
        self._start = 0
        self._window = source.head
        self._tries = 0

    def find(self, start: int) -> int | None:
        """Answer where the first frame stands: at `start`, or behind the rest of a cut one; None when no frames follow each other there."""
        if self._is_chain(start, _CHAIN // 2, least=1):
            return start
        if start == 0 and begins_otherwise(self._source.head) and self._source.head[:16].strip(b"\0"):
            return None
        return self._find_chain(start + 1, start + _JUNK_MOST, _CHAIN)

    def walk(self, first: int, deadline: Deadline) -> Walk:
        """Follow the frames from the first to the end of the file, over tags and gaps, or until the time is over."""
        walk = Walk(first, end=first)
        start: int | None = first
        while start is not None and start < self._source.size and not walk.partial:
            start = self._walk_piece(walk, start, self._common_at(first), deadline)
        return walk

    def at(self, offset: int, length: int) -> bytes:
        """Answer up to `length` bytes from `offset`."""
        if offset < self._start or offset + length > self._start + len(self._window):
            self._start, self._window = offset, self._source.read_at(offset, max(length, _WINDOW))
        return self._window[offset - self._start : offset - self._start + length]

    def _walk_piece(self, walk: Walk, start: int, common: int | None, deadline: Deadline) -> int | None:
        """Follow frames without a break; answer where they go on, None where they do not."""
        offset, size, following = start, self._source.size, None
        while offset < size:
            header = self._header_at(offset)
            if header is None or header[1] != common:
                following = self._behind_gap(walk, offset, common)
                break
            if offset + header[0] > size + _SPARE_BYTES:
                walk.cut_at = offset
                break
            offset += header[0]
            walk.frames += 1
            if walk.frames % _FRAMES_AT_ONCE == 0 and deadline.has_passed:
                walk.partial = True
                break
        walk.end = min(offset, size)
        walk.pieces.append((start, walk.end - start))
        return following

    def _header_at(self, offset: int) -> Header | None:
        data = self.at(offset, self._grammar.header_bytes)
        return self._grammar.read(data) if len(data) == self._grammar.header_bytes else None

    def _common_at(self, offset: int) -> int | None:
        header = self._header_at(offset)
        return header[1] if header else None

    def _is_chain(self, offset: int, frames: int, least: int) -> bool:
        """Answer whether so many frames of one kind follow each other, or `least` of them up to the very end or a tag."""
        common = self._common_at(offset)
        for count in range(frames):
            if count >= least and (offset == self._source.size or audio_tags.is_trailing_tag(self.at(offset, 16))):
                return True
            header = self._header_at(offset)
            if header is None or header[1] != common:
                return False
            offset += header[0]
        return True

    def _find_chain(self, offset: int, limit: int, frames: int, common: int | None = None) -> int | None:
        """Answer where, from `offset` on and before `limit`, so many frames follow each other, of the kind `common` if one is given."""
        limit = min(limit, self._source.size)
        while offset < limit and self._tries < _TRIES_MOST:
            self.at(offset, 1)
            place = self._window.find(b"\xff", offset - self._start, max(0, limit - self._start))
            if place < 0:
                offset = self._start + len(self._window)
                continue
            self._tries += 1
            found = self._start + place
            header = self._header_at(found)
            if header and common in {None, header[1]} and self._is_chain(found, frames, least=frames // 2):
                return found
            offset = found + 1
        return None

    def _behind_gap(self, walk: Walk, offset: int, common: int | None) -> int | None:
        """Answer where frames go on behind what is none at `offset`, None where none do. Notes a gap, and a header that the end of the file cuts."""
        if size := audio_tags.id3_bytes(self._source, offset):
            return offset + size
        following = self._find_chain(offset + 1, self._source.size, _CHAIN // 2, common)
        data = self.at(offset, 64)
        if following is None:
            is_header = len(data) < self._grammar.header_bytes and data[:2] in {b"\xff", self.at(walk.first, 2)}
            walk.cut_at = offset if is_header else None
        elif not audio_tags.is_trailing_tag(data) and self._source.read_at(offset, min(following - offset, _WINDOW)).strip(b"\0"):
            walk.gaps += 1
            walk.gap_at = walk.gap_at or offset
        return following


def require_complete(source: Source, walk: Walk, stated: int = 0) -> None:
    """Raise `Corrupt` for gaps between frames, and for an end that is missing. `stated` is the number of frames that there must be, if known.

    Whoever cut a file that ends in a tag did not cut its end: tags are written last, over music that was shortened before.
    """
    if walk.gaps:
        raise Corrupt(f"the sound is damaged: at byte {walk.gap_at} there is no frame where one must be")
    if walk.partial or audio_tags.ends_in_tag(source):
        return
    if walk.cut_at is not None and not 0 < stated <= walk.frames:
        raise Corrupt(f"the file ends at byte {source.size}, inside the frame from byte {walk.cut_at} on")
    if walk.frames + max(_MISSING_LEAST, _MISSING_SHARE * stated) < stated:
        raise Corrupt(f"the file holds {walk.frames} of the {stated} frames that it states")
