"""The records of a ZIP archive as they stand in the file: end record, directory entries, local headers."""
# Layout: PKWARE APPNOTE 6.3.10. As in readers, the central directory decides on sizes and offsets.

import codecs
import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from sluice_inspect.archives.safety import decoded_name, refuse_name
from sluice_inspect.archives.zip.extras import read_extras, refuse_other_sizes, unicode_name, widen, widened_packed
from sluice_inspect.report import Corrupt, Finding, Limits, Unsafe
from sluice_inspect.source import RandomAccess

codecs.lookup("cp437")  # loaded now: the sandbox that runs this later has no file system

LOCAL: Final = b"PK\x03\x04"
CENTRAL: Final = b"PK\x01\x02"
END: Final = b"PK\x05\x06"
_END_64: Final = b"PK\x06\x06"
_LOCATOR_64: Final = b"PK\x06\x07"

_END_FORMAT: Final = struct.Struct("<4s4H2LH")
_END_64_HEAD_BYTES: Final = 12  # its own size does not count them
_END_64_FORMAT: Final = struct.Struct("<4sQ2H2L4Q")
_LOCATOR_FORMAT: Final = struct.Struct("<4sLQL")
_CENTRAL_FORMAT: Final = struct.Struct("<4s6H3L5H2L")
_LOCAL_FORMAT: Final = struct.Struct("<4s5H3L2H")

_USUAL_EXTRA_BYTES: Final = 64  # read with a local header; more are read when it states more
# What streaming writers put where they do not know a size or checksum yet, not all of them with the flag that announces
# it.
_NOT_KNOWN_YET, _MAX_COMMENT_BYTES, _FULL_16, _FULL_32 = 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF

ENCRYPTED_FLAG, DESCRIPTOR_FLAG, _STRONG_ENCRYPTION_FLAG, _UTF8_FLAG = 0x0001, 0x0008, 0x0040, 0x0800
_MASKED_HEADERS_FLAG: Final = 0x2000


@dataclass(frozen=True, slots=True)
class EndRecord:
    """Where the directory is, in bytes from the start of the file."""

    end: int  # first byte behind the archive comment
    directory: int
    directory_size: int
    entries: int
    entries_modulo: int  # 65,536 if the count is a 16-bit field, which some writers let wrap around; 0 if it is exact
    shift: int  # bytes in front of the archive that its own offsets do not count


@dataclass(frozen=True, slots=True)
class ZipMember:
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
    unix_mode: int  # file type and permissions, if the writer recorded any: no reader needs to ask for which system

    @property
    def shown_name(self) -> str:
        """The name that readers show."""
        return self.name if self.unicode_name is None else self.unicode_name

    @property
    def is_directory(self) -> bool:
        """Whether it is only the name of a folder."""
        return self.name.endswith(("/", "\\")) and self.unpacked == 0

    @property
    def is_encrypted(self) -> bool:
        """Whether its content is protected by a password."""
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

    @property
    def is_announced(self) -> bool:
        """Whether it states that its sizes follow behind the data, where it does not know them."""
        return bool(self.flags & DESCRIPTOR_FLAG)


def find_end(source: RandomAccess) -> EndRecord | None:
    """Return the end record, or None if there is none. Raise `Corrupt` or `Unsafe` for one that cannot be right."""
    start = max(0, source.size - _MAX_COMMENT_BYTES - _END_FORMAT.size - _LOCATOR_FORMAT.size)
    tail = source.read_at(start, source.size - start)
    # The record whose comment ends with the file; else the last one that has its comment, with other bytes behind it.
    found, exact, best = list[int](), list[int](), None
    at = len(tail)
    while (at := tail.rfind(END, 0, at)) >= 0:
        if len(tail) - at < _END_FORMAT.size:
            continue
        found.append(at)
        end = at + _END_FORMAT.size + struct.unpack_from("<H", tail, at + 20)[0]
        if end == len(tail):
            exact.append(at)
        if best is None and end < len(tail):
            best = at
    best = exact[0] if exact else best
    if best is None:
        return None
    if best != found[0] or len(exact) > 1:
        raise Unsafe(Finding.ARCHIVE_UNSAFE, "the archive has two end records: readers differ in which counts")
    return _read_end(source, tail, start, best)


