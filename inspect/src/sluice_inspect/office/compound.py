"""Compound files (OLE2, [MS-CFB]): reader of tables, directory and streams, family, writer of samples."""
# Every sector of a stream must be in the file and belong to that stream alone. What nothing points to (free sectors,
# entries outside the directory tree, its colours) is ignored.

import struct
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final, NamedTuple

from sluice_inspect.report import Corrupt, InspectionError, Measure, TooComplex
from sluice_inspect.source import Source, open_pieces

MAGIC: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
ENCRYPTED: Final = "encrypted package"  # the family of Office Open XML documents behind a password

_HEADER_BYTES: Final = 512
_BYTE_ORDER: Final = b"\xfe\xff"
_SECTOR_SHIFTS: Final = frozenset({9, 12})  # sectors of 512 bytes (version 3) and 4096 bytes (version 4)
_TABLE_SECTORS_IN_HEADER: Final = 109
_END_OF_CHAIN, _TABLE_SECTOR, _FREE = 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFF
_FIRST_MARK: Final = 0xFFFFFFFA  # sector numbers from here on are marks: end of chain, free, table
_NO_ENTRY: Final = 0xFFFFFFFF
_ENTRY: Final = struct.Struct("<64sHBxLLL36xLQ")
_STORAGE, _STREAM, _ROOT = 1, 2, 5
_SMALL_BYTES: Final = 4096  # shorter streams share the "mini stream", in sectors of their own size
_SMALL_SECTOR: Final = 64
_MAX_ENTRIES: Final = 200_000

_UNREADABLE: Final = "unreadable"
_FAMILY_STREAMS: Final[Mapping[str, tuple[str, ...]]] = {
    ENCRYPTED: ("encryptedpackage",),
    "doc": ("worddocument",),
    "xls": ("workbook", "book"),
    "ppt": ("powerpoint document", "pp40", "pp97_dualstorage"),
    "msg": ("__properties_version1.0", "__nameid_version1.0"),
}
_FAMILY_MARKS: Final[Mapping[str, tuple[bytes, ...]]] = {
    family: tuple(name.encode("utf-16-le") for name in names)
    for family, names in {
        ENCRYPTED: ("EncryptedPackage",),
        "doc": ("WordDocument",),
        "xls": ("Workbook", "Book"),
        "ppt": ("PowerPoint Document",),
        "msg": ("__properties_version1.0", "__nameid_version1.0", "__substg1.0_"),
    }.items()
}
_SUMMARIES: Final = ("\x05summaryinformation", "\x05documentsummaryinformation")
_SUMMARY_MAGIC: Final = b"\xfe\xff"


@dataclass(frozen=True, slots=True)
class Entry:
    """One stream or storage; `size` is in bytes, 0 for a storage. `children` has lower-case keys: names ignore case."""

    name: str
    is_stream: bool
    start: int
    size: int
    children: "dict[str, Entry]" = field(default_factory=dict)

    def stream(self, *names: str) -> "Entry | None":
        """Return the first of these streams (lower-case names) that this storage holds and that is not empty."""
        found = (self.children.get(name) for name in names)
        return next((entry for entry in found if entry is not None and entry.is_stream and entry.size), None)

    def walk(self) -> "Iterator[tuple[str, Entry]]":
        """Yield every entry below this one with its path."""
        pending = [(entry.name, entry) for entry in self.children.values()]
        while pending:
            path, entry = pending.pop()
            yield path, entry
            pending.extend((f"{path}/{child.name}", child) for child in entry.children.values())


