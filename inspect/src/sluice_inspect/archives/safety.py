"""Rules that hold for all archive formats: names and links that leave the target folder, bytes behind the end."""

import re
import zlib
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from sluice_inspect.archives.finder import ArchiveFinder
from sluice_inspect.report import Corrupt, Finding, Unsafe
from sluice_inspect.signatures import is_web_page
from sluice_inspect.source import MemorySource
from sluice_inspect.unpacking import Feed

_DRIVE: Final = re.compile(r"^[A-Za-z]:")
# Windows drops spaces and dots at the end of a name, and unpackers have dropped them before they searched for `..`.
_PARENT: Final = re.compile(r"\s*\.\.(?:\s[\s.]*)?")
# ASCII in two to four bytes, which UTF-8 forbids (RFC 3629, 10) and some decoders read.
_OVERLONG: Final = re.compile(rb"[\xc0\xc1][\x80-\xbf]|\xe0[\x80\x81][\x80-\xbf]|\xf0\x80[\x80\x81][\x80-\xbf]")
_TRAILING_CHECKED_BYTES: Final = 1024 * 1024
_SECOND_FORMATS: Final = {
    b"PK\x03\x04": "a ZIP archive",
    b"Rar!\x1a\x07": "a RAR archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"%PDF-": "a PDF document",
}


def decoded_name(raw: bytes) -> str:
    """Return a name in UTF-8 as its most tolerant reader sees it: ASCII may be written in several bytes."""
    return _OVERLONG.sub(_short_form, raw).decode("utf-8", "replace")


def _short_form(overlong: re.Match[bytes]) -> bytes:
    *_, high, low = overlong[0]
    return bytes([(high & 0x3F) << 6 & 0x7F | low & 0x3F])


def leaves_folder(name: str) -> bool:
    """Whether a member of this name would be written outside of the target folder, on any system."""
    slashed = name.replace("\\", "/")
    return slashed.startswith("/") or bool(_DRIVE.match(name)) or any(map(_PARENT.fullmatch, slashed.split("/")))


def refuse_name(name: str) -> None:
    """Raise `Unsafe` for a member that would be written outside of the target folder."""
    if leaves_folder(name):
        raise Unsafe(
            Finding.ARCHIVE_UNSAFE, f"member {name!r} would be written outside of the folder it is unpacked to"
        )


def refuse_link(name: str, target: str = "") -> None:
    """Raise `Unsafe` for a symbolic link: what is written or read through it later may be anywhere."""
    raise Unsafe(
        Finding.ARCHIVE_UNSAFE, f"member {name!r} is a symbolic link{f' to {target!r}' if target else ''}, not a file"
    )


def refuse_link_outside(name: str, target: str) -> None:
    """Raise `Unsafe` for a link that is absolute, goes up further than it is deep, or up again after going down."""
    steps = target.replace("\\", "/").split("/")
    ups = next((index for index, step in enumerate(steps) if step != ".."), len(steps))
    depth = len([step for step in name.replace("\\", "/").split("/")[:-1] if step not in {"", "."}])
    if not target or leaves_folder("/".join(steps[ups:])) or ups > depth or target.startswith(("/", "\\")):
        refuse_link(name, target)


def path_steps(name: str) -> tuple[str, ...]:
    """Return the folders of a path and its last name as the most tolerant system compares them."""
    steps = (step.rstrip(". ").casefold() for step in name.replace("\\", "/").split("/"))
    return tuple(step for step in steps if step)


def refuse_path_through_link(name: str, links: Collection[tuple[str, ...]]) -> None:
    """Raise `Unsafe` for a member written through a link of the archive (`path_steps` of each), wherever it leads."""
    steps = path_steps(name)
    if any(steps[:count] in links for count in range(1, len(steps))):
        raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} would be written through a symbolic link")


def refuse_hard_link(name: str, target: str) -> None:
    """Raise `Unsafe` for a hard link to a file outside of the folder: within it, it is a file's second name."""
    if leaves_folder(target):
        raise Unsafe(
            Finding.ARCHIVE_UNSAFE, f"member {name!r} is a link to {target!r}, outside of the folder it is unpacked to"
        )


def refuse_device(name: str) -> None:
    """Raise `Unsafe` for a device, a pipe or a socket."""
    raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} is a device or a pipe, not a file")


def checked_content(pieces: Iterable[bytes], crc: int | None, name: str) -> Iterator[bytes]:
    """Yield the content of a member. Raise `Corrupt` behind it if its CRC-32 is another than a given one."""
    found = 0
    for piece in pieces:
        found = zlib.crc32(piece, found)
        yield piece
    if crc is not None and found != crc:
        raise Corrupt(f"member {name!r} is damaged: its checksum does not fit its content")


def check_trailing(feed: Feed, name: str, magic: re.Pattern[bytes] | None) -> int:
    """Read the feed behind the data called `name` to its end; return how many bytes there were.

    Padding and the footer of a mail gateway are accepted. Raise `Corrupt` if a web page follows, or data that should
    have been read, of which `magic` is a mark; `Unsafe` if another format follows.
    """
    start = feed.position
    head = feed.peek(_TRAILING_CHECKED_BYTES)
    if is_web_page(head):
        raise Corrupt(f"an HTML page is saved behind the {name} data: a web server's answer, not the file itself")
    refuse_second_format(head, name, start)
    if magic is not None and (found := magic.search(head)):
        raise Corrupt(f"the {name} data is damaged at byte {start}: it continues at byte {start + found.start()}")
    while feed.piece():
        pass
    return feed.position - start


def refuse_second_format(trailing: bytes, name: str, start: int) -> None:
    """Raise `Unsafe` if the bytes behind an archive, from byte `start` on, are an archive or a document."""
    for magic, second in _SECOND_FORMATS.items():
        if trailing.startswith(magic):
            raise Unsafe(Finding.POLYGLOT, f"behind the {name} data, at byte {start}, {second} begins")
    for found in ArchiveFinder(MemorySource(bytearray(trailing))).find(trailing, 0):
        raise Unsafe(Finding.POLYGLOT, f"behind the {name} data, from byte {start + found.start} on, is {found.words}")