def _read_end(source: RandomAccess, tail: bytes, start: int, at: int) -> EndRecord:
    _, disk, first_disk, here, entries, size, offset, comment_size = _END_FORMAT.unpack_from(tail, at)
    position = start + at
    end = position + _END_FORMAT.size + comment_size
    locator = tail[max(0, at - _LOCATOR_FORMAT.size) : at]
    if len(locator) == _LOCATOR_FORMAT.size and locator.startswith(_LOCATOR_64):
        plain = (entries, size, offset)
        position, entries, size, offset = _read_end_64(source, locator, position - _LOCATOR_FORMAT.size)
        modulo = 0
        for stated, wide, full in zip(plain, (entries, size, offset), (_FULL_16, _FULL_32, _FULL_32), strict=True):
            if stated not in {full, wide & full}:
                raise Unsafe(
                    Finding.ARCHIVE_UNSAFE, "the two end records contradict each other: readers differ in which counts"
                )
    elif disk != first_disk or here != entries or disk not in {0, _FULL_16}:
        raise Corrupt("the archive is one volume of several: the others are missing")
    else:
        modulo = _FULL_16 + 1
    shift = position - size - offset
    if shift < 0:
        raise Corrupt(
            "the archive's directory is said to lie behind its own end: the file is cut or its end record is damaged"
        )
    if shift and source.read_at(offset, len(CENTRAL)) == CENTRAL:
        raise Unsafe(
            Finding.ARCHIVE_UNSAFE, "the archive has two directories: readers differ in whether bytes before it count"
        )
    return EndRecord(end, offset + shift, size, entries, modulo, shift)


def _read_end_64(source: RandomAccess, locator: bytes, locator_at: int) -> tuple[int, int, int, int]:
    """Return the ZIP64 end record's position, the number of entries, and size and offset of the directory."""
    _, _, claimed, disks = _LOCATOR_FORMAT.unpack(locator)
    if disks > 1:
        raise Corrupt("the archive is one volume of several: the others are missing")
    found = {}
    for at in (claimed, locator_at - _END_64_FORMAT.size):
        record = source.read_at(at, _END_64_FORMAT.size) if 0 <= at < source.size else b""
        if len(record) == _END_64_FORMAT.size and record.startswith(_END_64):
            _, record_size, *_, entries, size, offset = _END_64_FORMAT.unpack(record)
            found[at] = (at, entries, size, offset)
            # Readers take a longer one to begin where its locator says, or as far in front of that as it is short.
            if record_size != _END_64_FORMAT.size - _END_64_HEAD_BYTES or at + _END_64_FORMAT.size != locator_at:
                raise Unsafe(Finding.ARCHIVE_UNSAFE, "the archive's ZIP64 end record does not end at its locator")
    if not found:
        raise Corrupt("the archive's ZIP64 end record is not where its locator says")
    if len(found) > 1:
        raise Unsafe(Finding.ARCHIVE_UNSAFE, "the archive has two ZIP64 end records: readers differ in which counts")
    at, entries, size, offset = next(iter(found.values()))
    # Bytes in front of the archive, which its own offsets do not count, move both alike.
    if at - claimed not in {0, at - size - offset}:
        raise Unsafe(
            Finding.ARCHIVE_UNSAFE, "the archive's ZIP64 end record is not where its locator says: readers differ"
        )
    return at, entries, size, offset


def read_members(source: RandomAccess, end: EndRecord, limits: Limits) -> tuple[ZipMember, ...]:
    """Return all directory entries. Raise `Corrupt` for a damaged directory, `Unsafe` for too many entries."""
    if end.entries > limits.max_members or end.directory_size > limits.max_members * 1024:
        raise Unsafe(
            Finding.ARCHIVE_BOMB, f"the archive lists {end.entries} members, more than the {limits.max_members} allowed"
        )
    directory = source.read_at(end.directory, end.directory_size)
    members = tuple(_entries(directory, end.shift, limits))
    if len(members) != end.entries and (not end.entries_modulo or len(members) % end.entries_modulo != end.entries):
        raise Corrupt(f"the archive's end record counts {end.entries} members, its directory lists {len(members)}")
    return members


def _entries(directory: bytes, shift: int, limits: Limits) -> Iterator[ZipMember]:
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


