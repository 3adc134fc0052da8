"""Reads the blocks of RAR archives of version 5 on. What their members say is in `rar_records`, whether they are let in is judged in `rar_walk`.

Layout: RAR 5.0 archive format (rarlab.com/technote.htm).
"""

import zlib
from dataclasses import dataclass
from typing import Final

from sluice.formats.archives.containers import RandomAccess
from sluice.formats.archives.rar_records import HEADER_MOST, RarFields, RarLayout, RarMember
from sluice.formats.verdict import Corrupt, Limits

MAGIC: Final = b"Rar!\x1a\x07\x01\x00"
_MAIN, _FILE, _SERVICE, _ENCRYPTION, _END = range(1, 6)
_HAS_EXTRA, _HAS_DATA, _SPLIT = 0x0001, 0x0002, 0x0018
_MAIN_VOLUME: Final = 0x0001
_FILE_FOLDER, _FILE_TIME, _FILE_CRC, _FILE_UNKNOWN_SIZE = 0x0001, 0x0002, 0x0004, 0x0008
_METHOD, _VERSION = 0x0380, 0x003F
_EXTRA_ENCRYPTION, _EXTRA_REDIRECTION = 1, 5
_HARD_LINKS: Final = frozenset({4, 5})
"""Redirections to another member: a hard link, and a file that is stored once."""
_CRC_BYTES: Final = 4
_SIZE_BYTES: Final = 3


@dataclass(frozen=True, slots=True)
class _Block:
    kind: int
    flags: int
    fields: RarFields
    """Stands behind the fields that all blocks have."""
    extra: int
    """Bytes of the extra area at the header's end."""
    data: int
    """Offset of the data behind the header."""
    data_size: int

    @property
    def end(self) -> int:
        return self.data + self.data_size


def read_layout(archive: RandomAccess, limits: Limits) -> RarLayout:
    """Answer what the headers say. Raises `Corrupt` for a damaged header, where a block runs past the end of the file, and without an end block."""
    offset, members, is_volume = len(MAGIC), list[RarMember](), False
    while len(members) <= limits.max_members:
        block = _read_block(archive, offset)
        if block.kind == _ENCRYPTION:
            return RarLayout((), archive.size, is_encrypted=True)
        if block.kind == _MAIN:
            is_volume = bool(block.fields.variable() & _MAIN_VOLUME)
        if block.kind == _FILE:
            members.append(_read_member(block))
        if block.end > archive.size:
            raise Corrupt(f"the archive is cut: it ends at byte {archive.size}, inside the block from byte {offset} on")
        offset = block.end
        if block.kind == _END:
            break
    return RarLayout(tuple(members), offset, is_partial=is_volume and any(member.is_split for member in members))


def _read_block(archive: RandomAccess, offset: int) -> _Block:
    head = archive.read_at(offset, _CRC_BYTES + _SIZE_BYTES)
    if len(head) < _CRC_BYTES + _SIZE_BYTES:
        raise Corrupt(f"the archive is cut: it ends at byte {archive.size}, before its end block")
    sizes = RarFields(head[_CRC_BYTES:], offset)
    size = sizes.variable()
    header = archive.read_at(offset + _CRC_BYTES, sizes.at + size) if size < HEADER_MOST else b""
    if len(header) < sizes.at + size:
        raise Corrupt(f"the archive is cut or damaged: there is no whole block at byte {offset}")
    if zlib.crc32(header) != int.from_bytes(head[:_CRC_BYTES], "little"):
        raise Corrupt(f"the archive's header at byte {offset} is damaged: its checksum does not fit")
    fields = RarFields(header[sizes.at :], offset)
    kind, flags = fields.variable(), fields.variable()
    extra = fields.variable() if flags & _HAS_EXTRA else 0
    data_size = fields.variable() if flags & _HAS_DATA else 0
    if offset == len(MAGIC) and kind not in {_MAIN, _ENCRYPTION}:
        raise Corrupt(f"the archive is damaged: it begins with a block of kind {kind}")
    return _Block(kind, flags, fields, extra, offset + _CRC_BYTES + len(header), data_size)


def _read_member(block: _Block) -> RarMember:
    fields = block.fields
    flags, unpacked, _attributes = fields.variable(), fields.variable(), fields.variable()
    fields.raw(4 * bool(flags & _FILE_TIME))
    crc = fields.number(4) if flags & _FILE_CRC else None
    packing, _system = fields.variable(), fields.variable()
    name = fields.raw(fields.variable()).decode("utf-8", "replace")
    fields.raw(max(0, fields.left - block.extra))
    is_encrypted, link, is_hard_link = False, None, False
    while fields.left:
        record = RarFields(fields.raw(fields.variable()), block.data)
        kind = record.variable()
        if kind == _EXTRA_ENCRYPTION:
            is_encrypted = True
        elif kind == _EXTRA_REDIRECTION:
            is_hard_link = record.variable() in _HARD_LINKS
            record.variable()
            link = record.raw(record.variable()).decode("utf-8", "replace")
    return RarMember(
        name=name,
        offset=block.data,
        packed=block.data_size,
        unpacked=None if flags & _FILE_UNKNOWN_SIZE else unpacked,
        crc=crc,
        is_stored=not packing & _METHOD,
        is_current=not packing & _VERSION,
        is_encrypted=is_encrypted,
        is_split=bool(block.flags & _SPLIT),
        link=link,
        is_hard_link=is_hard_link,
    )
