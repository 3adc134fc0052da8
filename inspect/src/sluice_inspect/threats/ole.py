"""What OLE carries: streams of compound files (old Office documents, Outlook), packages, OLE 1.0 objects, VBA."""
# Read leniently: every entry of the directory ([MS-CFB]) is followed, also one that no folder names, and a chain of
# sectors that breaks only ends its stream.

import re
import struct
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from sluice_inspect.extensions import extension_of
from sluice_inspect.office.default_password import decrypted
from sluice_inspect.parts import Part, find_all
from sluice_inspect.program_names import is_program_name
from sluice_inspect.source import RandomAccess
from sluice_inspect.threats.detect import ACTIVE_MIME_MAGIC, COMPOUND_MAGIC
from sluice_inspect.threats.streams import inflate
from sluice_inspect.threats.vba import module_offsets, plain_code, vba_sources

_MAX_SEARCHED_BYTES: Final = 16 * 1024**2
_MAX_CODE_BYTES: Final = 4 * 1024**2  # the rules see as much at once
_NATIVE: Final = "\x01ole10native"  # names of streams are compared without case: MS-CFB 2.6.4
_VBA_PROJECT: Final = "_VBA_PROJECT"
_MODULE_LIST: Final = "dir"
_WORKBOOKS: Final = frozenset({"Workbook", "Book"})
_SHEET_RECORD: Final = 0x0085  # BoundSheet8: MS-XLS 2.4.28
_MACRO_SHEET: Final = 1
_MAX_RECORDS: Final = 10_000
_WINDOWS_STRING: Final = re.compile(rb"[^\0]{0,260}\0")
_MAX_NAME: Final = 1024
_ACTIVE_MIME_HEAD_BYTES: Final = 4096
_DEFLATED: Final = re.compile(rb"\x78[\x01\x5e\x9c\xda]")
_PROBE_BYTES: Final = 1024
_MAX_EMBEDDED: Final = 8  # compound files in one object of which one is honest

_HEADER_BYTES: Final = 512
_TABLE_SECTORS_IN_HEADER: Final = 109
_FIRST_MARK: Final = 0xFFFFFFFA  # sector numbers from here on are marks: end of a chain, free, table
_ENTRY: Final = struct.Struct("<64sHBB12x16x4x16xLQ")
_STREAM, _ROOT = 2, 5
_MINI_SECTOR_BYTES: Final = 64
_SECTOR_SHIFTS: Final = (9, 12)


def compound_parts(source: RandomAccess) -> Iterator[Part]:
    """Yield the streams, packaged files in them, and the sources of macros. Never raise for what the bytes are."""
    document = decrypted(source)
    if document is not None:
        yield Part("", iter((document,)), hidden_from_clamd=True)
    compound = _Compound(source)
    code = bytearray()  # of all modules together, since they call each other
    entries = list(compound.entries())
    offsets: dict[str, int] = {}
    for name, start, size in entries:
        if name.lower() == _MODULE_LIST and size <= _MAX_SEARCHED_BYTES:
            offsets |= module_offsets(b"".join(compound.content(start, size)))
    for name, start, size in entries:
        if name.lower() == _NATIVE:
            yield from _package(b"".join(compound.content(start, size)))
        elif name == _VBA_PROJECT:
            yield Part(name, iter((b" ",)), format_name="vba_project")
        elif name in _WORKBOOKS and _has_macro_sheet(b"".join(compound.content(start, size, _MAX_SEARCHED_BYTES))):
            yield Part(name, iter((b" ",)), format_name="macro_sheet")
        if size <= _MAX_SEARCHED_BYTES:
            data = b"".join(compound.content(start, size))
            for source_code in vba_sources(data, offsets.get(name.lower())):
                yield Part(f"{name}.vba", iter((source_code,)), format_name="vba")
                code += plain_code(source_code) + b"\n"
                if len(code) > _MAX_CODE_BYTES:
                    yield Part("", iter((bytes(code),)), format_name="vba_code")
                    code.clear()
            yield Part("", iter((data,)))
        else:
            yield Part("", compound.content(start, size))
    if code:
        yield Part("", iter((bytes(code),)), format_name="vba_code")


