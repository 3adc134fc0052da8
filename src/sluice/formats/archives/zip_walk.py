"""Shows the members of a ZIP archive to a visitor, wherever the archive is found. Layout is read by `zipped`, files that are archives are judged by their kind."""

from collections.abc import Mapping
from typing import Final

from sluice.formats.archives.containers import RandomAccess, Visitor, WholeContainer
from sluice.formats.archives.zip_records import END, LOCAL
from sluice.formats.archives.zipped import Archive, read_archive, refuse_unsafe_names
from sluice.formats.budget import Budget
from sluice.formats.verdict import Encrypted, Judgement, Measure, Unsupported


def walk(source: RandomAccess, budget: Budget, visitor: Visitor) -> Mapping[str, Measure]:
    """Read the layout and show every member. Raises as `WholeContainer` says."""
    return show_members(read_archive(source, budget.limits), budget, visitor)


def show_members(archive: Archive, budget: Budget, visitor: Visitor) -> Mapping[str, Measure]:
    """Show every member; those that cannot be unpacked here are raised behind the last, since damage in another weighs more."""
    budget.count(len(archive.members))
    refuse_unsafe_names(archive.members)
    unread: list[Judgement] = []
    for index, member in enumerate(archive.members):
        try:
            visitor.member(member.name, archive.chunks(index, budget))
        except (Encrypted, Unsupported) as reason:
            unread.append(reason)
    if any(isinstance(reason, Encrypted) for reason in unread):
        raise Encrypted(f"{len(unread)} of {len(archive.members)} members are protected by a password")
    if unread:
        raise unread[0]
    return {
        "members": budget.members,
        "unpacked_bytes": budget.unpacked_bytes,
        "gap_bytes": archive.gap_bytes,
        "prefix_bytes": archive.prefix_bytes,
        "suffix_bytes": archive.suffix_bytes,
    }


ZIP: Final = WholeContainer("zip", lambda head: head.startswith((LOCAL, END)), walk)
