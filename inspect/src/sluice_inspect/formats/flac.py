"""FLAC (RFC 9639): metadata, all stated frames and samples are in the file; the samples match the encoder's MD5."""
# FFmpeg decodes. Frames are followed only where there is no count or no MD5, or where FFmpeg fails.

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sluice_inspect.budget import Deadline
from sluice_inspect.facts.media import measure_media
from sluice_inspect.format import Examination, Family, Format, MatchOrder
from sluice_inspect.media.audio_tags import ID3V1_BYTES, skip_leading_tags
from sluice_inspect.media.playback import MISSING_READER, NO_MEDIA, play
from sluice_inspect.media.sample_files import encode_sound
from sluice_inspect.report import Corrupt, Limits, Unsupported
from sluice_inspect.source import Source

if TYPE_CHECKING:
    from numpy.typing import NDArray

if TYPE_CHECKING:
    from av import AudioFrame

_MAGIC: Final = b"fLaC"
_STREAMINFO_BYTES: Final = 34
_MAX_METADATA_BLOCKS: Final = 10_000

_SYNC: Final = re.compile(rb"\xff[\xf8\xf9]")
_MAX_FRAME_HEADER_BYTES: Final = 16
_RESERVED_BITS_CODE: Final = 3
_SAMPLE_BITS: Final = {0: 0, 1: 8, 2: 12, 4: 16, 5: 20, 6: 24, 7: 32}
_STEREO_CODES: Final = range(8, 11)  # channel codes of left/side, side/right and mid/side stereo
# Frames are followed through this many bytes: the checksums are computed in Python, and more would take too long.
_MAX_FOLLOWED_BYTES: Final = 8 * 1024 * 1024
_TAIL_BYTES: Final = 1024 * 1024
_MAX_LAST_FRAMES: Final = 32


@dataclass(frozen=True, slots=True)
class _StreamInfo:
    """What the metadata state of the stream (8.2). `samples` is 0 if the encoder did not know."""

    rate: int
    channels: int
    bits: int
    samples: int
    md5: bytes

    @property
    def has_md5(self) -> bool:
        return bool(self.md5.strip(b"\0"))


@dataclass(frozen=True, slots=True)
class _FlacFrame:
    """The header of one frame (9.1): `bits` is 0 where the stream states them, `number` counts frames or samples."""

    rate_code: int
    channels: int
    bits: int
    number: int


@dataclass(frozen=True, slots=True)
class _FrameRun:
    """What the frames showed: whether their rate, channels or depth change, and whether all checksums match."""

    changes_format: bool
    is_intact: bool


def _is_flac(source: Source) -> bool:
    try:
        start = skip_leading_tags(source)
    except Corrupt:
        return False
    return source.read_at(start, 4) == _MAGIC or (start == 0 and _parse_frame_header(source.head[:16]) is not None)


def _examine(source: Source, limits: Limits) -> Examination:
    deadline = Deadline(limits.soft_seconds)
    start = skip_leading_tags(source)
    if source.read_at(start, 4) != _MAGIC:  # bare frames
        return play(source, "flac", deadline)
    info, audio = _read_metadata(source, start)
    if audio == source.size and not info.samples:
        return Examination({"stated_samples": 0, "samples": 0}, lambda: NO_MEDIA)
    _check_first_frame(source, info, audio)
    decoded = _DecodedSamples(info.bits, info.channels)
    # Without a count and an MD5, only the checksums of the frames show a cut.
    run = None if info.samples and info.has_md5 else _follow_frames(source, audio)
    if run and not run.is_intact:
        raise Corrupt("a frame of the FLAC is damaged or cut: its checksum does not match")
    try:
        played = play(source, "flac", deadline, on_sound=decoded.add, is_whole=True)
    except Corrupt:
        # FFmpeg fails on streams that change their format midway, which the format allows.
        run = run or _follow_frames(source, audio)
        if run.changes_format and run.is_intact:
            raise Unsupported("the stream changes its format midway, which FFmpeg does not follow") from None
        raise
    if played.measures.get("partially_checked"):
        if not _ends_with_frame(source):
            raise Corrupt("the last frame of the FLAC is cut: its checksum does not match")
    elif not decoded.is_undefined:
        if decoded.count < info.samples:
            raise Corrupt(f"the FLAC holds {decoded.count} of the {info.samples} samples that it states")
        # An encoder that did not write the count did not complete the header: its MD5 means nothing.
        if info.samples and info.has_md5 and info.md5 != decoded.digest():
            raise Corrupt("the samples of the FLAC differ from those that were encoded: their MD5 does not match")
    measures = {"stated_samples": info.samples, "samples": decoded.count, **played.measures}
    return Examination(measures, played.blank)


