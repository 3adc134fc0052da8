"""Unpacks one folder of a 7z archive: the chain of its coders, with decompressors of the standard library."""
# The library applies branch filters (BCJ) to LZMA2 data only, so other data is handed to it as stored LZMA2 chunks.

import bz2
import lzma
import struct
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from sluice_inspect.archives.compression import (
    MAX_DECOMPRESSOR_BYTES,
    Decompressor,
    Inflate,
    ZstdFrame,
    inspection_error,
    unpack_stream,
)
from sluice_inspect.archives.sevenzip.header import Coder, Folder
from sluice_inspect.report import Corrupt, Encrypted, Unsupported
from sluice_inspect.unpacking import Feed

AES: Final = bytes.fromhex("06f10701")
_UNREADABLE: Final = {
    "030401": "PPMd", "0303011b": "BCJ2", "0a": "an ARM64 filter", "0b": "a RISC-V filter", "040109": "Deflate64",
    "04f71102": "Brotli",
    "04f71104": "LZ4", "04f71105": "LZ5", "04f71106": "Lizard",
}  # fmt: skip
_LZMA2_CHUNK_BYTES: Final = 64 * 1024
_MIN_DICTIONARY_BYTES: Final = 4096
_LZMA_PROPERTIES_BYTES: Final = 5
_LZMA2_LARGEST_DICTIONARY: Final = 40


def unpack_folder(folder: Folder, packed: Iterator[bytes], subject: str) -> Iterator[bytes]:
    """Yield the content of a folder. Raise `Encrypted`, `Unsupported` and `Corrupt`, at once or later."""
    pieces = packed
    for coder, size in ordered_coders(folder):
        pieces = _exactly(_decode(coder, size, Feed(pieces), subject), size, subject)
    return pieces


def refuse_unreadable(folder: Folder) -> None:
    """Raise `Encrypted` or `Unsupported` for a folder that cannot be unpacked here."""
    methods = [coder.method for coder in folder.coders]
    if AES in methods:
        raise Encrypted("the archive is protected by a password")
    for method in methods:
        if method not in _METHODS:
            name = _UNREADABLE.get(method.hex(), f"method {method.hex()}")
            raise Unsupported(f"the archive is packed with {name}, which cannot be unpacked here")


def ordered_coders(folder: Folder) -> list[tuple[Coder, int]]:
    """Return the coders in the order in which they unpack, each with the size of its output.

    Raise `Unsupported` if they cannot be unpacked here, and `Corrupt` if they are no chain.
    """
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


def _decode(coder: Coder, size: int, feed: Feed, subject: str) -> Iterator[bytes]:
    try:
        step = _METHODS[coder.method](coder.properties, size)
    except (ValueError, struct.error, IndexError) as error:
        raise Corrupt(f"{subject} is damaged: its method has impossible properties") from error
    except lzma.LZMAError as error:
        raise inspection_error(error, subject) from error
    return step(feed, subject)


def _exactly(pieces: Iterator[bytes], size: int, subject: str) -> Iterator[bytes]:
    """Yield the first `size` bytes: what decompressors read behind them is their end mark."""
    left = size
    while left and (piece := next(pieces, b"")):
        yield piece[:left]
        left -= min(left, len(piece))
    if left:
        raise Corrupt(f"{subject} is damaged: it unpacks to {size - left} bytes where its header promises {size}")


# A method takes a coder's properties and the size of its output, and returns the step that unpacks a feed.
_Step = Callable[[Feed, str], Iterator[bytes]]
_Method = Callable[[bytes, int], _Step]


def _streams(new_decompressor: Callable[[], Decompressor]) -> _Method:

    def decode(feed: Feed, subject: str) -> Iterator[bytes]:
        while feed.peek(1):
            yield from unpack_stream(new_decompressor(), feed, subject)

    return lambda _properties, _size: decode


def _lzma(properties: bytes, size: int) -> _Step:
    if len(properties) != _LZMA_PROPERTIES_BYTES:
        raise ValueError
    packed, dictionary = struct.unpack("<BL", properties)
    options = {"id": lzma.FILTER_LZMA1, "lc": packed % 9, "lp": packed // 9 % 5, "pb": packed // 45}
    return _filtered(options | {"dict_size": _dictionary_size(dictionary, size)})


def _lzma2(properties: bytes, size: int) -> _Step:
    if properties[0] > _LZMA2_LARGEST_DICTIONARY:
        raise ValueError
    dictionary = (2 | properties[0] & 1) << (properties[0] // 2 + 11)
    return _filtered({"id": lzma.FILTER_LZMA2, "dict_size": _dictionary_size(dictionary, size)})


def _dictionary_size(stated: int, size: int) -> int:
    # No distance is longer than the content, so a small file needs less than the dictionary that it states.
    needed = min(stated, max(size, _MIN_DICTIONARY_BYTES))
    if needed > MAX_DECOMPRESSOR_BYTES:
        raise Unsupported(f"the archive needs {needed} bytes of memory to be unpacked, more than is allowed")
    return max(needed, _MIN_DICTIONARY_BYTES)


def _filtered(*filters: Mapping[str, Any]) -> _Step:
    decompressor = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=filters)
    return lambda feed, subject: unpack_stream(decompressor, feed, subject)


def _branch(filter_id: int, **options: int) -> _Method:
    def step(_properties: bytes, _size: int) -> _Step:
        inner = _filtered({"id": filter_id, **options}, {"id": lzma.FILTER_LZMA2, "dict_size": _LZMA2_CHUNK_BYTES})
        return lambda feed, subject: inner(Feed(_as_lzma2(feed)), subject)

    return step


def _as_lzma2(feed: Feed) -> Iterator[bytes]:
    control = b"\x01"  # an uncompressed chunk that resets the dictionary; the further ones (2) do not
    while data := feed.take(_LZMA2_CHUNK_BYTES):
        yield control + struct.pack(">H", len(data) - 1) + data
        control = b"\x02"
    yield b"\0"


_METHODS: Final[Mapping[bytes, _Method]] = MappingProxyType(
    {
        bytes.fromhex(method): step
        for method, step in {
            "00": lambda _properties, _size: lambda feed, _subject: iter(feed.piece, b""),
            "21": _lzma2,
            "030101": _lzma,
            "03": lambda properties, _size: _branch(lzma.FILTER_DELTA, dist=properties[0] + 1)(b"", 0),
            "040108": _streams(Inflate),
            "040202": _streams(bz2.BZ2Decompressor),
            "04f71101": _streams(ZstdFrame),
            **dict.fromkeys(("04", "03030103"), _branch(lzma.FILTER_X86)),
            **dict.fromkeys(("05", "03030205"), _branch(lzma.FILTER_POWERPC)),
            **dict.fromkeys(("06", "03030401"), _branch(lzma.FILTER_IA64)),
            **dict.fromkeys(("07", "03030501"), _branch(lzma.FILTER_ARM)),
            **dict.fromkeys(("08", "03030701"), _branch(lzma.FILTER_ARMTHUMB)),
            **dict.fromkeys(("09", "03030805"), _branch(lzma.FILTER_SPARC)),
        }.items()
    }
)
