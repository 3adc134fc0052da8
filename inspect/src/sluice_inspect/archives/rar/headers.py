"""The headers of RAR archives, versions 1.5 to 7: both generations of the format in one form."""
# Layouts: technote.txt of RAR 3.93, and the RAR 5.0 archive format (rarlab.com/technote.htm).

import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from sluice_inspect.archives.safety import decoded_name
from sluice_inspect.report import Corrupt, Finding, Limits, Unsafe, Unsupported
from sluice_inspect.source import RandomAccess

RAR4_MAGIC: Final = b"Rar!\x1a\x07\x00"
RAR5_MAGIC: Final = b"Rar!\x1a\x07\x01\x00"
RAR1_MAGIC: Final = b"RE\x7e\x5e"  # RAR 1.4, from before 1996

_MAX_RAR5_HEADER_BYTES: Final = 2 * 1024**2  # the format allows no more


@dataclass(frozen=True, slots=True)
class RarMember:
    """One file, folder or link. `offset` is that of its packed bytes."""

    name: str
    offset: int
    packed: int
    unpacked: int | None  # None if the writer did not know
    crc: int | None
    is_stored: bool
    is_current: bool  # packed as RAR 2.9 and newer do: no free library knows older methods
    is_encrypted: bool
    is_split: bool  # it begins or continues in another volume
    link: str | None = None  # target of a link, empty if only the data holds it; None if it is no link
    is_hard_link: bool = False


@dataclass(frozen=True, slots=True)
class RarLayout:
    """What the headers of an archive state. `end` is the first byte behind the end block."""

    members: tuple[RarMember, ...]
    end: int
    is_encrypted: bool = False  # the headers themselves are: then no member is known
    is_partial: bool = False  # the archive is one volume of several


def read_layout(archive: RandomAccess, limits: Limits) -> RarLayout:
    """Return what the headers state. Raise `Corrupt` for damage, `Unsupported` for RAR 1.4."""
    head = archive.read_at(0, len(RAR5_MAGIC))
    if head.startswith(RAR1_MAGIC):
        raise Unsupported("the archive is of RAR 1.4, which cannot be read here")
    return _read_rar5(archive, limits) if head == RAR5_MAGIC else _read_rar4(archive, limits)


class _HeaderReader:
    """Reads one header field by field. Raises `Corrupt` past its end."""

    def __init__(self, data: bytes, offset: int) -> None:
        self._data = data
        self._offset = offset
        self.at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self.at

    def raw(self, size: int) -> bytes:
        if size > self.left:
            raise Corrupt(f"the archive's header at byte {self._offset} is damaged: a field in it runs past its end")
        self.at += size
        return self._data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.raw(size), "little")

    def variable(self) -> int:
        """Return a number of variable length: seven bits per byte, the lowest first."""
        value = 0
        for index in range(10):
            byte = self.raw(1)[0]
            value |= (byte & 0x7F) << 7 * index
            if byte < 0x80:
                return value
        raise Corrupt(f"the archive's header at byte {self._offset} is damaged: a number in it does not end")


# RAR 4


class _Rar4Block(IntEnum):
    MAIN = 0x73
    FILE = 0x74
    SERVICE = 0x7A
    END = 0x7B


_RAR4_BLOCK_HEAD: Final = struct.Struct("<HBHH")
_RAR4_HAS_DATA: Final = 0x8000
_RAR4_MAIN_VOLUME, _RAR4_MAIN_ENCRYPTED = 0x0001, 0x0080
_RAR4_MAIN_FIXED_BYTES: Final = 13
_RAR4_HAS_COMMENT: Final = {_Rar4Block.MAIN: 0x0002, _Rar4Block.FILE: 0x0008}
_RAR4_SPLIT, _RAR4_PASSWORD, _RAR4_LARGE, _RAR4_WIDE_NAME, _RAR4_FOLDER = 0x0003, 0x0004, 0x0100, 0x0200, 0x00E0
_RAR4_UNIX: Final = frozenset({3, 4, 5})  # Unix, Mac OS, BeOS
_RAR4_CURRENT_VERSION, _RAR4_STORED, _RAR4_UNKNOWN_SIZE = 29, 0x30, 0xFFFFFFFF


