"""Reads the directory of compound files (OLE2, MS-CFB), as far as encrypted Office documents need it. Decrypts nothing.

An encrypted document is such a container with the streams `EncryptionInfo` and `EncryptedPackage` (MS-OFFCRYPTO), whatever its name says.
"""

import struct
from array import array
from dataclasses import dataclass
from typing import Final

from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt

MAGIC: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PACKAGE_MARK: Final = "EncryptedPackage".encode("utf-16-le")
_HEADER_BYTES: Final = 512
_IN_HEADER: Final = 109
_NO_MORE: Final = 0xFFFFFFFA
"""Sector numbers from here on are marks: end of a chain, free, table."""
_ENTRY: Final = struct.Struct("<64sHBB12x16x4x16xLQ")
_STREAM: Final = 2
_SMALL_BYTES: Final = 4096


@dataclass(frozen=True, slots=True)
class Stream:
    """One stream: its first sector and length in bytes."""

    start: int
    size: int


class CompoundFile:
    """The streams of a compound file. Raises `Corrupt` when its tables do not lead to them."""

    def __init__(self, source: Source) -> None:
        header = source.head[:_HEADER_BYTES]
        if len(header) < _HEADER_BYTES or not header.startswith(MAGIC):
            raise Corrupt("the container's header is missing or cut")
        self._source = source
        shift: int = struct.unpack_from("<H", header, 30)[0]
        if shift not in {9, 12}:
            raise Corrupt("the container's header is damaged: it states an impossible sector size")
        self._sector_bytes: int = 1 << shift
        self._most = source.size // self._sector_bytes + 1
        self._table = self._read_table(header)
        self.streams = self._read_directory(struct.unpack_from("<L", header, 48)[0])

    def check(self, stream: Stream) -> None:
        """Raise `Corrupt` when a stream's sectors do not all lie in the file. Streams under 4 KiB lie in a shared one and are passed."""
        if stream.size < _SMALL_BYTES:
            return
        chain = self._chain(stream.start, -(-stream.size // self._sector_bytes))
        end = max(self._offset(sector) for sector in chain)
        last = self._offset(chain[-1]) + (stream.size - 1) % self._sector_bytes + 1
        if last > self._source.size or end >= self._source.size:
            raise Corrupt("the file is cut: part of its content lies behind its end")

    def read(self, stream: Stream, size: int) -> bytes:
        """Answer the first bytes, up to one sector, of a stream of 4 KiB or more."""
        return self._source.read_at(self._offset(stream.start), min(size, self._sector_bytes))

    def _offset(self, sector: int) -> int:
        return (sector + 1) * self._sector_bytes

    def _sector(self, sector: int) -> bytes:
        data = self._source.read_at(self._offset(sector), self._sector_bytes)
        if len(data) < self._sector_bytes:
            raise Corrupt("the file is cut: the container's tables lie behind its end")
        return data

    def _read_table(self, header: bytes) -> "array[int]":
        numbers = list(struct.unpack_from(f"<{_IN_HEADER}L", header, 76))
        following, per_sector = struct.unpack_from("<L", header, 68)[0], self._sector_bytes // 4
        while following < _NO_MORE and len(numbers) < self._most + _IN_HEADER:
            more = struct.unpack(f"<{per_sector}L", self._sector(following))
            numbers.extend(more[:-1])
            following = more[-1]
        table = array("I")
        for number in numbers:
            if number < _NO_MORE and len(table) < self._most + per_sector:
                table.frombytes(self._sector(number))
        return table

    def _chain(self, start: int, most: int) -> list[int]:
        chain: list[int] = []
        sector = start
        while sector < _NO_MORE and len(chain) < most:
            if sector >= len(self._table):
                raise Corrupt("the container is damaged: a stream continues in a sector that does not exist")
            chain.append(sector)
            sector = self._table[sector]
        if not chain or (most < self._most and len(chain) < most):
            raise Corrupt("the container is damaged: a stream ends before its stated length")
        return chain

    def _read_directory(self, start: int) -> dict[str, Stream]:
        streams: dict[str, Stream] = {}
        for sector in self._chain(start, self._most):
            data = self._sector(sector)
            for at in range(0, self._sector_bytes, _ENTRY.size):
                name, name_bytes, kind, _, first, size = _ENTRY.unpack_from(data, at)
                if kind == _STREAM:
                    length = size if self._sector_bytes != _HEADER_BYTES else size & 0xFFFFFFFF
                    streams[name[: max(0, name_bytes - 2)].decode("utf-16-le", "replace")] = Stream(first, length)
        return streams


def names_encrypted_package(source: Source) -> bool:
    """Whether the content is a compound file that holds an encrypted Office document, as far as its directory still shows."""
    if not source.head.startswith(MAGIC):
        return False
    try:
        return "EncryptedPackage" in CompoundFile(source).streams
    except Corrupt:
        return _PACKAGE_MARK in source.head or _PACKAGE_MARK in source.tail


def check_encrypted_package(source: Source) -> None:
    """Raise `Corrupt` when an encrypted document is provably incomplete."""
    container = CompoundFile(source)
    package, info = container.streams.get("EncryptedPackage"), container.streams.get("EncryptionInfo")
    if package is None or info is None:
        raise Corrupt("the encrypted document lacks its content or the description of its encryption")
    container.check(package)
    container.check(info)
    if package.size >= _SMALL_BYTES and int.from_bytes(container.read(package, 8), "little") > package.size - 8:
        raise Corrupt("the encrypted document is shorter than it states")
