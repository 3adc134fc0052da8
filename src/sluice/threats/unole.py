"""The streams of a compound file (OLE2, MS-CFB): old Office documents, messages of Outlook, embedded objects, projects of macros.

Reads leniently: every entry of the directory is followed, also one that no folder names, and a chain of sectors that breaks ends its stream.
Whether a file is sound is judged in `sluice.formats`.
"""

import re
import struct
from array import array
from collections.abc import Iterator
from typing import Final

from sluice.threats.bytesview import View
from sluice.threats.part import Part
from sluice.threats.unvba import macro_sources

_HEADER_BYTES: Final = 512
_IN_HEADER: Final = 109
_NO_MORE: Final = 0xFFFFFFFA
"""Sector numbers from here on are marks: end of a chain, free, table."""
_ENTRY: Final = struct.Struct("<64sHBB12x16x4x16xLQ")
_STREAM, _ROOT = 2, 5
_MINI_BYTES: Final = 64
_SHIFTS: Final = (9, 12)
_MOST_SOURCE_BYTES: Final = 16 * 1024**2
_NATIVE: Final = "\x01Ole10Native"
_PROJECT: Final = "_VBA_PROJECT"
_SHEETS: Final = frozenset({"Workbook", "Book"})
_SHEET_RECORD: Final = 0x0085
_MACRO_SHEET: Final = 1
_MOST_RECORDS: Final = 10_000
_WINDOWS_NAME: Final = re.compile(rb"[^\0]{0,260}\0")


def parts(view: View) -> Iterator[Part]:
    """Iterate over the streams, the packaged file of a stream that is one, and the sources of macros. Raises nothing for what the bytes are."""
    container = _Compound(view)
    for name, start, size in container.entries():
        if name == _NATIVE:
            yield from package(b"".join(container.content(start, size)))
        elif name == _PROJECT:
            yield Part(name, iter((b" ",)), kind="vba_project")
        elif name in _SHEETS and _has_macro_sheet(b"".join(container.content(start, size, most=_MOST_SOURCE_BYTES))):
            yield Part(name, iter((b" ",)), kind="macro_sheet")
        if size <= _MOST_SOURCE_BYTES:
            data = b"".join(container.content(start, size))
            for source in macro_sources(data):
                yield Part(f"{name}.vba", iter((source,)), kind="vba")
            yield Part("", iter((data,)))
        else:
            yield Part("", container.content(start, size))


def package(native: bytes) -> Iterator[Part]:
    """Iterate over the one file that Windows' packager put into a stream `Ole10Native`: its name and its bytes (MS-OLEDS 2.3.6)."""
    at = 6  # the length of what follows, and two bytes of a kind
    label = _WINDOWS_NAME.match(native, at)
    path = None if label is None else _WINDOWS_NAME.match(native, label.end())
    if label is None or path is None:
        return
    length = int.from_bytes(native[path.end() + 4 : path.end() + 8], "little")
    at = path.end() + 8 + length
    size = int.from_bytes(native[at : at + 4], "little")
    yield Part(_longest_name(label[0], path[0]), iter((native[at + 4 : at + 4 + size],)), kind="package")


def embedded(view: View) -> Iterator[Part]:
    """Iterate over what an object of the first kind (MS-OLEDS 2.2.4, as RTF carries them) has inside."""
    data = view.read_at(0, view.size)
    at = 8
    for _ in range(3):  # class, topic, item
        length = int.from_bytes(data[at : at + 4], "little")
        name, at = data[at + 4 : at + 4 + length], at + 4 + length
        if name.startswith(b"Package"):
            yield from package(data[at + 8 :])
    yield Part("", iter((data[at + 4 :],)), unseen=True)


def _longest_name(label: bytes, path: bytes) -> str:
    """Answer the name with an extension: a label may be anything, and Windows opens what the path says."""
    names = [raw.rstrip(b"\0").decode("latin-1") for raw in (path, label)]
    return next((name for name in names if "." in name), names[1])


