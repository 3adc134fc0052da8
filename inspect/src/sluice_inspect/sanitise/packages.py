"""ZIP packages of documents, rewritten: parts that stay are copied as they are packed, without dates."""
# APPNOTE 4.3 (layout), 4.4 (fields).

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Final

from sluice_inspect.archives.zip.archive import ZipArchive, read_archive, refuse_unsafe_names
from sluice_inspect.budget import Budget
from sluice_inspect.report import Encrypted, Limits, TooComplex
from sluice_inspect.sanitise import gif, jp2, jpeg, png, tiff, webp
from sluice_inspect.sanitise.cleaning import Cleaner, Cleaning
from sluice_inspect.source import MemoryBacked

_LOCAL: Final = struct.Struct("<4s5H3L2H")
_ENTRY: Final = struct.Struct("<4s6H3L5H2L")
_END: Final = struct.Struct("<4s4H2LH")
_UTF8, _DEFLATED, _STORED = 0x0800, 8, 0
_VERSION: Final = 20
_FIRST_DAY: Final = 0x21  # 1 January 1980, as Office writes it
_TIME: Final = slice(10, 14)  # of a local header
_LARGEST_PART: Final = 256 * 1024**2
_LIMITS: Final = Limits(max_unpacked_bytes=1024**3)
# By their first bytes, as the names of parts are free.
_PICTURES: Final[tuple[tuple[bytes, Cleaner], ...]] = (
    (b"\xff\xd8\xff", jpeg.clean), (b"\x89PNG\r\n\x1a\n", png.clean), (b"GIF8", gif.clean), (b"II*\0", tiff.clean),
    (b"MM\0*", tiff.clean), (b"\0\0\0\x0cjP  ", jp2.clean),
)  # fmt: skip


class PackageParts:
    """The parts of a package by name, and what becomes of them."""

    def __init__(self, data: bytes) -> None:
        self._source = MemoryBacked(data)
        self._archive: ZipArchive = self._source.cached(read_archive, _LIMITS)
        refuse_unsafe_names(self._archive.members)
        self._budget = Budget(_LIMITS, len(data))
        self._budget.count(len(self._archive.members))
        if any(member.is_encrypted for member in self._archive.members):
            raise Encrypted("parts of the document are protected by a password")
        self._changed: dict[int, bytes | None] = {}
        self.names: Mapping[str, int] = {
            name: index for name, index in self._archive.by_name.items() if not name.endswith("/")
        }

    def read(self, name: str) -> bytes:
        """Return a part as it is now. Raise as an archive does."""
        index = self.names[name]
        changed = self._changed.get(index)
        if changed is not None:
            return changed
        if self._archive.members[index].unpacked > _LARGEST_PART:
            raise TooComplex(f"part {name!r} of the document is too large")
        return self._archive.open(index, self._budget).read(-1)

    def head(self, name: str, size: int) -> bytes:
        """Return the first bytes of a part."""
        return self._archive.open(self.names[name], self._budget).read(size)

    def change(self, name: str, content: bytes) -> None:
        """Give a part other content."""
        self._changed[self.names[name]] = content

    def drop(self, name: str) -> None:
        """Leave a part out."""
        self._changed[self.names[name]] = None

    def has(self, name: str) -> bool:
        """Whether there is still a part of that name."""
        return name in self.names and self._changed.get(self.names[name], b"") is not None

    def has_dates(self) -> bool:
        """Whether members state when they were written, or the package has a comment or bytes around its members."""
        archive = self._archive
        first = struct.pack("<HH", 0, _FIRST_DAY)
        return any(
            self._source.read_at(member.offset, _LOCAL.size)[_TIME] not in {first, bytes(4)}
            for member in archive.members
        )

    def write(self) -> bytes:
        """Return the package with what was changed."""
        pieces, entries, at = list[bytes](), list[bytes](), 0
        for index, member in enumerate(self._archive.members):
            changed = self._changed.get(index, b"")
            if changed is None or member.is_directory:
                continue
            if index in self._changed:
                packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
                packed, method = packer.compress(changed) + packer.flush(), _DEFLATED
                crc, unpacked = zlib.crc32(changed), len(changed)
            else:
                start = self._archive.headers[index].data
                packed, method = self._source.read_at(start, member.packed), member.method
                crc, unpacked = member.crc, member.unpacked
            flags = member.flags & _UTF8
            name = member.raw_name
            shared = (_VERSION, flags, method, 0, _FIRST_DAY, crc, len(packed), unpacked, len(name), 0)
            pieces += [_LOCAL.pack(b"PK\x03\x04", *shared), name, packed]
            entries += [_ENTRY.pack(b"PK\x01\x02", _VERSION, *shared, 0, 0, 0, 0, at), name]
            at += _LOCAL.size + len(name) + len(packed)
        directory = b"".join(entries)
        count = len(entries) // 2
        end = _END.pack(b"PK\x05\x06", 0, 0, count, count, len(directory), at, 0)
        return b"".join([*pieces, directory, end])


def clean_picture(data: bytes, cleaning: Cleaning) -> bytes:
    """Return a picture within a document without metadata; other bytes as they are."""
    cleaner = next((each for start, each in _PICTURES if data.startswith(start)), None)
    if cleaner is None and data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        cleaner = webp.clean
    return data if cleaner is None else cleaner(data, cleaning)


def is_picture(head: bytes) -> bool:
    """Whether `clean_picture` knows what begins so."""
    return head.startswith((b"RIFF", *(start for start, _ in _PICTURES)))
