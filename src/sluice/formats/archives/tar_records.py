"""The headers of a TAR archive as they stand in the file: checksum, numbers, names, extended (pax) and sparse headers. Walks no archive.

Layouts: POSIX.1-2017 (ustar, pax interchange), GNU tar's manual (base-256 numbers, long names, sparse), V7.
"""

from dataclasses import dataclass
from typing import Final

from sluice.formats.verdict import Corrupt

BLOCK: Final = 512
RECORD: Final = 20 * BLOCK
"""What most writers fill up with zeros."""
EMPTY: Final = bytes(BLOCK)

_NAME: Final = slice(0, 100)
_SIZE: Final = slice(124, 136)
_SUM: Final = slice(148, 156)
_LINK: Final = slice(157, 257)
_MAGIC: Final = slice(257, 263)
_PREFIX: Final = slice(345, 500)
_GNU_SPARSE_MORE: Final = 482
_GNU_SPARSE_SIZE: Final = slice(483, 495)
_SPARSE_MORE: Final = 504
_POSIX: Final = b"ustar\0"
_HIGH: Final = 0x80
_NEGATIVE: Final = 0xFF


@dataclass(frozen=True, slots=True)
class Header:
    """One header block."""

    name: str
    kind: bytes
    link: str
    size: int
    real_size: int
    """Of an old GNU sparse file with its holes, else 0."""
    has_more: bool
    """Whether further blocks of the old GNU sparse map follow."""


def is_header(block: bytes) -> bool:
    """Whether a block carries its own checksum, which some writers form of signed bytes."""
    stated = _octal(block[_SUM])
    if len(block) < BLOCK or not stated:
        return False
    rest = block[: _SUM.start] + b" " * 8 + block[_SUM.stop :]
    return stated in {sum(rest), sum(rest) - 256 * sum(byte >= _HIGH for byte in rest)}


def looks_like_header(block: bytes) -> bool:
    """Whether a block says that it is a header, whatever its checksum says."""
    return block[_MAGIC].startswith(b"ustar") or is_header(block)


def read_header(block: bytes, offset: int) -> Header:
    """Answer the header in a block that lies at `offset`. Raises `Corrupt` when its checksum or its size is impossible."""
    if not is_header(block):
        raise Corrupt(f"the archive is damaged at byte {offset}: there is no TAR header with a right checksum, where one must be")
    name = _text(block[_NAME])
    prefix = _text(block[_PREFIX]) if block[_MAGIC] == _POSIX else ""
    kind = block[156:157]
    size = _number(block[_SIZE])
    if size is None or size < 0:
        raise Corrupt(f"member {name!r} has an impossible size in its header at byte {offset}")
    is_sparse = kind == b"S"
    return Header(
        name=f"{prefix}/{name}" if prefix else name,
        kind=kind,
        link=_text(block[_LINK]),
        size=size,
        real_size=(_number(block[_GNU_SPARSE_SIZE]) or 0) if is_sparse else 0,
        has_more=is_sparse and block[_GNU_SPARSE_MORE] != 0,
    )


def has_more_sparse(block: bytes) -> bool:
    """Whether another block of the old GNU sparse map follows this one."""
    return block[_SPARSE_MORE] != 0


def read_pax(data: bytes, offset: int) -> dict[str, str]:
    """Answer the records of an extended header whose data lies at `offset`. Raises `Corrupt` where one is not what it must be."""
    records: dict[str, str] = {}
    at = 0
    while at < len(data) and data[at : at + 1] != b"\0":
        digits, space, _ = data[at : at + 24].partition(b" ")
        end = at + int(digits) if digits.isdigit() and space else 0
        keyword, equals, value = data[at + len(digits) + 1 : end - 1].partition(b"=")
        if not at < end <= len(data) or not equals or data[end - 1 : end] != b"\n":
            raise Corrupt(f"the extended header at byte {offset} of the archive is malformed")
        records[keyword.decode("utf-8", "replace")] = value.decode("utf-8", "replace")
        at = end
    return records


def number_of(text: str) -> int | None:
    """Answer a number of an extended header, None for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None  # noqa: PLR2004  (no file has more digits)


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("utf-8", "replace")


def _number(field: bytes) -> int | None:
    """Answer an octal or a base-256 number; 0 for an empty field, None for anything else."""
    if field[0] == _NEGATIVE:
        return int.from_bytes(field, "big", signed=True)
    if field[0] & _HIGH:
        return int.from_bytes(bytes([field[0] & ~_HIGH]) + field[1:], "big")
    return _octal(field)


def _octal(field: bytes) -> int | None:
    digits = field.lstrip(b" ").split(b"\0", 1)[0].rstrip(b" ")
    if not digits:
        return 0
    return None if digits.strip(b"01234567") else int(digits, 8)