def _has_macro_sheet(workbook: bytes) -> bool:
    at = 0
    for _ in range(_MOST_RECORDS):
        if len(workbook) < at + 4:
            return False
        kind, length = struct.unpack_from("<HH", workbook, at)
        if kind == _SHEET_RECORD and len(workbook) > at + 9 and workbook[at + 9] & 0x0F == _MACRO_SHEET:
            return True
        at += 4 + length
    return False


class _Compound:
    def __init__(self, view: View) -> None:
        self._view = view
        header = view.read_at(0, _HEADER_BYTES).ljust(_HEADER_BYTES, b"\0")
        shift: int = struct.unpack_from("<H", header, 30)[0]
        self._sector_bytes = 1 << (shift if shift in _SHIFTS else _SHIFTS[0])
        self._most = view.size // self._sector_bytes + 1
        self._directory_at, self._cutoff = struct.unpack_from("<L4xL", header, 48)
        self._table = self._read_table(header)
        (mini_at,) = struct.unpack_from("<L", header, 60)
        self._mini_table = self._numbers(self._chain(mini_at, self._most))
        self._mini_chain: list[int] = []

    def entries(self) -> Iterator[tuple[str, int, int]]:
        """Iterate over name, first sector and length of each stream."""
        directory = b"".join(map(self._sector, self._chain(self._directory_at, self._most)))
        found = [_ENTRY.unpack_from(directory, at) for at in range(0, len(directory) - _ENTRY.size + 1, _ENTRY.size)]
        self._mini_chain = next((self._chain(entry[4], self._most) for entry in found if entry[2] == _ROOT), [])
        for name, name_bytes, kind, _, start, size in found:
            if kind == _STREAM:
                length = size if self._sector_bytes != _HEADER_BYTES else size & 0xFFFFFFFF
                yield name[: max(0, name_bytes - 2)].decode("utf-16-le", "replace"), start, min(length, self._view.size)

    def content(self, start: int, size: int, *, most: int | None = None) -> Iterator[bytes]:
        """Iterate over the bytes of a stream, or over the first `most` of them."""
        left = size if most is None else min(size, most)
        is_mini = size < self._cutoff
        unit = _MINI_BYTES if is_mini else self._sector_bytes
        sectors = self._mini_sectors(start, size) if is_mini else self._chain(start, -(-size // unit))
        for sector in sectors:
            if left <= 0:
                return
            yield (self._mini(sector) if is_mini else self._sector(sector))[: min(unit, left)]
            left -= unit

    def _mini_sectors(self, start: int, size: int) -> list[int]:
        chain: list[int] = []
        while start < len(self._mini_table) and len(chain) * _MINI_BYTES < size:
            chain.append(start)
            start = self._mini_table[start]
        return chain

    def _mini(self, number: int) -> bytes:
        at = number * _MINI_BYTES
        index = at // self._sector_bytes
        if index >= len(self._mini_chain):
            return b""
        return self._view.read_at(self._offset(self._mini_chain[index]) + at % self._sector_bytes, _MINI_BYTES)

    def _chain(self, start: int, most: int) -> list[int]:
        chain: list[int] = []
        while start < len(self._table) and len(chain) < most:
            chain.append(start)
            start = self._table[start]
        return chain

    def _offset(self, sector: int) -> int:
        return (sector + 1) * self._sector_bytes

    def _sector(self, sector: int) -> bytes:
        return self._view.read_at(self._offset(sector), self._sector_bytes)

    def _read_table(self, header: bytes) -> "array[int]":
        numbers = list(struct.unpack_from(f"<{_IN_HEADER}L", header, 76))
        (following,) = struct.unpack_from("<L", header, 68)
        for _ in range(self._most):
            if following >= _NO_MORE or not (more := self._numbers([following])):
                break
            numbers.extend(more[:-1])
            following = more[-1]
        return self._numbers([number for number in numbers[: self._most + _IN_HEADER] if number < _NO_MORE][: self._most])

    def _numbers(self, sectors: list[int]) -> "array[int]":
        table = array("I")
        for sector in sectors:
            data = self._sector(sector)
            table.frombytes(data[: len(data) // 4 * 4])
        return table
