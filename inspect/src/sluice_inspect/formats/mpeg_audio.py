"""MP3 (MPEG audio of all layers) and AAC in ADTS: bare frames follow each other without gaps, and all decode."""
# AAC in MP4 is M4A. A file has as many frames as its first one states, if it does (Xing, Info, VBRI).

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final, NamedTuple

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.media import measure_media
from sluice_inspect.format import Examination, Family, Format, MatchOrder
from sluice_inspect.media.audio_tags import ends_with_tag, has_tag, id3v2_bytes, is_trailing_tag, skip_leading_tags
from sluice_inspect.media.playback import MISSING_READER, play
from sluice_inspect.media.sample_files import encode_sound
from sluice_inspect.report import Corrupt, Limits, Measure, Unsupported
from sluice_inspect.signatures import has_binary_signature
from sluice_inspect.source import Piece, Source

_WINDOW_BYTES: Final = 1024 * 1024
_MAX_FRAME_BYTES: Final = 4608
_MAX_LEADING_JUNK: Final = _MAX_FRAME_BYTES  # bytes before the first frame: the rest of one that an editor cut
# Frames that must follow each other for the first to be believed after junk; half of them suffice where it is expected.
_CHAIN_FRAMES: Final = 4
_MAX_MISSING_BYTES: Final = 8  # encoders leave out up to this many bytes of the last frame
# Frames that may be fewer than stated: some encoders count the frame that states them, and some round.
_MIN_MISSING_FRAMES: Final = 2
_MISSING_FRAMES_SHARE: Final = 0.02
_FRAMES_PER_DEADLINE_CHECK: Final = 4096
# Offsets tried for a frame outside the stream, so that hostile bytes cost no more than a second.
_MAX_TRIES: Final = 200_000
# One byte behind the last frame and at its end, but not at the end of the frame before: what replaces a lost end.
_FILLED_BYTES: Final = 512
_FILLED_IN_FRAME: Final = 8
# Some encoders end the last frames of MPEG audio with zeros, and some tools round a file up with zeros: by fewer.
_MIN_MPEG_ZEROS: Final = 2048
_MIN_MPEG_ZEROS_SHARE: Final = 0.05
# Bytes behind the last frame that compress by less than 1 % are neither padding nor text.
_NOISE_BYTES: Final = 1024
_NOISE_RATIO: Final = 0.99
_MIN_FRAMES_TO_PLAY: Final = 3  # FFmpeg needs frames that follow each other to recognise the format

_ADIF: Final = b"ADIF"
_ADTS_SYNC, _ADTS_RATES, _MIN_ADTS_BYTES = 0xFFF, 13, 7

_MPEG_SYNC, _MPEG_1, _RESERVED_VERSION, _RESERVED_LAYER = 0x7FF, 3, 1, 0
_RESERVED_RATE, _RESERVED_BIT_RATE, _FREE_BIT_RATE = 3, 15, 0
_HERTZ: Final = {3: (44100, 48000, 32000), 2: (22050, 24000, 16000), 0: (11025, 12000, 8000)}
_LOW_KBITS: Final = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
# Bit rates by whether the version is MPEG-1, and by layer.
_KBITS: Final = {
    (True, 1): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 3): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 1): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): _LOW_KBITS,
    (False, 3): _LOW_KBITS,
}
# Sync word, version, layer and sample rate. Bit rate, padding and channel mode may change with each frame.
_MPEG_STREAM_BITS: Final = 0xFFFE0C00


class _FrameHeader(NamedTuple):
    """The length of a frame in bytes with its header, and the bits that all frames of a stream have in common."""

    length: int
    stream_bits: int


@dataclass(frozen=True, slots=True)
class _FrameSyntax:
    """How frames of a format are recognised. `parse` returns None for bytes that are no header."""

    header_bytes: int
    parse: Callable[[bytes], _FrameHeader | None]


def _parse_adts_header(header: bytes) -> _FrameHeader | None:
    """Parse seven bytes (ISO/IEC 13818-7, 6.2)."""
    value = int.from_bytes(header, "big")
    if value >> 44 != _ADTS_SYNC or value >> 41 & 3 or value >> 34 & 15 >= _ADTS_RATES:
        return None
    length = value >> 13 & 0x1FFF
    return _FrameHeader(length, value >> 34 & 0x20F) if length >= _MIN_ADTS_BYTES else None


