"""Looks through archives and the archives within them: one walk, one budget, over all kinds. What the kinds look like is in their containers.

Members are judged for what they are when unpacked: bombs, links, names. Damage within an inner archive does not speak against the outer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from sluice.formats.archives.containers import Container, StreamContainer, WholeContainer, pieces_of
from sluice.formats.archives.feed import Feed
from sluice.formats.archives.frames import LZ4, ZSTANDARD
from sluice.formats.archives.rar_walk import RAR
from sluice.formats.archives.sevenzip_walk import SEVEN_ZIP
from sluice.formats.archives.streams import BZIP2, GZIP, XZ
from sluice.formats.archives.tar_walk import TAR
from sluice.formats.archives.zip_walk import ZIP
from sluice.formats.budget import Budget, Deadline
from sluice.formats.source import Source
from sluice.formats.verdict import Finding, Judgement, Limits, Measure, Unsafe

CONTAINERS: Final[tuple[Container, ...]] = (GZIP, BZIP2, XZ, ZSTANDARD, LZ4, TAR, ZIP, SEVEN_ZIP, RAR)
"""What is looked into where it is found within an archive."""

_BEGIN_BYTES: Final = 512
_HELD_MOST: Final = 64 * 1024**2
"""Bytes of archives within archives that are held at once to be read in any order; a larger one is only unpacked."""
_NOTHING: Final = b"\0 \t\n\r\f\v\xef\xbb\xbf"
_LITTER: Final = frozenset({".ds_store", "thumbs.db", "desktop.ini"})
"""What file managers leave in folders on their own."""

_shows_nothing: Final[WeakKeyDictionary[Source, str]] = WeakKeyDictionary()
"""Remembered from the one walk, since `check` and `blank` of a kind are asked apart."""


def check_archive(container: Container, source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Judge an archive whole: the check of its kind. When the time is over before the end, that is measured and the rest believed."""
    look = Look(Budget(limits, packed_bytes=source.size))
    try:
        measures = look.through(container, source)
    except OutOfTime:
        return {"members": look.members, "partially_checked": True}
    if not look.has_content:
        _shows_nothing[source] = (
            f"none of the archive's {look.members} members has any content" if look.members else "there is nothing in the archive"
        )
    return measures


def blank_archive(source: Source, _limits: Limits) -> str | None:
    """Answer the blank rule of archives, as seen in the walk: folders, empty files, white space, zeros, litter, archives of those."""
    return _shows_nothing.get(source)


class OutOfTime(Exception):
    """The look was stopped before its end."""


@dataclass(frozen=True, slots=True)
class Held:
    """An archive within an archive, unpacked into memory."""

    data: bytearray

    @property
    def size(self) -> int:
        """Length in bytes."""
        return len(self.data)

    def read_at(self, offset: int, length: int) -> bytes:
        """Answer up to `length` bytes from `offset`."""
        return bytes(memoryview(self.data)[offset : offset + length])

    def mapped(self) -> memoryview:
        """Answer all bytes."""
        return memoryview(self.data)


class Look:
    """The visitor of all archives in one file: counts, judges, and notes whether there is any content. Raises `OutOfTime` past its deadline."""

    def __init__(self, budget: Budget) -> None:
        self.has_content = False
        self.members = 0
        """Of the outermost archive."""
        self._budget = budget
        self._deadline = Deadline(budget.limits.soft_seconds)
        self._depth = 1
        self._held_bytes = 0

    def through(self, container: Container, source: Source) -> Mapping[str, Measure]:
        """Walk the outermost archive."""
        if isinstance(container, StreamContainer):
            return container.walk(Feed(pieces_of(source, 0, source.size)), self._budget, self)
        return container.walk(source, self._budget, self)

    def member(self, name: str, pieces: Iterator[bytes]) -> None:
        """Take one member, to its last byte."""
        self.members += self._depth == 1
        self._take(name, _Tapped(pieces, self._deadline))

    def payload(self, pieces: Iterator[bytes]) -> None:
        """Take what a compressed stream holds; a .tar.gz is one archive, not two within each other."""
        content = _Tapped(pieces, self._deadline)
        if TAR.begins(content.feed.peek(_BEGIN_BYTES)):
            self._look_into(TAR, content)
        else:
            self._take("", content)

    def _take(self, name: str, content: "_Tapped") -> None:
        head = content.feed.peek(_BEGIN_BYTES)
        inner = next((container for container in CONTAINERS if container.begins(head)), None)
        if inner is None:
            self._see(content.feed, counts=not _is_litter(name))
            return
        if self._depth >= self._budget.limits.max_depth:
            raise Unsafe(Finding.ARCHIVE_BOMB, f"archives are nested more than {self._budget.limits.max_depth} deep")
        self._depth += 1
        try:
            self._look_into(inner, content)
        except Unsafe as reason:
            if content.failure is not None or not name:
                raise
            raise Unsafe(reason.finding or Finding.ARCHIVE_UNSAFE, f"in {name!r}: {reason}") from reason
        finally:
            self._depth -= 1

    def _look_into(self, container: Container, content: "_Tapped") -> None:
        """Walk an inner archive; what cannot be read of it is content."""
        try:
            if isinstance(container, StreamContainer):
                container.walk(content.feed, self._budget, self)
            else:
                self._hold_and_walk(container, content.feed)
        except Unsafe:
            raise
        except Judgement:
            if content.failure is not None:
                raise
            self.has_content = True
        self._see(content.feed, counts=False)

    def _hold_and_walk(self, container: WholeContainer, feed: Feed) -> None:
        held = bytearray()
        while piece := feed.piece():
            held += piece
            if self._held_bytes + len(held) > _HELD_MOST:
                self.has_content = True
                return
        self._held_bytes += len(held)
        try:
            container.walk(Held(held), self._budget, self)
        finally:
            self._held_bytes -= len(held)

    def _see(self, feed: Feed, *, counts: bool) -> None:
        """Take content to its end."""
        while piece := feed.piece():
            if counts and not self.has_content:
                self.has_content = bool(piece.translate(None, _NOTHING))


class _Tapped:
    """The content of one member, and whether it was the archive around it that failed."""

    def __init__(self, pieces: Iterator[bytes], deadline: Deadline) -> None:
        self.failure: Judgement | None = None
        self.feed = Feed(self._passed_on(pieces, deadline))

    def _passed_on(self, pieces: Iterator[bytes], deadline: Deadline) -> Iterator[bytes]:
        try:
            for piece in pieces:
                if deadline.has_passed:
                    raise OutOfTime
                yield piece
        except Judgement as reason:
            self.failure = reason
            raise


def _is_litter(name: str) -> bool:
    parts = name.replace("\\", "/").rstrip("/").split("/")
    return "__MACOSX" in parts or parts[-1].lower() in _LITTER
