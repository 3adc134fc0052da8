"""PNG and APNG: all chunks up to IEND are in the file, the drawn ones have valid checksums, and every frame decodes."""

import struct
import zlib
from dataclasses import replace
from functools import partial
from typing import BinaryIO, Final, NamedTuple

from sluice_inspect.facts.media import measure_picture
from sluice_inspect.format import Examination, Family, Format, MatchOrder
from sluice_inspect.images.raster import Decoded, decode_frames, require_within_limits
from sluice_inspect.report import Corrupt, Limits, TooComplex
from sluice_inspect.source import Piece, Source, open_pieces

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_ANIMATION_CHUNKS: Final = frozenset({b"acTL", b"fcTL", b"fdAT"})
_DRAWN: Final = frozenset({b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"}) | _ANIMATION_CHUNKS
# Readers skip these if they are damaged, so they are left out before decoding and are not judged.
_SKIPPED_IF_DAMAGED: Final = frozenset({b"tRNS", b"acTL", b"fcTL"})
_CHUNK_MAX: Final = 2**31 - 1
_CHUNKS_MAX: Final = 500_000  # writers make chunks of 8 KiB or more: 4 GB of them
_CRC_BYTES: Final = 1024 * 1024


class _PngChunk(NamedTuple):
    name: bytes
    offset: int  # of the length field
    length: int  # of the data; length, name and checksum are 12 bytes more


def _examine(source: Source, limits: Limits) -> Examination:
    chunks = _read_drawn_chunks(source)
    header = chunks[0]
    names = [chunk.name for chunk in chunks]
    if header.name != b"IHDR" or header.length != 13:
        raise Corrupt("the PNG does not begin with a header chunk")
    if b"IDAT" not in names:
        raise Corrupt("the PNG holds no pixels")
    width, height = struct.unpack(">LL", source.read_at(header.offset + 8, 8))
    require_within_limits(limits, width, height, max(1, names.count(b"fcTL")))
    usable = [chunk for chunk in chunks if chunk.name not in _SKIPPED_IF_DAMAGED or _has_valid_crc(source, chunk)]
    decoded = _decode(source, usable, limits)
    end = chunks[-1].offset + 12 + chunks[-1].length
    measures = {"width": width, "height": height, "trailing_bytes": source.size - end}
    return Examination(measures | decoded.measures, decoded.blank, decoded.measured)


def open_drawn(source: Source) -> BinaryIO:
    """Return the still picture alone, without metadata and without chunks that readers skip. Raise `Corrupt`."""
    still = [chunk for chunk in _read_drawn_chunks(source) if chunk.name not in _ANIMATION_CHUNKS]
    usable = [chunk for chunk in still if chunk.name not in _SKIPPED_IF_DAMAGED or _has_valid_crc(source, chunk)]
    return _open_chunks(source, usable)


def _read_drawn_chunks(source: Source) -> list[_PngChunk]:
    """Return the chunks that are drawn, up to and including IEND. Raise `Corrupt` where one is cut or damaged."""
    drawn: list[_PngChunk] = []
    offset = len(_SIGNATURE)
    for _ in range(_CHUNKS_MAX):
        head = source.read_at(offset, 8)
        if len(head) < 8:
            raise Corrupt(f"the PNG ends at byte {source.size}, before its end chunk")
        length, name = struct.unpack(">L4s", head)
        end = offset + 12 + length
        if not name.isalpha() or length > _CHUNK_MAX:
            raise Corrupt(f"there is no PNG chunk at byte {offset}, where one must be")
        if end > source.size:
            raise Corrupt(
                f"the PNG ends at byte {source.size}, inside the {name.decode('ascii')} chunk from byte {offset} on"
            )
        chunk = _PngChunk(name, offset, length)
        # An upper-case first letter marks a critical chunk, which readers must understand (PNG, section 5.4).
        is_critical = not name[0] & 0x20
        if (is_critical or name == b"fdAT") and not _has_valid_crc(source, chunk):
            raise Corrupt(
                f"the {name.decode('ascii')} chunk at byte {offset} of the PNG is damaged: its checksum is wrong"
            )
        if name in _DRAWN:
            drawn.append(chunk)
        if name == b"IEND":
            return drawn
        offset = end
    raise TooComplex(f"the PNG is cut into more than {_CHUNKS_MAX} chunks")


def _has_valid_crc(source: Source, chunk: _PngChunk) -> bool:
    offset, end, crc = chunk.offset + 4, chunk.offset + 8 + chunk.length, 0
    while offset < end:
        data = source.read_at(offset, min(end - offset, _CRC_BYTES))
        crc = zlib.crc32(data, crc)
        offset += len(data)
    return source.read_at(end, 4) == crc.to_bytes(4, "big")


def _decode(source: Source, chunks: list[_PngChunk], limits: Limits) -> Decoded:
    try:
        return decode_frames(_open_chunks(source, chunks), "PNG", limits, first_frame_suffices=True)
    except Corrupt:
        still = [chunk for chunk in chunks if chunk.name not in _ANIMATION_CHUNKS]
        if len(still) == len(chunks):
            raise
    # Readers show the still picture instead of an animation that is broken from its start.
    decoded = decode_frames(_open_chunks(source, still), "PNG", limits)
    return replace(decoded, measures={**decoded.measures, "animation_broken": True})


def _open_chunks(source: Source, chunks: list[_PngChunk]) -> BinaryIO:
    stretches: list[tuple[int, int]] = []
    for _, offset, length in chunks:
        if stretches and sum(stretches[-1]) == offset:  # most chunks follow each other: read them in one go
            stretches[-1] = (stretches[-1][0], stretches[-1][1] + 12 + length)
        else:
            stretches.append((offset, 12 + length))
    pieces: list[Piece] = [_SIGNATURE, *stretches]
    return open_pieces(source, pieces)


def _sample() -> bytes:
    rows = bytes(value for row in range(64) for value in (0, *((x * 4) ^ (row * 4) for x in range(64))))
    parts = ((b"IHDR", struct.pack(">LLBBBBB", 64, 64, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return _SIGNATURE + b"".join(
        struct.pack(">L", len(data)) + name + data + struct.pack(">L", zlib.crc32(name + data)) for name, data in parts
    )


FORMAT: Final = Format(
    name="png",
    family=Family.PICTURE,
    content_type="image/png",
    extensions=frozenset({"png", "apng"}),
    begins=(_SIGNATURE,),
    matches=lambda source: source.head.startswith(_SIGNATURE),
    match_order=MatchOrder.PICTURE,
    examine=_examine,
    facts=partial(measure_picture, plugin="PNG", is_animated=True, states_frames=True),
    sample=_sample,
)
