"""The records of a ZIP archive as they stand in the file: end record, directory entries, local headers. Judges single records, unpacks nothing.

Layout: PKWARE APPNOTE 6.3.10. Sizes and offsets are taken from the central directory, as readers do, with ZIP64 fields resolved.
"""

import codecs
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sluice.formats.archives.containers import RandomAccess
from sluice.formats.verdict import Corrupt, Finding, Limits, Unsafe

codecs.lookup("cp437")  # loaded now: the sandbox that runs this later has no file system

LOCAL: Final = b"PK\x03\x04"
CENTRAL: Final = b"PK\x01\x02"
END: Final = b"PK\x05\x06"
_END_64: Final = b"PK\x06\x06"
_LOCATOR_64: Final = b"PK\x06\x07"

_END_FORMAT: Final = struct.Struct("<4s4H2LH")
_END_64_FORMAT: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_FORMAT: Final = struct.Struct("<4sLQL")
_EXTRA_FORMAT: Final = struct.Struct("<2H")
_UNICODE_HEAD: Final = struct.Struct("<BL")
_CENTRAL_FORMAT: Final = struct.Struct("<4s6H3L5H2L")
_LOCAL_FORMAT: Final = struct.Struct("<4s5H3L2H")

_UNSAID: Final = 0
"""What streaming writers put where they do not know a size or checksum yet, not all of them with the flag that announces it."""
_COMMENT_MOST: Final = 0xFFFF
_FULL_16: Final = 0xFFFF
_FULL_32: Final = 0xFFFFFFFF
_ZIP64_EXTRA: Final = 0x0001
_UNICODE_PATH_EXTRA: Final = 0x7075

ENCRYPTED_FLAG: Final = 0x0001
DESCRIPTOR_FLAG: Final = 0x0008
_STRONG_ENCRYPTION_FLAG: Final = 0x0040
_UTF8_FLAG: Final = 0x0800
_MASKED_HEADERS_FLAG: Final = 0x2000


@dataclass(frozen=True, slots=True)
class EndRecord:
    """Where the directory is, in bytes from the start of the file."""

    position: int
    """Of the first end record (the ZIP64 one where there is one): the directory ends here at the latest."""
    end: int
    """First byte behind the archive comment."""
    directory: int
    directory_size: int
    entries: int
    entries_modulo: int
    """65,536 where the count is a 16-bit field, which some writers let wrap around; 0 where it is exact."""
    shift: int
    """Bytes in front of the archive that its own offsets do not count."""


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of the central directory; `offset` is that of its local header from the start of the file."""

    name: str
    raw_name: bytes
    unicode_name: str | None
    method: int
    flags: int
    crc: int
    packed: int
    unpacked: int
    offset: int
    unix_mode: int
    """File type and permissions as Unix writers record them, else 0."""

    @property
    def shown_name(self) -> str:
        """The name under which readers show it."""
        return self.name if self.unicode_name is None else self.unicode_name

    @property
    def is_directory(self) -> bool:
        """Whether it only names a folder."""
        return self.name.endswith(("/", "\\")) and self.unpacked == 0

    @property
    def is_encrypted(self) -> bool:
        """Whether its content is behind a password."""
        return bool(self.flags & (ENCRYPTED_FLAG | _STRONG_ENCRYPTION_FLAG))


@dataclass(frozen=True, slots=True)
class LocalHeader:
    """The header in front of a member's data; `data` is the offset of its first packed byte."""

    raw_name: bytes
    method: int
    flags: int
    crc: int
    packed: int
    unpacked: int
    data: int


def find_end(source: RandomAccess) -> EndRecord | None:
    """Answer the end record, or None when there is none. Raises `Corrupt` when there is one that cannot be right."""
    start = max(0, source.size - _COMMENT_MOST - _END_FORMAT.size - _LOCATOR_FORMAT.size)
    tail = source.read_at(start, source.size - start)
    best: int | None = None
    at = len(tail)
    while (at := tail.rfind(END, 0, at)) >= 0:
        if len(tail) - at < _END_FORMAT.size:
            continue
        comment = struct.unpack_from("<H", tail, at + 20)[0]
        if at + _END_FORMAT.size + comment == len(tail):
            best = at
            break
        if best is None and at + _END_FORMAT.size + comment < len(tail):
            best = at
    return None if best is None else _read_end(source, tail, start, best)


