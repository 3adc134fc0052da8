"""The members of an `ar` archive, such as a Debian package or a static library, read leniently (`ar(5)`)."""
# Sizes are decimal, and members begin at even offsets. An archive that continues with anything but a member is not
# scanned to its end: readers differ on where they continue.

import re
from collections.abc import Iterator
from typing import Final

from sluice_inspect.threats.budget import OverBudget
from sluice_inspect.threats.streams import is_lzma_alone, packing_of
from sluice_inspect.threats.tar import is_tar
from sluice_inspect.unpacking import Feed

MAGIC: Final = b"!<arch>\n"
_HEADER_BYTES: Final = 60
_HEADER: Final = re.compile(rb"(.{16}).{32}(\d{1,10}) *`\n", re.DOTALL)
# BSD's long names are in front of the member's bytes, GNU's in a table that is a member of its own.
_BSD_NAME: Final = re.compile(r"#1/(\d{1,10})")
_GNU_NAME: Final = re.compile(r"/(\d{1,10})")
_GNU_TABLE: Final = "//"
_TABLE_BYTES: Final = 1024**2
_BSD_NAME_BYTES: Final = 4096
_HEAD_BYTES: Final = 64 * 1024
_NOT_TO_ITS_END: Final = "an ar archive that cannot be read to its end"
_PADDING: Final = b"\n\0 "


def is_ar(head: bytes) -> bool:
    """Return whether `head` begins as an archive."""
    return head.startswith(MAGIC)


def ar_members(packed: Iterator[bytes]) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield name and bytes of each member; bytes that were not read are skipped.

    Raise `OverBudget` if there is something else between or behind the members, if the last one is cut, or if one has
    two beginnings.
    """
    feed = Feed(packed)
    feed.take(len(MAGIC))
    table = b""
    while header := feed.take(_HEADER_BYTES):
        found = _HEADER.fullmatch(header)
        if found is None:
            yield from _without_header(feed, header)
            return
        name, size = found[1].rstrip(b" \0").decode("utf-8", "replace"), int(found[2])
        is_odd = size % 2 == 1
        if name == _GNU_TABLE:
            table = feed.peek(min(size, _TABLE_BYTES))
        elif stated := _BSD_NAME.fullmatch(name):
            if int(stated[1]) > _BSD_NAME_BYTES:
                raise OverBudget(f"an ar archive with a name of more than {_BSD_NAME_BYTES} bytes")
            long_name = feed.peek(min(int(stated[1]), size))
            yield from _as_other_readers(feed.peek(min(size, _HEAD_BYTES)), size)
            name, size = long_name.rstrip(b"\0").decode("utf-8", "replace"), size - len(feed.take(len(long_name)))
        content, end = feed.pieces(size), feed.position + size
        yield _long_name(name, table), content
        for _ in content:
            pass
        if feed.position < end:
            raise OverBudget(_NOT_TO_ITS_END)
        if is_odd:
            feed.take(1)


def _as_other_readers(head: bytes, size: int) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield a member with its long name, which some readers take for the beginning of its bytes, if it is packed so."""
    if packing_of(head) or is_lzma_alone(head) or is_tar(head):
        if size > len(head):
            raise OverBudget("an ar archive with a member that begins in two places")
        yield "", iter((head,))


def _without_header(feed: Feed, begin: bytes) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield what is no member. Raise `OverBudget` unless it is padding."""
    is_padding = not begin.strip(_PADDING)

    def pieces() -> Iterator[bytes]:
        nonlocal is_padding
        yield begin
        while piece := feed.piece():
            is_padding = is_padding and not piece.strip(_PADDING)
            yield piece

    content = pieces()
    yield "", content
    for _ in content:
        pass
    if not is_padding:
        raise OverBudget(_NOT_TO_ITS_END)


def _long_name(name: str, table: bytes) -> str:
    at = _GNU_NAME.fullmatch(name)
    if at is None:
        return name.removesuffix("/")
    return table[int(at[1]) :].split(b"\n", 1)[0].removesuffix(b"/").decode("utf-8", "replace")
