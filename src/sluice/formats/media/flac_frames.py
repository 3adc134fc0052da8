"""The frames of a FLAC stream as their headers and check sums tell them (RFC 9639, 9), without decoding: for streams that a decoder cannot follow."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sluice.formats.source import Source

_SYNC: Final = re.compile(rb"\xff[\xf8\xf9]")
_HEADER_MOST: Final = 16
_RESERVED_BITS: Final = 3
_BITS: Final = {0: 0, 1: 8, 2: 12, 4: 16, 5: 20, 6: 24, 7: 32}
_STEREO_CODES: Final = range(8, 11)
_LOOKED_AT: Final = 8 * 1024 * 1024
"""Bytes in which frames are followed: sums over more would take too long."""
_TAIL_BYTES: Final = 1024 * 1024
_TRIES: Final = 32
_ID3V1_BYTES: Final = 128


@dataclass(frozen=True, slots=True)
class FrameHeader:
    """What one frame says of itself."""

    rate_code: int
    channels: int
    bits: int
    """Bits of a sample, 0 for those that the stream states."""
    number: int
    """Of the frame, or of its first sample where frames differ in length."""

    @property
    def form(self) -> tuple[int, int, int]:
        """What most streams keep to."""
        return self.rate_code, self.channels, self.bits


@dataclass(frozen=True, slots=True)
class Run:
    """What the frames of a stream are like."""

    changes: bool
    """Whether rate, channels or depth are not the same in all frames."""
    is_whole: bool
    """Whether every frame has its own check sum, up to the end of the file; of a longer stream only the last one is looked at."""


def header_at(data: bytes) -> FrameHeader | None:
    """Answer the header that `data` begins with, its check sum found right; None when there is none."""
    if len(data) < 6 or not _SYNC.match(data):  # noqa: PLR2004  (sync, codes, a number of one byte, check sum)
        return None
    size_code, rate_code, channel_code, bits_code = data[2] >> 4, data[2] & 15, data[3] >> 4, data[3] >> 1 & 7
    number_bytes = 8 - (data[4] ^ 0xFF).bit_length() or 1
    if not size_code or rate_code == 15 or channel_code > 10 or bits_code == _RESERVED_BITS or data[3] & 1 or number_bytes > 7:  # noqa: PLR2004  (the values that the standard reserves)
        return None
    end = 4 + number_bytes + {6: 1, 7: 2}.get(size_code, 0) + {12: 1, 13: 2, 14: 2}.get(rate_code, 0)
    if len(data) <= end or _crc8(data[:end]) != data[end]:
        return None
    number = data[4] & (0x7F >> number_bytes if number_bytes > 1 else 0x7F)
    for byte in data[5 : 4 + number_bytes]:
        number = number << 6 | byte & 0x3F
    channels = 2 if channel_code in _STEREO_CODES else channel_code + 1
    return FrameHeader(rate_code, channels, _BITS[bits_code], number)


def follow(source: Source, start: int) -> Run:
    """Follow the frames from `start` on, to the end of the file or for 8 MiB."""
    end = _end(source)
    data = source.read_at(start, min(_LOOKED_AT, end - start))
    forms: set[tuple[int, int, int]] = set()
    summed, crc, number = 0, 0, -1
    for place, header in _headers(data):
        crc = _crc16(data[summed:place], crc)
        summed = place
        if header.number > number and (crc == 0 or number < 0):
            forms.add(header.form)
            crc, number = 0, header.number
    if start + len(data) == end:
        return Run(len(forms) > 1, _crc16(data[summed:], crc) == 0)
    return Run(len(forms) > 1, ends_whole(source))


def ends_whole(source: Source) -> bool:
    """Answer whether one of the last headers begins a frame that ends where the file does."""
    end = _end(source)
    data = source.read_at(max(0, end - _TAIL_BYTES), min(end, _TAIL_BYTES))
    places = [place for place, _ in _headers(data)][-_TRIES:]
    return any(_crc16(data[place:]) == 0 for place in reversed(places))


def _end(source: Source) -> int:
    """Answer where the frames end: before an ID3 tag that was put behind them."""
    return source.size - (_ID3V1_BYTES if source.tail[-_ID3V1_BYTES:].startswith(b"TAG") else 0)


def _headers(data: bytes) -> Iterator[tuple[int, FrameHeader]]:
    for sync in _SYNC.finditer(data):
        header = header_at(data[sync.start() : sync.start() + _HEADER_MOST])
        if header is not None:
            yield sync.start(), header


def _crc8(data: bytes) -> int:
    crc = 0
    for byte in data:
        crc = _CRC8[crc ^ byte]
    return crc


def _crc16(data: bytes, crc: int = 0) -> int:
    for byte in data:
        crc = crc << 8 & 0xFFFF ^ _CRC16[crc >> 8 ^ byte]
    return crc


def _table(polynomial: int, bits: int) -> tuple[int, ...]:
    top, mask = 1 << bits - 1, (1 << bits) - 1
    table = []
    for start in range(256):
        crc = start << bits - 8
        for _ in range(8):
            crc = crc << 1 & mask ^ (polynomial if crc & top else 0)
        table.append(crc)
    return tuple(table)


_CRC8: Final = _table(0x07, 8)
_CRC16: Final = _table(0x8005, 16)
