"""One walk with one budget through an archive and those within it: bombs, links, names, blank content."""
# Damage within an inner archive does not count against the outer one.

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final

from sluice_inspect.archives.compression import HEAD_BYTES
from sluice_inspect.archives.tar import TAR
from sluice_inspect.budget import Budget, Deadline
from sluice_inspect.catalogue import FactValue
from sluice_inspect.format import Examination
from sluice_inspect.programs import PROGRAM, SCRIPT, SHORTCUT, ProgramCount
from sluice_inspect.report import Encrypted, FactSheet, Finding, InspectionError, Limits, Measure, Unsafe
from sluice_inspect.source import MemorySource, Source, read_pieces
from sluice_inspect.unpacking import Container, Feed, RandomAccessContainer, StreamContainer

# Bytes of inner archives that are held at once, to be read in any order. A larger one is unpacked, but not opened.
_MAX_HELD_BYTES: Final = 64 * 1024**2
_BLANK_BYTES: Final = b"\0 \t\n\r\f\v\xef\xbb\xbf"
# Files that file managers add to folders without being asked.
_LITTER: Final = frozenset({".ds_store", "thumbs.db", "desktop.ini"})


def examine_archive(container: Container, source: Source, limits: Limits) -> Examination:
    """Check an archive and those within it. Past the deadline the rest passes unchecked, as `partially_checked`."""
    walk = ArchiveWalk(Budget(limits, packed_bytes=source.size))
    try:
        measures = walk.run(container, source)
    except OutOfTime:
        measured = walk.measured(complete=False)
        return Examination({"members": walk.members, "partially_checked": True}, measured=measured)
    except InspectionError as reason:
        reason.measured = walk.measured(complete=False)
        raise
    return Examination(measures, walk.blank_reason, walk.measured(complete=True))


@cache
def _containers() -> Sequence[Container]:
    """Return what is opened where it is found within an archive; first what is read in order, TAR by its checksum."""
    # When they are first needed: the registry loads the formats, and some of them import this module.
    from sluice_inspect import registry  # noqa: PLC0415

    found = [each.container for each in registry.containers() if each.container is not None]
    return sorted(found, key=lambda each: isinstance(each, RandomAccessContainer))


class OutOfTime(Exception):
    """The walk was stopped before its end."""


class ArchiveWalk:
    """The visitor of all archives in one file. Raises `OutOfTime` past its deadline."""

    def __init__(self, budget: Budget) -> None:
        self.has_content = False
        self.members = 0  # of the outermost archive
        self._budget = budget
        self._deadline = Deadline(budget.limits.soft_seconds)
        self._depth = self._deepest = 1
        self._held_bytes = 0
        self._programs = ProgramCount()
        self._encrypted_members = 0
        self._has_unread = False  # an inner archive could not be read to its end

    def run(self, container: Container, source: Source) -> Mapping[str, Measure]:
        """Walk the outermost archive and return its measures."""
        if isinstance(container, StreamContainer):
            return container.walk(Feed(read_pieces(source)), self._budget, self)
        return container.walk(source, self._budget, self)

    def measured(self, *, complete: bool) -> FactSheet:
        """Return what was learnt of the members so far."""
        counts = self._programs.counts
        facts: dict[str, FactValue] = {
            "encrypted_members": self._encrypted_members,
            "members": self._budget.members,
            "depth": self._deepest,
            "unpacked_bytes": self._budget.unpacked_bytes,
            "programs": counts[PROGRAM],
            "scripts": counts[SCRIPT],
            "shortcuts": counts[SHORTCUT],
        }
        if self._programs.kinds:
            facts["program_kinds"] = tuple(self._programs.kinds)
        flags = {f"archive.{category}" for category, count in counts.items() if count}
        if self._programs.has_disguised:
            flags.add("archive.disguised")
        return FactSheet(facts, flags, complete and not self._has_unread and not self._encrypted_members)

    def blank_reason(self) -> str | None:
        """Return why the archive is blank: nothing but folders, empty files, white space, zeros, litter."""
        if self.has_content:
            return None
        if self.members:
            return f"none of the archive's {self.members} members has any content"
        return "there is nothing in the archive"

    def member(self, name: str, pieces: Iterator[bytes]) -> None:
        """Read one member to its last byte."""
        self.members += self._depth == 1
        self._read_member(name, _MemberContent(pieces, self._deadline))

    def payload(self, pieces: Iterator[bytes]) -> None:
        """Read what a compressed stream holds. A .tar.gz is one archive, not two within each other."""
        content = _MemberContent(pieces, self._deadline)
        if TAR.matches(content.feed.peek(HEAD_BYTES)):
            self._open_inner(TAR, content)
        else:
            self._read_member("", content)

    def _read_member(self, name: str, content: "_MemberContent") -> None:
        try:
            head = content.feed.peek(HEAD_BYTES)
        except Encrypted:
            self._encrypted_members += 1
            self._programs.add(name, b"")
            raise
        self._programs.add(name, head)
        inner = next((container for container in _containers() if container.matches(head)), None)
        if inner is None:
            parts = name.replace("\\", "/").rstrip("/").split("/")
            self._drain(content.feed, counts_as_content=not ("__MACOSX" in parts or parts[-1].lower() in _LITTER))
            return
        if self._depth >= self._budget.limits.max_depth:
            raise Unsafe(Finding.ARCHIVE_BOMB, f"archives are nested more than {self._budget.limits.max_depth} deep")
        self._depth += 1
        self._deepest = max(self._deepest, self._depth)
        try:
            self._open_inner(inner, content)
        except Unsafe as reason:
            if content.failure is not None or not name:
                raise
            raise Unsafe(reason.finding or Finding.ARCHIVE_UNSAFE, f"in {name!r}: {reason}") from reason
        finally:
            self._depth -= 1

    def _open_inner(self, container: Container, content: "_MemberContent") -> None:
        try:
            if isinstance(container, StreamContainer):
                container.walk(content.feed, self._budget, self)
            else:
                self._hold_and_walk(container, content.feed)
        except Unsafe:
            raise
        except InspectionError:
            if content.failure is not None:  # the archive around it failed, not the inner one
                raise
            self.has_content = self._has_unread = True  # what cannot be read of an inner archive counts as content
        self._drain(content.feed, counts_as_content=False)

    def _hold_and_walk(self, container: RandomAccessContainer, feed: Feed) -> None:
        held = bytearray()
        while piece := feed.piece():
            held += piece
            if self._held_bytes + len(held) > _MAX_HELD_BYTES:
                self.has_content = self._has_unread = True
                return
        self._held_bytes += len(held)
        try:
            container.walk(MemorySource(held), self._budget, self)
        finally:
            self._held_bytes -= len(held)

    def _drain(self, feed: Feed, *, counts_as_content: bool) -> None:
        while piece := feed.piece():
            if counts_as_content and not self.has_content:
                self.has_content = bool(piece.translate(None, _BLANK_BYTES))


class _MemberContent:
    def __init__(self, pieces: Iterator[bytes], deadline: Deadline) -> None:
        self.failure: InspectionError | None = None
        self.feed = Feed(self._watch(pieces, deadline))

    def _watch(self, pieces: Iterator[bytes], deadline: Deadline) -> Iterator[bytes]:
        try:
            for piece in pieces:
                if deadline.has_passed:
                    raise OutOfTime
                yield piece
        except InspectionError as reason:
            self.failure = reason
            raise
