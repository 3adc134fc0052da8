"""Reads ZIP archives strictly: layout and names are checked first, then members are streamed and counted."""
# Not `zipfile`: it reads archives that most readers refuse, and trusts what the directory claims.

import bz2
import lzma
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from sluice_inspect.archives.compression import MAX_DECOMPRESSOR_BYTES, Decompressor, Inflate, unpack_stream
from sluice_inspect.archives.safety import decoded_name, refuse_name
from sluice_inspect.archives.zip.extras import refuse_mode, refuse_zero_byte
from sluice_inspect.archives.zip.records import (
    DESCRIPTOR_FLAG,
    END,
    LOCAL,
    EndRecord,
    LocalHeader,
    ZipMember,
    find_end,
    read_local,
    read_members,
)
from sluice_inspect.budget import CHUNK_BYTES, Budget
from sluice_inspect.report import Corrupt, Encrypted, Finding, InspectionError, Limits, Measure, Unsafe, Unsupported
from sluice_inspect.source import RandomAccess, read_pieces
from sluice_inspect.unpacking import Feed, RandomAccessContainer, Visitor

# Descriptors behind data: APPNOTE 4.3.9. The signature is optional.
_DESCRIPTOR: Final = b"PK\x07\x08"
_DESCRIPTOR_SIZES: Final = frozenset({12, 16, 20})
_MAX_DESCRIPTOR_BYTES: Final = 24

# Compression methods: APPNOTE 4.4.5.
_STORED, _DEFLATED, _BZIP2, _LZMA, _XZ, _AES = 0, 8, 12, 14, 95, 99
_READABLE: Final = frozenset({_STORED, _DEFLATED, _BZIP2, _LZMA, _XZ})
# LZMA data begins with a version (2 bytes), the length of the properties (2) and the properties (5): APPNOTE 5.8.8.
_LZMA_HEAD_BYTES: Final = 9
_LZMA_VERSION_BYTES: Final = 4
_LZMA_END_MARK_FLAG: Final = 0x0002


@dataclass(frozen=True)
class ZipArchive:
    """An archive whose layout is sound. Content is checked as it is read."""

    source: RandomAccess
    end: EndRecord
    members: tuple[ZipMember, ...]
    headers: tuple[LocalHeader, ...] = field(repr=False)  # the local header of each member, in the same order
    gap_bytes: int  # between the members and the directory, as signers leave them

    @property
    def prefix_bytes(self) -> int:
        """Bytes in front of the first member."""
        return min((member.offset for member in self.members), default=self.end.directory)

    @property
    def suffix_bytes(self) -> int:
        """Bytes behind the end record and its comment."""
        return self.source.size - self.end.end

    @cached_property
    def by_name(self) -> dict[str, int]:
        """Index of each file by its name with forward slashes."""
        return {
            member.name.replace("\\", "/"): index
            for index, member in enumerate(self.members)
            if not member.is_directory
        }

    def chunks(self, index: int, budget: Budget) -> Iterator[bytes]:
        """Unpack one member piece by piece, within the budget, and compare the checksum behind the last one."""
        return _unpack(self.source, self.members[index], self.headers[index].data, budget)

    def open(self, index: int, budget: Budget) -> "MemberStream":
        """Return a reader of one member for parsers; it raises as `chunks` does."""
        return MemberStream(self.chunks(index, budget))


class MemberStream:
    """The part of a file object that stream parsers need: `read`."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""
        self._at = 0  # what was read of it

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, all of them if it is negative, none at the end."""
        if size < 0:
            rest, self._rest = self._rest[self._at :], b""
            return rest + b"".join(self._chunks)
        while self._at >= len(self._rest):
            chunk = next(self._chunks, None)
            if chunk is None:
                return b""
            self._rest, self._at = chunk, 0
        piece = self._rest[self._at : self._at + size]
        self._at += size
        return piece


