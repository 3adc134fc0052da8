"""The members of a tar archive (POSIX.1-2001 with GNU's binary sizes and sparse members), read leniently."""
# Bytes of no member are yielded without a name, so that a size that is too small, or a link that readers interpret
# differently, hides nothing. An archive in which one member has two sizes is not scanned to its end.

import re
from collections.abc import Iterator
from typing import Final

from sluice_inspect.threats.budget import OverBudget
from sluice_inspect.unpacking import Feed

_BLOCK: Final = 512
_NAME: Final = slice(100)
_CHECKSUM: Final = slice(148, 156)
_SIZE: Final = slice(124, 136)
_TYPE: Final = slice(156, 157)
_SPARSE: Final = b"S"
_GNU_SPARSE_CONTINUES: Final = slice(482, 483)
_SPARSE_MAP_CONTINUES: Final = slice(504, 505)
_TYPES_WITHOUT_DATA: Final = frozenset((b"1", b"2", b"3", b"4", b"5", b"6"))
_EXTENDED_TYPES: Final = frozenset((b"x", b"g", b"X"))
_MAX_EXTENDED_BYTES: Final = 1024**2
_PAX_SIZE: Final = re.compile(rb"\d size=(\d{1,20})\n")
_PIECE_BYTES: Final = 256 * 1024


def is_tar(head: bytes) -> bool:
    """Return whether `head` begins with the header of a tar member."""
    return len(head) >= _BLOCK and _is_header(head[:_BLOCK])


def tar_members(packed: Iterator[bytes]) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Yield name and bytes (with padding) of each member; bytes that were not read are skipped.

    Raise `OverBudget` if a header is too long, or states two sizes for one member.
    """
    feed = Feed(packed)
    pax_sizes: set[int] = set()
    while block := feed.take(_BLOCK):
        if not block.strip(b"\0"):
            continue
        name = block[_NAME].split(b"\0")[0].decode("utf-8", "replace")
        if not _is_header(block):
            name, content = "", _until_header(feed, block)
        elif block[_TYPE] in _EXTENDED_TYPES:
            size = _size(block)
            if size > _MAX_EXTENDED_BYTES:
                raise OverBudget(f"a tar archive with an extended header of more than {_MAX_EXTENDED_BYTES} bytes")
            extended = feed.take(_padded(size))
            pax_sizes |= {int(digits) for digits in _PAX_SIZE.findall(extended)}
            content = iter((extended,))
        else:
            # Some readers take a member's size from the extended header, some from its own. Honestly, they differ only
            # beyond 8 GiB.
            if pax_sizes - {_size(block)}:
                raise OverBudget("a tar archive with two sizes for one member")
            _skip_sparse_map(feed, block)
            content = feed.pieces(_padded(_size(block)))
            pax_sizes = set()
        yield name, content
        for _ in content:
            pass


def _until_header(feed: Feed, block: bytes) -> Iterator[bytes]:
    while block:
        yield block
        block = feed.take(_BLOCK)
        if _is_header(block):
            feed.unread(block)
            return


def _skip_sparse_map(feed: Feed, block: bytes) -> None:
    # In GNU's old layout, blocks of the map of holes are between the header of a sparse member and its bytes.
    continues = block[_TYPE] == _SPARSE and block[_GNU_SPARSE_CONTINUES] != b"\0"
    while continues:
        continues = feed.take(_BLOCK)[_SPARSE_MAP_CONTINUES] not in {b"", b"\0"}


def _size(block: bytes) -> int:
    """Return how many bytes follow a header: none behind links, devices and folders, whatever it states."""
    if block[_TYPE] in _TYPES_WITHOUT_DATA:
        return 0
    raw = block[_SIZE]
    if raw[:1] == b"\x80":  # GNU's mark of a binary number
        return int.from_bytes(raw[1:], "big")
    return _octal(raw) or 0


def _padded(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _is_header(block: bytes) -> bool:
    if len(block) < _BLOCK:
        return False
    stated = _octal(block[_CHECKSUM])
    spaces = 8 * ord(" ")
    return stated is not None and stated == sum(block) - sum(block[_CHECKSUM]) + spaces and stated != spaces


def _octal(raw: bytes) -> int | None:
    digits = raw.split(b"\0")[0].strip()
    if not digits or digits.strip(b"01234567"):
        return None
    return int(digits, 8)
