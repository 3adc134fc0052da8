"""JPEG 2000 codestreams: the markers lead from tile to tile to the end, the coded data holds no holes, and one of two decoders draws it.

ISO/IEC 15444-1, annex A for markers, B for packets. The arithmetic coder takes any data, so most damage within a tile decodes: what can
be told are numbers of packets that do not follow, and long runs of zeros. Encoders in use break the rule that keeps the byte pairs from
FF 90 on free for markers, so it is not looked at.
"""

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from sluice.formats.images.raster import decode, keep_within, sample_picture
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure, TooComplex, Unsupported

try:
    import av
    from av.error import FFmpegError, InvalidDataError

    _SECOND_DECODER: bool = "jpeg2000" in av.codecs_available
except ImportError:  # an optional library
    _SECOND_DECODER = False

_SOC, _SIZ, _COD, _SOT, _EOC = b"\xff\x4f", b"\xff\x51", b"\xff\x52", b"\xff\x90", b"\xff\xd9"
_SOD: Final = b"\xff\x93"
_BEGINNING: Final = _SOC + _SIZ
_PARTS_MOST: Final = 300_000
_CHUNK: Final = 1024 * 1024
_OVERLAP: Final = 8
"""Bytes that each piece goes on into the next, so that no marker is cut."""
_ALONE: Final = re.compile(rb"\xff[\x30-\x3f]")
"""Markers without a segment."""
_NUMBERED: Final = 2
"""Coding style in which a marker with its number may begin each packet."""
_PACKET: Final = re.compile(rb"\xff\x91\x00\x04(..)", re.DOTALL)
_ZEROS: Final = 1024
"""Zeros in a row that coded data never has; packets without content add one each."""
_BYPASS: Final = 1
"""Coding style in which bits are stored as they are: zeros may be meant."""
_COMPONENTS_DRAWN: Final = 4
_MEMORY: Final = 700_000_000
_SECOND_BYTES: Final = 64 * 1024**2
_SECOND_PIXELS: Final = 40_000_000
_SAMPLE_BYTES: Final = 4
"""OpenJPEG keeps every sample of a tile in 32 bits."""


