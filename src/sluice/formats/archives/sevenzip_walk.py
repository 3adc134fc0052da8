"""Walks 7z archives: the headers by their checksums, then every file of every folder by its own. Headers are read in `sevenzip_header`, folders unpacked in `sevenzip_coders`.

Archives packed by a method that only libarchive knows are handed to it whole.
"""

import re
import stat
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from sluice.formats.archives import libarchive
from sluice.formats.archives.containers import RandomAccess, Visitor, WholeContainer, pieces_of
from sluice.formats.archives.feed import Feed
from sluice.formats.archives.names import refuse_device, refuse_link, refuse_name
from sluice.formats.archives.sevenzip_coders import chain, unpack_folder
from sluice.formats.archives.sevenzip_header import (
    ARCHIVE_PROPERTIES,
    ENCODED_HEADER,
    END,
    FILES,
    HEADER,
    MAIN_STREAMS,
    MORE_STREAMS,
    Fields,
    File,
    Folder,
    Streams,
    read_files,
    read_streams,
)
from sluice.formats.archives.trailing import judge_trailing
from sluice.formats.budget import Budget
from sluice.formats.verdict import Corrupt, Finding, Measure, Unsafe, Unsupported

MAGIC: Final = b"7z\xbc\xaf\x27\x1c"
_PPMD, _BCJ2, _ARM64, _LZMA, _LZMA2 = "030401", "0303011b", "0a", "030101", "21"
_READ_BY_LIBARCHIVE: Final = frozenset(map(frozenset, ((_PPMD,), (_BCJ2, _LZMA), (_ARM64, _LZMA), (_ARM64, _LZMA2))))
"""Methods that libarchive reads when they are all of a folder's. Of others together, as of PPMd behind a filter, it says that they are damaged."""
_START: Final = struct.Struct("<6s2BLQQL")
_START_HEADER: Final = slice(12, 32)
_HEADER_MOST: Final = 64 * 1024**2
_PACKED_HEADERS_MOST: Final = 4
_UNIX: Final = 0x8000
_REPARSE_POINT: Final = 0x0400


def walk(archive: RandomAccess, budget: Budget, visitor: Visitor) -> Mapping[str, Measure]:
    """Show every file to the visitor. Raises as `WholeContainer` says."""
    streams, files, trailing = read_directory(archive, budget)
    budget.count(len(files))
    for file in files:
        _refuse_unsafe(file)
    _refuse_declared(streams, budget)
    measures: dict[str, Measure] = {"members": len(files), "trailing_bytes": trailing}
    strange = [(folder, lacking) for folder in streams.folders if (lacking := _lacking(folder))]
    if not strange:
        _show(archive, streams, files, budget, visitor)
        return measures
    if not libarchive.is_installed():
        raise strange[0][1]
    try:
        return {**measures, **libarchive.walk(archive, budget, visitor)}
    except Corrupt as said:
        if all(frozenset(coder.method.hex() for coder in folder.coders) in _READ_BY_LIBARCHIVE for folder, _ in strange):
            raise
        raise Unsupported(f"the archive is packed with a row of methods that no reader here is sure of: {said}") from said


def _lacking(folder: Folder) -> Unsupported | None:
    """Answer what our own reader lacks for a folder. Raises as `chain` does of folders that are damaged or encrypted."""
    try:
        chain(folder)
    except Unsupported as lacking:
        return lacking
    return None


def read_directory(archive: RandomAccess, budget: Budget) -> tuple[Streams, list[File], int]:
    """Answer the tables of streams and files, and how many bytes follow the archive. Raises as `WholeContainer` says."""
    raw, trailing = _read_raw_header(archive)
    return *_read_header(archive, raw, budget), trailing


def _read_raw_header(archive: RandomAccess) -> tuple[bytes, int]:
    """Answer the header at the end of the archive, its checksum compared, and how many bytes follow it."""
    start = archive.read_at(0, _START.size)
    if len(start) < _START.size:
        raise Corrupt(f"the archive is cut: it ends at byte {len(start)}, inside its first header")
    *_, start_crc, offset, size, crc = _START.unpack(start)
    if zlib.crc32(start[_START_HEADER]) != start_crc:
        raise Corrupt("the archive's first header is damaged: its checksum does not fit")
    begin, end = _START.size + offset, _START.size + offset + size
    if end > archive.size:
        raise Corrupt(f"the archive is cut: it ends at byte {archive.size}, its last header would end at byte {end}")
    if size > _HEADER_MOST:
        raise Unsafe(Finding.ARCHIVE_BOMB, f"the archive's header of {size} bytes describes more members than are allowed")
    raw = archive.read_at(begin, size)
    if zlib.crc32(raw) != crc:
        raise Corrupt(f"the archive's header at byte {begin} is damaged: its checksum does not fit")
    return raw, judge_trailing(Feed(pieces_of(archive, end, archive.size - end), end), "7z", re.compile(re.escape(MAGIC)))


