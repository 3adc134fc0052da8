"""JPEG 2000, bare (J2K) and in boxes (JP2, JPX, JPH): complete from marker to marker, and it decodes."""
# ISO/IEC 15444-1, annexes A and B. The arithmetic coder takes any data, so most damage within a tile decodes; packet
# numbers that do not follow each other and long runs of zeros are found. Encoders in use break the rule that reserves
# the byte pairs from FF 90 on for markers, so it is not checked.

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from sluice_inspect.containers.isobmff import read_layout
from sluice_inspect.facts.media import measure_picture
from sluice_inspect.format import Examination, Family, Format, MatchOrder, named
from sluice_inspect.images.raster import Decoded, decode_frames, require_within_limits, sample_picture
from sluice_inspect.report import Corrupt, Limits, Measure, TooComplex, Unsupported
from sluice_inspect.source import Source

try:
    import av

    _INSTALLED = True
except ImportError:  # an optional library
    _INSTALLED = False

_BOX_SIGNATURE: Final = b"\0\0\0\x0cjP  \r\n\x87\n"
_FILMS: Final = (b"mjp2", b"mjp ")
_KNOWN_BOXES: Final = frozenset(
    {b"ftyp", b"jp2h", b"jp2c", b"jpch", b"jplh", b"uuid", b"xml ", b"jp2i", b"rreq", b"asoc", b"ftbl", b"mdat"}
)

_SOC, _SIZ, _COD, _SOT, _EOC = b"\xff\x4f", b"\xff\x51", b"\xff\x52", b"\xff\x90", b"\xff\xd9"
_SOD: Final = b"\xff\x93"
_BEGINNING: Final = _SOC + _SIZ
_PARTS_MOST: Final = 300_000
_CHUNK: Final = 1024 * 1024
_OVERLAP: Final = 8  # bytes that each chunk extends into the next, so that no marker is cut
_WITHOUT_SEGMENT: Final = re.compile(rb"\xff[\x30-\x3f]")
_NUMBERED: Final = 2  # coding style in which a marker with its number may begin each packet
_PACKET: Final = re.compile(rb"\xff\x91\x00\x04(..)", re.DOTALL)
_ZEROS: Final = 1024  # zeros in a row that coded data never has; packets without content add one each
_BYPASS: Final = 1  # coding style in which bits are stored as they are: zeros may be meant
_COMPONENTS_DRAWN: Final = 4
_MEMORY: Final = 700_000_000
_SECOND_BYTES: Final = 64 * 1024**2
_SECOND_PIXELS: Final = 40_000_000
_SAMPLE_BYTES: Final = 4  # OpenJPEG keeps every sample of a tile in 32 bits