def object_parts(source: RandomAccess) -> Iterator[Part]:
    """Yield what an OLE 1.0 object (MS-OLEDS 2.2.4, as RTF carries them) has inside."""
    data = source.read_at(0, source.size)
    at, names = 8, []  # version and type, which readers ignore
    for _ in range(3):  # class, topic, item
        length = int.from_bytes(data[at : at + 4], "little")
        names.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    # The registry, which finds the program by the class, ignores case.
    if names[0].strip(b"\0 ").lower().startswith(b"package"):
        for part in _package(data[at:]):
            yield replace(part, hidden_from_clamd=True)
    # Lengths that lie must not hide a compound file.
    for start in sorted({at + 4, *find_all(data, COMPOUND_MAGIC)[:_MAX_EMBEDDED]}):
        yield Part("", iter((data[start:],)), hidden_from_clamd=True)


def active_mime_parts(source: RandomAccess) -> Iterator[Part]:
    """Yield the compound file that Office packs with macros for a web page or a document of one XML file."""
    # Its deflated bytes begin at one of a few places, which depend on a length in the header.
    head = source.read_at(0, _ACTIVE_MIME_HEAD_BYTES)
    for found in _DEFLATED.finditer(head, len(ACTIVE_MIME_MAGIC)):
        start, unpacking = found.start(), zlib.decompressobj()
        try:
            if unpacking.decompress(source.read_at(start, _PROBE_BYTES), _PROBE_BYTES):
                yield Part("", inflate(source.read_at(start, source.size - start), times=1), hidden_from_clamd=True)
                return
        except zlib.error:
            continue


def _package(native: bytes) -> Iterator[Part]:
    """Yield the file that Windows' packager put into a stream `Ole10Native` (MS-OLEDS 2.3.6), under each of its names.

    There are a label, a path and a temporary path, and there may be all three in Unicode. A label may be anything;
    Windows opens what the extension of a path says, and of which path depends on its version.
    """
    at = 6  # the length of what follows, and two bytes of a type
    label = _WINDOWS_STRING.match(native, at)
    path = None if label is None else _WINDOWS_STRING.match(native, label.end())
    if label is None or path is None:
        return
    at = path.end() + 4
    temporary, at = _prefixed(native, at, 1)
    content, at = _prefixed(native, at, 1)
    paths, labels = [_latin(path[0]), _latin(temporary)], [_latin(label[0])]
    for names in (paths, labels, paths):
        raw, at = _prefixed(native, at, 2)
        names.append(raw[: 2 * _MAX_NAME].decode("utf-16-le", "replace").rstrip("\0"))
    by_extension = {extension_of(name): name for name in reversed(paths) if "." in name}
    program = next(filter(is_program_name, (*paths, *labels)), None)
    named = ([] if program is None else [program]) + list(by_extension.values())
    for name in dict.fromkeys(named or [next(filter(extension_of, labels), labels[0])]):
        yield Part(name, iter((content,)), format_name="package")


def _latin(raw: bytes) -> str:
    return raw[:_MAX_NAME].split(b"\0")[0].decode("latin-1")


def _prefixed(native: bytes, at: int, unit: int) -> tuple[bytes, int]:
    """Return the bytes behind a count of units of four bytes, and where they end."""
    end = at + 4 + unit * int.from_bytes(native[at : at + 4], "little")
    return native[at + 4 : end], end


def _has_macro_sheet(workbook: bytes) -> bool:
    at = 0
    for _ in range(_MAX_RECORDS):
        if len(workbook) < at + 4:
            return False
        record_type, length = struct.unpack_from("<HH", workbook, at)
        if record_type == _SHEET_RECORD and len(workbook) > at + 9 and workbook[at + 9] & 0x0F == _MACRO_SHEET:
            return True
        at += 4 + length
    return False


