"""Make compound files (OLE2, MS-CFB version 3) and the packaged objects in them."""

import itertools
import struct
from collections.abc import Mapping

_SECTOR = 512
_MINI = 64
_CUTOFF = 4096
_END, _FREE, _FAT = 0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFD
_NONE = 0xFFFFFFFF
_STORAGE, _STREAM, _ROOT = 1, 2, 5


def compound(streams: Mapping[str, bytes]) -> bytes:
    """Return a compound file of streams by their paths (`VBA/dir`); the storages they name are created."""
    entries = _entries(streams)
    mini, mini_fat = bytearray(), list[int]()
    body, fat = bytearray(), list[int]()

    def chain(table: list[int], count: int) -> int:
        first = len(table)
        table.extend([*range(first + 1, first + count), _END] if count else [])
        return first if count else _END

    def put(data: bytes) -> int:
        first = chain(fat, -(-len(data) // _SECTOR))
        body.extend(data + bytes(-len(data) % _SECTOR))
        return first

    for entry in entries:
        if entry.entry_type == _STREAM and len(entry.data) < _CUTOFF:
            entry.start = chain(mini_fat, -(-len(entry.data) // _MINI))
            mini += entry.data + bytes(-len(entry.data) % _MINI)
        elif entry.entry_type == _STREAM:
            entry.start = put(entry.data)
    entries[0].start, entries[0].size = put(bytes(mini)), len(mini)
    mini_table = b"".join(struct.pack("<L", number) for number in mini_fat)
    mini_table += b"\xff" * (-len(mini_table) % _SECTOR)
    mini_at, mini_sectors = put(mini_table), len(mini_table) // _SECTOR
    directory = b"".join(entry.packed() for entry in entries)
    directory += _Entry("", 0).packed() * (-len(entries) % 4)
    directory_at = put(directory)
    fat_sectors = 1
    while fat_sectors * (_SECTOR // 4) < len(fat) + fat_sectors:
        fat_sectors += 1
    fat_at = len(fat)
    fat += [_FAT] * fat_sectors
    table = b"".join(struct.pack("<L", number) for number in fat)
    body += table + b"\xff" * (fat_sectors * _SECTOR - len(table))
    header = struct.pack(
        "<8s16xHHHHH6xLLL", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0x3E, 3, 0xFFFE, 9, 6, 0, fat_sectors, directory_at
    )
    header += struct.pack("<LLLLLL", 0, _CUTOFF, mini_at if mini_sectors else _END, mini_sectors, _END, 0)
    places = [fat_at + number for number in range(fat_sectors)]
    header += b"".join(struct.pack("<L", number) for number in [*places, *[_FREE] * (109 - fat_sectors)])
    return header + bytes(body)


class _Entry:
    def __init__(self, name: str, entry_type: int, data: bytes = b"") -> None:
        self.name, self.entry_type, self.data = name, entry_type, data
        self.size, self.start = len(data), _END if entry_type != _STORAGE else 0
        self.right = self.child = _NONE
        self.children: dict[str, int] = {}

    def packed(self) -> bytes:
        name = self.name.encode("utf-16-le") + b"\0\0" if self.name else b""
        links = struct.pack("<LLL", _NONE, self.right, self.child)
        return struct.pack(
            "<64sHBB12s16x4x16xLQ",
            name,
            len(name),
            self.entry_type,
            1,
            links,
            self.start if self.entry_type else 0,
            self.size,
        )


def _entries(streams: Mapping[str, bytes]) -> list[_Entry]:
    entries = [_Entry("Root Entry", _ROOT)]
    for path, data in streams.items():
        *folders, name = path.split("/")
        parent = entries[0]
        for folder in folders:
            parent = entries[_child(entries, parent, folder, _STORAGE, b"")]
        _child(entries, parent, name, _STREAM, data)
    for entry in entries:
        chain = list(entry.children.values())
        entry.child = chain[0] if chain else _NONE
        for number, following in itertools.pairwise(chain):
            entries[number].right = following
    return entries


def _child(entries: list[_Entry], parent: _Entry, name: str, entry_type: int, data: bytes) -> int:
    if name not in parent.children:
        entries.append(_Entry(name, entry_type, data))
        parent.children[name] = len(entries) - 1
    return parent.children[name]


def ole_package(data: bytes, name: bytes = b"e.txt") -> bytes:
    """Return the stream `\\x01Ole10Native` of a packaged file, as Windows' Object Packager writes it."""
    where = b"C:\\" + name + b"\0"
    body = struct.pack("<H", 2) + name + b"\0" + where + struct.pack("<HH", 0, 3)
    body += struct.pack("<L", len(where)) + where + struct.pack("<L", len(data)) + data
    return struct.pack("<L", len(body)) + body


def packaged(data: bytes, name: bytes = b"e.txt") -> bytes:
    """Return a compound file as Office embeds a packaged file: `oleObject1.bin`."""
    return compound({"\x01CompObj": bytes(100), "\x01Ole10Native": ole_package(data, name)})
