"""Files with the test virus, to find out what a scanner finds and how large a file it scans."""

import contextlib
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.threats import EICAR

MIB: Final = 1024**2
# APPNOTE.TXT 4.3.7, 4.3.12 and 4.3.16.
_LOCAL: Final = struct.Struct("<4s5H3L2H")
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_END: Final = struct.Struct("<4s4H2LH")
_DEFLATED: Final = 8
_1980: Final = 33  # a date that every reader accepts

# Returns, for a size of padding, the offset and content of each piece of an otherwise empty file.
Layout = Callable[[int], "tuple[tuple[int, bytes], ...]"]


@contextlib.contextmanager
def in_memory(data: bytes) -> Iterator[Sealed]:
    """Yield a file of these bytes in memory."""
    descriptor = os.memfd_create("sluice-probe")
    try:
        os.write(descriptor, data)
        yield Sealed(descriptor, len(data), sha256(data).digest())
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def on_disk(pieces: tuple[tuple[int, bytes], ...], folder: Path | None) -> Iterator[Sealed]:
    """Yield a nameless file that is one hole but for a few pieces: it takes no room, whatever its size.

    It is made in `folder` if that is given and can have such files, else in memory.
    """
    descriptor = _open_nameless(folder)
    try:
        for at, data in pieces:
            os.pwrite(descriptor, data, at)
        yield Sealed(descriptor, os.fstat(descriptor).st_size, b"")
    finally:
        os.close(descriptor)


def _open_nameless(folder: Path | None) -> int:
    if folder is not None:
        with contextlib.suppress(OSError):  # not every file system has such files
            return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    return os.memfd_create("sluice-probe")


def zip_of(*contents: bytes) -> bytes:
    """Return a zip archive of deflated members: stored bytes would be found by a clamd that opens no archive."""
    return deflated_zip([(zlib.crc32(data), deflate(data), len(data)) for data in contents])


def deflate(data: bytes) -> bytes:
    """Return the bytes deflated, so that they are not found in the result."""
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS, strategy=zlib.Z_FIXED)
    return packer.compress(data) + packer.flush()


def deflated_zip(members: list[tuple[int, bytes, int]]) -> bytes:
    """Return a zip archive of members that are given by check sum, deflated bytes and size."""
    archive, directory = bytearray(), bytearray()
    for number, (checksum, packed, size) in enumerate(members):
        name, sizes = b"%d.com" % number, (checksum, len(packed), size)
        directory += _CENTRAL.pack(
            b"PK\1\2", 20, 20, 0, _DEFLATED, 0, _1980, *sizes, len(name), 0, 0, 0, 0, 0, len(archive)
        )
        directory += name
        archive += _LOCAL.pack(b"PK\3\4", 20, 0, _DEFLATED, 0, _1980, *sizes, len(name), 0) + name + packed
    end = _END.pack(b"PK\5\6", 0, 0, len(members), len(members), len(directory), len(archive), 0)
    return bytes(archive + directory + end)


def plain_behind(padding: int) -> tuple[tuple[int, bytes], ...]:
    """Return the pieces of a file with the test virus at its end."""
    return ((padding - len(EICAR), EICAR),)


def zipped_behind(padding: int) -> tuple[tuple[int, bytes], ...]:
    """Return the pieces of a zip archive whose last member is the test virus."""
    return _zip_pieces(((b"padding", b"", padding), (b"eicar.com", EICAR, len(EICAR))))


def _zip_pieces(members: tuple[tuple[bytes, bytes, int], ...]) -> tuple[tuple[int, bytes], ...]:
    """Return the pieces of a zip archive of stored members: name, first bytes (zeros follow) and size of each."""
    pieces: list[tuple[int, bytes]] = []
    at, directory = 0, b""
    for name, data, size in members:
        checksum, zeros = zlib.crc32(data), size - len(data)
        while zeros > 0:
            checksum = zlib.crc32(bytes(min(zeros, MIB)), checksum)
            zeros -= MIB
        directory += (
            _CENTRAL.pack(b"PK\1\2", 20, 20, 0, 0, 0, _1980, checksum, size, size, len(name), 0, 0, 0, 0, 0, at) + name
        )
        pieces.append(
            (at, _LOCAL.pack(b"PK\3\4", 20, 0, 0, 0, _1980, checksum, size, size, len(name), 0) + name + data)
        )
        at += _LOCAL.size + len(name) + size
    end = _END.pack(b"PK\5\6", 0, 0, len(members), len(members), len(directory), at, 0)
    return (*pieces, (at, directory + end))