class _Compound:
    def __init__(self, source: RandomAccess) -> None:
        self._source = source
        header = source.read_at(0, _HEADER_BYTES).ljust(_HEADER_BYTES, b"\0")
        shift: int = struct.unpack_from("<H", header, 30)[0]
        self._sector_bytes = 1 << (shift if shift in _SECTOR_SHIFTS else _SECTOR_SHIFTS[0])
        self._max_sectors = source.size // self._sector_bytes + 1
        self._directory_at, self._mini_cutoff = struct.unpack_from("<L4xL", header, 48)
        self._table = self._read_table(header)
        (mini_at,) = struct.unpack_from("<L", header, 60)
        self._mini_table = self._numbers(_follow_chain(self._table, mini_at, self._max_sectors))
        self._mini_chain: list[int] = []

    def entries(self) -> Iterator[tuple[str, int, int]]:
        directory = b"".join(map(self._sector, _follow_chain(self._table, self._directory_at, self._max_sectors)))
        entries = [_ENTRY.unpack_from(directory, at) for at in range(0, len(directory) - _ENTRY.size + 1, _ENTRY.size)]
        self._mini_chain = next(
            (_follow_chain(self._table, entry[4], self._max_sectors) for entry in entries if entry[2] == _ROOT), []
        )
        for name, name_bytes, entry_type, _, start, size in entries:
            if entry_type == _STREAM:
                # With sectors of 512 bytes, the upper half of the length may hold anything: MS-CFB 2.6.1.
                length = size if self._sector_bytes != _HEADER_BYTES else size & 0xFFFFFFFF
                text = name[: max(0, name_bytes - 2)].decode("utf-16-le", "replace")
                yield text, start, min(length, self._source.size)

    def content(self, start: int, size: int, most: int | None = None) -> Iterator[bytes]:
        left = size if most is None else min(size, most)
        is_mini = size < self._mini_cutoff
        unit = _MINI_SECTOR_BYTES if is_mini else self._sector_bytes
        sectors = _follow_chain(self._mini_table if is_mini else self._table, start, -(-size // unit))
        for sector in sectors:
            if left <= 0:
                return
            yield (self._mini_sector(sector) if is_mini else self._sector(sector))[: min(unit, left)]
            left -= unit

    def _mini_sector(self, number: int) -> bytes:
        index, at = divmod(number * _MINI_SECTOR_BYTES, self._sector_bytes)
        if index >= len(self._mini_chain):
            return b""
        return self._source.read_at(self._offset(self._mini_chain[index]) + at, _MINI_SECTOR_BYTES)

    def _offset(self, sector: int) -> int:
        return (sector + 1) * self._sector_bytes

    def _sector(self, sector: int) -> bytes:
        return self._source.read_at(self._offset(sector), self._sector_bytes)

    def _read_table(self, header: bytes) -> "array[int]":
        numbers = list(struct.unpack_from(f"<{_TABLE_SECTORS_IN_HEADER}L", header, 76))
        (following,) = struct.unpack_from("<L", header, 68)
        for _ in range(self._max_sectors):
            if following >= _FIRST_MARK or not (more := self._numbers([following])):
                break
            numbers.extend(more[:-1])
            following = more[-1]
        sectors = [number for number in numbers[: self._max_sectors + _TABLE_SECTORS_IN_HEADER] if number < _FIRST_MARK]
        return self._numbers(sectors[: self._max_sectors])

    def _numbers(self, sectors: list[int]) -> "array[int]":
        table = array("I")
        for sector in sectors:
            data = self._sector(sector)
            table.frombytes(data[: len(data) // 4 * 4])
        return table


def _follow_chain(table: "array[int]", start: int, most: int) -> list[int]:
    chain: list[int] = []
    while start < len(table) and len(chain) < most:
        chain.append(start)
        start = table[start]
    return chain