def _read_header(archive: RandomAccess, raw: bytes, budget: Budget) -> tuple[Streams, list[File]]:
    """Answer the tables of streams and files, unpacked as often as they were packed."""
    for _ in range(_PACKED_HEADERS_MOST):
        if not raw:
            return Streams(), []
        fields = Fields(raw, budget.limits)
        if fields.byte() == HEADER:
            return _read_tables(fields)
        if raw[0] != ENCODED_HEADER:
            break
        raw = _unpack_header(archive, read_streams(fields), budget)
    raise Corrupt("the archive's header is damaged: it begins as no header does")


def _unpack_header(archive: RandomAccess, streams: Streams, budget: Budget) -> bytes:
    if len(streams.folders) != 1 or streams.folders[0].size > _HEADER_MOST:
        raise Corrupt("the archive's header is damaged: it is packed in an impossible way")
    _refuse_declared(streams, budget)
    folder = streams.folders[0]
    raw = b"".join(content(archive, streams, 0, budget))
    if folder.crc is not None and zlib.crc32(raw) != folder.crc:
        raise Corrupt("the archive's packed header is damaged: its checksum does not fit")
    return raw


def _read_tables(fields: Fields) -> tuple[Streams, list[File]]:
    streams, files = Streams(), []
    while (field_id := fields.number()) != END:
        if field_id == ARCHIVE_PROPERTIES:
            while fields.number() != END:
                fields.raw(fields.number())
        elif field_id == MORE_STREAMS:
            read_streams(fields)
        elif field_id == MAIN_STREAMS:
            streams = read_streams(fields)
        elif field_id == FILES:
            files = read_files(fields)
        else:
            raise Corrupt(f"the archive's header is damaged: it has a field {field_id} that no version defines")
    stated = sum(len(substreams) for substreams in streams.substreams)
    if stated != sum(file.has_stream for file in files) and files:
        raise Corrupt(f"the archive's header is damaged: it holds the content of {stated} files, but lists others")
    return streams, files


def _refuse_unsafe(file: File) -> None:
    refuse_name(file.name)
    mode = file.attributes >> 16 if file.attributes & _UNIX else 0
    if stat.S_ISLNK(mode) or file.attributes & _REPARSE_POINT:
        refuse_link(file.name)
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        refuse_device(file.name)


def _refuse_declared(streams: Streams, budget: Budget) -> None:
    """Raise `Unsafe` for what the headers promise to be too much."""
    replace(budget).spend(sum(folder.size for folder in streams.folders))


def _show(archive: RandomAccess, streams: Streams, files: list[File], budget: Budget, visitor: Visitor) -> None:
    named = (file for file in files if file.has_stream)
    for index, substreams in enumerate(streams.substreams):
        feed = Feed(content(archive, streams, index, budget))
        for substream in substreams:
            file = next(named, None)
            name = file.name if file else ""
            visitor.member(name, _checked(feed.pieces(substream.size), substream.crc, name))


def _checked(pieces: Iterator[bytes], crc: int | None, name: str) -> Iterator[bytes]:
    found = 0
    for piece in pieces:
        found = zlib.crc32(piece, found)
        yield piece
    if crc is not None and found != crc:
        raise Corrupt(f"member {name!r} is damaged: its checksum does not fit its content")


def content(archive: RandomAccess, streams: Streams, index: int, budget: Budget) -> Iterator[bytes]:
    """Yield what a folder unpacks to."""
    folder = streams.folders[index]
    first = sum(len(each.packed_inputs) for each in streams.folders[:index])
    start = _START.size + streams.pack_offset + sum(streams.pack_sizes[:first])
    size = streams.pack_sizes[first]
    if start + size > archive.size:
        raise Corrupt(f"the archive is cut: its packed data would end at byte {start + size}, behind its own end")
    for piece in unpack_folder(folder, pieces_of(archive, start, size), "the archive"):
        budget.spend(len(piece))
        yield piece


SEVEN_ZIP: Final = WholeContainer("7z", lambda head: head.startswith(MAGIC), walk)