def read_archive(source: RandomAccess, limits: Limits) -> ZipArchive:
    """Read and check the layout: every member in its place, once, and nothing hidden between them.

    Raise `Corrupt` if the archive is damaged or cut, and `Unsafe` if readers would differ in its members.
    """
    end = source.cached(find_end)
    if end is None:
        raise Corrupt("the archive has no end record: its end is missing, or it is no archive")
    members = source.cached(read_members, end, limits)
    headers = tuple(read_local(source, member) for member in members)
    gap_bytes = _check_layout(source, end, members, headers, limits)
    return ZipArchive(source, end, members, headers, gap_bytes)


def _check_layout(
    source: RandomAccess,
    end: EndRecord,
    members: tuple[ZipMember, ...],
    headers: tuple[LocalHeader, ...],
    limits: Limits,
) -> int:
    """Return how many bytes between members belong to none."""
    in_order = sorted(range(len(members)), key=lambda index: members[index].offset)
    gap_bytes = 0
    starts = [members[index].offset for index in in_order] + [end.directory]
    for index, next_start in zip(in_order, starts[1:], strict=True):
        member = members[index]
        data_end = headers[index].data + member.packed
        if data_end > end.directory:
            raise Corrupt(f"member {member.name!r} runs past the end of the archive's data")
        if data_end > next_start:
            claimed = sum(member.unpacked for member in members)
            finding = Finding.ARCHIVE_BOMB if claimed > limits.ratio_floor_bytes else Finding.ARCHIVE_UNSAFE
            raise Unsafe(
                finding, f"members of the archive share the same bytes; unpacked they would be {claimed} bytes"
            )
        if headers[index].packed != member.packed and not headers[index].is_announced:
            # A reader of the local headers takes the size there and continues within the data.
            _refuse_hidden_member(source, headers[index].data, data_end)
        if member.flags & DESCRIPTOR_FLAG or headers[index].is_announced:
            data_end += _descriptor_size(source.read_at(data_end, min(24, next_start - data_end)), member)
        _refuse_hidden_member(source, data_end, next_start)
        if data_end < next_start != end.directory and not _is_left_out_descriptor(source, member, data_end, next_start):
            raise Unsafe(
                Finding.ARCHIVE_UNSAFE,
                f"{next_start - data_end} bytes behind member {member.name!r} belong to none: readers that go from "
                "member to member end there",
            )
        gap_bytes += next_start - data_end
    _refuse_hidden_member(source, 0, starts[0])
    return gap_bytes


def _descriptor_size(data: bytes, member: ZipMember) -> int:
    """Return the length of the data descriptor that `data`, which follows a member, begins with, or 0."""
    for layout in ("<4s3L", "<4sL2Q", "<3L", "<L2Q"):
        if len(data) < struct.calcsize(layout):
            continue
        *_, crc, packed, unpacked = struct.unpack_from(layout, data)
        if (crc, packed, unpacked) == (member.crc, member.packed, member.unpacked):
            return struct.calcsize(layout)
    # Some writers set the flag and leave the descriptor out, with the next header or zeros in its place.
    if data.startswith(_DESCRIPTOR) or (len(data) >= min(_DESCRIPTOR_SIZES) and data.strip(b"\0")):
        raise Unsafe(
            Finding.ARCHIVE_UNSAFE,
            f"the descriptor behind the data of member {member.name!r} contradicts the directory:"
            " readers differ in which counts",
        )
    return 0


def _is_left_out_descriptor(source: RandomAccess, member: ZipMember, start: int, end: int) -> bool:
    is_announced = bool(member.flags & DESCRIPTOR_FLAG)
    return is_announced and end - start <= _MAX_DESCRIPTOR_BYTES and not source.read_at(start, end - start).strip(b"\0")


def _refuse_hidden_member(source: RandomAccess, start: int, end: int) -> None:
    for at in range(start, end, CHUNK_BYTES):
        if LOCAL in source.read_at(at, min(CHUNK_BYTES + 3, end - at)):
            raise Unsafe(
                Finding.ARCHIVE_UNSAFE, f"the archive hides a member at byte {at} that its directory does not list"
            )


