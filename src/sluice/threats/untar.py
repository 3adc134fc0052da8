"""The members of a tar archive, read from a stream. Reads leniently: bytes that belong to no member are handed out as a member without a name.

So a size that is too small, and a link or folder that readers disagree about, hide nothing; an archive in which one member has two sizes
is given up. Layout: POSIX.1-2001 (ustar, pax) with GNU's binary sizes and sparse members.
"""

import re
from collections.abc import Iterator
from typing import Final

from sluice.threats.budget import OverBudget

_BLOCK: Final = 512
_NAME: Final = slice(100)
_CHECKSUM: Final = slice(148, 156)
_SIZE: Final = slice(124, 136)
_TYPE: Final = slice(156, 157)
_SPARSE_GOES_ON: Final = slice(482, 483)
_MAP_GOES_ON: Final = slice(504, 505)
_TYPES_WITHOUT_BYTES: Final = frozenset((b"1", b"2", b"3", b"4", b"5", b"6"))
_EXTENDED_TYPES: Final = frozenset((b"x", b"g", b"X"))
_MOST_EXTENDED_BYTES: Final = 1024**2
_SECOND_SIZE: Final = re.compile(rb"\d size=(\d{1,20})\n")
_PIECE_BYTES: Final = 256 * 1024


def is_tar(head: bytes) -> bool:
    """Answer whether `head` begins with the header of a tar member."""
    return len(head) >= _BLOCK and _is_header(head[:_BLOCK])


def members(packed: Iterator[bytes]) -> Iterator[tuple[str, Iterator[bytes]]]:
    """Iterate over name and bytes (with the padding of the last block) of each member.

    What is left of a member's bytes is skipped when the next one is asked for. Raises `OverBudget` for what only some readers understand.
    """
    reader = _Reader(packed)
    second_sizes: set[int] = set()
    while block := reader.read(_BLOCK):
        if not block.strip(b"\0"):
            continue
        name = _text(block[_NAME])
        if not _is_header(block):
            name, content = "", _until_header(reader, block)
        elif block[_TYPE] in _EXTENDED_TYPES:
            extended = reader.read(_rounded(_size(block), most=_MOST_EXTENDED_BYTES))
            second_sizes |= {int(size) for size in _SECOND_SIZE.findall(extended)}
            content = iter((extended,))
        else:
            _refuse_two_readings(block, second_sizes)
            _skip_sparse_map(reader, block)
            content = reader.take(_rounded(_size(block)))
            second_sizes = set()
        yield name, content
        reader.drain(content)


def _refuse_two_readings(block: bytes, second_sizes: set[int]) -> None:
    """Some readers take a member's size from the extended header, some from its own; they can only differ beyond 8 GiB honestly."""
    if second_sizes - {_size(block)}:
        raise OverBudget("a tar archive with two sizes for one member")


def _skip_sparse_map(reader: "_Reader", block: bytes) -> None:
    """Skip the blocks between the header of a sparse member of GNU's old kind and its bytes."""
    goes_on = block[_TYPE] == b"S" and block[_SPARSE_GOES_ON] != b"\0"
    while goes_on:
        goes_on = reader.read(_BLOCK)[_MAP_GOES_ON] not in {b"", b"\0"}


def _size(block: bytes) -> int:
    """Answer how many bytes follow a header: none behind links, devices and folders, whatever it says."""
    return 0 if block[_TYPE] in _TYPES_WITHOUT_BYTES else _number(block[_SIZE])


def _rounded(length: int, most: int | None = None) -> int:
    if most is not None and length > most:
        raise OverBudget(f"a tar archive with an extended header of more than {most} bytes")
    return -(-length // _BLOCK) * _BLOCK


def _text(name: bytes) -> str:
    return name.split(b"\0")[0].decode("utf-8", "replace")


def _until_header(reader: "_Reader", block: bytes) -> Iterator[bytes]:
    while block:
        yield block
        block = reader.read(_BLOCK)
        if _is_header(block):
            reader.push_back(block)
            return


def _is_header(block: bytes) -> bool:
    if len(block) < _BLOCK:
        return False
    stated = _octal(block[_CHECKSUM])
    return stated is not None and stated == sum(block) - sum(block[_CHECKSUM]) + 8 * ord(" ") and stated != 8 * ord(" ")


def _number(field: bytes) -> int:
    if field[:1] == b"\x80":  # how GNU marks a binary number
        return int.from_bytes(field[1:], "big")
    return _octal(field) or 0


def _octal(field: bytes) -> int | None:
    digits = field.split(b"\0")[0].strip()
    if not digits or digits.strip(b"01234567"):
        return None
    return int(digits, 8)


class _Reader:
    """Exact reads from bytes that come in pieces of any length."""

    def __init__(self, packed: Iterator[bytes]) -> None:
        self._packed = packed
        self._piece = memoryview(b"")

    def read(self, count: int) -> bytes:
        """Answer `count` bytes, fewer only at the end."""
        return b"".join(self.take(count))

    def take(self, count: int) -> Iterator[bytes]:
        """Iterate over the next `count` bytes."""
        while count > 0 and (self._piece or self._more()):
            part = self._piece[: min(count, _PIECE_BYTES)]
            self._piece = self._piece[len(part) :]
            count -= len(part)
            yield bytes(part)

    def drain(self, content: Iterator[bytes]) -> None:
        """Read an iteration to its end."""
        for _ in content:
            pass

    def push_back(self, data: bytes) -> None:
        """Put bytes back in front."""
        self._piece = memoryview(data + self._piece.tobytes())

    def _more(self) -> bool:
        self._piece = memoryview(next(self._packed, b""))
        return bool(self._piece)
