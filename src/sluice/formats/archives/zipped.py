"""A strict reader of ZIP archives: layout and names are judged before a byte is unpacked, members are streamed and counted. Knows no format within.

`zipfile` of the standard library is not used: it reads archives that most readers refuse, and trusts what the directory claims.
"""

import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from sluice.formats.archives.containers import RandomAccess
from sluice.formats.archives.zip_records import (
    DESCRIPTOR_FLAG,
    LOCAL,
    EndRecord,
    LocalHeader,
    Member,
    find_end,
    read_local,
    read_members,
)
from sluice.formats.archives.zip_unpack import unpack
from sluice.formats.budget import CHUNK_BYTES, Budget
from sluice.formats.verdict import Corrupt, Finding, Limits, Unsafe

_NO_FILES: Final = frozenset({stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK})
"""Pipes are none of these: Info-ZIP records a file that it read from one as such."""
_DRIVE: Final = re.compile(r"^[A-Za-z]:")


@dataclass(frozen=True)
class Archive:
    """An archive whose layout was found sound. Content is judged as it is read."""

    source: RandomAccess
    end: EndRecord
    members: tuple[Member, ...]
    headers: tuple[LocalHeader, ...] = field(repr=False)
    """The local header of each member, in the same order."""
    gap_bytes: int
    """Bytes between members that belong to none, as aligners and signers leave."""

    @property
    def prefix_bytes(self) -> int:
        """Bytes in front of the first member."""
        return min((member.offset for member in self.members), default=self.end.directory)

    @property
    def suffix_bytes(self) -> int:
        """Bytes behind the end record and its comment."""
        return self.source.size - self.end.end

    @cached_property
    def by_name(self) -> dict[str, int]:
        """Index of each file by its name with forward slashes."""
        return {member.name.replace("\\", "/"): index for index, member in enumerate(self.members) if not member.is_directory}

    def chunks(self, index: int, budget: Budget) -> Iterator[bytes]:
        """Unpack one member piece by piece; the checksum is compared behind the last one.

        Raises `Corrupt` when it does not unpack to what was promised, `Encrypted` and `Unsupported` when it cannot be unpacked here,
        `Unsafe` past the budget.
        """
        return unpack(self.source, self.members[index], self.headers[index].data, budget)

    def open(self, index: int, budget: Budget) -> "MemberStream":
        """Answer a reader of one member for parsers; it raises as `chunks` does."""
        return MemberStream(self.chunks(index, budget))


class MemberStream:
    """The least that stream parsers ask for: `read`."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int = -1, /) -> bytes:
        """Answer up to `size` bytes, all of them when it is negative, none at the end."""
        if size < 0:
            rest, self._rest = self._rest, b""
            return rest + b"".join(self._chunks)
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._rest = chunk
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece


def read_archive(source: RandomAccess, limits: Limits) -> Archive:
    """Read and judge the layout of an archive: every member in its place, once, and nothing hidden between them.

    Raises `Corrupt` for damage, `Unsafe` for members that share bytes, for hidden ones and for more than the limit.
    """
    end = find_end(source)
    if end is None:
        raise Corrupt("the archive has no end record: its end is missing, or it is no archive")
    members = read_members(source, end, limits)
    headers = tuple(read_local(source, member) for member in members)
    gap_bytes = _check_layout(source, end, members, headers, limits)
    return Archive(source, end, members, headers, gap_bytes)


def _check_layout(
    source: RandomAccess, end: EndRecord, members: tuple[Member, ...], headers: tuple[LocalHeader, ...], limits: Limits
) -> int:
    in_order = sorted(range(len(members)), key=lambda index: members[index].offset)
    gap_bytes = 0
    starts = [members[index].offset for index in in_order] + [end.directory]
    for index, behind in zip(in_order, starts[1:], strict=True):
        member = members[index]
        data_end = headers[index].data + member.packed
        if data_end > end.directory:
            raise Corrupt(f"member {member.name!r} runs past the end of the archive's data")
        if data_end > behind:
            raise _overlap(members, limits)
        data_end += _descriptor_size(source.read_at(data_end, min(24, behind - data_end)), member)
        _refuse_hidden(source, data_end, behind)
        gap_bytes += behind - data_end
    return gap_bytes


def _overlap(members: tuple[Member, ...], limits: Limits) -> Unsafe:
    claimed = sum(member.unpacked for member in members)
    finding = Finding.ARCHIVE_BOMB if claimed > limits.ratio_floor_bytes else Finding.ARCHIVE_UNSAFE
    return Unsafe(finding, f"members of the archive share the same bytes; unpacked they would be {claimed} bytes")


def _descriptor_size(behind: bytes, member: Member) -> int:
    """Answer the length of the data descriptor behind a member, 0 where there is none: some writers promise one and leave it out."""
    if not member.flags & DESCRIPTOR_FLAG:
        return 0
    for layout in ("<4s3L", "<4sL2Q", "<3L", "<L2Q"):
        if len(behind) < struct.calcsize(layout):
            continue
        *_, crc, packed, unpacked = struct.unpack_from(layout, behind)
        if (crc, packed, unpacked) == (member.crc, member.packed, member.unpacked):
            return struct.calcsize(layout)
    return 0


def _refuse_hidden(source: RandomAccess, start: int, end: int) -> None:
    for at in range(start, end, CHUNK_BYTES):
        if LOCAL in source.read_at(at, min(CHUNK_BYTES + 3, end - at)):
            raise Unsafe(Finding.ARCHIVE_UNSAFE, f"the archive hides a member at byte {at} that its directory does not list")


def refuse_unsafe_names(members: tuple[Member, ...]) -> None:
    """Raise `Unsafe` for members that would be written outside of the target folder, over each other, or as links and devices."""
    seen: set[str] = set()
    for member in members:
        if escapes(member.name) or escapes(member.shown_name):
            raise Unsafe(
                Finding.ARCHIVE_UNSAFE, f"member {member.shown_name!r} would be written outside of the folder it is unpacked to"
            )
        if "\0" in member.shown_name:
            raise Unsafe(
                Finding.ARCHIVE_UNSAFE, f"member {member.shown_name!r} has a zero byte in its name: readers differ in where it ends"
            )
        if stat.S_IFMT(member.unix_mode) in _NO_FILES:
            raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {member.name!r} is a link or a device, not a file")
        if member.name in seen and not member.is_directory:
            raise Unsafe(
                Finding.ARCHIVE_UNSAFE, f"two members have the name {member.name!r}: readers differ in which one they show"
            )
        seen.add(member.name)


def escapes(name: str) -> bool:
    """Whether a member of this name would leave the folder that it is unpacked to, on any system."""
    slashed = name.replace("\\", "/")
    return slashed.startswith("/") or bool(_DRIVE.match(name)) or ".." in slashed.split("/")
