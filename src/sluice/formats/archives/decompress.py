"""Drives decompressors piece by piece, so that no input makes more than one piece of output at once. Knows no file format.

The decompressors of the standard library but zlib's share one interface; here are that interface, zlib behind it, and the loop.
"""

import lzma
import zlib
from collections.abc import Iterator
from typing import Final, Protocol

from sluice.formats.archives.feed import Feed
from sluice.formats.budget import CHUNK_BYTES
from sluice.formats.verdict import Corrupt, Judgement, Unsupported

MEMORY_MOST: Final = 256 * 1024**2
"""Bytes that a decompressor may take: the largest that `xz -9` asks for is 64 MiB."""
GZIP: Final = zlib.MAX_WBITS + 16
RAW: Final = -zlib.MAX_WBITS


class Decompressor(Protocol):
    """Unpacks one stream."""

    @property
    def eof(self) -> bool:
        """Whether the end mark was read."""

    @property
    def needs_input(self) -> bool:
        """Whether it can give nothing without more input."""

    @property
    def unused_data(self) -> bytes:
        """What came behind the end mark."""

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Answer up to `max_length` bytes."""


class DoesNotUnpack(Exception):
    """What wrappers of other libraries raise for damaged data. `str()` is the library's reason."""


FAILURES: Final = (zlib.error, lzma.LZMAError, OSError, EOFError, DoesNotUnpack)


class Inflate:
    """Deflate behind the interface of the other decompressors: `RAW`, or with the header and checksum of `GZIP`."""

    def __init__(self, bits: int = RAW) -> None:
        self._inner = zlib.decompressobj(bits)
        self._is_full = False
        """Whether the last answer was as long as it might be: then more may come of what was already read."""

    @property
    def eof(self) -> bool:
        """Whether the end marker was read."""
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        """Whether it can give nothing without more input."""
        return not self._inner.unconsumed_tail and not self._is_full

    @property
    def unused_data(self) -> bytes:
        """What came behind the end."""
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        """Answer up to `max_length` bytes."""
        unpacked = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self._is_full = len(unpacked) == max_length
        return unpacked


def unpack_stream(decompressor: Decompressor, feed: Feed, what: str) -> Iterator[bytes]:
    """Yield what one stream unpacks to; the feed then stands behind it.

    Raises `Corrupt` when it does not unpack or ends early, `Unsupported` for variants that the library lacks. `what` names it in details.
    """
    while not decompressor.eof:
        data = feed.piece() if decompressor.needs_input else b""
        if not data and decompressor.needs_input:
            raise Corrupt(f"{what} is cut: its packed data ends at byte {feed.position}, before its end mark")
        try:
            unpacked = decompressor.decompress(data, CHUNK_BYTES)
        except FAILURES as error:
            raise judge_failure(error, what) from error
        if unpacked:
            yield unpacked
    feed.give_back(decompressor.unused_data)


def judge_failure(error: Exception, what: str) -> Judgement:
    """Answer what a decompressor's own error says of the data; errors of the system are raised again."""
    if isinstance(error, OSError) and error.errno is not None:
        raise error
    said = str(error)
    if "emory" in said or "indow" in said:
        return Unsupported(f"{what} needs more memory to unpack than is allowed: {said}")
    if "unsupported" in said.lower():
        return Unsupported(f"{what} is packed in a way that cannot be unpacked here: {said}")
    return Corrupt(f"{what} does not unpack: {said}")
