"""What member names and links do to the folder that an archive is unpacked to. One rule for all kinds of archives; reads none."""

from sluice.formats.archives.zipped import escapes
from sluice.formats.verdict import Finding, Unsafe


def refuse_name(name: str) -> None:
    """Raise `Unsafe` for a member that would be written outside of the folder."""
    if escapes(name):
        raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} would be written outside of the folder it is unpacked to")


def refuse_link(name: str, target: str = "") -> None:
    """Raise `Unsafe` for a symbolic link: what is written or read through it later may lie anywhere."""
    raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} is a symbolic link{f' to {target!r}' if target else ''}, not a file")


def refuse_hard_link(name: str, target: str) -> None:
    """Raise `Unsafe` for a second name of a file that lies outside of the folder. Within, it is how archivers store a file's second name."""
    if escapes(target):
        raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} is a link to {target!r}, outside of the folder it is unpacked to")


def refuse_device(name: str) -> None:
    """Raise `Unsafe` for a device."""
    raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} is a device, not a file")
