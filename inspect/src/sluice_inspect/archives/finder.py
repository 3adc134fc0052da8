"""Archives anywhere in a file, as their readers find them: ZIP from its end record, RAR, 7z and cabinets by header."""
# Readers look beyond the start, since archives follow the programs that unpack them: unrar and 7-Zip search for a
# header, cabextract the whole file, ZIP readers the end record. Some of those go further than the 65,535 bytes of a
# comment (JSZip), so that all of the file is searched. What is found is followed to a member that exists.

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from sluice_inspect.source import RandomAccess

_END: Final = struct.Struct("<4s4H2LH")
_END_MAGIC: Final = b"PK\x05\x06"
_END_64: Final = struct.Struct("<4sQ2H2L4Q")
_END_64_MAGIC: Final = b"PK\x06\x06"
_LOCATOR_64: Final = struct.Struct("<4sLQL")
_LOCATOR_64_MAGIC: Final = b"PK\x06\x07"
_LOCATOR_SEARCH_BYTES: Final = 4096  # before the locator: an end record of version 2 has data of its own at its end
_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_ENTRY_MAGIC: Final = b"PK\x01\x02"
_LOCAL_MAGIC: Final = b"PK\x03\x04"
_FULL_16, _FULL_32 = 0xFFFF, 0xFFFFFFFF
_ZIP64_EXTRA: Final = 0x0001
_FIRST_PIECE, _DIRECTORY_PIECE = 4 * 1024, 256 * 1024
_SPARE_BYTES: Final = 4 * 1024 * 1024

_RAR_MAGIC: Final = b"Rar!\x1a\x07"
_RAR_BLOCKS: Final = frozenset({1, 4})  # a RAR 5 begins with its main header, or with that of its encryption
_SEVEN_ZIP_MAGIC: Final = b"7z\xbc\xaf\x27\x1c"
_CABINET_MAGIC: Final = b"MSCF"
_CABINET: Final = struct.Struct("<4s4xL4xL4xBBHH")
_CABINET_HEADER_BYTES: Final = 36
_CABINET_SLACK: Final = 32  # bytes that cabextract lets a cabinet lack
_CABINET_FILE: Final = struct.Struct("<2LH6x")
_CABINET_SPECIAL_FOLDER: Final = 0xFFFD  # from here on, a file that continues in another cabinet
_HEADERS: Final = (_RAR_MAGIC, _SEVEN_ZIP_MAGIC, _CABINET_MAGIC)
_HEADER_BYTES: Final = 64

# Marks that lead to no archive: one in 4 GiB by chance. Only a file made to keep the search busy has this many.
_MARKS_MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class FoundArchive:
    """An archive, in words that follow "the file is also", and which bytes of the file its reader needs."""

    words: str
    start: int
    end: int