def _read_rar4(archive: RandomAccess, limits: Limits) -> RarLayout:
    offset, members, is_volume = len(RAR4_MAGIC), list[RarMember](), False
    while offset < archive.size:
        block_type, flags, header = _read_rar4_block(archive, offset)
        if block_type == _Rar4Block.MAIN and flags & _RAR4_MAIN_ENCRYPTED:
            return RarLayout((), archive.size, is_encrypted=True)
        is_volume |= block_type == _Rar4Block.MAIN and bool(flags & _RAR4_MAIN_VOLUME)
        data = offset + len(header)
        size = int.from_bytes(header[7:11], "little") if flags & _RAR4_HAS_DATA else 0
        if block_type in {_Rar4Block.FILE, _Rar4Block.SERVICE}:
            member = _read_rar4_member(header, flags, offset)
            size = member.packed
            if block_type == _Rar4Block.FILE:
                members.append(member)
        if data + size > archive.size:
            raise Corrupt(f"the archive is cut: it ends at byte {archive.size}, inside the block from byte {offset} on")
        offset = data + size
        if block_type == _Rar4Block.END or len(members) > limits.max_members:
            break
    return RarLayout(tuple(members), offset, is_partial=is_volume and any(member.is_split for member in members))


def _read_rar4_block(archive: RandomAccess, offset: int) -> tuple[int, int, bytes]:
    head = archive.read_at(offset, _RAR4_BLOCK_HEAD.size)
    if len(head) < _RAR4_BLOCK_HEAD.size:
        raise Corrupt(f"the archive is cut: it ends at byte {archive.size}, inside a block's header")
    crc, block_type, flags, size = _RAR4_BLOCK_HEAD.unpack(head)
    header = archive.read_at(offset, size)
    is_known = _Rar4Block.MAIN <= block_type <= _Rar4Block.END
    main_is_first = (offset == len(RAR4_MAGIC)) == (block_type == _Rar4Block.MAIN)
    if size < _RAR4_BLOCK_HEAD.size or len(header) < size or not is_known or not main_is_first:
        raise Corrupt(f"the archive is cut or damaged: there is no whole block at byte {offset}")
    # Old versions have five more block types in this range, whose checksum covers more or less than the header.
    if block_type in set(_Rar4Block) and not _has_rar4_checksum(crc, block_type, flags, header):
        raise Corrupt(f"the archive's header at byte {offset} is damaged: its checksum does not fit")
    return block_type, flags, header


def _has_rar4_checksum(crc: int, block_type: int, flags: int, header: bytes) -> bool:
    if zlib.crc32(header[2:]) & 0xFFFF == crc:
        return True
    # A comment inside of the header is not covered.
    if not flags & _RAR4_HAS_COMMENT.get(_Rar4Block(block_type), 0):
        return False
    if block_type == _Rar4Block.MAIN:
        fixed = _RAR4_MAIN_FIXED_BYTES
    else:
        fixed = 32 + int.from_bytes(header[26:28], "little") + 8 * bool(flags & _RAR4_LARGE)
    return zlib.crc32(header[2:fixed]) & 0xFFFF == crc