def refuse_unsafe_names(members: tuple[ZipMember, ...]) -> None:
    """Raise `Unsafe` for members that would be written outside of the folder or over each other, links and devices."""
    names: set[str] = set()
    for member in members:
        for name in {member.name, member.shown_name, decoded_name(member.raw_name)}:
            refuse_name(name)
        refuse_zero_byte(member.shown_name)
        refuse_mode(member.unix_mode, member.name)
        if member.name.endswith("/") and member.unpacked:
            raise Unsafe(
                Finding.ARCHIVE_UNSAFE, f"member {member.name!r} is named as a folder and has content: readers differ"
            )
        shown = {name.replace("\\", "/") for name in (member.name, member.shown_name)}
        if not names.isdisjoint(shown) and not member.is_directory:
            raise Unsafe(
                Finding.ARCHIVE_UNSAFE,
                f"two members have the name {member.name!r}: readers differ in which one they show",
            )
        names |= shown


def _unpack(source: RandomAccess, member: ZipMember, data: int, budget: Budget) -> Iterator[bytes]:
    if member.is_encrypted or member.method == _AES:
        raise Encrypted(f"member {member.name!r} is protected by a password")
    if member.method not in _READABLE:
        raise Unsupported(f"member {member.name!r} is packed by method {member.method}, which cannot be unpacked here")
    feed = Feed(read_pieces(source, data, member.packed))
    if member.method == _STORED:
        chunks = iter(feed.piece, b"")
    else:
        chunks = unpack_stream(_decompressor(member, feed), feed, f"member {member.name!r}")
    crc = size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > member.unpacked:
            raise Corrupt(
                f"member {member.name!r} unpacks to more than the {member.unpacked} bytes that its header promises"
            )
        budget.spend(len(chunk))
        crc = zlib.crc32(chunk, crc)
        yield chunk
    if size != member.unpacked:
        raise Corrupt(f"member {member.name!r} unpacks to {size} bytes where its header promises {member.unpacked}")
    if crc != member.crc:
        raise Corrupt(f"member {member.name!r} is damaged: its checksum does not fit its content")
    if member.method == _DEFLATED and feed.peek(1):
        raise Unsafe(
            Finding.ARCHIVE_UNSAFE,
            f"the packed data of member {member.name!r} continues after its end, where some readers expect the next",
        )


def _decompressor(member: ZipMember, feed: Feed) -> Decompressor:
    if member.method == _DEFLATED:
        return Inflate()
    if member.method == _BZIP2:
        return bz2.BZ2Decompressor()
    if member.method == _XZ:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_DECOMPRESSOR_BYTES)
    # The library reads the older .lzma layout: the same properties, followed by the unpacked size.
    size = 2**64 - 1 if member.flags & _LZMA_END_MARK_FLAG else member.unpacked
    feed.unread(feed.take(_LZMA_HEAD_BYTES)[_LZMA_VERSION_BYTES:] + size.to_bytes(8, "little"))
    return lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=MAX_DECOMPRESSOR_BYTES)


def show_members(archive: ZipArchive, budget: Budget, visitor: Visitor) -> Mapping[str, Measure]:
    """Show every member to the visitor and return measures.

    Raise `Encrypted` or `Unsupported` for members that cannot be unpacked here, after the last member: damage in
    another one takes precedence.
    """
    budget.count(len(archive.members))
    refuse_unsafe_names(archive.members)
    unread: list[InspectionError] = []
    for index, member in enumerate(archive.members):
        try:
            visitor.member(member.name, archive.chunks(index, budget))
        except (Encrypted, Unsupported) as reason:
            unread.append(reason)
    if any(isinstance(reason, Encrypted) for reason in unread):
        raise Encrypted(f"{len(unread)} of {len(archive.members)} members are protected by a password")
    if unread:
        raise unread[0]
    return {
        "members": budget.members,
        "unpacked_bytes": budget.unpacked_bytes,
        "gap_bytes": archive.gap_bytes,
        "prefix_bytes": archive.prefix_bytes,
        "suffix_bytes": archive.suffix_bytes,
    }


# An archive within an archive. A file that is an archive is checked for what stands around it, too: `formats/zip.py`.
ZIP: Final = RandomAccessContainer(
    "zip",
    lambda head: head.startswith((LOCAL, END)),
    lambda source, budget, visitor: show_members(source.cached(read_archive, budget.limits), budget, visitor),
)