@dataclass(slots=True)
class _Codestream:
    start: int
    end: int
    width: int = 0
    height: int = 0
    tile_width: int = 0
    tile_height: int = 0
    tiles: int = 0
    components: int = 0
    is_plain: bool = True  # all components are as large as the picture, and begin where it begins
    style: int = 0
    layers: int = 1
    levels: int = 0
    code_style: int = 0
    precincts: tuple[tuple[int, int], ...] = ()
    parts: list[tuple[int, int, int]] = field(default_factory=list)  # tile, first byte and end of each tile-part
    has_end_marker: bool = False

    @property
    def packets_most(self) -> int:
        sides = self.precincts or ((1 << 15, 1 << 15),) * (self.levels + 1)
        across = sum((self.tile_width // wide + 2) * (self.tile_height // high + 2) for wide, high in sides)
        return self.layers * self.components * across


def _examine_boxes(source: Source, limits: Limits) -> Examination:
    boxes = read_layout(source)
    if boxes.cut and boxes.cut.name in _KNOWN_BOXES:
        name = boxes.cut.name.decode("ascii").strip()
        raise Corrupt(f"the file ends at byte {source.size}, inside the {name} box, which ends at byte {boxes.cut.end}")
    streams = [_read_codestream(source, box.body, box.end) for box in boxes.named(b"jp2c")]
    if not streams:
        if boxes.named(b"ftbl", b"mdat", b"mhdr", b"page"):
            raise Unsupported("the file keeps its pictures in a way of JPX or JPM that is not read here")
        raise Corrupt("the file holds no JPEG 2000 codestream")
    for stream in streams:
        require_within_limits(limits, stream.width, stream.height, len(streams))
    if not boxes.named(b"jp2h"):
        raise Unsupported("the file describes its picture in a way of JPX that is not read here")
    return _examine_stream(source, streams[0], boxes.end, limits)


def _examine_codestream(source: Source, limits: Limits) -> Examination:
    stream = _read_codestream(source, 0, source.size)
    return _examine_stream(source, stream, stream.end, limits)


def _examine_stream(source: Source, stream: _Codestream, end: int, limits: Limits) -> Examination:
    """Decode the picture of a complete codestream in a file whose content ends at `end`."""
    require_within_limits(limits, stream.width, stream.height)
    _check_data(source, stream)
    if stream.components > _COMPONENTS_DRAWN:
        raise Unsupported(f"no installed decoder reads JPEG 2000 pictures of {stream.components} components")
    memory = stream.tile_width * stream.tile_height * stream.components * (_SAMPLE_BYTES + 1)
    if memory + stream.width * stream.height * stream.components > _MEMORY:
        raise Unsupported("the JPEG 2000 picture is complete, but larger than its decoder has memory for")
    try:
        decoded = decode_frames(source.open(), "JPEG2000", limits)
    except Corrupt as error:
        _decode_again(source, stream, error)
        decoded = Decoded({"decoder": "second"}, None)
    measures: dict[str, Measure] = {
        "trailing_bytes": source.size - end,
        "width": stream.width,
        "height": stream.height,
        "tiles": stream.tiles,
    }
    return Examination(measures | decoded.measures, decoded.blank, decoded.measured)


def _decode_again(source: Source, stream: _Codestream, error: Corrupt) -> None:
    """Decode with FFmpeg a picture that Pillow does not, for many reasons. Raise if FFmpeg does not either."""
    lacking = Unsupported(f"no installed decoder reads this variant of JPEG 2000: {error}")
    if not _INSTALLED or stream.end - stream.start > _SECOND_BYTES or "jpeg2000" not in av.codecs_available:
        raise lacking from error
    if stream.width * stream.height > _SECOND_PIXELS:
        raise lacking from error
    decoder = av.CodecContext.create("jpeg2000", "r")
    decoder.thread_count = 1
    try:
        frames = decoder.decode(av.Packet(source.read_at(stream.start, stream.end - stream.start)))
    except av.error.InvalidDataError:
        raise (error if stream.is_plain else lacking) from None
    except av.error.FFmpegError:
        raise lacking from error
    if not frames:
        raise lacking from error


def _read_codestream(source: Source, start: int, end: int) -> _Codestream:
    """Follow the markers of a codestream from `start` to its end, at most to `end`."""
    if not source.read_at(start, 4).startswith(_BEGINNING):
        raise Corrupt("the JPEG 2000 data does not begin as it must")
    stream = _Codestream(start, end=start + 2)
    while stream.end + 2 <= end:
        marker = source.read_at(stream.end, 2)
        if marker == _EOC:
            stream.has_end_marker, stream.end = True, stream.end + 2
            break
        if marker == _SOT:
            _read_tile_part(source, stream, end)
        elif stream.parts:
            break
        elif _WITHOUT_SEGMENT.fullmatch(marker):
            stream.end += 2
        else:
            _read_segment(source, stream, end)
    tiles = len({tile for tile, _, _ in stream.parts})
    if not stream.parts:
        raise Corrupt("the JPEG 2000 data holds no tile")
    if not stream.has_end_marker and (tiles < stream.tiles or stream.end < end):
        raise Corrupt(
            f"the JPEG 2000 data goes wrong at byte {stream.end}: "
            f"{tiles} of {stream.tiles} tiles were found, and no end"
        )
    return stream


def _read_segment(source: Source, stream: _Codestream, end: int) -> None:
    marker, length = struct.unpack(">2sH", source.read_at(stream.end, 4).ljust(4, b"\0"))
    if marker[0] != 0xFF or length < 2 or stream.end + 2 + length > end:
        raise Corrupt(f"the JPEG 2000 header is damaged or cut at byte {stream.end}")
    data = source.read_at(stream.end + 4, length - 2)
    if marker == _SIZ:
        _read_size(data, stream)
    elif marker == _COD:
        _read_coding_style(data, stream)
    stream.end += 2 + length


def _read_size(data: bytes, stream: _Codestream) -> None:
    if len(data) < 36:
        raise Corrupt("the JPEG 2000 header is damaged: the size is missing")
    right, bottom, left, top, tile_width, tile_height, tile_left, tile_top, stream.components = struct.unpack_from(
        ">8LH", data, 2
    )
    has_pixels = right > max(left, tile_left) and bottom > max(top, tile_top)
    if not (tile_width and tile_height and stream.components and has_pixels):
        raise Corrupt("the JPEG 2000 header is damaged: it declares a picture without pixels")
    stream.width, stream.height = right - left, bottom - top
    stream.tile_width, stream.tile_height = min(tile_width, stream.width), min(tile_height, stream.height)
    components = data[36 : 36 + 3 * stream.components]  # depth and subsampling across and down
    if len(components) < 3 * stream.components or 0 in components[1::3] + components[2::3]:
        raise Corrupt("the JPEG 2000 header is damaged: it does not describe its components")
    is_subsampled = {*components[1::3], *components[2::3]} != {1}
    stream.is_plain = not (left or top or tile_left or tile_top or is_subsampled)
    stream.tiles = -(-(right - tile_left) // tile_width) * -(-(bottom - tile_top) // tile_height)


def _read_coding_style(data: bytes, stream: _Codestream) -> None:
    if len(data) < 10:
        raise Corrupt("the JPEG 2000 header is damaged: the coding style is missing")
    stream.style, stream.layers = data[0], int.from_bytes(data[2:4], "big")
    stream.levels, stream.code_style = data[5], data[8]
    if stream.style & 1:
        stream.precincts = tuple((1 << (each & 15), 1 << (each >> 4)) for each in data[10:])


def _read_tile_part(source: Source, stream: _Codestream, end: int) -> None:
    fields = source.read_at(stream.end, 12)
    if len(fields) < 12:
        raise Corrupt(f"the JPEG 2000 data ends at byte {end}, in the header of a tile")
    tile, length = struct.unpack_from(">HL", fields, 4)
    # A length of 0 means up to the end marker (A.4.2).
    stop = stream.end + length if length else end - (2 if source.read_at(end - 2, 2) == _EOC else 0)
    if stop > end:
        raise Corrupt(f"the JPEG 2000 data ends at byte {end}, before byte {stop}, where tile {tile} ends")
    if stop < stream.end + 12 or tile >= stream.tiles:
        raise Corrupt(f"the header of a tile at byte {stream.end} of the JPEG 2000 data is damaged")
    stream.parts.append((tile, stream.end + 12, stop))
    if len(stream.parts) > _PARTS_MOST:
        raise TooComplex(f"the JPEG 2000 data is cut into more than {_PARTS_MOST} parts")
    stream.end = stop


def _check_data(source: Source, stream: _Codestream) -> None:
    """Raise `Corrupt` for data that no encoder writes."""
    if stream.code_style & ~0x3F:  # high-throughput coding, for which other rules hold
        return
    packets = stream.packets_most
    zeros = bytes(_ZEROS + packets) if not stream.code_style & _BYPASS and packets <= _CHUNK else None
    numbers: dict[int, int] = {}
    for tile, start, stop in stream.parts:
        for offset, chunk in _read_coded_data(source, start, stop):
            if stream.style & _NUMBERED:
                _check_packet_numbers(chunk, offset, tile, numbers)
            if zeros and (run := chunk.find(zeros)) >= 0 and chunk[run:].strip(b"\0"):
                raise Corrupt(
                    f"the JPEG 2000 data is damaged at byte {offset + run}: "
                    f"it holds only zeros for more than {len(zeros)} bytes"
                )


def _check_packet_numbers(chunk: bytes, offset: int, tile: int, numbers: dict[int, int]) -> None:
    """Raise `Corrupt` where the number of a packet does not follow that of the packet before. `numbers` are by tile."""
    for mark in _PACKET.finditer(chunk):
        if mark.start() >= _CHUNK:  # in the overlap: the next chunk begins with it
            return
        number = int.from_bytes(mark.group(1), "big")
        if tile in numbers and number != (numbers[tile] + 1) & 0xFFFF:
            raise Corrupt(
                f"the JPEG 2000 data is damaged before byte {offset + mark.start()}: "
                f"packets are missing from tile {tile}"
            )
        numbers[tile] = number


def _read_coded_data(source: Source, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
    """Yield offset and bytes of the overlapping chunks of coded data behind the header of a tile-part."""
    while (head := source.read_at(start, 4))[:2] != _SOD:
        if _WITHOUT_SEGMENT.match(head):
            start += 2
            continue
        if len(head) < 4 or head[0] != 0xFF or start >= stop:
            raise Corrupt(f"the header of a tile before byte {start} of the JPEG 2000 data is damaged")
        start += 2 + int.from_bytes(head[2:], "big")
    start += 2
    while start < stop:
        yield start, source.read_at(start, min(_CHUNK + _OVERLAP, stop - start))
        start += _CHUNK


JP2: Final = Format(
    name="jp2",
    family=Family.PICTURE,
    content_type="image/jp2",
    extensions=frozenset({"jp2", "jpx", "jpf", "jpm", "jph"}),
    tolerated_extensions=frozenset({"j2k"}),
    begins=(_BOX_SIGNATURE,),
    matches=lambda source: source.head.startswith(_BOX_SIGNATURE) and source.head[20:24] not in _FILMS,
    match_order=MatchOrder.PICTURE,
    examine=_examine_boxes,
    facts=partial(measure_picture, plugin="JPEG2000"),
    sample=lambda: sample_picture("JPEG2000"),
    names=named("JPEG 2000", "jp2 jpf jpx jpm jph"),
)

J2K: Final = Format(
    name="j2k",
    family=Family.PICTURE,
    content_type="image/j2c",
    extensions=frozenset({"j2k", "j2c", "jpc", "jhc"}),
    tolerated_extensions=frozenset({"jp2", "jph"}),
    begins=(_BEGINNING,),
    matches=lambda source: source.head.startswith(_BEGINNING),
    match_order=MatchOrder.PICTURE,
    examine=_examine_codestream,
    facts=partial(measure_picture, plugin="JPEG2000"),
    sample=lambda: (picture := sample_picture("JPEG2000"))[picture.index(_BEGINNING) :],
    names=named("JPEG 2000", "j2k j2c jpc jhc"),
)
