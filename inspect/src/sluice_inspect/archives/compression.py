"""Compressed streams: the loop that drives decompressors, and GZIP, bzip2, XZ, Zstandard and LZ4."""
# As the usual tools do: several streams in a row are one file, zeros behind them are padding, and `gzip` and `bzip2`
# ignore other bytes behind the last stream, unless a stream begins among them that damage in front of it cut off.

import bz2
import lzma
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol

import lz4.block
import lz4.frame
import zstandard

from sluice_inspect.archives.safety import check_trailing
from sluice_inspect.budget import CHUNK_BYTES, Budget
from sluice_inspect.report import Corrupt, InspectionError, Measure, Unsupported
from sluice_inspect.unpacking import Feed, Matches, StreamContainer, Visitor

# Memory that one decompressor may use: the largest dictionary that `xz -9` asks for is 64 MiB.
MAX_DECOMPRESSOR_BYTES: Final = 256 * 1024**2
GZIP_WBITS: Final = zlib.MAX_WBITS + 16
RAW_WBITS: Final = -zlib.MAX_WBITS
HEAD_BYTES: Final = 512  # bytes of a stream that are read to recognise it: `Matches` is called with it
_FIRST_BYTES: Final = 1024  # that the streams behind the first get first: of short ones little has to be put back
_CLOCK_INTERVAL: Final = 256  # streams

_XZ_ALIGNMENT: Final = 4
_XZ_MAGIC: Final = re.compile(rb"\xfd7zXZ\x00")
_ZSTD_MAGIC: Final = re.compile(rb"\x28\xb5\x2f\xfd")
_LZ4_MAGIC: Final = re.compile(rb"\x04\x22\x4d\x18|\x02\x21\x4c\x18")
_LZ4_LEGACY_MAGIC: Final = b"\x02\x21\x4c\x18"
_LZ4_LEGACY_BLOCK_BYTES: Final = 8 * 1024**2
# Skippable frames, which Zstandard and LZ4 share: RFC 8878, section 3.1.2.
_SKIPPABLE_MAGIC: Final = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
_SKIPPABLE_HEADER_BYTES: Final = 8


class Decompressor(Protocol):
    """Unpacks one stream. The decompressors of `bz2` and `lzma` have this interface; the others are wrapped below."""

    @property
    def eof(self) -> bool:
        """Whether the end mark was read."""

    @property
    def needs_input(self) -> bool:
        """Whether there is no output without more input."""

    @property
    def unused_data(self) -> bytes:
        """Input behind the end mark."""

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Return up to `max_length` bytes."""


class DecompressionError(Exception):
    """Damaged data, for libraries whose own error is too general. `str()` is the library's reason."""


DECOMPRESSION_ERRORS: Final = (zlib.error, lzma.LZMAError, OSError, EOFError, DecompressionError)