@lru_cache(maxsize=4096)  # a stream has few different headers, and many frames
def _parse_mpeg_header(header: bytes) -> _FrameHeader | None:
    """Parse four bytes (ISO/IEC 11172-3, 2.4.1.3, and 13818-3)."""
    value = int.from_bytes(header, "big")
    bit_rate = value >> 12 & 15
    if not _is_mpeg_header(value) or bit_rate == _FREE_BIT_RATE:
        return None
    version, layer = value >> 19 & 3, 4 - (value >> 17 & 3)
    hertz = _HERTZ[version][value >> 10 & 3]
    bits_per_second = 1000 * _KBITS[version == _MPEG_1, layer][bit_rate - 1]
    padding = value >> 9 & 1
    if layer == 1:  # its slots have four bytes
        return _FrameHeader(4 * (12 * bits_per_second // hertz + padding), value & _MPEG_STREAM_BITS)
    samples = 576 if layer == 3 and version != _MPEG_1 else 1152
    return _FrameHeader(samples // 8 * bits_per_second // hertz + padding, value & _MPEG_STREAM_BITS)


def _is_mpeg_header(value: int) -> bool:
    return (
        value >> 21 == _MPEG_SYNC
        and value >> 19 & 3 != _RESERVED_VERSION
        and value >> 17 & 3 != _RESERVED_LAYER
        and value >> 12 & 15 != _RESERVED_BIT_RATE
        and value >> 10 & 3 != _RESERVED_RATE
    )


_ADTS: Final = _FrameSyntax(header_bytes=7, parse=_parse_adts_header)
_MPEG: Final = _FrameSyntax(header_bytes=4, parse=_parse_mpeg_header)


@dataclass(slots=True)
class _FrameScan:
    """What was found between the tags of a file. Offsets are in bytes from its start."""

    first: int
    end: int  # where the last complete frame ends
    last: int = 0  # where it begins
    frames: int = 0
    gaps: int = 0  # stretches between frames that are neither frames nor tags nor padding
    first_gap: int = 0
    cut_frame: int | None = None  # where the last frame begins if the file ends inside it
    is_partial: bool = False  # whether the deadline passed before the end
    # The stretches of frames, which FFmpeg reads: what is between them does not decode.
    pieces: list[Piece] = field(default_factory=list)


class _FrameScanner:
    """Finds and follows the frames of one file."""

    def __init__(self, source: Source, syntax: _FrameSyntax) -> None:
        self._source = source
        self._syntax = syntax
        self._window_start = 0
        self._window = source.head
        self._tries = 0

    def find_first(self, start: int) -> int | None:
        """Return the offset of the first frame: `start`, or after the rest of a cut one. None if there is no stream."""
        if self._is_chain(start, _CHAIN_FRAMES // 2, least=1):
            return start
        if start == 0 and has_binary_signature(self._source.head) and self._source.head[:16].strip(b"\0"):
            return None
        return self.find_chain(start + 1, start + _MAX_LEADING_JUNK, _CHAIN_FRAMES)

    def scan(self, first: int, deadline: Deadline) -> _FrameScan:
        """Follow the frames from the first to the end of the file, across tags and gaps, or until the deadline."""
        scan = _FrameScan(first, end=first)
        stream_bits = self._stream_bits_at(first)
        start: int | None = first
        while start is not None and start < self._source.size and not scan.is_partial:
            start = self._scan_piece(scan, start, stream_bits, deadline)
        return scan

    def read_at(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes from `offset`."""
        if offset < self._window_start or offset + length > self._window_start + len(self._window):
            self._window_start = offset
            self._window = self._source.read_at(offset, max(length, _WINDOW_BYTES))
        return self._window[offset - self._window_start : offset - self._window_start + length]

    def find_chain(self, offset: int, limit: int, frames: int, stream_bits: int | None = None) -> int | None:
        """Return the offset before `limit` from which `frames` frames follow each other, with the given bits if any."""
        limit = min(limit, self._source.size)
        while offset < limit and self._tries < _MAX_TRIES:
            self.read_at(offset, 1)
            index = self._window.find(b"\xff", offset - self._window_start, max(0, limit - self._window_start))
            if index < 0:
                offset = self._window_start + len(self._window)
                continue
            self._tries += 1
            found = self._window_start + index
            header = self._header_at(found)
            if (
                header
                and stream_bits in {None, header.stream_bits}
                and self._is_chain(found, frames, least=frames // 2)
            ):
                return found
            offset = found + 1
        return None

    def _scan_piece(self, scan: _FrameScan, start: int, stream_bits: int | None, deadline: Deadline) -> int | None:
        """Follow frames up to a gap. Return where they continue, None if they do not."""
        offset, size, following = start, self._source.size, None
        while offset < size:
            header = self._header_at(offset)
            if header is None or header.stream_bits != stream_bits:
                following = self._find_after_gap(scan, offset, stream_bits)
                break
            if offset + header.length > size + _MAX_MISSING_BYTES:
                scan.cut_frame = offset
                break
            scan.last = offset
            offset += header.length
            scan.frames += 1
            if scan.frames % _FRAMES_PER_DEADLINE_CHECK == 0 and deadline.has_passed:
                scan.is_partial = True
                break
        scan.end = min(offset, size)
        scan.pieces.append((start, scan.end - start))
        return following

    def _find_after_gap(self, scan: _FrameScan, offset: int, stream_bits: int | None) -> int | None:
        """Return where frames continue after `offset`, which has none. Record the gap, or a header cut by the end."""
        if size := id3v2_bytes(self._source, offset):
            return offset + size
        following = self.find_chain(offset + 1, self._source.size, _CHAIN_FRAMES // 2, stream_bits)
        data = self.read_at(offset, 64)
        if following is None:
            is_header = len(data) < self._syntax.header_bytes and data[:2] in {b"\xff", self.read_at(scan.first, 2)}
            scan.cut_frame = offset if is_header else None
        elif not is_trailing_tag(data):
            gap = self._source.read_at(offset, min(following - offset, _WINDOW_BYTES))
            if gap.strip(b"\0"):
                scan.gaps += 1
                scan.first_gap = scan.first_gap or offset
        return following

    def _is_chain(self, offset: int, frames: int, least: int) -> bool:
        """Return whether `frames` frames of one stream follow each other, or `least` up to the file's end or a tag."""
        stream_bits = self._stream_bits_at(offset)
        for count in range(frames):
            if count >= least and (offset == self._source.size or is_trailing_tag(self.read_at(offset, 16))):
                return True
            header = self._header_at(offset)
            if header is None or header.stream_bits != stream_bits:
                return False
            offset += header.length
        return True

    def _header_at(self, offset: int) -> _FrameHeader | None:
        data = self.read_at(offset, self._syntax.header_bytes)
        return self._syntax.parse(data) if len(data) == self._syntax.header_bytes else None

    def _stream_bits_at(self, offset: int) -> int | None:
        header = self._header_at(offset)
        return header.stream_bits if header else None


def _require_complete(source: Source, scan: _FrameScan, *, stated: int = 0, min_zeros: int = 0) -> None:
    """Raise `Corrupt` for gaps between frames and for a missing end. `stated` is the number of frames, 0 if unknown."""
    if scan.gaps:
        raise Corrupt(f"the sound is damaged: at byte {scan.first_gap} there is no frame where one must be")
    # A file with a tag at its end was not cut: taggers write it last, perhaps after music that an editor shortened.
    if scan.is_partial or ends_with_tag(source):
        return
    if scan.cut_frame is not None and not 0 < stated <= scan.frames:
        raise Corrupt(f"the file ends at byte {source.size}, inside the frame that begins at byte {scan.cut_frame}")
    if scan.frames + max(_MIN_MISSING_FRAMES, _MISSING_FRAMES_SHARE * stated) < stated:
        raise Corrupt(f"the file holds {scan.frames} of the {stated} frames that it states")
    if not 0 < stated <= scan.frames:
        _require_no_overwritten_end(source, scan, min_zeros)


def _require_no_overwritten_end(source: Source, scan: _FrameScan, min_zeros: int) -> None:
    rest = source.read_at(scan.end, _WINDOW_BYTES)
    if len(rest) < _FILLED_BYTES:
        return
    fill = rest[:1]
    if not rest.strip(fill):
        in_frame, before = fill * _FILLED_IN_FRAME, source.read_at(scan.last - _FILLED_IN_FRAME, _FILLED_IN_FRAME)
        is_long = fill != b"\0" or source.size - scan.end >= min_zeros
        if is_long and source.read_at(scan.end - _FILLED_IN_FRAME, _FILLED_IN_FRAME) == in_frame != before:
            raise Corrupt(f"the end of the file is missing: byte {fill[0]:#04x} fills it from about {scan.end} on")
    elif len(rest) >= _NOISE_BYTES and not _is_other_content(source, rest, scan.end):
        raise Corrupt(f"the sound is damaged: from byte {scan.end} to the end there is noise where frames must be")


def _is_other_content(source: Source, rest: bytes, start: int) -> bool:
    """Return whether the bytes behind the last frame are no noise: text, tags, a file, or frames of other kinds."""
    if has_tag(rest) or has_binary_signature(rest) or len(zlib.compress(rest, 1)) < _NOISE_RATIO * len(rest):
        return True
    return any(
        _FrameScanner(source, syntax).find_chain(start, start + len(rest), _CHAIN_FRAMES) is not None
        for syntax in (_ADTS, _MPEG)
    )


def _is_aac(source: Source) -> bool:
    if source.head.startswith(_ADIF):
        return True
    try:
        start = skip_leading_tags(source)
    except Corrupt:
        return False
    return _FrameScanner(source, _ADTS).find_first(start) is not None


def _examine_aac(source: Source, limits: Limits) -> Examination:
    deadline = Deadline(limits.soft_seconds)
    if source.head.startswith(_ADIF):
        raise Unsupported("AAC with a single header (ADIF) cannot be checked")
    scanner = _FrameScanner(source, _ADTS)
    first = scanner.find_first(skip_leading_tags(source))
    if first is None:
        raise Corrupt("there are no AAC frames in the file")
    scan = scanner.scan(first, deadline)
    _require_complete(source, scan)
    measures: dict[str, Measure] = {"frames": scan.frames, "trailing_bytes": source.size - scan.end}
    return play(source, "aac", deadline, measures=measures, pieces=scan.pieces)


def _is_mp3(source: Source) -> bool:
    try:
        start = skip_leading_tags(source)
    except Corrupt:
        return True
    if _FrameScanner(source, _MPEG).find_first(start) is not None or _is_free_format(source, start):
        return True
    # What follows an ID3 tag is MP3, damaged perhaps, unless it is one of the other formats that carry such tags.
    return start > 0 and source.read_at(start, 4) != b"fLaC" and not _is_aac(source)


def _is_free_format(source: Source, start: int) -> bool:
    """Return whether frames without a stated bit rate begin here: their length shows only in their distance."""
    data = source.read_at(start, 3 * _MAX_FRAME_BYTES)
    value = int.from_bytes(data[:4], "big")
    if not _is_mpeg_header(value) or value >> 12 & 15 != _FREE_BIT_RATE:
        return False
    second = data.find(data[:2], 32)
    return second > 0 and data[2 * second - 1 : 2 * second + 3].find(data[:2]) >= 0


def _examine_mp3(source: Source, limits: Limits) -> Examination:
    deadline = Deadline(limits.soft_seconds)
    start = skip_leading_tags(source)
    scanner = _FrameScanner(source, _MPEG)
    first = scanner.find_first(start)
    if first is None and _is_free_format(source, start):
        raise Unsupported("MPEG audio without a stated bit rate (free format) cannot be checked")
    if first is None:
        raise Corrupt("there are no MPEG audio frames in the file")
    scan = scanner.scan(first, deadline)
    stated = _stated_frames(scanner.read_at(first, 256))
    min_zeros = max(_MIN_MPEG_ZEROS, int(_MIN_MPEG_ZEROS_SHARE * source.size))
    _require_complete(source, scan, stated=stated, min_zeros=min_zeros)
    measures: dict[str, Measure] = {
        "frames": scan.frames,
        "stated_frames": stated,
        "trailing_bytes": source.size - scan.end,
    }
    if scan.frames < _MIN_FRAMES_TO_PLAY:
        return Examination(measures)
    return play(source, "mp3", deadline, measures=measures, pieces=scan.pieces)


def _stated_frames(frame: bytes) -> int:
    """Return the number of frames that the first one states, 0 if it states none."""
    for name in (b"Xing", b"Info"):
        index = frame.find(name, 4, 48)
        if index > 0 and frame[index + 7] & 1:  # the flag for the number of frames
            return int.from_bytes(frame[index + 8 : index + 12], "big")
    index = frame.find(b"VBRI", 36, 44)
    return int.from_bytes(frame[index + 14 : index + 18], "big") if index > 0 else 0


AAC: Final = Format(
    name="aac",
    family=Family.RECORDING,
    content_type="audio/aac",
    extensions=frozenset({"aac", "adts", "adt"}),
    matches=_is_aac,
    match_order=MatchOrder.LAST,
    examine=_examine_aac,
    facts=partial(measure_media, demuxer="aac"),
    sample=lambda: encode_sound("adts", "aac", takes_floats=True),
    missing_reader=MISSING_READER,
)

MP3: Final = Format(
    name="mp3",
    family=Family.RECORDING,
    content_type="audio/mpeg",
    extensions=frozenset({"mp3", "mp2", "mp1", "mpa", "mpga"}),
    matches=_is_mp3,
    match_order=MatchOrder.LAST,
    examine=_examine_mp3,
    facts=partial(measure_media, demuxer="mp3"),
    sample=lambda: encode_sound("mp2", "mp2"),
    missing_reader=MISSING_READER,
)
