"""Compressed streams: deflate, gzip, bzip2, xz and the LZMA of zip members, unpacked piece by piece. Budgets are counted by whoever reads.

Reading is lenient: what comes before damage is handed out, and the damage itself only ends the stream. Whether a file is sound is
judged in `sluice.formats`.
"""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol

from sluice.threats.budget import OverBudget

_OUT_BYTES: Final = 256 * 1024
_LZMA_MEMORY_BYTES: Final = 128 * 1024**2  # `xz -9` asks for 65 MiB
_LZMA_PREFIX_BYTES: Final = 9  # version (2), length of the properties (2), the properties (5): APPNOTE 5.8.8


class Unpacker(Protocol):
    """One stream being unpacked. `unused_data` is what follows its end in the pieces given so far."""

    @property
    def eof(self) -> bool:
        """Whether the end of the stream was reached."""

    @property
    def unused_data(self) -> bytes:
        """What follows the end of the stream."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Answer at most `max_length` bytes; called again with no data it goes on with what it was given before."""


class _Deflate:
    """`zlib` in the manners of its two siblings: input that did not fit stays inside."""

    def __init__(self, window_bits: int) -> None:
        self._stream = zlib.decompressobj(window_bits)

    @property
    def eof(self) -> bool:
        return self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return self._stream.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        return self._stream.decompress(self._stream.unconsumed_tail + data, max_length)


class _ZipLzma:
    """LZMA as zip members carry it: a prefix with the properties, then a raw stream."""

    def __init__(self) -> None:
        self._prefix = b""
        self._stream: lzma.LZMADecompressor | None = None

    @property
    def eof(self) -> bool:
        return self._stream is not None and self._stream.eof

    @property
    def unused_data(self) -> bytes:
        return b"" if self._stream is None else self._stream.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if self._stream is None:
            self._prefix += data
            if len(self._prefix) < _LZMA_PREFIX_BYTES:
                return b""
            self._stream, data = _raw_lzma(self._prefix), self._prefix[_LZMA_PREFIX_BYTES:]
        return self._stream.decompress(data, max_length)


def _raw_lzma(prefix: bytes) -> lzma.LZMADecompressor:
    dict_bytes = int.from_bytes(prefix[5:9], "little")
    if dict_bytes > _LZMA_MEMORY_BYTES:
        raise OverBudget(f"unpacking needs more than {_LZMA_MEMORY_BYTES} bytes of memory")
    rest, lc = divmod(prefix[4], 9)
    pb, lp = divmod(rest, 5)
    return lzma.LZMADecompressor(
        lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA1, "dict_size": dict_bytes, "lc": lc, "lp": lp, "pb": pb}]
    )


def raw_deflate() -> Unpacker:
    """Answer an unpacker of deflate without any wrapping, as zip members have it."""
    return _Deflate(-zlib.MAX_WBITS)


def zip_lzma() -> Unpacker:
    """Answer an unpacker of LZMA as zip members have it."""
    return _ZipLzma()


def bzip2() -> Unpacker:
    """Answer an unpacker of bzip2."""
    return bz2.BZ2Decompressor()


def gzip() -> Unpacker:
    """Answer an unpacker of gzip."""
    return _Deflate(zlib.MAX_WBITS | 16)


def xz() -> Unpacker:
    """Answer an unpacker of xz."""
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_LZMA_MEMORY_BYTES)


_BY_MAGIC: Final[Mapping[bytes, Callable[[], Unpacker]]] = MappingProxyType(
    {b"\x1f\x8b\x08": gzip, b"BZh": bzip2, b"\xfd7zXZ\0": xz}
)


def unpacker_for(head: bytes) -> Callable[[], Unpacker] | None:
    """Answer how to unpack a file that begins with `head`, or None when it is no compressed stream that is known here."""
    return next((new for magic, new in _BY_MAGIC.items() if head.startswith(magic)), None)


def unpacked(packed: Iterator[bytes], new: Callable[[], Unpacker], *, on_next: Callable[[], None] | None = None) -> Iterator[bytes]:
    """Unpack `packed` into pieces of at most 256 KiB: one stream or, with `on_next`, several in a row; it is called before each further one.

    Raises `OverBudget` when the unpacker itself would need too much memory. Damage ends the iteration quietly.
    """
    try:
        yield from _unpacked(packed, new, on_next)
    except lzma.LZMAError as damage:
        if "limit" in str(damage).lower():
            raise OverBudget(f"unpacking needs more than {_LZMA_MEMORY_BYTES} bytes of memory") from damage
    except (zlib.error, OSError, EOFError, ValueError):
        return  # all that any reader could get out of it was handed out


def _unpacked(packed: Iterator[bytes], new: Callable[[], Unpacker], on_next: Callable[[], None] | None) -> Iterator[bytes]:
    stream = new()
    for piece in packed:
        rest = piece
        while True:
            out = stream.decompress(rest, _OUT_BYTES)
            rest = b""
            if out:
                yield out
            if stream.eof:
                if on_next is None:
                    return
                on_next()
                rest, stream = stream.unused_data, new()
            elif not out:
                break