def _read_end(source: RandomAccess, tail: bytes, start: int, at: int) -> EndRecord:
    _, disk, first_disk, here, entries, size, offset, comment = _END_FORMAT.unpack_from(tail, at)
    position, modulo = start + at, _FULL_16 + 1
    end = position + _END_FORMAT.size + comment
    locator = tail[max(0, at - _LOCATOR_FORMAT.size) : at]
    if len(locator) == _LOCATOR_FORMAT.size and locator.startswith(_LOCATOR_64):
        position, entries, size, offset, shift = _read_end_64(source, locator, position - _LOCATOR_FORMAT.size)
        return EndRecord(position, end, offset + shift, size, entries, 0, shift)
    if disk != first_disk or here != entries or disk not in {0, _FULL_16}:
        raise Corrupt("the archive is one volume of several: the others are missing")
    shift = position - size - offset
    if shift < 0:
        raise Corrupt("the archive's directory is said to lie behind its own end: the file is cut or its end record is damaged")
    return EndRecord(position, end, offset + shift, size, entries, modulo, shift)


def _read_end_64(source: RandomAccess, locator: bytes, behind: int) -> tuple[int, int, int, int, int]:
    _, _, claimed, disks = _LOCATOR_FORMAT.unpack(locator)
    if disks > 1:
        raise Corrupt("the archive is one volume of several: the others are missing")
    for at in (claimed, behind - _END_64_FORMAT.size):
        record = source.read_at(at, _END_64_FORMAT.size) if 0 <= at < source.size else b""
        if len(record) == _END_64_FORMAT.size and record.startswith(_END_64):
            break
    else:
        raise Corrupt("the archive's ZIP64 end record is not where its locator says")
    *_, entries, size, offset = _END_64_FORMAT.unpack(record)
    shift = at - size - offset
    if shift < 0:
        raise Corrupt("the archive's directory is said to lie behind its own end: the file is cut or its end record is damaged")
    return at, entries, size, offset, shift


def read_members(source: RandomAccess, end: EndRecord, limits: Limits) -> tuple[Member, ...]:
    """Answer all directory entries. Raises `Corrupt` for a damaged directory, `Unsafe` for more entries than the limit."""
    if end.entries > limits.max_members or end.directory_size > limits.max_members * 1024:
        raise Unsafe(Finding.ARCHIVE_BOMB, f"the archive lists {end.entries} members, more than the {limits.max_members} allowed")
    directory = source.read_at(end.directory, end.directory_size)
    members = tuple(_entries(directory, end.shift, limits))
    if len(members) != end.entries and (not end.entries_modulo or len(members) % end.entries_modulo != end.entries):
        raise Corrupt(f"the archive's end record counts {end.entries} members, its directory lists {len(members)}")
    return members


def _entries(directory: bytes, shift: int, limits: Limits) -> Iterator[Member]:
    at = 0
    while directory[at : at + 4] == CENTRAL:
        if at // _CENTRAL_FORMAT.size > limits.max_members:
            raise Unsafe(Finding.ARCHIVE_BOMB, f"the archive lists more than the {limits.max_members} members allowed")
        if len(directory) - at < _CENTRAL_FORMAT.size:
            raise Corrupt("the archive's directory is cut in the middle of an entry")
        yield _entry(directory, at, shift)
        name_size, extra_size, comment_size = struct.unpack_from("<3H", directory, at + 28)
        at += _CENTRAL_FORMAT.size + name_size + extra_size + comment_size
        if at > len(directory):
            raise Corrupt("the archive's directory is cut in the middle of an entry")
    if at < len(directory) and directory[at : at + 4] != b"PK\x05\x05":
        raise Corrupt("the archive's directory is damaged: an entry does not begin where the one before it ends")


def _entry(directory: bytes, at: int, shift: int) -> Member:
    fields = _CENTRAL_FORMAT.unpack_from(directory, at)
    (_, version, _, flags, method, _, _, crc, packed, unpacked, name_size, extra_size, _, disk, _, attributes, offset) = fields
    at += _CENTRAL_FORMAT.size
    raw_name = directory[at : at + name_size]
    name = _decode(raw_name, flags)
    extras = _extras(directory[at + name_size : at + name_size + extra_size], name)
    unpacked, packed, offset, disk = _widen(extras.get(_ZIP64_EXTRA, b""), (unpacked, packed, offset, disk), name)
    if disk:
        raise Corrupt(f"member {name!r} lies on another volume, which is missing")
    system = version >> 8
    return Member(
        name=name,
        raw_name=raw_name,
        unicode_name=_unicode_name(extras.get(_UNICODE_PATH_EXTRA, b""), raw_name),
        method=method,
        flags=flags,
        crc=crc,
        packed=packed,
        unpacked=unpacked,
        offset=offset + shift,
        unix_mode=attributes >> 16 if system in {3, 19} else 0,
    )