class ArchiveFinder:
    """The search of one file. It costs one pass over the file and another over what may be directories."""

    def __init__(self, source: RandomAccess) -> None:
        self._source = source
        self._marks_left = _MARKS_MOST
        # Directories of honest archives do not overlap, so that together they are smaller than the file.
        self._directory_bytes_left = source.size + _SPARE_BYTES

    def find(self, window: bytes, begin: int) -> Iterator[FoundArchive]:
        """Yield the archives whose header or end record begins in `window`, which is at `begin` in the file."""
        if begin == 0 and window.startswith(_LOCAL_MAGIC):
            yield FoundArchive("a ZIP archive", 0, self._source.size)
        for at in find_all(window, _END_MAGIC):
            if found := self._zip_ending_at(begin + at):
                yield found
        for magic in _HEADERS:
            for at in find_all(window, magic):
                block = window[at : at + _HEADER_BYTES]
                if len(block) < _HEADER_BYTES:
                    block = self._source.read_at(begin + at, _HEADER_BYTES)
                if found := self._archive_at(begin + at, block):
                    yield found

    def _archive_at(self, at: int, block: bytes) -> FoundArchive | None:
        if block.startswith(_RAR_MAGIC) and _is_rar(block):
            return FoundArchive("a RAR archive", at, at + len(block))
        if block.startswith(_SEVEN_ZIP_MAGIC) and _is_seven_zip(block):
            # Behind the start header: where the database begins and how long it is.
            end = at + 32 + sum(struct.unpack_from("<2Q", block, 12))
            return FoundArchive("a 7z archive", at, min(end, self._source.size))
        if block.startswith(_CABINET_MAGIC) and self._is_cabinet(at, block):
            return FoundArchive("a cabinet", at, min(at + _CABINET.unpack_from(block)[1], self._source.size))
        return self._count_mark()

    def _count_mark(self) -> FoundArchive | None:
        self._marks_left -= 1
        if self._marks_left >= 0:
            return None
        return FoundArchive(f"full of marks of archives, more than {_MARKS_MOST}", 0, self._source.size)

    def _is_cabinet(self, at: int, block: bytes) -> bool:
        # As cabextract: neither the version nor the reserved fields decide ([MS-CAB] 2.1).
        if len(block) < _CABINET_HEADER_BYTES:
            return False
        _, size, first_file, _, _, folders, files = _CABINET.unpack_from(block)
        if not (folders and files and _CABINET_HEADER_BYTES <= first_file < size):
            return False
        if at + size > self._source.size + _CABINET_SLACK:
            return False
        entry = self._source.read_at(at + first_file, _CABINET_FILE.size + 2)
        if len(entry) < _CABINET_FILE.size + 2:
            return False
        folder = _CABINET_FILE.unpack_from(entry)[2]
        return entry[-2] >= 0x20 and (folder < folders or folder >= _CABINET_SPECIAL_FOLDER)

    def _zip_ending_at(self, at: int) -> FoundArchive | None:
        record = self._source.read_at(at, _END.size)
        if len(record) < _END.size:
            return None
        _, _, _, _, _, size, offset, _ = _END.unpack(record)
        for directory, base in {*_directories(at, size, offset), *self._directories_64(at)}:
            if directory < 0 or self._source.read_at(directory, 4) != _ENTRY_MAGIC:
                continue
            if self._directory_bytes_left <= 0:
                return FoundArchive("full of directories of archives that overlap", 0, self._source.size)
            if members := self._members(directory, at, base):
                return FoundArchive("a ZIP archive", min(directory, *members, at), at + _END.size)
        return self._count_mark()

    def _directories_64(self, at: int) -> Iterator[tuple[int, int]]:
        """Yield what the ZIP64 end record before an end record says, wherever a reader looks for that."""
        locator = self._source.read_at(at - _LOCATOR_64.size, _LOCATOR_64.size) if at >= _LOCATOR_64.size else b""
        if not locator.startswith(_LOCATOR_64_MAGIC):
            return
        before = max(0, at - _LOCATOR_64.size - _LOCATOR_SEARCH_BYTES)
        nearest = self._source.read_at(before, at - _LOCATOR_64.size - before).rfind(_END_64_MAGIC)
        for record_at in {_LOCATOR_64.unpack(locator)[2], before + nearest if nearest >= 0 else -1}:
            record = self._source.read_at(record_at, _END_64.size) if 0 <= record_at < at else b""
            if len(record) == _END_64.size and record.startswith(_END_64_MAGIC):
                *_, size, offset = _END_64.unpack(record)
                yield from _directories(record_at, size, offset)

    def _members(self, directory: int, end: int, base: int) -> Sequence[int]:
        """Return where the local headers are that the entries of a directory lead to."""
        # Sizes and counts in the end record are claims: readers follow the entries as long as there are any.
        found = set()
        at, piece, piece_at = directory, b"", directory
        while self._directory_bytes_left > 0:
            if at + _ENTRY.size > piece_at + len(piece):
                piece, piece_at = self._source.read_at(at, _DIRECTORY_PIECE if piece else _FIRST_PIECE), at
            entry = piece[at - piece_at : at - piece_at + _ENTRY.size]
            if len(entry) < _ENTRY.size or not entry.startswith(_ENTRY_MAGIC):
                break
            fields = _ENTRY.unpack(entry)
            (name_size, extra_size, comment_size), offset = fields[10:13], fields[16]
            if offset == _FULL_32:
                extra = self._source.read_at(at + _ENTRY.size + name_size, extra_size)
                offset = _wide_offset(extra, fields[8:10])
            for place in {base + offset, offset}:
                if 0 <= place < end and self._source.read_at(place, 4) == _LOCAL_MAGIC:
                    found.add(place)
            length = _ENTRY.size + name_size + extra_size + comment_size
            at += length
            self._directory_bytes_left -= length
        return sorted(found)


def find_all(window: bytes, magic: bytes) -> Iterator[int]:
    """Yield where `magic` begins in `window`, from the last place to the first."""
    # From the end, since `rfind` takes half the time of `find`.
    at = window.rfind(magic)
    while at >= 0:
        yield at
        at = window.rfind(magic, 0, at)


def _directories(position: int, size: int, offset: int) -> Iterator[tuple[int, int]]:
    """Yield where the directory may begin, and what its offsets are counted from: by its size, or by its offset."""
    yield position - size, position - size - offset
    yield offset, 0


def _wide_offset(extra: bytes, sizes: Sequence[int]) -> int:
    """Return the offset in the ZIP64 extra field, behind those sizes that are full: APPNOTE 4.5.3."""
    at = 0
    while len(extra) >= at + 4:
        kind, size = struct.unpack_from("<2H", extra, at)
        if kind == _ZIP64_EXTRA:
            skipped = 8 * sizes.count(_FULL_32)
            return int.from_bytes(extra[at + 4 + skipped : at + 12 + skipped], "little")
        at += 4 + size
    return _FULL_32


def _is_rar(block: bytes) -> bool:
    # unrar reports a wrong checksum of the first header and continues, so the checksum does not count.
    if block[6:8] == b"\x01\x00":
        at = 12
        for _ in range(3):  # the size of the header: a number of up to three bytes, seven bits in each
            if len(block) > at + 1 and block[at] < 0x80:
                return block[at + 1] & 0x7F in _RAR_BLOCKS
            at += 1
        return False
    return len(block) >= 20 and block[6] == 0 and block[9] == 0x73 and int.from_bytes(block[12:14], "little") >= 13


def _is_seven_zip(block: bytes) -> bool:
    if len(block) < 32:
        return False
    # 7-Zip searches for the database of an archive whose start header was never written.
    return zlib.crc32(block[12:32]) == int.from_bytes(block[8:12], "little") or not any(block[8:32])