def _read_rar4_member(header: bytes, flags: int, offset: int) -> RarMember:
    fields = _HeaderReader(header, offset)
    fields.raw(_RAR4_BLOCK_HEAD.size)
    packed, unpacked, system, crc = fields.number(4), fields.number(4), fields.number(1), fields.number(4)
    fields.raw(4)  # time
    version, method, name_size, attributes = fields.number(1), fields.number(1), fields.number(2), fields.number(4)
    is_unknown = unpacked == _RAR4_UNKNOWN_SIZE
    if flags & _RAR4_LARGE:
        packed |= fields.number(4) << 32
        high = fields.number(4)
        is_unknown &= high == _RAR4_UNKNOWN_SIZE
        unpacked |= high << 32
    plain, zero, differences = fields.raw(name_size).partition(b"\0")
    is_wide = flags & _RAR4_WIDE_NAME and zero
    is_link = system in _RAR4_UNIX and stat.S_ISLNK(attributes)
    return RarMember(
        name=decode_wide_name(plain, differences) if is_wide else decoded_name(plain),
        offset=offset + len(header),
        packed=packed,
        unpacked=None if is_unknown else unpacked,
        crc=None if flags & _RAR4_FOLDER == _RAR4_FOLDER else crc,
        is_stored=method == _RAR4_STORED,
        is_current=version >= _RAR4_CURRENT_VERSION,
        is_encrypted=bool(flags & _RAR4_PASSWORD),
        is_split=bool(flags & _RAR4_SPLIT),
        link="" if is_link else None,
    )


def decode_wide_name(plain: bytes, differences: bytes) -> str:
    """Return a Unicode name, which RAR 3 stores as differences from its form in 8 bits."""
    wide = bytearray()
    codes = iter(differences)
    high = next(codes, 0)
    for operation in _operations(codes):
        first = next(codes, None)
        if first is None:
            break
        if operation < 2:  # one code unit: its low byte, with a high byte of 0 or the common one
            wide += bytes([first, high if operation else 0])
        elif operation == 2:  # one code unit in full
            wide += bytes([first, next(codes, 0)])
        else:  # a run of the plain name, optionally shifted
            shift, count = (next(codes, 0), first & 0x7F) if first & 0x80 else (0, first)
            at = len(wide) // 2
            for byte in plain[at : at + count + 2]:
                wide += bytes([(byte + shift) & 0xFF, high if first & 0x80 else 0])
    return wide.decode("utf-16-le", "replace")


def _operations(codes: Iterator[int]) -> Iterator[int]:
    # Four operations of two bits share a byte, which precedes their operands.
    while (flags := next(codes, None)) is not None:
        for shift in (6, 4, 2, 0):
            yield flags >> shift & 3


# RAR 5


class _Rar5Block(IntEnum):
    MAIN = 1
    FILE = 2
    SERVICE = 3
    ENCRYPTION = 4
    END = 5


_RAR5_HAS_EXTRA, _RAR5_HAS_DATA, _RAR5_SPLIT = 0x0001, 0x0002, 0x0018
_RAR5_MAIN_VOLUME: Final = 0x0001
_RAR5_FILE_TIME, _RAR5_FILE_CRC, _RAR5_FILE_UNKNOWN_SIZE = 0x0002, 0x0004, 0x0008
_RAR5_METHOD, _RAR5_VERSION = 0x0380, 0x003F
_RAR5_EXTRA_ENCRYPTION, _RAR5_EXTRA_REDIRECTION = 1, 5
# Redirections to another member: a hard link, and a file that is stored once.
_RAR5_HARD_LINKS: Final = frozenset({4, 5})
_RAR5_CRC_BYTES: Final = 4
_RAR5_SIZE_BYTES: Final = 3


@dataclass(frozen=True, slots=True)
class _Block:
    """A block of RAR 5. `fields` stands behind those that all blocks have; `extra` are bytes at the header's end."""

    block_type: int
    flags: int
    fields: _HeaderReader
    extra: int
    data: int  # offset of the data behind the header
    data_size: int


