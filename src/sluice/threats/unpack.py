"""Compressed streams as the walk reads them: gzip, bzip2, xz, lzma, Zstandard, LZ4, deflate. Budgets are counted by whoever reads.

The decompressors are those of `sluice.formats.archives`. Reading is lenient here: what comes before damage is handed out, and the damage
itself only ends the stream. Whether a file is sound is judged in `sluice.formats`.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

from sluice.formats.archives import frames, streams
from sluice.formats.archives.decompress import MEMORY_MOST, RAW, Decompressor, Inflate, unpack_stream
from sluice.formats.archives.feed import Feed
from sluice.formats.archives.streams import Codec
from sluice.formats.verdict import Corrupt, Unsupported
from sluice.threats.budget import OverBudget

_BEGIN_BYTES: Final = 512
_ZIP_LZMA_HEAD: Final = 9  # version (2), length of the properties (2), the properties (5): APPNOTE 5.8.8
_ZIP_LZMA_VERSION: Final = 4
_UNKNOWN_SIZE: Final = b"\xff" * 8
_LZMA_BEGIN: Final = b"]\0\0"

Unpack = Callable[[Feed], Iterator[bytes]]
"""Unpacks one stream. Raises `Corrupt` and `Unsupported`, as `unpack_stream` does."""


@dataclass(frozen=True, slots=True)
class Packing:
    """How the compressed streams of one file are told and read; `is_unseen`: clamd opens none of this kind (measured, 1.4.6)."""

    first: bytes
    """The bytes that one of them may have first."""
    begins: Callable[[bytes], bool]
    codec: Codec
    is_unseen: bool = False


_SKIPPED_FIRST: Final = bytes(range(0x50, 0x60))
"""Frames that readers of Zstandard and LZ4 pass over may come first: RFC 8878 section 3.1.2."""
_PACKINGS: Final = (
    Packing(b"\x1f", streams.GZIP.begins, streams.GZIP_CODEC),
    Packing(b"B", streams.BZIP2.begins, streams.BZIP2_CODEC),
    Packing(b"\xfd", streams.XZ.begins, streams.XZ_CODEC),
    Packing(b"\x28" + _SKIPPED_FIRST, frames.ZSTANDARD.begins, frames.ZSTANDARD_CODEC, is_unseen=True),
    Packing(b"\x04\x02" + _SKIPPED_FIRST, frames.LZ4.begins, frames.LZ4_CODEC, is_unseen=True),
)
_FIRST: Final = frozenset(b"".join(packing.first for packing in _PACKINGS))


def packing_of(head: bytes) -> Packing | None:
    """Answer how to unpack a file that begins with `head`, or None when it is no compressed stream that is known here."""
    if not head or head[0] not in _FIRST:
        return None
    return next((packing for packing in _PACKINGS if packing.begins(head)), None)


class Streams:
    """The compressed streams of one file, one behind another. `count` is called for each further one."""

    def __init__(self, packing: Packing, packed: Iterator[bytes], count: Callable[[], None]) -> None:
        self._packing = packing
        self._feed = Feed(packed)
        self._count = count
        self._found = 0

    def are_unseen(self) -> bool:
        """Answer whether clamd does not see all that was read so far: of several streams, it reads the first alone or all, by their kind."""
        return self._packing.is_unseen or self._found > 1

    def pieces(self) -> Iterator[bytes]:
        """Iterate over what they unpack to. Raises `OverBudget` for what cannot be unpacked here though others may."""
        try:
            yield from self._pieces()
        except Corrupt:
            return  # all that any reader could get out of it was handed out
        except Unsupported as lacking:
            raise OverBudget(str(lacking)) from lacking

    def _pieces(self) -> Iterator[bytes]:
        codec = self._packing.codec
        while head := self._feed.peek(_BEGIN_BYTES):
            if codec.begin.match(head):
                self._found += 1
                if self._found > 1:
                    self._count()
                yield from codec.unpack(self._feed)
            elif not codec.skip(self._feed):
                return


def unpacked(packed: Iterator[bytes], unpack: Unpack) -> Iterator[bytes]:
    """Iterate over what one stream unpacks to. Raises `OverBudget` for what cannot be unpacked here though others may."""
    try:
        yield from unpack(Feed(packed))
    except Corrupt:
        return
    except Unsupported as lacking:
        raise OverBudget(str(lacking)) from lacking


def inflate(raw: bytes, *, times: int = 1) -> Iterator[bytes]:
    """Iterate over what `raw` unpacks to by the filter of PDF, applied as often as said."""
    content: Iterator[bytes] = iter((raw,))
    for _ in range(times):
        content = unpacked(content, _by(partial(Inflate, zlib.MAX_WBITS)))
    return content


def is_lzma(head: bytes) -> bool:
    """Answer whether `head` begins as the old `.lzma` files usually do."""
    return head.startswith(_LZMA_BEGIN)


def _by(new: Callable[[], Decompressor]) -> Unpack:
    return lambda feed: unpack_stream(new(), feed, "the packed data")


def _lzma_of_zip(feed: Feed) -> Iterator[bytes]:
    feed.give_back(feed.take(_ZIP_LZMA_HEAD)[_ZIP_LZMA_VERSION:] + _UNKNOWN_SIZE)
    return lzma_alone(feed)


lzma_alone: Final[Unpack] = _by(partial(lzma.LZMADecompressor, lzma.FORMAT_ALONE, memlimit=MEMORY_MOST))

BY_ZIP_METHOD: Final[Mapping[int, Unpack]] = MappingProxyType({
    8: _by(partial(Inflate, RAW)),
    12: _by(bz2.BZ2Decompressor),
    14: _lzma_of_zip,
    93: _by(frames.zstd_decompressor),
    95: _by(partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=MEMORY_MOST)),
})  # fmt: skip
"""How the members of zip archives are unpacked (APPNOTE 4.4.5)."""