class Inflate:
    """Deflate with the interface of the other decompressors: `RAW_WBITS`, or `GZIP_WBITS` with header and checksum."""

    def __init__(self, wbits: int = RAW_WBITS, *, up_to_damage: bool = True) -> None:
        """`up_to_damage`: return what is in front of an error before the error is raised."""
        self._up_to_damage = up_to_damage
        self._inner = zlib.decompressobj(wbits)
        self._output_was_full = False  # then more output may follow from input that was already read
        self._error: zlib.error | None = None

    @property
    def eof(self) -> bool:
        """Whether the end mark was read."""
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        """Whether there is no output without more input."""
        return not self._inner.unconsumed_tail and not self._output_was_full

    @property
    def unused_data(self) -> bytes:
        """Input behind the end mark."""
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Return up to `max_length` bytes. An error is raised behind all bytes before it, which readers have seen."""
        if self._error is not None:
            raise self._error
        packed = self._inner.unconsumed_tail + data
        before = self._inner.copy() if self._up_to_damage else None
        try:
            unpacked = self._inner.decompress(packed, max_length)
        except zlib.error as error:
            if before is None:
                raise
            self._error = error
            unpacked = _unpacked_before_error(before, packed, max_length)
            if not unpacked:
                raise
            self._output_was_full = True
            return unpacked
        self._output_was_full = len(unpacked) == max_length
        return unpacked


def _unpacked_before_error(decompressor: "zlib._Decompress", packed: bytes, most: int) -> bytes:
    """Return what can be had of data that fails to unpack, up to `most` bytes."""
    # zlib drops all output of a call that fails: the longest input without failure is found by halving.
    found, low, high = b"", 0, len(packed)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            found = decompressor.copy().decompress(packed[:middle], most)
            low = middle
        except zlib.error:
            high = middle
    return found


class ZstdFrame:
    """Decompresses one Zstandard frame."""

    # The library has no `max_length`: it returns all that its input unpacks to. A KiB of input gives 32 MiB at most.
    _INPUT_BYTES = 1024

    needs_input = True

    # What unpacked other frames: to make one takes thirty times as long as to unpack a short frame.
    _IDLE_MOST = 4
    _IDLE_BYTES = 1024**2
    _idle: ClassVar[list[zstandard.ZstdDecompressor]] = []

    def __init__(self) -> None:
        try:
            self._context = self._idle.pop()
        except IndexError:
            self._context = zstandard.ZstdDecompressor(max_window_size=MAX_DECOMPRESSOR_BYTES // 2)
        self._inner = self._context.decompressobj()
        self._packed = memoryview(b"")

    @property
    def eof(self) -> bool:
        """Whether the frame ended."""
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        """Input behind the frame."""
        return self._inner.unused_data + self._packed

    def decompress(self, data: bytes, _max_length: int = -1) -> bytes:
        """Return what the next KiB of input unpacks to.

        Raise `Unsupported` if the frame needs a dictionary, and `DecompressionError` if it is damaged.
        """
        if data:
            self._packed = memoryview(data)
        piece, self._packed = self._packed[: self._INPUT_BYTES], self._packed[self._INPUT_BYTES :]
        self.needs_input = not self._packed
        try:
            unpacked = self._inner.decompress(piece)
        except zstandard.ZstdError as error:
            reason = str(error).rpartition(": ")[2]
            if "ictionary" in reason:
                raise Unsupported("the data is packed with a dictionary that is not in the file") from error
            raise DecompressionError(reason) from error
        is_light = len(self._idle) < self._IDLE_MOST and self._context.memory_size() <= self._IDLE_BYTES
        if self._inner.eof and is_light:
            self._idle.append(self._context)
        return unpacked


class _Lz4Frame:
    def __init__(self) -> None:
        self._inner = lz4.frame.LZ4FrameDecompressor()

    @property
    def eof(self) -> bool:
        return bool(self._inner.eof)

    @property
    def needs_input(self) -> bool:
        return bool(self._inner.needs_input)

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data or b""

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        try:
            unpacked: bytes = self._inner.decompress(data, max_length)
        except RuntimeError as error:
            raise DecompressionError(str(error).rpartition(": ")[2]) from error
        return unpacked


def unpack_stream(decompressor: Decompressor, feed: Feed, subject: str) -> Iterator[bytes]:
    """Yield what one stream unpacks to, in bounded pieces; leave the feed behind it. `subject` begins the details.

    Raise `Corrupt` if the stream is cut or damaged, and `Unsupported` as the decompressor does.
    """
    size = _FIRST_BYTES if feed.position else 0
    while not decompressor.eof:
        data = (feed.take(size) if size else feed.piece()) if decompressor.needs_input else b""
        size = 0
        if not data and decompressor.needs_input:
            raise Corrupt(f"{subject} is cut: its packed data ends at byte {feed.position}, before its end mark")
        try:
            unpacked = decompressor.decompress(data, CHUNK_BYTES)
        except DECOMPRESSION_ERRORS as error:
            raise inspection_error(error, subject) from error
        if unpacked:
            yield unpacked
    feed.unread(decompressor.unused_data)


def inspection_error(error: Exception, subject: str) -> InspectionError:
    """Return what a decompressor's own error means for the file. Raise errors of the operating system again."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    reason = str(error)
    if "emory" in reason or "indow" in reason:
        return Unsupported(f"{subject} needs more memory to unpack than is allowed: {reason}")
    if "unsupported" in reason.lower():
        return Unsupported(f"{subject} is packed in a way that cannot be unpacked here: {reason}")
    return Corrupt(f"{subject} does not unpack: {reason}")