class CompoundFile:
    """A compound file and its directory. Raises `Corrupt` when the tables do not lead to all of it."""

    def __init__(self, source: Source) -> None:
        header = source.head[:_HEADER_BYTES]
        if len(header) < _HEADER_BYTES or not header.startswith(MAGIC):
            raise Corrupt("the container's header is missing or cut")
        shift: int = struct.unpack_from("<H", header, 30)[0]
        if header[28:30] != _BYTE_ORDER or shift not in _SECTOR_SHIFTS:
            raise Corrupt("the container's header is damaged: it states an impossible byte order or sector size")
        self._source = source
        self._sector_bytes: int = 1 << shift
        self._sectors = source.size // self._sector_bytes + 1
        self._table = self._read_table(header)
        self.root = _build_tree(self._read_directory(struct.unpack_from("<L", header, 48)[0]))
        self._shared = self._chain(self.root)
        # Some writers leave out the padding of the last short stream.
        self._extents(self.root, missing=_SMALL_SECTOR - 1)
        start = struct.unpack_from("<L", header, 60)[0]
        table, wanted = array("I"), -(-self.root.size // _SMALL_SECTOR * 4) // self._sector_bytes + 1
        for sector in _follow_chain(self._table, start, wanted, or_fewer=True):
            table.frombytes(self._read_sector(sector))
        self._small_table = table

    @property
    def used_bytes(self) -> int:
        """Where the last sector ends that its table does not call free."""
        in_file = range(min(len(self._table), self._sectors))
        last = next((sector for sector in reversed(in_file) if self._table[sector] != _FREE), -1)
        return (last + 2) * self._sector_bytes

    def check_streams(self) -> int:
        """Return the number of streams. Raises `Corrupt` when a sector of one is not in the file or belongs to two."""
        claimed, small_claimed = bytearray(self._sectors), bytearray(len(self._small_table))
        _claim_sectors(claimed, self._shared, "the stream of short streams")
        count = 0
        for path, entry in self.root.walk():
            if entry.is_stream and entry.size:
                self._extents(entry)
                if entry.size >= _SMALL_BYTES:
                    _claim_sectors(claimed, self._chain(entry), path)
                else:
                    _claim_sectors(small_claimed, self._small_chain(entry), path)
            count += entry.is_stream
        return count

    def open(self, entry: Entry) -> BinaryIO:
        """Return a reader of a stream. Raises `Corrupt` when its sectors are not all in the file."""
        return open_pieces(self._source, self._extents(entry))

    def read(self, entry: Entry, size: int | None = None) -> bytes:
        """Return the first `size` bytes of a stream, or all of them. Raises as `open` does."""
        return self.open(entry).read(-1 if size is None else size)

    def with_stream(self, entry: Entry, content: bytes) -> bytes:
        """Return the whole file with as many bytes as a stream has in its place. Raises as `open` does."""
        data, at = bytearray(self._source.read_at(0, self._source.size)), 0
        for offset, length in self._extents(entry):
            data[offset : offset + length] = content[at : at + length]
            at += length
        return bytes(data)

    def _extents(self, entry: Entry, *, missing: int = 0) -> list[tuple[int, int]]:
        if entry.size >= _SMALL_BYTES or entry is self.root:
            offsets = ((sector + 1) * self._sector_bytes for sector in self._chain(entry))
            extents = _merge_adjacent(offsets, self._sector_bytes, entry.size)
        else:
            extents = _merge_adjacent(self._small_offsets(entry), _SMALL_SECTOR, entry.size)
        if any(offset + length > self._source.size + missing for offset, length in extents):
            raise Corrupt("the file is cut: part of its content lies behind its end")
        return extents

    def _chain(self, entry: Entry) -> list[int]:
        return _follow_chain(self._table, entry.start, -(-entry.size // self._sector_bytes))

    def _small_chain(self, entry: Entry) -> list[int]:
        return _follow_chain(self._small_table, entry.start, -(-entry.size // _SMALL_SECTOR))

    def _small_offsets(self, entry: Entry) -> Iterator[int]:
        for small in self._small_chain(entry):
            index, rest = divmod(small * _SMALL_SECTOR, self._sector_bytes)
            if index >= len(self._shared):
                raise Corrupt("the container is damaged: a short stream lies outside the stream that holds it")
            yield (self._shared[index] + 1) * self._sector_bytes + rest

    def _read_sector(self, sector: int) -> bytes:
        data = self._source.read_at((sector + 1) * self._sector_bytes, self._sector_bytes)
        if len(data) < self._sector_bytes:
            raise Corrupt("the file is cut: the container's tables lie behind its end")
        return data

    def _read_table(self, header: bytes) -> "array[int]":
        numbers = list(struct.unpack_from(f"<{_TABLE_SECTORS_IN_HEADER}L", header, 76))
        following, per_sector = struct.unpack_from("<L", header, 68)[0], self._sector_bytes // 4
        # A list of table sectors that leads back into itself would never end: no more are read than the file can hold.
        while following < _FIRST_MARK and len(numbers) < self._sectors + _TABLE_SECTORS_IN_HEADER:
            more = struct.unpack(f"<{per_sector}L", self._read_sector(following))
            numbers.extend(more[:-1])
            following = more[-1]
        table = array("I")
        for number in numbers:
            if number < _FIRST_MARK and len(table) < self._sectors + per_sector:
                table.frombytes(self._read_sector(number))
        return table

    def _read_directory(self, start: int) -> "list[_DirectoryEntry]":
        entries: list[_DirectoryEntry] = []
        # Version 3 has sizes of 32 bits, and some of its writers leave the upper half uninitialised (2.6.1).
        mask = 0xFFFFFFFF if self._sector_bytes == _HEADER_BYTES else 0xFFFFFFFFFFFFFFFF
        for sector in _follow_chain(self._table, start, self._sectors, or_fewer=True):
            found = map(_DirectoryEntry._make, _ENTRY.iter_unpack(self._read_sector(sector)))
            entries.extend(each._replace(size=each.size & mask) for each in found)
            if len(entries) > _MAX_ENTRIES:
                raise TooComplex(f"the container's directory lists more than {_MAX_ENTRIES} entries")
        return entries


class _DirectoryEntry(NamedTuple):
    name: bytes
    name_bytes: int
    object_type: int
    left: int
    right: int
    child: int
    start: int
    size: int


def _build_tree(entries: Sequence[_DirectoryEntry]) -> Entry:
    if not entries or entries[0].object_type != _ROOT:
        raise Corrupt("the container is damaged: its directory does not begin with a root")
    root = Entry("", is_stream=False, start=entries[0].start, size=entries[0].size)
    pending, visited = [(entries[0].child, root)], {0, _NO_ENTRY}
    while pending:
        number, parent = pending.pop()
        if number == _NO_ENTRY:
            continue
        if number in visited or number >= len(entries) or entries[number].object_type not in {_STORAGE, _STREAM}:
            raise Corrupt("the container is damaged: its directory leads to no entry, or to one twice")
        visited.add(number)
        each = entries[number]
        name = each.name[: max(0, each.name_bytes - 2)].decode("utf-16-le", "replace")
        is_stream = each.object_type == _STREAM
        entry = Entry(name, is_stream, each.start, each.size if is_stream else 0)
        parent.children[name.lower()] = entry
        pending += [(each.left, parent), (each.right, parent)]
        if not is_stream:
            pending.append((each.child, entry))
    return root


def _follow_chain(table: "array[int]", start: int, wanted: int, *, or_fewer: bool = False) -> list[int]:
    chain: list[int] = []
    sector = start
    most = min(wanted, len(table))  # a longer chain is a loop
    while sector < _FIRST_MARK and len(chain) < most:
        if sector >= len(table):
            raise Corrupt("the container is damaged: a stream continues in a sector that does not exist")
        chain.append(sector)
        sector = table[sector]
    if len(chain) < wanted and not or_fewer:
        raise Corrupt("the container is damaged: a stream ends before its stated length")
    return chain


def _claim_sectors(claimed: bytearray, chain: Sequence[int], path: str) -> None:
    for sector in chain:
        if claimed[sector]:
            raise Corrupt(f"the container is damaged: {path!r} lies where another stream lies")
        claimed[sector] = 1


def _merge_adjacent(offsets: Iterable[int], sector_bytes: int, size: int) -> list[tuple[int, int]]:
    """Return offset and length of the contiguous parts of `size` bytes stored in sectors at these offsets."""
    merged: list[tuple[int, int]] = []
    for offset in offsets:
        taken = min(sector_bytes, size)
        size -= taken
        if merged and sum(merged[-1]) == offset:
            merged[-1] = (merged[-1][0], merged[-1][1] + taken)
        else:
            merged.append((offset, taken))
    return merged


def content_end(source: Source, _measures: Mapping[str, Measure]) -> int:
    """Return where the last sector in use ends. Raise `InspectionError` if the sectors cannot be read."""
    return source.cached(CompoundFile).used_bytes


def is_compound_document(source: Source, family: str) -> bool:
    """Whether the content is a document of this family, or a compound file too damaged to tell."""
    return source.head.startswith(MAGIC) and source.cached(_find_family) in {family, _UNREADABLE}


def check_container(source: Source) -> tuple[CompoundFile, Mapping[str, Measure]]:
    """Return the container, with all of its streams checked, and its measures. Raises `Corrupt`, `TooComplex`."""
    container = source.cached(CompoundFile)
    measures = {"streams": container.check_streams()}
    for name in _SUMMARIES:
        summary = container.root.stream(name)
        if summary is not None and container.read(summary, len(_SUMMARY_MAGIC)) != _SUMMARY_MAGIC:
            raise Corrupt("the container is damaged: the summary of its document does not begin as summaries do")
    return container, measures


def _find_family(source: Source) -> str | None:
    try:
        names = source.cached(CompoundFile).root.children
    except InspectionError:
        # The directory is damaged: stream names that are left in its sectors still tell the family.
        ends = source.head + source.tail
        marked = (family for family, marks in _FAMILY_MARKS.items() if any(mark in ends for mark in marks))
        return next(marked, _UNREADABLE)
    for family, streams in _FAMILY_STREAMS.items():
        if any(name in names for name in streams):
            return family
    return "msg" if any(name.startswith("__substg1.0_") for name in names) else None


Tree = Mapping[str, "bytes | Tree"]  # streams and storages by name


def make_compound(tree: Tree) -> bytes:
    """Return a compound file of these streams and storages, for samples. It has one table sector: up to 60 KiB fit."""
    return _Writer().write(tree)


class _Writer:
    def __init__(self) -> None:
        self._table: list[int] = [_TABLE_SECTOR]
        self._body: list[bytes] = []
        self._small_table: list[int] = []
        self._small = b""
        self._entries: list[bytes] = [b""]

    def write(self, tree: Tree) -> bytes:
        child = self._add_storage(tree)
        shared = self._add(self._small)
        self._entries[0] = _pack_entry("Root Entry", _ROOT, child=child, start=shared, size=len(self._small))
        small_table = self._add(struct.pack(f"<{len(self._small_table)}L", *self._small_table), b"\xff")
        directory = self._add(b"".join(self._entries) + _pack_entry("", 0) * (-len(self._entries) % 4))
        table = struct.pack(f"<{len(self._table)}L", *self._table).ljust(_HEADER_BYTES, b"\xff")
        small_sectors = -(-len(self._small_table) * 4 // _HEADER_BYTES)
        header = MAGIC + bytes(16) + struct.pack("<5H6x", 0x3E, 3, 0xFFFE, 9, 6)
        header += struct.pack("<9L", 0, 1, directory, 0, _SMALL_BYTES, small_table, small_sectors, _END_OF_CHAIN, 0)
        header += struct.pack("<109L", 0, *[_FREE] * 108)
        return header + table + b"".join(self._body)

    def _add_storage(self, tree: Tree) -> int:
        """Write what a storage holds. Return the number of its first entry; the others follow as right siblings."""
        following = _FREE
        for name, content in sorted(tree.items(), key=lambda each: (len(each[0]), each[0].upper()), reverse=True):
            if isinstance(content, bytes):
                start = self._add_small(content) if len(content) < _SMALL_BYTES else self._add(content)
                entry = _pack_entry(name, _STREAM, right=following, start=start, size=len(content))
            else:
                entry = _pack_entry(name, _STORAGE, right=following, child=self._add_storage(content), start=0)
            following = len(self._entries)
            self._entries.append(entry)
        return following

    def _add(self, content: bytes, padding: bytes = b"\0") -> int:
        if not content:
            return _END_OF_CHAIN
        first, count = len(self._table), -(-len(content) // _HEADER_BYTES)
        self._table += [*range(first + 1, first + count), _END_OF_CHAIN]
        self._body.append(content.ljust(count * _HEADER_BYTES, padding))
        return first

    def _add_small(self, content: bytes) -> int:
        if not content:
            return _END_OF_CHAIN
        first, count = len(self._small_table), -(-len(content) // _SMALL_SECTOR)
        self._small_table += [*range(first + 1, first + count), _END_OF_CHAIN]
        self._small += content.ljust(count * _SMALL_SECTOR, b"\0")
        return first


def _pack_entry(
    name: str, object_type: int, *, right: int = _FREE, child: int = _FREE, start: int = 0, size: int = 0
) -> bytes:
    letters = (name + "\0").encode("utf-16-le") if name else b""
    lengths = (letters, len(letters), object_type, 1)
    return struct.pack("<64sHBBLLL36xLQ", *lengths, _FREE, right, child, start, size)
