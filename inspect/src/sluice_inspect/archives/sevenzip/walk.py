"""Walks 7z archives: the headers by their checksums, then every file of every folder by its own."""
# An archive packed by a method that only libarchive knows is read by libarchive as a whole.

import re
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from sluice_inspect.archives import libarchive
from sluice_inspect.archives.safety import check_trailing, checked_content, refuse_device, refuse_link, refuse_name
from sluice_inspect.archives.sevenzip.coders import ordered_coders, unpack_folder
from sluice_inspect.archives.sevenzip.header import (
    FileEntry,
    Folder,
    HeaderFields,
    Property,
    StreamTable,
    read_files,
    read_streams,
)
from sluice_inspect.budget import Budget
from sluice_inspect.report import Corrupt, Finding, Limits, Measure, Unsafe, Unsupported
from sluice_inspect.source import RandomAccess, read_pieces
from sluice_inspect.unpacking import Feed, RandomAccessContainer, Visitor

MAGIC: Final = b"7z\xbc\xaf\x27\x1c"
_MAGIC_PATTERN: Final = re.compile(re.escape(MAGIC))
_PPMD, _BCJ2, _ARM64, _LZMA, _LZMA2 = "030401", "0303011b", "0a", "030101", "21"
# Methods that libarchive reads if a folder has no others. Combined with others (PPMd behind a filter, for one), it
# reports damage.
_READ_BY_LIBARCHIVE: Final = frozenset(map(frozenset, ((_PPMD,), (_BCJ2, _LZMA), (_ARM64, _LZMA), (_ARM64, _LZMA2))))
_SIGNATURE_HEADER: Final = struct.Struct("<6s2BLQQL")
_CHECKED_BY_START_CRC: Final = slice(12, 32)
_MAX_HEADER_BYTES: Final = 64 * 1024**2
_MAX_PACKED_HEADERS: Final = 4
_REPARSE_POINT: Final = 0x0400
_DEVICES: Final = frozenset({stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK})


@dataclass(frozen=True, slots=True)
class Directory:
    """The tables of an archive. `unpacked_bytes` is what its own header unpacked to, `trailing_bytes` what follows."""

    table: StreamTable
    files: list[FileEntry]
    trailing_bytes: int
    unpacked_bytes: int = 0


def walk(archive: RandomAccess, budget: Budget, visitor: Visitor) -> Mapping[str, Measure]:
    """Show every file to the visitor. Raise as `RandomAccessContainer` says."""
    directory = archive.cached(read_directory, budget.limits)
    table, files = directory.table, directory.files
    budget.spend(directory.unpacked_bytes)
    budget.count(len(files))
    for file in files:
        _refuse_unsafe(file)
    _refuse_declared_bomb(table, budget)
    measures: dict[str, Measure] = {"members": len(files), "trailing_bytes": directory.trailing_bytes}
    unsupported = [(folder, reason) for folder in table.folders if (reason := _unsupported_reason(folder))]
    if not unsupported:
        _show_members(archive, table, files, budget, visitor)
        return measures
    if not libarchive.is_installed():
        raise unsupported[0][1]
    try:
        for name, pieces in libarchive.members(archive, budget):
            visitor.member(name, pieces)
    except Corrupt as reason:
        methods = (frozenset(coder.method.hex() for coder in folder.coders) for folder, _ in unsupported)
        if _READ_BY_LIBARCHIVE.issuperset(methods):
            raise
        raise Unsupported(
            f"the archive is packed with a row of methods that no reader here is sure of: {reason}"
        ) from reason
    return {**measures, "read_with": "libarchive"}


def _unsupported_reason(folder: Folder) -> Unsupported | None:
    try:
        ordered_coders(folder)
    except Unsupported as reason:
        return reason
    return None


def read_directory(archive: RandomAccess, limits: Limits) -> Directory:
    """Return the tables of an archive. Raise `Corrupt` if its header is damaged, `Unsafe` if it is a bomb."""
    raw, trailing_bytes = _read_raw_header(archive)
    budget = Budget(limits, archive.size)
    # The header itself may be packed, and its own header again.
    for _ in range(_MAX_PACKED_HEADERS):
        if not raw:
            return Directory(StreamTable(), [], trailing_bytes, budget.unpacked_bytes)
        fields = HeaderFields(raw, limits)
        if fields.byte() == Property.HEADER:
            return Directory(*_read_tables(fields), trailing_bytes, budget.unpacked_bytes)
        if raw[0] != Property.ENCODED_HEADER:
            break
        raw = _unpack_header(archive, read_streams(fields), budget)
    raise Corrupt("the archive's header is damaged: it begins as no header does")


