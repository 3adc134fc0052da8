"""What member names and links do to the folder that an archive is unpacked to. One rule for all kinds of archives; reads none."""

from collections.abc import Collection

from sluice.formats.archives.zipped import escapes
from sluice.formats.verdict import Finding, Unsafe


def refuse_name(name: str) -> None:
    """Raise `Unsafe` for a member that would be written outside of the folder."""
    if escapes(name):
        raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} would be written outside of the folder it is unpacked to")


def refuse_link(name: str, target: str = "") -> None:
    """Raise `Unsafe` for a symbolic link: what is written or read through it later may lie anywhere."""
    raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} is a symbolic link{f' to {target!r}' if target else ''}, not a file")


def refuse_link_outside(name: str, target: str) -> None:
    """Raise `Unsafe` for a symbolic link that does not lead to a place in the folder by its own words, without a way up behind one down."""
    steps = target.replace("\\", "/").split("/")
    ups = next((index for index, step in enumerate(steps) if step != ".."), len(steps))
    depth = len([step for step in name.replace("\\", "/").split("/")[:-1] if step not in {"", "."}])
    if not target or escapes("/".join(steps[ups:])) or ups > depth or target.startswith(("/", "\\")):
        refuse_link(name, target)


def refuse_way_through(name: str, links: Collection[str]) -> None:
    """Raise `Unsafe` for a member that is written through a symbolic link of the archive, wherever that leads."""
    steps = name.replace("\\", "/").split("/")
    if any("/".join(steps[:count]) in links for count in range(1, len(steps))):
        raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} would be written through a symbolic link")


def refuse_hard_link(name: str, target: str) -> None:
    """Raise `Unsafe` for a second name of a file that lies outside of the folder. Within, it is how archivers store a file's second name."""
    if escapes(target):
        raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} is a link to {target!r}, outside of the folder it is unpacked to")


def refuse_device(name: str) -> None:
    """Raise `Unsafe` for a device."""
    raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} is a device, not a file")