def _decode(raw: bytes, flags: int) -> str:
    return raw.decode("utf-8", "replace") if flags & _UTF8_FLAG else raw.decode("cp437")


def _extras(raw: bytes, name: str) -> dict[int, bytes]:
    """Answer the extra fields by their id, the first of each."""
    found: dict[int, bytes] = {}
    at = 0
    while len(raw) - at >= _EXTRA_FORMAT.size:
        field, size = _EXTRA_FORMAT.unpack_from(raw, at)
        begin = at + _EXTRA_FORMAT.size
        if begin + size > len(raw):
            break
        found.setdefault(field, raw[begin : begin + size])
        at = begin + size
    if raw[at:].strip(b"\0") and len(raw) - at >= _EXTRA_FORMAT.size:  # zeros are how aligners pad
        raise Corrupt(f"member {name!r} has an extra field that is longer than the space for it")
    return found


def _widen(extra: bytes, fields: tuple[int, int, int, int], name: str) -> tuple[int, int, int, int]:
    """Replace those of (unpacked, packed, offset, disk) that are full by the ones of the ZIP64 extra, which holds only those, in this order."""
    at, wide = 0, []
    for value in fields[:3]:
        if value != _FULL_32 or not extra:
            wide.append(value)
            continue
        if len(extra) < at + 8:
            raise Corrupt(f"member {name!r} lacks a size or an offset in its ZIP64 field")
        wide.append(struct.unpack_from("<Q", extra, at)[0])
        at += 8
    disk = fields[3]
    if disk == _FULL_16 and len(extra) >= at + 4:
        disk = struct.unpack_from("<L", extra, at)[0]
    return wide[0], wide[1], wide[2], disk


def _unicode_name(extra: bytes, raw_name: bytes) -> str | None:
    """Answer the name that some readers prefer to the one in the entry (Info-ZIP's field 0x7075, valid for one exact name)."""
    if extra[: _UNICODE_HEAD.size] != _UNICODE_HEAD.pack(1, zlib.crc32(raw_name)):
        return None
    return extra[_UNICODE_HEAD.size :].decode("utf-8", "replace")


def read_local(source: RandomAccess, member: Member) -> LocalHeader:
    """Answer the header in front of a member's data. Raises `Corrupt` when there is none, or one that contradicts the directory."""
    raw = source.read_at(member.offset, _LOCAL_FORMAT.size + len(member.raw_name))
    if len(raw) < _LOCAL_FORMAT.size or not raw.startswith(LOCAL):
        raise Corrupt(f"member {member.name!r} is not where the directory says: its local header is missing")
    _, _, flags, method, _, _, crc, packed, unpacked, name_size, extra_size = _LOCAL_FORMAT.unpack_from(raw)
    data = member.offset + _LOCAL_FORMAT.size + name_size + extra_size
    name = raw[_LOCAL_FORMAT.size :] if name_size == len(member.raw_name) else b"?"
    header = LocalHeader(name, method, flags, crc, packed, unpacked, data)
    if not member.flags & _MASKED_HEADERS_FLAG:
        _compare(member, header)
    return header


def _folded(raw_name: bytes) -> bytes:
    return raw_name.replace(b"\\", b"/").lower()


def _compare(member: Member, header: LocalHeader) -> None:
    if _folded(header.raw_name) != _folded(member.raw_name):
        raise Corrupt(f"member {member.name!r} has another name in its local header")
    if header.method != member.method:
        raise Corrupt(f"member {member.name!r} has another compression method in its local header")
    if (header.flags ^ member.flags) & ENCRYPTED_FLAG:
        raise Corrupt(f"member {member.name!r} is encrypted by one header and not by the other")
    for what, here, there in (
        ("checksum", header.crc, member.crc),
        ("packed size", header.packed, member.packed),
        ("unpacked size", header.unpacked, member.unpacked),
    ):
        if here not in {there, _UNSAID, _FULL_32}:
            raise Corrupt(f"member {member.name!r} has another {what} in its local header")
