"""PNG and APNG: every chunk up to IEND stands in the file, the drawn ones with their check sums, and every frame decodes.

Readers skip ancillary chunks (text, colour profiles, times) that are damaged, so those are left out before decoding, not judged; and of a
broken animation they show the still picture.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Final

from sluice.formats.images.raster import blank_picture, decode, keep_within
from sluice.formats.kind import Kind
from sluice.formats.pieces import Piece, open_pieces
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure, TooComplex

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_FRAME_CHUNKS: Final = frozenset({b"acTL", b"fcTL", b"fdAT"})
_DRAWN: Final = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"}) | _FRAME_CHUNKS
_CHUNK_MAX: Final = 2**31 - 1
_CHUNKS_MAX: Final = 500_000
"""Writers make chunks of 8 KiB or more: 4 GB of them."""
_CRC_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Chunk:
    name: bytes
    offset: int
    """Of the length field."""
    length: int
    """Of the data, 12 less than that of the chunk."""

    @property
    def end(self) -> int:
        return self.offset + 12 + self.length


def _recognises(source: Source) -> bool:
    return source.head.startswith(_SIGNATURE)


def _check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    chunks = [chunk for chunk in _chunks(source) if chunk.name in _DRAWN]
    header = chunks[0]
    if header.name != b"IHDR" or header.length != 13:  # noqa: PLR2004  (the size that the format fixes)
        raise Corrupt("the PNG does not begin with a header chunk")
    if not any(chunk.name == b"IDAT" for chunk in chunks):
        raise Corrupt("the PNG holds no pixels")
    width, height = struct.unpack(">LL", source.read_at(header.offset + 8, 8))
    frames = max(1, sum(chunk.name == b"fcTL" for chunk in chunks))
    keep_within(limits, width, height, frames)
    decoded = _decode(source, [chunk for chunk in chunks if _is_critical(chunk.name) or _has_its_sum(source, chunk)], limits)
    return {"width": width, "height": height, "trailing_bytes": source.size - chunks[-1].end} | decoded


def _decode(source: Source, chunks: list[_Chunk], limits: Limits) -> dict[str, Measure]:
    """Decode all frames or, where an animation is broken from its start, the still picture, which readers show instead."""
    still = [chunk for chunk in chunks if chunk.name not in _FRAME_CHUNKS]
    try:
        return decode(source, _open_chunks(source, chunks), "PNG", limits, still_suffices=True)
    except Corrupt:
        if len(still) == len(chunks):
            raise
    return {**decode(source, _open_chunks(source, still), "PNG", limits), "animation_broken": True}


def _open_chunks(source: Source, chunks: list[_Chunk]) -> BinaryIO:
    stretches: list[Piece] = [(chunk.offset, 12 + chunk.length) for chunk in chunks]
    return open_pieces(source, [_SIGNATURE, *stretches])


def _chunks(source: Source) -> Iterator[_Chunk]:
    """Answer the chunks up to IEND. Raises `Corrupt` where one passes the end of the file or one with pixels has a wrong check sum, `TooComplex` for too many."""
    offset = len(_SIGNATURE)
    for _ in range(_CHUNKS_MAX):
        head = source.read_at(offset, 8)
        if len(head) < 8:  # noqa: PLR2004  (length and name)
            raise Corrupt(f"the PNG ends at byte {source.size}, before its end chunk")
        length, name = struct.unpack(">L4s", head)
        chunk = _Chunk(name, offset, length)
        if not name.isalpha() or length > _CHUNK_MAX:
            raise Corrupt(f"there is no PNG chunk at byte {offset}, where one must be")
        if chunk.end > source.size:
            raise Corrupt(f"the PNG ends at byte {source.size}, inside the {name.decode('ascii')} chunk from byte {offset} on")
        if (_is_critical(name) or name == b"fdAT") and not _has_its_sum(source, chunk):
            raise Corrupt(f"the {name.decode('ascii')} chunk at byte {offset} of the PNG is damaged: its check sum is another")
        yield chunk
        if name == b"IEND":
            return
        offset = chunk.end
    raise TooComplex(f"the PNG is cut into more than {_CHUNKS_MAX} chunks")


def _is_critical(name: bytes) -> bool:
    return not name[0] & 0x20


def _has_its_sum(source: Source, chunk: _Chunk) -> bool:
    offset, left, found = chunk.offset + 4, 4 + chunk.length, 0
    while left:
        data = source.read_at(offset, min(left, _CRC_BYTES))
        found = zlib.crc32(data, found)
        offset += len(data)
        left -= len(data)
    return source.read_at(offset, 4) == found.to_bytes(4, "big")


def _sample() -> bytes:
    rows = bytes(value for row in range(64) for value in (0, *((x * 4) ^ (row * 4) for x in range(64))))
    parts = ((b"IHDR", struct.pack(">LLBBBBB", 64, 64, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return _SIGNATURE + b"".join(
        struct.pack(">L", len(data)) + name + data + struct.pack(">L", zlib.crc32(name + data)) for name, data in parts
    )


KIND: Final = Kind(
    name="png",
    content_type="image/png",
    extensions=frozenset({"png", "apng"}),
    recognises=_recognises,
    check=_check,
    blank=blank_picture,
    sample=_sample,
)
