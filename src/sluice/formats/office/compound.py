"""Reads compound files (OLE2, MS-CFB): tables, directory, streams. What the streams of documents and messages mean is known elsewhere.

Tables are believed as far as they lead: every sector of a stream must lie in the file and belong to that stream alone. What nothing
points to (free sectors, entries outside of the directory's tree, colours of that tree) is not looked at.
"""

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO, Final, NamedTuple

from sluice.formats.pieces import Piece, open_pieces
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, TooComplex

MAGIC: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"

_HEADER_BYTES: Final = 512
_BYTE_ORDER: Final = b"\xfe\xff"
_SHIFTS: Final = frozenset({9, 12})
_IN_HEADER: Final = 109
_NO_MORE: Final = 0xFFFFFFFA
"""Sector numbers from here on are marks: end of a chain, free, table."""
_NOBODY: Final = 0xFFFFFFFF
_ENTRY: Final = struct.Struct("<64sHBxLLL36xLQ")
_STORAGE, _STREAM, _ROOT = 1, 2, 5
_SMALL_BYTES: Final = 4096
"""Shorter streams lie in a shared one, in sectors of their own size."""
_SMALL_SECTOR: Final = 64
_ENTRIES_MOST: Final = 200_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One stream or storage. Names are compared without case, so `children` is keyed by lower-case names."""

    name: str
    is_stream: bool
    start: int
    size: int
    """Bytes of a stream."""
    children: "dict[str, Entry]" = field(default_factory=dict)

    def stream(self, *names: str) -> "Entry | None":
        """Answer the first of these streams, named in lower case, that this storage holds and that has content."""
        found = (self.children.get(name) for name in names)
        return next((entry for entry in found if entry is not None and entry.is_stream and entry.size), None)

    def walk(self) -> "Iterator[tuple[str, Entry]]":
        """Yield every entry below this one with its path."""
        waiting = [(entry.name, entry) for entry in self.children.values()]
        while waiting:
            path, entry = waiting.pop()
            yield path, entry
            waiting.extend((f"{path}/{child.name}", child) for child in entry.children.values())


class CompoundFile:
    """A compound file by its directory. Raises `Corrupt` when its tables do not lead to all of that, `TooComplex` for endless ones."""

    def __init__(self, source: Source) -> None:
        header = source.head[:_HEADER_BYTES]
        if len(header) < _HEADER_BYTES or not header.startswith(MAGIC):
            raise Corrupt("the container's header is missing or cut")
        shift: int = struct.unpack_from("<H", header, 30)[0]
        if header[28:30] != _BYTE_ORDER or shift not in _SHIFTS:
            raise Corrupt("the container's header is damaged: it states an impossible byte order or sector size")
        self._source = source
        self._sector_bytes: int = 1 << shift
        self._sectors = source.size // self._sector_bytes + 1
        self._table = self._read_table(header)
        self.root = _tree(self._read_directory(struct.unpack_from("<L", header, 48)[0]))
        self._shared = self._chain(self.root)
        self._places(self.root, spare=_SMALL_SECTOR - 1)
        self._small_table = self._read_small_table(struct.unpack_from("<L", header, 60)[0])

    def check_streams(self) -> int:
        """Answer how many streams there are. Raises `Corrupt` when the sectors of any do not lie in the file, or belong to two."""
        owned, small_owned = bytearray(self._sectors), bytearray(len(self._small_table))
        _own(owned, self._shared, "the stream of short streams")
        count = 0
        for path, entry in self.root.walk():
            if entry.is_stream and entry.size:
                self._places(entry)
                _own(
                    *((owned, self._chain(entry)) if entry.size >= _SMALL_BYTES else (small_owned, self._small_chain(entry))), path
                )
            count += entry.is_stream
        return count

    def open(self, entry: Entry) -> BinaryIO:
        """Answer a reader of a stream. Raises `Corrupt` when its sectors do not all lie in the file."""
        return open_pieces(self._source, self._places(entry))

    def read(self, entry: Entry, size: int | None = None) -> bytes:
        """Answer the first `size` bytes of a stream, or all of them. Raises as `open` does."""
        return self.open(entry).read(-1 if size is None else size)

    def _places(self, entry: Entry, *, spare: int = 0) -> Sequence[Piece]:
        """Answer offset and length of each unbroken stretch of a stream in the file, which may lack `spare` bytes: padding, for some writers."""
        if entry.size >= _SMALL_BYTES or entry is self.root:
            places = _joined(((sector + 1) * self._sector_bytes for sector in self._chain(entry)), self._sector_bytes, entry.size)
        else:
            places = _joined(self._small_offsets(entry), _SMALL_SECTOR, entry.size)
        if any(offset + length > self._source.size + spare for offset, length in places):
            raise Corrupt("the file is cut: part of its content lies behind its end")
        return places

    def _chain(self, entry: Entry) -> list[int]:
        return _follow(self._table, entry.start, -(-entry.size // self._sector_bytes))

    def _small_chain(self, entry: Entry) -> list[int]:
        return _follow(self._small_table, entry.start, -(-entry.size // _SMALL_SECTOR))

    def _small_offsets(self, entry: Entry) -> Iterator[int]:
        for small in self._small_chain(entry):
            index, rest = divmod(small * _SMALL_SECTOR, self._sector_bytes)
            if index >= len(self._shared):
                raise Corrupt("the container is damaged: a short stream lies behind the end of the stream that holds it")
            yield (self._shared[index] + 1) * self._sector_bytes + rest

    def _sector(self, sector: int) -> bytes:
        data = self._source.read_at((sector + 1) * self._sector_bytes, self._sector_bytes)
        if len(data) < self._sector_bytes:
            raise Corrupt("the file is cut: the container's tables lie behind its end")
        return data

    def _read_table(self, header: bytes) -> "array[int]":
        numbers = list(struct.unpack_from(f"<{_IN_HEADER}L", header, 76))
        following, per_sector = struct.unpack_from("<L", header, 68)[0], self._sector_bytes // 4
        while following < _NO_MORE and len(numbers) < self._sectors + _IN_HEADER:
            more = struct.unpack(f"<{per_sector}L", self._sector(following))
            numbers.extend(more[:-1])
            following = more[-1]
        table = array("I")
        for number in numbers:
            if number < _NO_MORE and len(table) < self._sectors + per_sector:
                table.frombytes(self._sector(number))
        return table

    def _read_small_table(self, start: int) -> "array[int]":
        table, wanted = array("I"), -(-self.root.size // _SMALL_SECTOR * 4) // self._sector_bytes + 1
        for sector in _follow(self._table, start, wanted, or_fewer=True):
            table.frombytes(self._sector(sector))
        return table

    def _read_directory(self, start: int) -> "list[_Raw]":
        entries: list[_Raw] = []
        mask = 0xFFFFFFFF if self._sector_bytes == _HEADER_BYTES else 0xFFFFFFFFFFFFFFFF
        for sector in _follow(self._table, start, self._sectors, or_fewer=True):
            found = map(_Raw._make, _ENTRY.iter_unpack(self._sector(sector)))
            entries.extend(each._replace(size=each.size & mask) for each in found)
            if len(entries) > _ENTRIES_MOST:
                raise TooComplex(f"the container's directory lists more than {_ENTRIES_MOST} entries")
        return entries


class _Raw(NamedTuple):
    """An entry as it is written: a node in a tree of siblings, by numbers of entries."""

    name: bytes
    name_bytes: int
    kind: int
    left: int
    right: int
    child: int
    start: int
    size: int


def _tree(raw: Sequence[_Raw]) -> Entry:
    if not raw or raw[0].kind != _ROOT:
        raise Corrupt("the container is damaged: its directory does not begin with a root")
    root = Entry("", is_stream=False, start=raw[0].start, size=raw[0].size)
    waiting, seen = [(raw[0].child, root)], {0, _NOBODY}
    while waiting:
        number, parent = waiting.pop()
        if number == _NOBODY:
            continue
        if number in seen or number >= len(raw) or raw[number].kind not in {_STORAGE, _STREAM}:
            raise Corrupt("the container is damaged: its directory leads to no entry, or to one twice")
        seen.add(number)
        each = raw[number]
        name = each.name[: max(0, each.name_bytes - 2)].decode("utf-16-le", "replace")
        is_stream = each.kind == _STREAM
        entry = Entry(name, is_stream, each.start, each.size if is_stream else 0)
        parent.children[name.lower()] = entry
        waiting += [(each.left, parent), (each.right, parent)]
        if not is_stream:
            waiting.append((each.child, entry))
    return root


def _follow(table: "array[int]", start: int, wanted: int, *, or_fewer: bool = False) -> list[int]:
    chain: list[int] = []
    sector = start
    most = min(wanted, len(table))  # a longer chain comes back to where it was
    while sector < _NO_MORE and len(chain) < most:
        if sector >= len(table):
            raise Corrupt("the container is damaged: a stream continues in a sector that does not exist")
        chain.append(sector)
        sector = table[sector]
    if len(chain) < wanted and not or_fewer:
        raise Corrupt("the container is damaged: a stream ends before its stated length")
    return chain


def _own(owned: bytearray, chain: Sequence[int], path: str) -> None:
    for sector in chain:
        if owned[sector]:
            raise Corrupt(f"the container is damaged: {path!r} lies where another stream lies")
        owned[sector] = 1


def _joined(offsets: Iterable[int], each: int, size: int) -> list[tuple[int, int]]:
    """Answer offset and length of the unbroken stretches that `size` bytes in sectors at these offsets are."""
    joined: list[tuple[int, int]] = []
    for offset in offsets:
        taken = min(each, size)
        size -= taken
        if joined and sum(joined[-1]) == offset:
            joined[-1] = (joined[-1][0], joined[-1][1] + taken)
        else:
            joined.append((offset, taken))
    return joined