def _entry(directory: bytes, at: int, shift: int) -> ZipMember:
    _, _, _, flags, method, _, _, crc, packed, unpacked, name_size, extra_size, _, disk, _, attributes, offset = (
        _CENTRAL_FORMAT.unpack_from(directory, at)
    )
    at += _CENTRAL_FORMAT.size
    raw_name = directory[at : at + name_size]
    name = decoded_name(raw_name) if flags & _UTF8_FLAG else raw_name.decode("cp437")
    extras = read_extras(directory[at + name_size : at + name_size + extra_size], name, is_padded=False)
    unpacked, packed, offset, disk = widen(extras, (unpacked, packed, offset, disk), name)
    if disk:
        raise Corrupt(f"member {name!r} lies on another volume, which is missing")
    return ZipMember(
        name=name,
        raw_name=raw_name,
        unicode_name=unicode_name(extras, raw_name),
        method=method,
        flags=flags,
        crc=crc,
        packed=packed,
        unpacked=unpacked,
        offset=offset + shift,
        unix_mode=attributes >> 16,
    )


def read_local(source: RandomAccess, member: ZipMember) -> LocalHeader:
    """Return the header in front of a member's data. Raise `Corrupt` if it is missing or contradicts the directory."""
    raw = source.read_at(member.offset, _LOCAL_FORMAT.size + len(member.raw_name) + _USUAL_EXTRA_BYTES)
    if len(raw) < _LOCAL_FORMAT.size or not raw.startswith(LOCAL):
        raise Corrupt(f"member {member.name!r} is not where the directory says: its local header is missing")
    _, _, flags, method, _, _, crc, packed, unpacked, name_size, extra_size = _LOCAL_FORMAT.unpack_from(raw)
    extra_at = _LOCAL_FORMAT.size + name_size
    if len(raw) < extra_at + extra_size:
        raw = source.read_at(member.offset, extra_at + extra_size)
    name, data = raw[_LOCAL_FORMAT.size : extra_at], member.offset + extra_at + extra_size
    header = LocalHeader(name, method, flags, crc, packed, unpacked, data)
    extras = read_extras(raw[extra_at : extra_at + extra_size], member.name, is_padded=True)
    refuse_name(decoded_name(name))
    # Headers are masked only where the directory is encrypted. Other readers ignore the flag.
    if not (member.flags & _MASKED_HEADERS_FLAG and member.is_encrypted):
        _compare(member, header, extras)
    return replace(header, packed=widened_packed(extras, unpacked, packed))


def _compare(member: ZipMember, header: LocalHeader, extras: dict[int, list[bytes]]) -> None:
    # Writers for Windows differ in slashes and case, in Unicode names too.
    local_name, name = (raw.replace(b"\\", b"/").lower() for raw in (header.raw_name, member.raw_name))
    if local_name != name:
        raise Corrupt(f"member {member.name!r} has another name in its local header")
    if header.method != member.method:
        raise Corrupt(f"member {member.name!r} has another compression method in its local header")
    if (header.flags ^ member.flags) & ENCRYPTED_FLAG:
        raise Corrupt(f"member {member.name!r} is encrypted by one header and not by the other")
    for subject, local, central in (
        ("checksum", header.crc, member.crc),
        ("packed size", header.packed, member.packed),
        ("unpacked size", header.unpacked, member.unpacked),
    ):
        if local not in {central, _NOT_KNOWN_YET, _FULL_32}:
            raise Corrupt(f"member {member.name!r} has another {subject} in its local header")
    refuse_other_sizes(extras, (header.unpacked, header.packed), (member.unpacked, member.packed), member.name)
    stated = (unicode_name(extras, header.raw_name), member.unicode_name)
    shown = {each.replace("\\", "/").lower() for each in stated if each is not None}
    plain = member.name.replace("\\", "/").lower()
    is_plain = bool(member.flags & _UTF8_FLAG) or member.name.isascii()
    # Names beyond the writer's code page are stated in Unicode besides; those within it are the same in both.
    if len(shown) > 1 or (is_plain and any(each != plain and each.isascii() for each in shown)):
        raise Unsafe(
            Finding.ARCHIVE_UNSAFE,
            f"member {member.name!r} is also named {sorted(shown)}: readers differ in which counts",
        )
