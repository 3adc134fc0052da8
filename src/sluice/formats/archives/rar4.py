"""Reads the blocks of RAR archives of versions 1.5 to 4. What their members say is in `rar_records`, whether they are let in is judged in `rar_walk`.

Layout: RAR 3.93 technical information (technote.txt).
"""

import stat
import struct
import zlib
from typing import Final

from sluice.formats.archives.containers import RandomAccess
from sluice.formats.archives.rar_records import RarFields, RarLayout, RarMember, wide_name
from sluice.formats.verdict import Corrupt, Limits

MAGIC: Final = b"Rar!\x1a\x07\x00"
_BLOCK: Final = struct.Struct("<HBHH")
_MAIN, _FILE, _SERVICE, _END = 0x73, 0x74, 0x7A, 0x7B
_SUMMED: Final = frozenset({_MAIN, _FILE, _SERVICE, _END})
"""Blocks whose checksum is that of their header; that of blocks of old versions, five kinds between these, covers more or less."""

_HAS_DATA: Final = 0x8000
_MAIN_VOLUME, _MAIN_ENCRYPTED = 0x0001, 0x0080
_MAIN_FIXED: Final = 13
_COMMENTED: Final = {_MAIN: 0x0002, _FILE: 0x0008}
_SPLIT, _PASSWORD, _LARGE, _WIDE, _FOLDER = 0x0003, 0x0004, 0x0100, 0x0200, 0x00E0
_UNIX: Final = 3
_CURRENT: Final = 29
_STORED: Final = 0x30
_UNKNOWN_SIZE: Final = 0xFFFFFFFF


def read_layout(archive: RandomAccess, limits: Limits) -> RarLayout:
    """Answer what the headers say. Raises `Corrupt` for a damaged header and where a block runs past the end of the file."""
    offset, members, is_volume = len(MAGIC), list[RarMember](), False
    while offset < archive.size:
        kind, flags, header = _read_block(archive, offset)
        if kind == _MAIN and flags & _MAIN_ENCRYPTED:
            return RarLayout((), archive.size, is_encrypted=True)
        is_volume |= kind == _MAIN and bool(flags & _MAIN_VOLUME)
        data = offset + len(header)
        size = int.from_bytes(header[7:11], "little") if flags & _HAS_DATA else 0
        if kind in {_FILE, _SERVICE}:
            member = _read_member(header, flags, offset)
            size = member.packed
            if kind == _FILE:
                members.append(member)
        if data + size > archive.size:
            raise Corrupt(f"the archive is cut: it ends at byte {archive.size}, inside the block from byte {offset} on")
        offset = data + size
        if kind == _END:
            break
        if len(members) > limits.max_members:
            break
    return RarLayout(tuple(members), offset, is_partial=is_volume and any(member.is_split for member in members))


def _read_block(archive: RandomAccess, offset: int) -> tuple[int, int, bytes]:
    """Answer a block's kind, flags and whole header."""
    head = archive.read_at(offset, _BLOCK.size)
    if len(head) < _BLOCK.size:
        raise Corrupt(f"the archive is cut: it ends at byte {archive.size}, inside a block's header")
    crc, kind, flags, size = _BLOCK.unpack(head)
    header = archive.read_at(offset, size)
    is_first = offset == len(MAGIC)
    if size < _BLOCK.size or len(header) < size or not _MAIN <= kind <= _END or is_first != (kind == _MAIN):
        raise Corrupt(f"the archive is cut or damaged: there is no whole block at byte {offset}")
    if kind in _SUMMED and not _has_sum(crc, kind, flags, header):
        raise Corrupt(f"the archive's header at byte {offset} is damaged: its checksum does not fit")
    return kind, flags, header


def _has_sum(crc: int, kind: int, flags: int, header: bytes) -> bool:
    if zlib.crc32(header[2:]) & 0xFFFF == crc:
        return True
    if not flags & _COMMENTED.get(kind, 0):
        return False
    fixed = _MAIN_FIXED if kind == _MAIN else 32 + int.from_bytes(header[26:28], "little") + 8 * bool(flags & _LARGE)
    return zlib.crc32(header[2:fixed]) & 0xFFFF == crc


def _read_member(header: bytes, flags: int, offset: int) -> RarMember:
    fields = RarFields(header, offset)
    fields.raw(_BLOCK.size)
    packed, unpacked, system, crc = fields.number(4), fields.number(4), fields.number(1), fields.number(4)
    fields.raw(4)  # time
    version, method, name_size, attributes = fields.number(1), fields.number(1), fields.number(2), fields.number(4)
    is_unknown = unpacked == _UNKNOWN_SIZE
    if flags & _LARGE:
        packed |= fields.number(4) << 32
        high = fields.number(4)
        is_unknown &= high == _UNKNOWN_SIZE
        unpacked |= high << 32
    name = _name(fields.raw(name_size), flags)
    is_link = system == _UNIX and stat.S_ISLNK(attributes)
    return RarMember(
        name=name,
        offset=offset + len(header),
        packed=packed,
        unpacked=None if is_unknown else unpacked,
        crc=None if flags & _FOLDER == _FOLDER else crc,
        is_stored=method == _STORED,
        is_current=version >= _CURRENT,
        is_encrypted=bool(flags & _PASSWORD),
        is_split=bool(flags & _SPLIT),
        link="" if is_link else None,
    )


def _name(raw: bytes, flags: int) -> str:
    plain, zero, packed = raw.partition(b"\0")
    if flags & _WIDE and zero:
        return wide_name(plain, packed)
    return plain.decode("utf-8", "replace")
