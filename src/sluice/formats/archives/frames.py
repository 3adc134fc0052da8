"""Zstandard and LZ4 files: frames one after the other, and frames that readers skip. Streams of other formats are in `streams`."""

import re
import struct
from collections.abc import Iterator
from typing import Final

import lz4.block
import lz4.frame
import zstandard

from sluice.formats.archives.decompress import MEMORY_MOST, Decompressor, DoesNotUnpack, unpack_stream
from sluice.formats.archives.feed import Feed
from sluice.formats.archives.streams import Codec, container, skip_zeros
from sluice.formats.verdict import Corrupt, Unsupported

_ZSTD_MAGIC: Final = re.compile(rb"\x28\xb5\x2f\xfd")
_LZ4_MAGIC: Final = re.compile(rb"\x04\x22\x4d\x18|\x02\x21\x4c\x18")
_LZ4_LEGACY_MAGIC: Final = b"\x02\x21\x4c\x18"
_ZSTD_FED: Final = 1024
_LZ4_LEGACY_BLOCK: Final = 8 * 1024**2
_SKIPPED: Final = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
_SKIP_HEAD: Final = 8


class _ZstdFrame:
    """One Zstandard frame. The library answers all that its input unpacks to, so it is fed little at a time: a KiB gives 32 MiB at most."""

    needs_input = True

    def __init__(self) -> None:
        self._inner = zstandard.ZstdDecompressor(max_window_size=MEMORY_MOST // 2).decompressobj()
        self._packed = memoryview(b"")

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data + self._packed

    def decompress(self, data: bytes, _max_length: int = -1) -> bytes:
        if data:
            self._packed = memoryview(data)
        piece, self._packed = self._packed[:_ZSTD_FED], self._packed[_ZSTD_FED:]
        self.needs_input = not self._packed
        try:
            return self._inner.decompress(piece)
        except zstandard.ZstdError as error:
            said = str(error).rpartition(": ")[2]
            if "ictionary" in said:
                raise Unsupported("the data is packed with a dictionary that is not in the file") from error
            raise DoesNotUnpack(said) from error


class _Lz4Frame:
    """One LZ4 frame, its errors made ours."""

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
            raise DoesNotUnpack(str(error).rpartition(": ")[2]) from error
        return unpacked


def zstd_decompressor() -> Decompressor:
    """Answer a decompressor of one Zstandard frame."""
    return _ZstdFrame()


def _unpack_zstd(feed: Feed) -> Iterator[bytes]:
    return unpack_stream(zstd_decompressor(), feed, "the Zstandard data")


def _unpack_lz4(feed: Feed) -> Iterator[bytes]:
    if feed.peek(len(_LZ4_LEGACY_MAGIC)) == _LZ4_LEGACY_MAGIC:
        return _unpack_lz4_legacy(feed)
    return unpack_stream(_Lz4Frame(), feed, "the LZ4 data")


def _unpack_lz4_legacy(feed: Feed) -> Iterator[bytes]:
    """Unpack the oldest layout: blocks of up to 8 MiB until the end of the file or the next frame."""
    feed.take(len(_LZ4_LEGACY_MAGIC))
    while (head := feed.peek(4)) and not _LZ4_MAGIC.match(head) and not _SKIPPED.match(head):
        size = int.from_bytes(feed.take(4), "little")
        block = feed.take(size) if size < 2 * _LZ4_LEGACY_BLOCK else b""
        if len(head) < 4 or len(block) < size:  # noqa: PLR2004  (the size field)
            raise Corrupt(f"the LZ4 data is cut or damaged: the block before byte {feed.position} is not whole")
        try:
            yield lz4.block.decompress(block, uncompressed_size=_LZ4_LEGACY_BLOCK)
        except lz4.block.LZ4BlockError as error:
            raise Corrupt(f"the LZ4 data does not unpack: {error}") from error


def _behind_skipped(head: bytes) -> bytes:
    while _SKIPPED.match(head) and len(head) >= _SKIP_HEAD:
        head = head[_SKIP_HEAD + int.from_bytes(head[4:_SKIP_HEAD], "little") :]
    return head


def _skip(feed: Feed) -> bool:
    """Pass over zeros and over frames that are to be skipped."""
    head = feed.peek(_SKIP_HEAD)
    if not _SKIPPED.match(head):
        return skip_zeros(feed)
    size = _SKIP_HEAD + (struct.unpack_from("<L", head, 4)[0] if len(head) == _SKIP_HEAD else 0)
    if sum(map(len, feed.pieces(size))) < size:
        raise Corrupt(f"the data is cut: its last frame ends at byte {feed.position}, before its stated length")
    return True


ZSTANDARD_CODEC: Final = Codec(
    name="Zstandard", begin=_ZSTD_MAGIC, again=_ZSTD_MAGIC, unpack=_unpack_zstd, skip=_skip, is_strict=True
)
LZ4_CODEC: Final = Codec(name="LZ4", begin=_LZ4_MAGIC, again=_LZ4_MAGIC, unpack=_unpack_lz4, skip=_skip)

ZSTANDARD: Final = container("zst", ZSTANDARD_CODEC, begins=lambda head: _ZSTD_MAGIC.match(_behind_skipped(head)) is not None)
LZ4: Final = container("lz4", LZ4_CODEC, begins=lambda head: _LZ4_MAGIC.match(_behind_skipped(head)) is not None)
