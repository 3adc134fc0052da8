"""Compressed streams, whole files of them: GZIP, bzip2, XZ here, the framed formats in `frames`. What is compressed is not judged here.

Several streams one after the other are one file, zeros behind them are padding, as the usual tools read it. Other bytes behind the last
stream are ignored by `gzip` and `bzip2`, so they pass here too, unless a stream begins among them that damage in front of it cut off.
"""

import bz2
import lzma
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sluice.formats.archives.containers import StreamContainer, Visitor
from sluice.formats.archives.decompress import GZIP as GZIP_BITS
from sluice.formats.archives.decompress import MEMORY_MOST, Inflate, unpack_stream
from sluice.formats.archives.feed import Feed
from sluice.formats.archives.trailing import judge_trailing
from sluice.formats.budget import Budget
from sluice.formats.verdict import Corrupt, Measure

_BEGIN_BYTES: Final = 512
_XZ_UNIT: Final = 4
_XZ_MAGIC: Final = re.compile(rb"\xfd7zXZ\x00")


@dataclass(frozen=True, slots=True)
class Codec:
    """One format of compressed streams."""

    name: str
    """As in details: the GZIP data."""
    begin: re.Pattern[bytes]
    """How a stream begins."""
    again: re.Pattern[bytes]
    """The same, certain enough to be searched for among other bytes."""
    unpack: Callable[[Feed], Iterator[bytes]]
    """Unpacks one stream."""
    skip: Callable[[Feed], bool]
    """Passes over padding and the like; answers whether there was any."""
    is_strict: bool = False
    """Whether the format's own tool refuses other bytes behind the last stream."""


def container(name: str, codec: Codec, begins: Callable[[bytes], bool] | None = None) -> StreamContainer:
    """Answer a codec as a kind of container, with one member."""

    def walk(feed: Feed, budget: Budget, visitor: Visitor) -> Mapping[str, Measure]:
        streams = _Streams(codec, feed, budget)
        visitor.payload(streams.pieces())
        return {"streams": streams.count, "unpacked_bytes": streams.unpacked, "trailing_bytes": streams.trailing}

    return StreamContainer(name, begins or (lambda head: codec.begin.match(head) is not None), walk)


def skip_zeros(feed: Feed) -> bool:
    """Pass over zeros."""
    start = feed.position
    while piece := feed.piece():
        rest = piece.lstrip(b"\0")
        if rest:
            feed.give_back(rest)
            break
    return feed.position > start


@dataclass(slots=True)
class _Streams:
    """The streams of one file, and what was seen when they have been read."""

    codec: Codec
    feed: Feed
    budget: Budget
    count: int = field(default=0, init=False)
    unpacked: int = field(default=0, init=False)
    trailing: int = field(default=0, init=False)

    def pieces(self) -> Iterator[bytes]:
        """Yield what all streams unpack to; then the bytes behind them are judged."""
        while head := self.feed.peek(_BEGIN_BYTES):
            if self.codec.begin.match(head):
                self.count += 1
                for piece in self.codec.unpack(self.feed):
                    self.budget.spend(len(piece))
                    self.unpacked += len(piece)
                    yield piece
            elif not self.codec.skip(self.feed):
                break
        if not self.count:
            raise Corrupt(f"there is no {self.codec.name} data in the file")
        if self.codec.is_strict and self.feed.peek(1):
            raise Corrupt(f"behind the {self.codec.name} data, at byte {self.feed.position}, there is something else")
        self.trailing = judge_trailing(self.feed, self.codec.name, self.codec.again)


def _skip_xz_padding(feed: Feed) -> bool:
    start = feed.position
    skipped = skip_zeros(feed)
    if (feed.position - start) % _XZ_UNIT:
        raise Corrupt(f"the padding at byte {start} of the XZ data is no multiple of four bytes long: something is missing")
    return skipped


def _unpack_xz(feed: Feed) -> Iterator[bytes]:
    return unpack_stream(lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY_MOST), feed, "the XZ data")


GZIP_CODEC: Final = Codec(
    name="GZIP",
    begin=re.compile(rb"\x1f\x8b\x08"),
    again=re.compile(rb"\x1f\x8b\x08[\x00-\x1f].{4}[\x00\x02\x04][\x00-\x0d\xff]", re.DOTALL),
    unpack=lambda feed: unpack_stream(Inflate(GZIP_BITS), feed, "the GZIP data"),
    skip=skip_zeros,
)
BZIP2_CODEC: Final = Codec(
    name="bzip2",
    begin=re.compile(rb"BZh[1-9]"),
    again=re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),
    unpack=lambda feed: unpack_stream(bz2.BZ2Decompressor(), feed, "the bzip2 data"),
    skip=skip_zeros,
)
XZ_CODEC: Final = Codec(name="XZ", begin=_XZ_MAGIC, again=_XZ_MAGIC, unpack=_unpack_xz, skip=_skip_xz_padding, is_strict=True)

GZIP: Final = container("gz", GZIP_CODEC)
BZIP2: Final = container("bz2", BZIP2_CODEC)
XZ: Final = container("xz", XZ_CODEC)
