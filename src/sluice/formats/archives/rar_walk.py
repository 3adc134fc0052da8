"""Walks RAR archives: all headers by their checksums, then what is stored as it is, or with libarchive all that is packed.

No free library unpacks RAR but libarchive; without it, packed members are unsupported and only what headers show is judged. One volume of
several is what its uploader means it to be, so it is judged as far as it goes. Symbolic links are marked as such by their headers, and RAR's own
programs follow none outside, so that those within the folder pass.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sluice.formats.archives import libarchive, rar4, rar5
from sluice.formats.archives.containers import RandomAccess, Visitor, WholeContainer, pieces_of
from sluice.formats.archives.feed import Feed
from sluice.formats.archives.names import refuse_hard_link, refuse_link_outside, refuse_name, refuse_way_through
from sluice.formats.archives.rar_records import RarLayout, RarMember
from sluice.formats.archives.trailing import judge_trailing
from sluice.formats.budget import Budget
from sluice.formats.verdict import Corrupt, Encrypted, Measure, Unsupported

MAGICS: Final = (rar4.MAGIC, rar5.MAGIC)
FIRST_MAGIC: Final = b"RE\x7e\x5e"
"""Of RAR 1.4, from before 1996."""
_TARGET_MOST: Final = 4096
"""Bytes of a path on any system."""


def walk(archive: RandomAccess, budget: Budget, visitor: Visitor) -> Mapping[str, Measure]:
    """Show every member to the visitor. Raises as `WholeContainer` says."""
    head = archive.read_at(0, len(rar5.MAGIC))
    if head.startswith(FIRST_MAGIC):
        raise Unsupported("the archive is of RAR 1.4, which cannot be read here")
    layout = (rar5 if head == rar5.MAGIC else rar4).read_layout(archive, budget.limits)
    if layout.is_encrypted:
        raise Encrypted("the archive is protected by a password, the names of its members too")
    budget.count(len(layout.members))
    _refuse_unsafe(archive, layout.members)
    replace(budget).spend(sum(member.unpacked or 0 for member in layout.members if not member.is_split))
    trailing = judge_trailing(Feed(pieces_of(archive, layout.end, archive.size - layout.end), layout.end), "RAR", None)
    measures: dict[str, Measure] = {"members": len(layout.members), "trailing_bytes": trailing}
    return {**measures, **_show(archive, layout, budget, visitor)}


def _refuse_unsafe(archive: RandomAccess, members: Sequence[RarMember]) -> None:
    links = {member.name.replace("\\", "/") for member in members if member.link is not None and not member.is_hard_link}
    for member in members:
        refuse_name(member.name)
        if links:
            refuse_way_through(member.name, links)
        if member.is_hard_link:
            refuse_hard_link(member.name, member.link or "")
        elif member.link is not None:
            refuse_link_outside(member.name, member.link or _stored_target(archive, member))


def _stored_target(archive: RandomAccess, member: RarMember) -> str:
    """Answer where a link leads whose content says so, nothing where that cannot be read."""
    if not member.is_stored or member.is_encrypted or member.packed > _TARGET_MOST:
        return ""
    return archive.read_at(member.offset, member.packed).decode("utf-8", "replace")


def _show(archive: RandomAccess, layout: RarLayout, budget: Budget, visitor: Visitor) -> Mapping[str, Measure]:
    reason = _unreadable(layout)
    if reason is None and not all(member.is_stored for member in layout.members):
        try:
            return libarchive.walk(archive, budget, _Checking(layout.members, visitor))
        except Unsupported as lacking:
            reason = lacking
    for member in layout.members:
        if member.is_stored and not member.is_encrypted and not member.is_split:
            visitor.member(member.name, _summed(_spent(archive, member, budget), member))
    if reason is not None:
        raise reason
    return {}


def _unreadable(layout: RarLayout) -> Encrypted | Unsupported | None:
    """Answer why not all members can be unpacked here."""
    locked = sum(member.is_encrypted for member in layout.members)
    if locked:
        return Encrypted(f"{locked} of {len(layout.members)} members are protected by a password")
    if layout.is_partial:
        return Unsupported("the archive is one volume of several: the others are not at hand")
    if not all(member.is_current or member.is_stored for member in layout.members):
        return Unsupported("the archive is packed by a version of RAR whose way of packing cannot be read here")
    return None


class _Checking:
    """Compares the checksums of all members on their way to a visitor: libarchive leaves out that of old archives."""

    def __init__(self, members: Sequence[RarMember], visitor: Visitor) -> None:
        self._members = iter(members)
        self._visitor = visitor

    def member(self, name: str, pieces: Iterator[bytes]) -> None:
        """Take one member."""
        listed = next(self._members, None)
        if listed is None:
            self._visitor.member(name, pieces)
        else:
            self._visitor.member(listed.name, _summed(pieces, listed))

    def payload(self, pieces: Iterator[bytes]) -> None:
        """Take what a compressed stream holds."""
        self._visitor.payload(pieces)


def _summed(pieces: Iterator[bytes], member: RarMember) -> Iterator[bytes]:
    found = 0
    for piece in pieces:
        found = zlib.crc32(piece, found)
        yield piece
    if member.crc is not None and member.crc != found and member.packed and member.link is None:
        raise Corrupt(f"member {member.name!r} is damaged: its checksum does not fit its content")


def _spent(archive: RandomAccess, member: RarMember, budget: Budget) -> Iterator[bytes]:
    for piece in pieces_of(archive, member.offset, member.packed):
        budget.spend(len(piece))
        yield piece


RAR: Final = WholeContainer("rar", lambda head: head.startswith(MAGICS), walk)