def _read_raw_header(archive: RandomAccess) -> tuple[bytes, int]:
    """Return the header at the end of the archive, its checksum compared, and how many bytes follow it."""
    start = archive.read_at(0, _SIGNATURE_HEADER.size)
    if len(start) < _SIGNATURE_HEADER.size:
        raise Corrupt(f"the archive is cut: it ends at byte {len(start)}, inside its first header")
    *_, start_crc, offset, size, crc = _SIGNATURE_HEADER.unpack(start)
    if zlib.crc32(start[_CHECKED_BY_START_CRC]) != start_crc:
        raise Corrupt("the archive's first header is damaged: its checksum does not fit")
    begin = _SIGNATURE_HEADER.size + offset
    end = begin + size
    if end > archive.size:
        raise Corrupt(f"the archive is cut: it ends at byte {archive.size}, its last header would end at byte {end}")
    if size > _MAX_HEADER_BYTES:
        raise Unsafe(
            Finding.ARCHIVE_BOMB, f"the archive's header of {size} bytes describes more members than are allowed"
        )
    raw = archive.read_at(begin, size)
    if zlib.crc32(raw) != crc:
        raise Corrupt(f"the archive's header at byte {begin} is damaged: its checksum does not fit")
    return raw, check_trailing(Feed(read_pieces(archive, end), end), "7z", _MAGIC_PATTERN)


def _unpack_header(archive: RandomAccess, table: StreamTable, budget: Budget) -> bytes:
    if len(table.folders) != 1 or table.folders[0].size > _MAX_HEADER_BYTES:
        raise Corrupt("the archive's header is damaged: it is packed in an impossible way")
    _refuse_declared_bomb(table, budget)
    raw = b"".join(folder_content(archive, table, 0, budget))
    crc = table.folders[0].crc
    if crc is not None and zlib.crc32(raw) != crc:
        raise Corrupt("the archive's packed header is damaged: its checksum does not fit")
    return raw


def _read_tables(fields: HeaderFields) -> tuple[StreamTable, list[FileEntry]]:
    table, files = StreamTable(), list[FileEntry]()
    while (property_id := fields.number()) != Property.END:
        if property_id == Property.ARCHIVE_PROPERTIES:
            while fields.number() != Property.END:
                fields.raw(fields.number())
        elif property_id == Property.ADDITIONAL_STREAMS:
            read_streams(fields)
        elif property_id == Property.MAIN_STREAMS:
            table = read_streams(fields)
        elif property_id == Property.FILES:
            files = read_files(fields)
        else:
            raise Corrupt(f"the archive's header is damaged: it has a field {property_id} that no version defines")
    stated = sum(len(substreams) for substreams in table.substreams)
    if stated != sum(file.has_stream for file in files) and files:
        raise Corrupt(f"the archive's header is damaged: it holds the content of {stated} files, but lists others")
    return table, files


def _refuse_unsafe(file: FileEntry) -> None:
    refuse_name(file.name)
    # 7-Zip reads the mode if a flag says that there is one, libarchive in any case.
    mode = file.attributes >> 16
    if stat.S_ISLNK(mode) or file.attributes & _REPARSE_POINT:
        refuse_link(file.name)
    if stat.S_IFMT(mode) in _DEVICES:
        refuse_device(file.name)


def _refuse_declared_bomb(table: StreamTable, budget: Budget) -> None:
    replace(budget).spend(sum(folder.size for folder in table.folders))


def _show_members(
    archive: RandomAccess, table: StreamTable, files: list[FileEntry], budget: Budget, visitor: Visitor
) -> None:
    names = (file.name for file in files if file.has_stream)
    for index, substreams in enumerate(table.substreams):
        feed = Feed(folder_content(archive, table, index, budget))
        for substream in substreams:
            name = next(names, "")
            visitor.member(name, checked_content(feed.pieces(substream.size), substream.crc, name))


def folder_content(archive: RandomAccess, table: StreamTable, index: int, budget: Budget) -> Iterator[bytes]:
    """Yield what a folder unpacks to. Raise `Corrupt` if its packed data is cut or damaged."""
    folder = table.folders[index]
    first = sum(len(each.packed_inputs) for each in table.folders[:index])
    start = _SIGNATURE_HEADER.size + table.pack_offset + sum(table.pack_sizes[:first])
    size = table.pack_sizes[first]
    if start + size > archive.size:
        raise Corrupt(f"the archive is cut: its packed data would end at byte {start + size}, behind its own end")
    yield from budget.counted(unpack_folder(folder, read_pieces(archive, start, size), "the archive"))


SEVEN_ZIP: Final = RandomAccessContainer("7z", lambda head: head.startswith(MAGIC), walk)