def _read_metadata(source: Source, start: int) -> tuple[_StreamInfo, int]:
    info = None
    for block_type, offset, end in _read_metadata_blocks(source, start + len(_MAGIC)):
        if info is None and (block_type or end - offset != _STREAMINFO_BYTES):
            break
        if info is None:
            data = source.read_at(offset, _STREAMINFO_BYTES)
            packed = int.from_bytes(data[10:18], "big")
            info = _StreamInfo(
                rate=packed >> 44,
                channels=(packed >> 41 & 7) + 1,
                bits=(packed >> 36 & 31) + 1,
                samples=packed & 0xFFFFFFFFF,
                md5=data[18:],
            )
        audio = end
    if info is None:
        raise Corrupt("the FLAC does not begin with a description of its stream")
    return info, audio


def _read_metadata_blocks(source: Source, offset: int) -> Iterator[tuple[int, int, int]]:
    for _ in range(_MAX_METADATA_BLOCKS):
        head = source.read_at(offset, 4)
        end = offset + 4 + int.from_bytes(head[1:], "big")
        if len(head) < 4 or end > source.size:
            raise Corrupt(f"the FLAC ends at byte {source.size}, inside its metadata")
        yield head[0] & 0x7F, offset + 4, end
        offset = end
        if head[0] & 0x80:  # the last block
            return


def _check_first_frame(source: Source, info: _StreamInfo, audio: int) -> None:
    first = _parse_frame_header(source.read_at(audio, _MAX_FRAME_HEADER_BYTES))
    if first is None:
        raise Corrupt(f"there is no FLAC frame at byte {audio}, after the metadata")
    if (first.channels, first.bits or info.bits) != (info.channels, info.bits):
        raise Corrupt(
            f"the FLAC states {info.channels} channels of {info.bits} bits, but its first frame has {first.channels} of"
            f" {first.bits}"
        )


