"""Compressed streams, read leniently (damage ends one): gzip, bzip2, xz, lzma, Zstandard, LZ4, zlib, deflate."""

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

from sluice_inspect.archives import compression
from sluice_inspect.archives.compression import Codec, Decompressor, Inflate, ZstdFrame, unpack_stream
from sluice_inspect.report import Corrupt, Unsupported
from sluice_inspect.threats.budget import OverBudget
from sluice_inspect.unpacking import Feed, Matches

# The beginning of LZMA data in zip: version (2 bytes), length of the properties (2), the properties (5). APPNOTE 5.8.8.
_ZIP_LZMA_HEAD_BYTES: Final = 9
_ZIP_LZMA_VERSION_BYTES: Final = 4
_UNKNOWN_SIZE: Final = b"\xff" * 8
_LZMA_ALONE_MAGIC: Final = b"]\0\0"

# Unpacks one stream. Raises `Corrupt` and `Unsupported`, as `unpack_stream` does.
Unpack = Callable[[Feed], Iterator[bytes]]


@dataclass(frozen=True, slots=True)
class Packing:
    """How compressed streams of one format are recognised and read; `first` is every byte they may begin with."""

    first: bytes
    matches: Matches
    codec: Codec
    hidden_from_clamd: bool = False  # clamd opens none of this format (measured, 1.4.6)


# RFC 1950, section 2.2. One that needs a dictionary is left out, which only the program has that made it.
_ZLIB_MAGIC: Final = re.compile(rb"[\x08\x18\x28\x38\x48\x58\x68\x78][\x00-\x1f\x40-\x5f\x80-\x9f\xc0-\xdf]")
_ZLIB_CHECK: Final = 31
_ZLIB_SURE_BYTES: Final = 64  # so much must unpack of what has no more than two bytes as its magic


def _begins_as_zlib(head: bytes) -> bool:
    if _ZLIB_MAGIC.match(head) is None or int.from_bytes(head[:2], "big") % _ZLIB_CHECK:
        return False
    try:
        return bool(zlib.decompressobj().decompress(head, _ZLIB_SURE_BYTES))
    except zlib.error:
        return False


_ZLIB_CODEC: Final = Codec(
    name="zlib",
    magic=_ZLIB_MAGIC,
    search_magic=_ZLIB_MAGIC,
    unpack=lambda feed: unpack_stream(Inflate(zlib.MAX_WBITS), feed, "the zlib data"),
    skip=compression.skip_zeros,
)
# Skippable frames of Zstandard and LZ4 may come first: RFC 8878, section 3.1.2.
_SKIPPABLE_FIRST: Final = bytes(range(0x50, 0x60))
_PACKINGS: Final = (
    Packing(b"\x1f", compression.GZIP.matches, compression.GZIP_CODEC),
    Packing(b"B", compression.BZIP2.matches, compression.BZIP2_CODEC),
    Packing(b"\xfd", compression.XZ.matches, compression.XZ_CODEC),
    Packing(
        b"\x28" + _SKIPPABLE_FIRST, compression.ZSTANDARD.matches, compression.ZSTANDARD_CODEC, hidden_from_clamd=True
    ),
    Packing(b"\x04\x02" + _SKIPPABLE_FIRST, compression.LZ4.matches, compression.LZ4_CODEC, hidden_from_clamd=True),
    Packing(b"\x08\x18\x28\x38\x48\x58\x68\x78", _begins_as_zlib, _ZLIB_CODEC, hidden_from_clamd=True),
)
_FIRST_BYTES: Final = frozenset(b"".join(packing.first for packing in _PACKINGS))


def packing_of(head: bytes) -> Packing | None:
    """Return the packing of a file that begins with `head`, or None if it is no compressed stream known here."""
    if not head or head[0] not in _FIRST_BYTES:
        return None
    return next((packing for packing in _PACKINGS if packing.matches(head)), None)


class CompressedStreams:
    """The compressed streams of one file, one behind another. `count_member` is called for each but the first."""

    def __init__(self, packing: Packing, packed: Iterator[bytes], count_member: Callable[[], None]) -> None:
        self._packing = packing
        self._feed = Feed(packed)
        self._count_member = count_member
        self._streams = 0

    def are_hidden_from_clamd(self) -> bool:
        """Return whether clamd may miss some of what was read so far."""
        # Of several streams clamd reads the first or all of them, depending on the format.
        return self._packing.hidden_from_clamd or self._streams > 1

    def pieces(self) -> Iterator[bytes]:
        """Yield what they unpack to. Raise `OverBudget` for what cannot be unpacked here though other readers may."""
        return _lenient(self._pieces())

    def _pieces(self) -> Iterator[bytes]:
        codec = self._packing.codec
        while head := self._feed.peek(compression.HEAD_BYTES):
            if codec.magic.match(head):
                self._streams += 1
                if self._streams > 1:
                    self._count_member()
                yield from codec.unpack(self._feed)
            elif not codec.skip(self._feed):
                return


def unpacked(packed: Iterator[bytes], unpack: Unpack) -> Iterator[bytes]:
    """Yield what one stream unpacks to. Raise `OverBudget` for what only other readers can unpack."""
    yield from _lenient(unpack(Feed(packed)))


def _lenient(pieces: Iterator[bytes]) -> Iterator[bytes]:
    try:
        yield from pieces
    except Corrupt:
        return  # all that any reader could get out of it was passed on
    except Unsupported as reason:
        raise OverBudget(str(reason)) from reason


def inflate(raw: bytes, *, times: int = 1) -> Iterator[bytes]:
    """Yield what `raw` unpacks to by the Flate filter of PDF, applied `times` times."""
    content: Iterator[bytes] = iter((raw,))
    for _ in range(times):
        content = unpacked(content, _by(partial(Inflate, zlib.MAX_WBITS)))
    return content


def is_lzma_alone(head: bytes) -> bool:
    """Return whether `head` begins as `.lzma` files usually do."""
    return head.startswith(_LZMA_ALONE_MAGIC)


def _by(new_decompressor: Callable[[], Decompressor]) -> Unpack:
    return lambda feed: unpack_stream(new_decompressor(), feed, "the packed data")


unpack_lzma_alone: Final[Unpack] = _by(
    partial(lzma.LZMADecompressor, lzma.FORMAT_ALONE, memlimit=compression.MAX_DECOMPRESSOR_BYTES)
)


def _unpack_zip_lzma(feed: Feed) -> Iterator[bytes]:
    feed.unread(feed.take(_ZIP_LZMA_HEAD_BYTES)[_ZIP_LZMA_VERSION_BYTES:] + _UNKNOWN_SIZE)
    return unpack_lzma_alone(feed)


# How members of zip archives are unpacked, by method: APPNOTE 4.4.5.
BY_ZIP_METHOD: Final[Mapping[int, Unpack]] = MappingProxyType({
    8: _by(Inflate),
    12: _by(bz2.BZ2Decompressor),
    14: _unpack_zip_lzma,
    93: _by(ZstdFrame),
    95: _by(partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, memlimit=compression.MAX_DECOMPRESSOR_BYTES)),
})  # fmt: skip