@dataclass(frozen=True, slots=True)
class Codec:
    """One format of compressed streams: `unpack` reads one, `skip` reads padding and returns whether there was any."""

    name: str  # as in details: the GZIP data
    magic: re.Pattern[bytes]
    search_magic: re.Pattern[bytes]  # specific enough to be searched for among other bytes
    unpack: Callable[[Feed], Iterator[bytes]]
    skip: Callable[[Feed], bool]
    rejects_trailing: bool = False  # whether the format's own tool rejects other bytes behind the last stream


def skip_zeros(feed: Feed) -> bool:
    """Read to the next byte that is not zero. Return whether there were zeros."""
    start = feed.position
    while piece := feed.piece():
        rest = piece.lstrip(b"\0")
        if rest:
            feed.unread(rest)
            break
    return feed.position > start


def _skip_xz_padding(feed: Feed) -> bool:
    start = feed.position
    skipped = skip_zeros(feed)
    if (feed.position - start) % _XZ_ALIGNMENT:
        raise Corrupt(
            f"the padding at byte {start} of the XZ data is no multiple of four bytes long: something is missing"
        )
    return skipped


def _skip_zeros_and_frames(feed: Feed) -> bool:
    head = feed.peek(_SKIPPABLE_HEADER_BYTES)
    if not _SKIPPABLE_MAGIC.match(head):
        return skip_zeros(feed)
    size = _SKIPPABLE_HEADER_BYTES
    if len(head) == size:
        size += struct.unpack_from("<L", head, 4)[0]
    if sum(map(len, feed.pieces(size))) < size:
        raise Corrupt(f"the data is cut: its last frame ends at byte {feed.position}, before its stated length")
    return True


def _unpack_lz4(feed: Feed) -> Iterator[bytes]:
    if feed.peek(len(_LZ4_LEGACY_MAGIC)) != _LZ4_LEGACY_MAGIC:
        yield from unpack_stream(_Lz4Frame(), feed, "the LZ4 data")
        return
    # The legacy frame has no end mark: blocks of up to 8 MiB follow each other until the next frame or the end of the
    # file.
    feed.take(len(_LZ4_LEGACY_MAGIC))
    while (head := feed.peek(4)) and not _LZ4_MAGIC.match(head) and not _SKIPPABLE_MAGIC.match(head):
        size = int.from_bytes(feed.take(4), "little")
        block = feed.take(size) if size < 2 * _LZ4_LEGACY_BLOCK_BYTES else b""
        if len(head) < 4 or len(block) < size:
            raise Corrupt(f"the LZ4 data is cut or damaged: the block before byte {feed.position} is not whole")
        try:
            yield lz4.block.decompress(block, uncompressed_size=_LZ4_LEGACY_BLOCK_BYTES)
        except lz4.block.LZ4BlockError as error:
            raise Corrupt(f"the LZ4 data does not unpack: {error}") from error