@dataclass(slots=True)
class Codestream:
    """What the main header declares, and where the coded data lies."""

    start: int
    width: int = 0
    height: int = 0
    tile_width: int = 0
    tile_height: int = 0
    tiles: int = 0
    components: int = 0
    is_plain: bool = True
    """Whether all components are as large as the picture, and begin where it begins."""
    style: int = 0
    layers: int = 1
    levels: int = 0
    code_style: int = 0
    precincts: tuple[tuple[int, int], ...] = ()
    parts: list[tuple[int, int, int]] = field(default_factory=list)
    """Tile, first byte and end of each piece of a tile."""
    end: int = 0
    ended: bool = False

    @property
    def packets_most(self) -> int:
        """More packets than one tile can have."""
        sides = self.precincts or ((1 << 15, 1 << 15),) * (self.levels + 1)
        across = sum((self.tile_width // wide + 2) * (self.tile_height // high + 2) for wide, high in sides)
        return self.layers * self.components * across


def begins(head: bytes) -> bool:
    """Answer whether bytes are the beginning of a codestream."""
    return head.startswith(_BEGINNING)


def sample_codestream() -> bytes:
    """Make a small good codestream: what a JP2 sample holds."""
    sample = sample_picture("JPEG2000")
    return sample[sample.index(_BEGINNING) :]


def read_codestream(source: Source, start: int, end: int) -> Codestream:
    """Follow the markers of a codestream between two places. Raises `Corrupt` where they do not lead to its end, `TooComplex` for too many."""
    if not begins(source.read_at(start, 4)):
        raise Corrupt("the JPEG 2000 data does not begin as it must")
    found = Codestream(start, end=start + 2)
    while found.end + 2 <= end:
        marker = source.read_at(found.end, 2)
        if marker == _EOC:
            found.ended, found.end = True, found.end + 2
            break
        if marker == _SOT:
            _take_part(source, found, end)
        elif found.parts:
            break
        elif _ALONE.fullmatch(marker):
            found.end += 2
        else:
            _take_segment(source, found, end)
    _check_tiles(found, end)
    return found


def check_picture(source: Source, found: Codestream, limits: Limits) -> Mapping[str, Measure]:
    """Decode the picture of a file whose codestream was found whole.

    Raises `Corrupt` when it is damaged, `Unsupported` for what is not decoded here, `Unsafe` when it is too large.
    """
    keep_within(limits, found.width, found.height)
    _check_data(source, found)
    if found.components > _COMPONENTS_DRAWN:
        raise Unsupported(f"there is no decoder at hand for JPEG 2000 pictures of {found.components} components")
    memory = found.tile_width * found.tile_height * found.components * (_SAMPLE_BYTES + 1)
    if memory + found.width * found.height * found.components > _MEMORY:
        raise Unsupported("the JPEG 2000 picture is whole, but larger than its decoder has memory for")
    try:
        measures = decode(source, source.open(), "JPEG2000", limits)
    except Corrupt as error:
        _ask_again(source, found, error)
        measures = {"decoder": "second"}
    return {"width": found.width, "height": found.height, "tiles": found.tiles, **measures}


def _ask_again(source: Source, found: Codestream, error: Corrupt) -> None:
    """Ask another decoder about a picture that Pillow does not draw, for many reasons of its own. Raises `Corrupt` when neither does."""
    lacking = Unsupported(f"there is no decoder at hand for this kind of JPEG 2000: {error}")
    if not _SECOND_DECODER or found.end - found.start > _SECOND_BYTES or found.width * found.height > _SECOND_PIXELS:
        raise lacking from error
    decoder = av.CodecContext.create("jpeg2000", "r")
    decoder.thread_count = 1
    try:
        frames = decoder.decode(av.Packet(source.read_at(found.start, found.end - found.start)))
    except InvalidDataError:
        raise (error if found.is_plain else lacking) from None
    except FFmpegError:
        raise lacking from error
    if not frames:
        raise lacking from error


def _take_segment(source: Source, found: Codestream, end: int) -> None:
    marker, length = struct.unpack(">2sH", source.read_at(found.end, 4).ljust(4, b"\0"))
    if marker[0] != 0xFF or length < 2 or found.end + 2 + length > end:  # noqa: PLR2004  (first byte of a marker; the length counts itself)
        raise Corrupt(f"the JPEG 2000 header is damaged or cut at byte {found.end}")
    data = source.read_at(found.end + 4, length - 2)
    if marker == _SIZ:
        _take_size(data, found)
    elif marker == _COD:
        _take_coding(data, found)
    found.end += 2 + length


def _take_size(data: bytes, found: Codestream) -> None:
    if len(data) < 36:  # noqa: PLR2004  (the fields before the components)
        raise Corrupt("the JPEG 2000 header is damaged: the size is missing")
    right, bottom, left, top, tile_width, tile_height, tile_left, tile_top, found.components = struct.unpack_from(">8LH", data, 2)
    if not (tile_width and tile_height and found.components and right > max(left, tile_left) and bottom > max(top, tile_top)):
        raise Corrupt("the JPEG 2000 header is damaged: it declares a picture without pixels")
    found.width, found.height = right - left, bottom - top
    found.tile_width, found.tile_height = min(tile_width, found.width), min(tile_height, found.height)
    shares = data[36 : 36 + 3 * found.components]
    if len(shares) < 3 * found.components or 0 in shares[1::3] + shares[2::3]:
        raise Corrupt("the JPEG 2000 header is damaged: it does not describe its components")
    found.is_plain = not (left or top or tile_left or tile_top) and {*shares[1::3], *shares[2::3]} == {1}
    found.tiles = -(-(right - tile_left) // tile_width) * -(-(bottom - tile_top) // tile_height)


def _take_coding(data: bytes, found: Codestream) -> None:
    if len(data) < 10:  # noqa: PLR2004  (all fields but the precincts)
        raise Corrupt("the JPEG 2000 header is damaged: the coding style is missing")
    found.style, found.layers, found.levels, found.code_style = data[0], int.from_bytes(data[2:4], "big"), data[5], data[8]
    if found.style & 1:
        found.precincts = tuple((1 << (each & 15), 1 << (each >> 4)) for each in data[10:])


def _take_part(source: Source, found: Codestream, end: int) -> None:
    fields = source.read_at(found.end, 12)
    if len(fields) < 12:  # noqa: PLR2004  (marker, length, tile, length of the part, its number, number of parts)
        raise Corrupt(f"the JPEG 2000 data ends at byte {end}, in the header of a tile")
    tile, length = struct.unpack_from(">HL", fields, 4)
    stop = found.end + length if length else end - (2 if source.read_at(end - 2, 2) == _EOC else 0)
    if stop > end:
        raise Corrupt(f"the JPEG 2000 data ends at byte {end}, before byte {stop}, where tile {tile} ends")
    if stop < found.end + 12 or tile >= found.tiles:
        raise Corrupt(f"the header of a tile at byte {found.end} of the JPEG 2000 data is damaged")
    found.parts.append((tile, found.end + 12, stop))
    if len(found.parts) > _PARTS_MOST:
        raise TooComplex(f"the JPEG 2000 data is cut into more than {_PARTS_MOST} parts")
    found.end = stop


def _check_tiles(found: Codestream, end: int) -> None:
    there = len({tile for tile, _, _ in found.parts})
    if not found.parts:
        raise Corrupt("the JPEG 2000 data holds no tile")
    if not found.ended and (there < found.tiles or found.end < end):
        raise Corrupt(f"the JPEG 2000 data goes wrong at byte {found.end}: {there} of {found.tiles} tiles were found, and no end")


def _check_data(source: Source, found: Codestream) -> None:
    """Raise `Corrupt` for data that no encoder writes. Tells nothing of where the rules are others: of files in high-throughput coding."""
    if found.code_style & ~0x3F:
        return
    zeros = bytes(_ZEROS + found.packets_most) if not found.code_style & _BYPASS and found.packets_most <= _CHUNK else None
    numbers: dict[int, int] = {}
    for tile, start, stop in found.parts:
        for place, chunk in _chunks(source, start, stop):
            if found.style & _NUMBERED:
                _check_numbers(chunk, place, tile, numbers)
            if zeros and (run := chunk.find(zeros)) >= 0 and chunk[run:].strip(b"\0"):
                raise Corrupt(
                    f"the JPEG 2000 data is damaged at byte {place + run}: it holds only zeros for more than {len(zeros)} bytes"
                )


def _check_numbers(chunk: bytes, place: int, tile: int, numbers: dict[int, int]) -> None:
    """Raise `Corrupt` where the number of a packet is not the one behind the last of its tile."""
    for mark in _PACKET.finditer(chunk):
        if mark.start() >= _CHUNK:
            return
        number = int.from_bytes(mark.group(1), "big")
        if tile in numbers and number != (numbers[tile] + 1) & 0xFFFF:
            raise Corrupt(f"the JPEG 2000 data is damaged before byte {place + mark.start()}: packets are missing from tile {tile}")
        numbers[tile] = number


def _chunks(source: Source, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """Answer the coded data of a tile's part in pieces, behind the segments of its header."""
    while (head := source.read_at(start, 4))[:2] != _SOD:
        if _ALONE.match(head):
            start += 2
            continue
        if len(head) < 4 or head[0] != 0xFF or start >= stop:  # noqa: PLR2004  (a marker and its length)
            raise Corrupt(f"the header of a tile before byte {start} of the JPEG 2000 data is damaged")
        start += 2 + int.from_bytes(head[2:], "big")
    start += 2
    while start < stop:
        yield start, source.read_at(start, min(_CHUNK + _OVERLAP, stop - start))
        start += _CHUNK
