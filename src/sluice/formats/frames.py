"""Zstandard and LZ4 files: frames one after the other, and frames that readers skip. Both need a library, without which they are unsupported."""

import importlib
import re
import struct
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

from sluice.formats.decompress import Decompressor, DoesNotUnpack, unpack_stream
from sluice.formats.feed import Feed
from sluice.formats.streams import Codec, container, skip_zeros
from sluice.formats.verdict import Corrupt, Unsupported

_ZSTD_MAGIC: Final = re.compile(rb"\x28\xb5\x2f\xfd")
_LZ4_MAGIC: Final = re.compile(rb"\x04\x22\x4d\x18|\x02\x21\x4c\x18")
_LZ4_LEGACY_MAGIC: Final = b"\x02\x21\x4c\x18"
_LZ4_LEGACY_BLOCK: Final = 8 * 1024**2
_SKIPPED: Final = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)
_SKIP_HEAD: Final = 8


def _module(*names: str) -> ModuleType | None:
    """Answer the first of these modules that is installed."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


_ZSTD: Final = _module("compression.zstd", "backports.zstd")
"""Part of Python from 3.14 on. Its decompressor never answers more than it is asked for, unlike that of the package `zstandard`."""
_LZ4: Final = _module("lz4.frame")
_LZ4_BLOCK: Final = _module("lz4.block")


class _Translated:
    """A decompressor of another library, its errors made ours."""

    def __init__(self, inner: Any, failure: type[Exception]) -> None:
        self._inner = inner
        self._failure = failure

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
        except self._failure as error:
            said = str(error).rpartition(": ")[2]
            if "ictionary" in said:
                raise Unsupported("the data is packed with a dictionary that is not in the file") from error
            raise DoesNotUnpack(said) from error
        return unpacked


def zstd_decompressor() -> Decompressor:
    """Answer a decompressor of one Zstandard frame. Raises `Unsupported` without the library."""
    if _ZSTD is None:
        raise Unsupported("Zstandard data cannot be judged: backports.zstd is not installed")
    return _Translated(_ZSTD.ZstdDecompressor(), _ZSTD.ZstdError)


def _unpack_zstd(feed: Feed) -> Iterator[bytes]:
    return unpack_stream(zstd_decompressor(), feed, "the Zstandard data")


def _unpack_lz4(feed: Feed) -> Iterator[bytes]:
    if _LZ4 is None or _LZ4_BLOCK is None:
        raise Unsupported("LZ4 data cannot be judged: lz4 is not installed")
    if feed.peek(len(_LZ4_LEGACY_MAGIC)) == _LZ4_LEGACY_MAGIC:
        return _unpack_lz4_legacy(feed, _LZ4_BLOCK)
    return unpack_stream(_Translated(_LZ4.LZ4FrameDecompressor(), RuntimeError), feed, "the LZ4 data")


def _unpack_lz4_legacy(feed: Feed, library: ModuleType) -> Iterator[bytes]:
    """Unpack the oldest layout: blocks of up to 8 MiB until the end of the file or the next frame."""
    feed.take(len(_LZ4_LEGACY_MAGIC))
    while (head := feed.peek(4)) and not _LZ4_MAGIC.match(head) and not _SKIPPED.match(head):
        size = int.from_bytes(feed.take(4), "little")
        block = feed.take(size) if size < 2 * _LZ4_LEGACY_BLOCK else b""
        if len(head) < 4 or len(block) < size:  # noqa: PLR2004  (the size field)
            raise Corrupt(f"the LZ4 data is cut or damaged: the block before byte {feed.position} is not whole")
        try:
            yield library.decompress(block, uncompressed_size=_LZ4_LEGACY_BLOCK)
        except library.LZ4BlockError as error:
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


ZSTANDARD: Final = container(
    "zst",
    Codec(name="Zstandard", begin=_ZSTD_MAGIC, again=_ZSTD_MAGIC, unpack=_unpack_zstd, skip=_skip, is_strict=True),
    begins=lambda head: _ZSTD_MAGIC.match(_behind_skipped(head)) is not None,
)
LZ4: Final = container(
    "lz4",
    Codec(name="LZ4", begin=_LZ4_MAGIC, again=_LZ4_MAGIC, unpack=_unpack_lz4, skip=_skip),
    begins=lambda head: _LZ4_MAGIC.match(_behind_skipped(head)) is not None,
)
