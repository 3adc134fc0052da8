"""Walks RAR archives: all headers by their checksums, then stored members as they are, or all with libarchive."""
# Without libarchive, packed members are unsupported. A lone volume of several is checked as far as it goes. RAR's own
# programs follow no symbolic link that leads outside, so links that stay in the folder pass.

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sluice_inspect.archives import libarchive
from sluice_inspect.archives.rar.headers import RAR4_MAGIC, RAR5_MAGIC, RarLayout, RarMember, read_layout
from sluice_inspect.archives.safety import (
    check_trailing,
    checked_content,
    decoded_name,
    path_steps,
    refuse_hard_link,
    refuse_link_outside,
    refuse_name,
    refuse_path_through_link,
)
from sluice_inspect.budget import Budget
from sluice_inspect.report import Encrypted, Measure, Unsupported
from sluice_inspect.source import RandomAccess, read_pieces
from sluice_inspect.unpacking import Feed, RandomAccessContainer, Visitor

_MAX_PATH_BYTES: Final = 4096  # of a link's target, on any system


def walk(archive: RandomAccess, budget: Budget, visitor: Visitor) -> Mapping[str, Measure]:
    """Show every member to the visitor. Raise as `RandomAccessContainer` says."""
    layout = archive.cached(read_layout, budget.limits)
    if layout.is_encrypted:
        raise Encrypted("the archive is protected by a password, the names of its members too")
    budget.count(len(layout.members))
    _refuse_unsafe(archive, layout.members)
    # What the headers promise must fit into the budget; what is unpacked is counted again when it comes.
    replace(budget).spend(sum(member.unpacked or 0 for member in layout.members if not member.is_split))
    behind = read_pieces(archive, layout.end, archive.size - layout.end)
    trailing_bytes = check_trailing(Feed(behind, layout.end), "RAR", None)
    measures: dict[str, Measure] = {"members": len(layout.members), "trailing_bytes": trailing_bytes}
    return measures | _show_members(archive, layout, budget, visitor)


def _refuse_unsafe(archive: RandomAccess, members: Sequence[RarMember]) -> None:
    links = {path_steps(member.name) for member in members if member.link is not None and not member.is_hard_link}
    for member in members:
        refuse_name(member.name)
        if links:
            refuse_path_through_link(member.name, links)
        if member.is_hard_link:
            refuse_hard_link(member.name, member.link or "")
        elif member.link is not None:
            refuse_link_outside(member.name, member.link or _stored_target(archive, member))


def _stored_target(archive: RandomAccess, member: RarMember) -> str:
    """Return the target of a link whose data holds it, or "" if that cannot be read."""
    if not member.is_stored or member.is_encrypted or member.packed > _MAX_PATH_BYTES:
        return ""
    return decoded_name(archive.read_at(member.offset, member.packed))


def _show_members(archive: RandomAccess, layout: RarLayout, budget: Budget, visitor: Visitor) -> dict[str, Measure]:
    reason = _unreadable_reason(layout)
    if reason is None and not all(member.is_stored for member in layout.members):
        try:
            _show_with_libarchive(archive, layout, budget, visitor)
        except Unsupported as lacking:
            reason = lacking
        else:
            return {"read_with": "libarchive"}
    for member in layout.members:
        if member.is_stored and not member.is_encrypted and not member.is_split:
            visitor.member(
                member.name, _checked(budget.counted(read_pieces(archive, member.offset, member.packed)), member)
            )
    if reason is not None:
        raise reason
    return {}


def _unreadable_reason(layout: RarLayout) -> Encrypted | Unsupported | None:
    encrypted = sum(member.is_encrypted for member in layout.members)
    if encrypted:
        return Encrypted(f"{encrypted} of {len(layout.members)} members are protected by a password")
    if layout.is_partial:
        return Unsupported("the archive is one volume of several: the others are not available")
    if not all(member.is_current or member.is_stored for member in layout.members):
        return Unsupported("the archive is packed by a version of RAR whose way of packing cannot be read here")
    return None


def _show_with_libarchive(archive: RandomAccess, layout: RarLayout, budget: Budget, visitor: Visitor) -> None:
    listed = iter(layout.members)
    for name, pieces in libarchive.members(archive, budget):
        member = next(listed, None)
        if member is None:
            visitor.member(name, pieces)
        else:
            # libarchive does not compare the checksums of RAR 4.
            visitor.member(member.name, _checked(pieces, member))


def _checked(pieces: Iterator[bytes], member: RarMember) -> Iterator[bytes]:
    return checked_content(pieces, member.crc if member.packed and member.link is None else None, member.name)


RAR: Final = RandomAccessContainer("rar", lambda head: head.startswith((RAR4_MAGIC, RAR5_MAGIC)), walk)