class _DecodedSamples:
    """Counts the decoded samples of each channel and computes their MD5 (8.2) from frames in their order."""

    def __init__(self, bits: int, channels: int) -> None:
        self._bits = bits
        self._channels = channels
        self._md5 = hashlib.md5(usedforsecurity=False)
        self.count = 0
        # Whether frames have another format than the stream states: the MD5 is not defined then.
        self.is_undefined = False

    def add(self, frame: AudioFrame) -> None:
        self.count += frame.samples
        raw: NDArray[Any] = frame.to_ndarray()
        if len(frame.layout.channels) != self._channels or raw.dtype not in {np.dtype(np.int16), np.dtype(np.int32)}:
            self.is_undefined = True
            return
        samples = raw.T if frame.format.is_planar else raw.reshape(-1, self._channels)
        # FFmpeg left-aligns samples in 16 or 32 bits. The MD5 is over whole bytes, little-endian, channels interleaved.
        values = samples.astype(np.int32) >> (samples.dtype.itemsize * 8 - self._bits)
        raw_bytes = np.ascontiguousarray(values, dtype="<i4").view(np.uint8).reshape(-1, 4)
        self._md5.update(raw_bytes[:, : -(-self._bits // 8)].tobytes())

    def digest(self) -> bytes:
        return self._md5.digest()


def _follow_frames(source: Source, start: int) -> _FrameRun:
    """Follow the frames from `start` to the end or for 8 MiB. Of a longer stream only the last one is checked."""
    end = _audio_end(source)
    data = source.read_at(start, min(_MAX_FOLLOWED_BYTES, end - start))
    formats: set[tuple[int, int, int]] = set()
    summed, crc, number = 0, 0, -1
    for offset, header in _find_frame_headers(data):
        crc = _crc16(data[summed:offset], crc)
        summed = offset
        # The CRC-16 over a frame and its own checksum is 0: the bytes before a true header are a complete frame.
        if header.number > number and (crc == 0 or number < 0):
            formats.add((header.rate_code, header.channels, header.bits))
            crc, number = 0, header.number
    is_intact = _crc16(data[summed:], crc) == 0 if start + len(data) == end else _ends_with_frame(source)
    return _FrameRun(len(formats) > 1, is_intact)


def _ends_with_frame(source: Source) -> bool:
    """Return whether one of the last headers begins a frame that ends where the audio does."""
    end = _audio_end(source)
    data = source.read_at(max(0, end - _TAIL_BYTES), min(end, _TAIL_BYTES))
    offsets = [offset for offset, _ in _find_frame_headers(data)][-_MAX_LAST_FRAMES:]
    return any(_crc16(data[offset:]) == 0 for offset in reversed(offsets))


def _audio_end(source: Source) -> int:
    return source.size - (ID3V1_BYTES if source.tail[-ID3V1_BYTES:].startswith(b"TAG") else 0)


def _find_frame_headers(data: bytes) -> Iterator[tuple[int, _FlacFrame]]:
    for sync in _SYNC.finditer(data):
        header = _parse_frame_header(data[sync.start() : sync.start() + _MAX_FRAME_HEADER_BYTES])
        if header is not None:
            yield sync.start(), header


def _parse_frame_header(data: bytes) -> _FlacFrame | None:
    """Return the header that `data` begins with, None if there is none or its checksum does not match."""
    if len(data) < 6 or not _SYNC.match(data):
        return None
    size_code, rate_code, channel_code, bits_code = data[2] >> 4, data[2] & 15, data[3] >> 4, data[3] >> 1 & 7
    # The number is coded as UTF-8 codes characters, in up to seven bytes (9.1.5).
    number_bytes = 8 - (data[4] ^ 0xFF).bit_length() or 1
    if (
        not size_code
        or rate_code == 15
        or channel_code > 10
        or bits_code == _RESERVED_BITS_CODE
        or data[3] & 1
        or number_bytes > 7
    ):
        return None
    end = 4 + number_bytes + {6: 1, 7: 2}.get(size_code, 0) + {12: 1, 13: 2, 14: 2}.get(rate_code, 0)
    if len(data) <= end or _crc8(data[:end]) != data[end]:
        return None
    number = data[4] & (0x7F >> number_bytes if number_bytes > 1 else 0x7F)
    for byte in data[5 : 4 + number_bytes]:
        number = number << 6 | byte & 0x3F
    channels = 2 if channel_code in _STEREO_CODES else channel_code + 1
    return _FlacFrame(rate_code, channels, _SAMPLE_BITS[bits_code], number)


def _crc_table(polynomial: int, bits: int) -> tuple[int, ...]:
    top, mask = 1 << bits - 1, (1 << bits) - 1
    table = []
    for start in range(256):
        crc = start << bits - 8
        for _ in range(8):
            crc = crc << 1 & mask ^ (polynomial if crc & top else 0)
        table.append(crc)
    return tuple(table)


_CRC8_TABLE: Final = _crc_table(0x07, 8)
_CRC16_TABLE: Final = _crc_table(0x8005, 16)


def _crc8(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc = _CRC8_TABLE[crc ^ byte]
    return crc


def _crc16(data: bytes, crc: int = 0) -> int:
    for byte in data:
        crc = crc << 8 & 0xFFFF ^ _CRC16_TABLE[crc >> 8 ^ byte]
    return crc


FORMAT: Final = Format(
    name="flac",
    family=Family.RECORDING,
    content_type="audio/flac",
    extensions=frozenset({"flac", "fla"}),
    matches=_is_flac,
    match_order=MatchOrder.RECORDING,
    examine=_examine,
    facts=partial(measure_media, demuxer="flac"),
    sample=lambda: encode_sound("flac", "flac"),
    missing_reader=MISSING_READER,
)
