"""Unpacks the data of one ZIP member piece by piece and compares its checksum. Knows nothing of directories and names."""

import bz2
import lzma
import zlib
from collections.abc import Iterator
from typing import Final

from sluice.formats.archives.containers import RandomAccess, pieces_of
from sluice.formats.archives.decompress import MEMORY_MOST, RAW, Decompressor, Inflate, unpack_stream
from sluice.formats.archives.feed import Feed
from sluice.formats.archives.zip_records import Member
from sluice.formats.budget import Budget
from sluice.formats.verdict import Corrupt, Encrypted, Unsupported

_STORED, _DEFLATED, _BZIP2, _LZMA, _XZ, _AES = 0, 8, 12, 14, 95, 99
_READABLE: Final = frozenset({_STORED, _DEFLATED, _BZIP2, _LZMA, _XZ})

_LZMA_EOS_FLAG: Final = 0x0002
_LZMA_HEAD_BYTES: Final = 9
_LZMA_VERSION_BYTES: Final = 4


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


def _inflate(source: RandomAccess, member: Member, data: int) -> Iterator[bytes]:
    feed = Feed(pieces_of(source, data, member.packed))
    if member.method == _STORED:
        return iter(feed.piece, b"")
    return unpack_stream(_decompressor(member, feed), feed, f"member {member.name!r}")


def _decompressor(member: Member, feed: Feed) -> Decompressor:
    if member.method == _DEFLATED:
        return Inflate(RAW)
    if member.method == _BZIP2:
        return bz2.BZ2Decompressor()
    if member.method == _XZ:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY_MOST)
    size = 2**64 - 1 if member.flags & _LZMA_EOS_FLAG else member.unpacked
    feed.give_back(feed.take(_LZMA_HEAD_BYTES)[_LZMA_VERSION_BYTES:] + size.to_bytes(8, "little"))
    return lzma.LZMADecompressor(lzma.FORMAT_ALONE, memlimit=MEMORY_MOST)
