"""Makes small compound files: the samples of the kinds in them. Writes what `compound.py` reads, and no more."""

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from sluice.formats.office.compound import MAGIC

Tree = Mapping[str, "bytes | Tree"]
"""Streams and storages by their names."""

_SECTOR: Final = 512
_SMALL_SECTOR: Final = 64
_SMALL_BYTES: Final = 4096
_END, _TABLE, _FREE = 0xFFFFFFFE, 0xFFFFFFFD, 0xFFFFFFFF
_STORAGE, _STREAM, _ROOT = 1, 2, 5


def make_compound(tree: Tree) -> bytes:
    """Answer a compound file of these streams and storages; one table sector, so up to 60 KiB."""
    return _Writer().written(tree)


class _Writer:
    def __init__(self) -> None:
        self._table: list[int] = [_TABLE]
        self._body: list[bytes] = []
        self._small_table: list[int] = []
        self._small = b""
        self._entries: list[bytes] = [b""]

    def written(self, tree: Tree) -> bytes:
        child = self._add_all(tree)
        shared = self._add(self._small)
        self._entries[0] = _entry("Root Entry", _ROOT, child=child, start=shared, size=len(self._small))
        small_table = self._add(struct.pack(f"<{len(self._small_table)}L", *self._small_table), b"\xff")
        directory = self._add(b"".join(self._entries) + _entry("", 0) * (-len(self._entries) % 4))
        table = struct.pack(f"<{len(self._table)}L", *self._table).ljust(_SECTOR, b"\xff")
        small_sectors = -(-len(self._small_table) * 4 // _SECTOR)
        header = MAGIC + bytes(16) + struct.pack("<5H6x", 0x3E, 3, 0xFFFE, 9, 6)
        header += struct.pack("<9L", 0, 1, directory, 0, _SMALL_BYTES, small_table, small_sectors, _END, 0)
        header += struct.pack("<109L", 0, *[_FREE] * 108)
        return header + table + b"".join(self._body)

    def _add_all(self, tree: Tree) -> int:
        """Write what a storage holds; answer the number of its first entry, from which the others follow."""
        following = _FREE
        for name, content in sorted(tree.items(), key=lambda each: (len(each[0]), each[0].upper()), reverse=True):
            if isinstance(content, bytes):
                is_small = len(content) < _SMALL_BYTES
                start = self._add_small(content) if is_small else self._add(content)
                entry = _entry(name, _STREAM, right=following, start=start, size=len(content))
            else:
                entry = _entry(name, _STORAGE, right=following, child=self._add_all(content), start=0)
            following = len(self._entries)
            self._entries.append(entry)
        return following

    def _add(self, content: bytes, padding: bytes = b"\0") -> int:
        if not content:
            return _END
        first, count = len(self._table), -(-len(content) // _SECTOR)
        self._table += _links(first, count)
        self._body.append(content.ljust(count * _SECTOR, padding))
        return first

    def _add_small(self, content: bytes) -> int:
        if not content:
            return _END
        first, count = len(self._small_table), -(-len(content) // _SMALL_SECTOR)
        self._small_table += _links(first, count)
        self._small += content.ljust(count * _SMALL_SECTOR, b"\0")
        return first


def _links(first: int, count: int) -> Iterable[int]:
    return [*range(first + 1, first + count), _END]


def _entry(name: str, kind: int, *, right: int = _FREE, child: int = _FREE, start: int = 0, size: int = 0) -> bytes:
    letters = (name + "\0").encode("utf-16-le") if name else b""
    return struct.pack("<64sHBBLLL36xLQ", letters, len(letters), kind, 1, _FREE, right, child, start, size)
