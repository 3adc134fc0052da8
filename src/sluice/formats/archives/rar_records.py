"""What the blocks of RAR archives say, in one form for both generations of the format. Nothing is read here: `rar4` and `rar5` do that."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sluice.formats.verdict import Corrupt

HEADER_MOST: Final = 2 * 1024**2
"""Bytes of one header; the format allows no more."""


@dataclass(frozen=True, slots=True)
class RarMember:
    """One file, folder or link."""

    name: str
    offset: int
    """Of its packed bytes."""
    packed: int
    unpacked: int | None
    """None where the writer did not know."""
    crc: int | None
    is_stored: bool
    is_current: bool
    """Whether it is packed as the versions from RAR 2.9 on do: older ways are known to no free library."""
    is_encrypted: bool
    is_split: bool
    """Whether it begins or goes on in another volume."""
    link: str | None = None
    """Where a link leads, empty where only the data says so; None for what is no link."""
    is_hard_link: bool = False


@dataclass(frozen=True, slots=True)
class RarLayout:
    """All that the headers of an archive say."""

    members: tuple[RarMember, ...]
    end: int
    """First byte behind the end block."""
    is_encrypted: bool = False
    """Whether the headers themselves are behind a password: then no member is known."""
    is_partial: bool = False
    """Whether the archive is one volume of several."""


class RarFields:
    """Reads one header field by field. Raises `Corrupt` past its end."""

    def __init__(self, data: bytes, offset: int) -> None:
        self._data = data
        self._offset = offset
        self.at = 0

    @property
    def left(self) -> int:
        """Bytes that were not read yet."""
        return len(self._data) - self.at

    def raw(self, size: int) -> bytes:
        """Answer the next bytes."""
        if size > self.left:
            raise Corrupt(f"the archive's header at byte {self._offset} is damaged: a field in it runs past its end")
        self.at += size
        return self._data[self.at - size : self.at]

    def number(self, size: int) -> int:
        """Answer a number of fixed size."""
        return int.from_bytes(self.raw(size), "little")

    def variable(self) -> int:
        """Answer a number of variable length: seven bits a byte, the lowest first."""
        value = 0
        for place in range(10):
            byte = self.raw(1)[0]
            value |= (byte & 0x7F) << 7 * place
            if byte < 0x80:  # noqa: PLR2004  (the last byte has no high bit)
                return value
        raise Corrupt(f"the archive's header at byte {self._offset} is damaged: a number in it does not end")


def wide_name(plain: bytes, packed: bytes) -> str:
    """Answer a name that RAR 3 packed as differences from its form in 8 bits."""
    wide = bytearray()
    codes = iter(packed)
    high = next(codes, 0)
    for kind in _kinds(codes):
        first = next(codes, None)
        if first is None:
            break
        if kind < 2:  # noqa: PLR2004  (a low byte, its high byte zero or the common one)
            wide += bytes([first, high if kind else 0])
        elif kind == 2:  # noqa: PLR2004  (both bytes)
            wide += bytes([first, next(codes, 0)])
        else:
            shift, count = (next(codes, 0), first & 0x7F) if first & 0x80 else (0, first)
            at = len(wide) // 2
            for byte in plain[at : at + count + 2]:
                wide += bytes([(byte + shift) & 0xFF, high if first & 0x80 else 0])
    return wide.decode("utf-16-le", "replace")


def _kinds(codes: Iterator[int]) -> Iterator[int]:
    """Yield the two-bit codes, four of which come in front of what they are about."""
    while (flags := next(codes, None)) is not None:
        for shift in (6, 4, 2, 0):
            yield flags >> shift & 3
