"""Unpacks the data of one ZIP member piece by piece and compares its checksum. Knows nothing of directories and names."""

import bz2
import lzma
import zlib
from collections.abc import Iterator
from typing import Final, Protocol

from sluice.formats.budget import CHUNK_BYTES, Budget
from sluice.formats.verdict import Corrupt, Encrypted, TooComplex, Unsupported
from sluice.formats.zip_records import Member, RandomAccess

_STORED, _DEFLATED, _BZIP2, _LZMA, _XZ, _AES = 0, 8, 12, 14, 95, 99
_READABLE: Final = frozenset({_STORED, _DEFLATED, _BZIP2, _LZMA, _XZ})
_MEMORY_MOST: Final = 256 * 1024**2
"""Bytes that an LZMA dictionary may take: the largest that `xz -9` asks for is 64 MiB."""

_LZMA_EOS_FLAG: Final = 0x0002
_LZMA_HEAD_BYTES: Final = 9


def unpack(source: RandomAccess, member: Member, data: int, budget: Budget) -> Iterator[bytes]:
    """Yield the content of the member whose packed bytes begin at `data`. See `Archive.chunks` for what it raises."""
    if member.is_encrypted or member.method == _AES:
        raise Encrypted(f"member {member.name!r} is protected by a password")
    if member.method not in _READABLE:
        raise Unsupported(f"member {member.name!r} is packed by method {member.method}, which cannot be unpacked here")
    crc = seen = 0
    for chunk in _inflate(source, member, data):
        seen += len(chunk)
        if seen > member.unpacked:
            raise Corrupt(f"member {member.name!r} unpacks to more than the {member.unpacked} bytes that its header promises")
        budget.spend(len(chunk))
        crc = zlib.crc32(chunk, crc)
        yield chunk
    if seen != member.unpacked:
        raise Corrupt(f"member {member.name!r} unpacks to {seen} bytes where its header promises {member.unpacked}")
    if crc != member.crc:
        raise Corrupt(f"member {member.name!r} is damaged: its checksum does not fit its content")


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Store:
    """What is not compressed, behind the interface of the decompressors; its end is the end of the input."""

    eof = False
    needs_input = True

    def decompress(self, data: bytes, _max_length: int = -1) -> bytes:
        return data


class _Inflate:
    """Raw Deflate behind the interface of the other decompressors."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(-zlib.MAX_WBITS)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


def _inflate(source: RandomAccess, member: Member, data: int) -> Iterator[bytes]:
    try:
        decompressor, feed, used = _decompressor(source, member, data)
        at, end = data + used, data + member.packed
        while not decompressor.eof:
            if not feed and decompressor.needs_input and at < end:
                feed = source.read_at(at, min(CHUNK_BYTES, end - at))
                at += len(feed)
            chunk = decompressor.decompress(feed, CHUNK_BYTES)
            if not chunk and not feed and at >= end:
                break
            feed = b""
            if chunk:
                yield chunk
    except (zlib.error, lzma.LZMAError, OSError, EOFError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        if "Memory" in str(error):
            raise TooComplex(f"member {member.name!r} needs more memory to unpack than is allowed") from error
        raise Corrupt(f"member {member.name!r} does not unpack: {error}") from error
    if not decompressor.eof and member.method != _STORED:
        raise Corrupt(f"member {member.name!r} is cut: its packed data ends too early")


def _decompressor(source: RandomAccess, member: Member, data: int) -> tuple[_Decompressor, bytes, int]:
    """Answer the decompressor, what it must be fed first, and how many packed bytes that stands for."""
    if member.method == _STORED:
        return _Store(), b"", 0
    if member.method == _DEFLATED:
        return _Inflate(), b"", 0
    if member.method == _BZIP2:
        return bz2.BZ2Decompressor(), b"", 0
    if member.method == _XZ:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MEMORY_MOST), b"", 0
    head = source.read_at(data, _LZMA_HEAD_BYTES)
    size = 2**64 - 1 if member.flags & _LZMA_EOS_FLAG else member.unpacked
    alone = lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=_MEMORY_MOST)
    return alone, head[4:] + size.to_bytes(8, "little"), _LZMA_HEAD_BYTES
