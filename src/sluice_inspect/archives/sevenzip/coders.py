"""Unpacks one folder of a 7z archive: the chain of its coders, with the decompressors of the standard library. Reads no headers.

Branch filters (BCJ) are the standard library's too, but it applies them to LZMA2 data only: other data is handed to it as LZMA2 chunks
that are stored as they are, which also lets the filter see the end of the data.
"""

import bz2
import lzma
import struct
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from sluice.formats.archives.decompress import MEMORY_MOST, RAW, Decompressor, Inflate, judge_failure, unpack_stream
from sluice.formats.archives.feed import Feed
from sluice.formats.archives.frames import zstd_decompressor
from sluice.formats.archives.sevenzip_header import Coder, Folder
from sluice.formats.verdict import Corrupt, Encrypted, Unsupported

_AES: Final = bytes.fromhex("06f10701")
_NAMES: Final = {
    "030401": "PPMd", "0303011b": "BCJ2", "0a": "an ARM64 filter", "0b": "a RISC-V filter", "040109": "Deflate64", "04f71102": "Brotli",
    "04f71104": "LZ4", "04f71105": "LZ5", "04f71106": "Lizard",
}  # fmt: skip
_CHUNK: Final = 64 * 1024
_DICTIONARY_LEAST: Final = 4096
_LZMA_PROPERTIES: Final = 5
_LZMA2_LARGEST: Final = 40


def unpack_folder(folder: Folder, packed: Iterator[bytes], what: str) -> Iterator[bytes]:
    """Yield the content of a folder. Raises at the first piece: `Encrypted`, `Unsupported` for a method or a net of coders unknown here, `Corrupt`."""
    pieces = packed
    for coder, size in chain(folder):
        pieces = _exactly(_decode(coder, size, Feed(pieces), what), size, what)
    return pieces


def refuse_unreadable(folder: Folder) -> None:
    """Raise `Encrypted` or `Unsupported` for a folder that cannot be unpacked here."""
    methods = [coder.method for coder in folder.coders]
    if _AES in methods:
        raise Encrypted("the archive is protected by a password")
    for method in methods:
        if method.hex() in _NAMES or method not in _METHODS:
            raise Unsupported(
                f"the archive is packed with {_NAMES.get(method.hex(), f'method {method.hex()}')}, which cannot be unpacked here"
            )


def chain(folder: Folder) -> list[tuple[Coder, int]]:
    """Answer the coders in the order in which they unpack, each with the size of what it gives."""
    refuse_unreadable(folder)
    if any(coder.inputs != 1 or coder.outputs != 1 for coder in folder.coders):
        raise Unsupported("the archive is packed with coders of several streams, which cannot be unpacked here")
    following = {output: number for number, output in folder.bonds.items()}
    steps: list[tuple[Coder, int]] = []
    at: int | None = folder.packed_inputs[0]
    while at is not None and len(steps) < len(folder.coders):
        steps.append((folder.coders[at], folder.unpacked_sizes[at]))
        at = following.get(at)
    if at is not None or len(steps) != len(folder.coders):
        raise Corrupt("the archive's header is damaged: the coders of a folder form no chain")
    return steps


def _decode(coder: Coder, size: int, feed: Feed, what: str) -> Iterator[bytes]:
    try:
        step = _METHODS[coder.method](coder.properties, size)
    except (ValueError, struct.error, IndexError) as error:
        raise Corrupt(f"{what} is damaged: its method has impossible properties") from error
    except lzma.LZMAError as error:
        raise judge_failure(error, what) from error
    return step(feed, what)


def _exactly(pieces: Iterator[bytes], size: int, what: str) -> Iterator[bytes]:
    """Yield the first `size` bytes; what decompressors read behind them is their end mark."""
    left = size
    while left and (piece := next(pieces, b"")):
        yield piece[:left]
        left -= min(left, len(piece))
    if left:
        raise Corrupt(f"{what} is damaged: it unpacks to {size - left} bytes where its header promises {size}")


_Step = Callable[[Feed, str], Iterator[bytes]]
_Method = Callable[[bytes, int], _Step]


def _copy(_properties: bytes, _size: int) -> _Step:
    return lambda feed, _what: iter(feed.piece, b"")


def _streams(make: Callable[[], Decompressor]) -> _Method:
    """Answer a method of which several streams may follow each other."""

    def decode(feed: Feed, what: str) -> Iterator[bytes]:
        while feed.peek(1):
            yield from unpack_stream(make(), feed, what)

    return lambda _properties, _size: decode


def _lzma(properties: bytes, size: int) -> _Step:
    if len(properties) != _LZMA_PROPERTIES:
        raise ValueError
    packed, dictionary = struct.unpack("<BL", properties)
    options = {"id": lzma.FILTER_LZMA1, "lc": packed % 9, "lp": packed // 9 % 5, "pb": packed // 45}
    return _filtered(options | {"dict_size": _dictionary(dictionary, size)})


def _lzma2(properties: bytes, size: int) -> _Step:
    if properties[0] > _LZMA2_LARGEST:
        raise ValueError
    dictionary = (2 | properties[0] & 1) << (properties[0] // 2 + 11)
    return _filtered({"id": lzma.FILTER_LZMA2, "dict_size": _dictionary(dictionary, size)})


def _dictionary(stated: int, size: int) -> int:
    """Answer how large a dictionary is needed: no distance is longer than the content."""
    needed = min(stated, max(size, _DICTIONARY_LEAST))
    if needed > MEMORY_MOST:
        raise Unsupported(f"the archive needs {needed} bytes of memory to be unpacked, more than is allowed")
    return max(needed, _DICTIONARY_LEAST)


def _filtered(*filters: Mapping[str, Any]) -> _Step:
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters)
    return lambda feed, what: unpack_stream(decompressor, feed, what)


def _delta(properties: bytes, _size: int) -> _Step:
    return _branch(lzma.FILTER_DELTA, dist=properties[0] + 1)(b"", 0)


def _branch(filter_id: int, **options: int) -> _Method:
    def step(_properties: bytes, _size: int) -> _Step:
        inner = _filtered({"id": filter_id, **options}, {"id": lzma.FILTER_LZMA2, "dict_size": _CHUNK})
        return lambda feed, what: inner(Feed(_as_lzma2(feed)), what)

    return step


def _as_lzma2(feed: Feed) -> Iterator[bytes]:
    control = b"\x01"
    while data := feed.take(_CHUNK):
        yield control + struct.pack(">H", len(data) - 1) + data
        control = b"\x02"
    yield b"\0"


_METHODS: Final[Mapping[bytes, _Method]] = MappingProxyType(
    {
        bytes.fromhex(method): step
        for method, step in {
            "00": _copy,
            "21": _lzma2,
            "030101": _lzma,
            "03": _delta,
            "040108": _streams(lambda: Inflate(RAW)),
            "040202": _streams(bz2.BZ2Decompressor),
            "04f71101": _streams(zstd_decompressor),
            **dict.fromkeys(("04", "03030103"), _branch(lzma.FILTER_X86)),
            **dict.fromkeys(("05", "03030205"), _branch(lzma.FILTER_POWERPC)),
            **dict.fromkeys(("06", "03030401"), _branch(lzma.FILTER_IA64)),
            **dict.fromkeys(("07", "03030501"), _branch(lzma.FILTER_ARM)),
            **dict.fromkeys(("08", "03030701"), _branch(lzma.FILTER_ARMTHUMB)),
            **dict.fromkeys(("09", "03030805"), _branch(lzma.FILTER_SPARC)),
        }.items()
    }
)