def _read_rar5(archive: RandomAccess, limits: Limits) -> RarLayout:
    offset, members, is_volume = len(RAR5_MAGIC), list[RarMember](), False
    while len(members) <= limits.max_members:
        block = _read_rar5_block(archive, offset)
        if block.block_type == _Rar5Block.ENCRYPTION:
            return RarLayout((), archive.size, is_encrypted=True)
        if block.block_type == _Rar5Block.MAIN:
            is_volume = bool(block.fields.variable() & _RAR5_MAIN_VOLUME)
        if block.block_type == _Rar5Block.FILE:
            members.append(_read_rar5_member(block))
        end = block.data + block.data_size
        if end > archive.size:
            raise Corrupt(f"the archive is cut: it ends at byte {archive.size}, inside the block from byte {offset} on")
        offset = end
        if block.block_type == _Rar5Block.END:
            break
    return RarLayout(tuple(members), offset, is_partial=is_volume and any(member.is_split for member in members))


def _read_rar5_block(archive: RandomAccess, offset: int) -> _Block:
    head = archive.read_at(offset, _RAR5_CRC_BYTES + _RAR5_SIZE_BYTES)
    if len(head) < _RAR5_CRC_BYTES + _RAR5_SIZE_BYTES:
        raise Corrupt(f"the archive is cut: it ends at byte {archive.size}, before its end block")
    size_field = _HeaderReader(head[_RAR5_CRC_BYTES:], offset)
    size = size_field.variable()
    whole_size = size_field.at + size
    header = archive.read_at(offset + _RAR5_CRC_BYTES, whole_size) if size < _MAX_RAR5_HEADER_BYTES else b""
    if len(header) < whole_size:
        raise Corrupt(f"the archive is cut or damaged: there is no whole block at byte {offset}")
    if zlib.crc32(header) != int.from_bytes(head[:_RAR5_CRC_BYTES], "little"):
        raise Corrupt(f"the archive's header at byte {offset} is damaged: its checksum does not fit")
    fields = _HeaderReader(header[size_field.at :], offset)
    block_type, flags = fields.variable(), fields.variable()
    extra = fields.variable() if flags & _RAR5_HAS_EXTRA else 0
    data_size = fields.variable() if flags & _RAR5_HAS_DATA else 0
    if offset == len(RAR5_MAGIC) and block_type not in {_Rar5Block.MAIN, _Rar5Block.ENCRYPTION}:
        raise Corrupt(f"the archive is damaged: it begins with a block of type {block_type}")
    return _Block(block_type, flags, fields, extra, offset + _RAR5_CRC_BYTES + len(header), data_size)


def _read_rar5_member(block: _Block) -> RarMember:
    fields = block.fields
    flags, unpacked, _attributes = fields.variable(), fields.variable(), fields.variable()
    fields.raw(4 * bool(flags & _RAR5_FILE_TIME))
    crc = fields.number(4) if flags & _RAR5_FILE_CRC else None
    packing, _system = fields.variable(), fields.variable()
    name = decoded_name(fields.raw(fields.variable()))
    fields.raw(max(0, fields.left - block.extra))
    is_encrypted, link, is_hard_link = False, None, False
    while fields.left:
        record = _HeaderReader(fields.raw(fields.variable()), block.data)
        record_type = record.variable()
        if record_type == _RAR5_EXTRA_ENCRYPTION:
            is_encrypted = True
        elif record_type == _RAR5_EXTRA_REDIRECTION and link is not None:
            raise Unsafe(Finding.ARCHIVE_UNSAFE, f"member {name!r} is two links: readers differ in which counts")
        elif record_type == _RAR5_EXTRA_REDIRECTION:
            is_hard_link = record.variable() in _RAR5_HARD_LINKS
            record.variable()
            link = decoded_name(record.raw(record.variable()))
    return RarMember(
        name=name,
        offset=block.data,
        packed=block.data_size,
        unpacked=None if flags & _RAR5_FILE_UNKNOWN_SIZE else unpacked,
        crc=crc,
        is_stored=not packing & _RAR5_METHOD,
        is_current=not packing & _RAR5_VERSION,
        is_encrypted=is_encrypted,
        is_split=bool(block.flags & _RAR5_SPLIT),
        link=link,
        is_hard_link=is_hard_link,
    )