GZIP_CODEC: Final = Codec(
    name="GZIP",
    magic=re.compile(rb"\x1f\x8b\x08"),
    search_magic=re.compile(rb"\x1f\x8b\x08[\x00-\x1f].{4}[\x00\x02\x04][\x00-\x0d\xff]", re.DOTALL),
    unpack=lambda feed: unpack_stream(Inflate(GZIP_WBITS), feed, "the GZIP data"),
    skip=skip_zeros,
)
BZIP2_CODEC: Final = Codec(
    name="bzip2",
    magic=re.compile(rb"BZh[1-9]"),
    search_magic=re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"),
    unpack=lambda feed: unpack_stream(bz2.BZ2Decompressor(), feed, "the bzip2 data"),
    skip=skip_zeros,
)
XZ_CODEC: Final = Codec(
    name="XZ",
    magic=_XZ_MAGIC,
    search_magic=_XZ_MAGIC,
    unpack=lambda feed: unpack_stream(
        lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MAX_DECOMPRESSOR_BYTES), feed, "the XZ data"
    ),
    skip=_skip_xz_padding,
    rejects_trailing=True,
)
ZSTANDARD_CODEC: Final = Codec(
    name="Zstandard",
    magic=_ZSTD_MAGIC,
    search_magic=_ZSTD_MAGIC,
    unpack=lambda feed: unpack_stream(ZstdFrame(), feed, "the Zstandard data"),
    skip=_skip_zeros_and_frames,
    rejects_trailing=True,
)
LZ4_CODEC: Final = Codec(
    name="LZ4", magic=_LZ4_MAGIC, search_magic=_LZ4_MAGIC, unpack=_unpack_lz4, skip=_skip_zeros_and_frames
)


@dataclass(slots=True)
class _StreamWalk:
    codec: Codec
    feed: Feed
    budget: Budget
    count: int = field(default=0, init=False)
    unpacked_bytes: int = field(default=0, init=False)
    trailing_bytes: int = field(default=0, init=False)

    def pieces(self) -> Iterator[bytes]:
        steps = 0
        while head := self.feed.peek(HEAD_BYTES):
            steps += 1
            if steps % _CLOCK_INTERVAL == 0:
                yield b""  # the reader looks at the clock
            if self.codec.magic.match(head):
                self.count += 1
                for piece in self.budget.counted(self.codec.unpack(self.feed)):
                    self.unpacked_bytes += len(piece)
                    yield piece
            elif not self.codec.skip(self.feed):
                break
        if not self.count:
            raise Corrupt(f"there is no {self.codec.name} data in the file")
        if self.codec.rejects_trailing and self.feed.peek(1):
            raise Corrupt(f"behind the {self.codec.name} data, at byte {self.feed.position}, there is something else")
        self.trailing_bytes = check_trailing(self.feed, self.codec.name, self.codec.search_magic)


def _container(name: str, codec: Codec, matches: Matches | None = None) -> StreamContainer:
    def walk(feed: Feed, budget: Budget, visitor: Visitor) -> Mapping[str, Measure]:
        streams = _StreamWalk(codec, feed, budget)
        visitor.payload(streams.pieces())
        return {
            "streams": streams.count,
            "unpacked_bytes": streams.unpacked_bytes,
            "trailing_bytes": streams.trailing_bytes,
        }

    return StreamContainer(name, matches or (lambda head: codec.magic.match(head) is not None), walk)


def _behind_skippable_frames(head: bytes) -> bytes:
    while _SKIPPABLE_MAGIC.match(head) and len(head) >= _SKIPPABLE_HEADER_BYTES:
        head = head[_SKIPPABLE_HEADER_BYTES + int.from_bytes(head[4:_SKIPPABLE_HEADER_BYTES], "little") :]
    return head


GZIP: Final = _container("gz", GZIP_CODEC)
BZIP2: Final = _container("bz2", BZIP2_CODEC)
XZ: Final = _container("xz", XZ_CODEC)
ZSTANDARD: Final = _container(
    "zst", ZSTANDARD_CODEC, lambda head: _ZSTD_MAGIC.match(_behind_skippable_frames(head)) is not None
)
LZ4: Final = _container("lz4", LZ4_CODEC, lambda head: _LZ4_MAGIC.match(_behind_skippable_frames(head)) is not None)
