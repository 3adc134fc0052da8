"""The sources of VBA macros, unpacked from the streams that hold them. Which procedures run by themselves is told by the rules.

Layout: MS-OVBA 2.4.1. A module's source begins somewhere in its stream; it is found by the words that every source begins with.
"""

import re
import struct
from collections.abc import Iterator
from typing import Final

_START: Final = re.compile(rb"\x01..\x00Attribut", re.DOTALL)
_MOST_BYTES: Final = 8 * 1024**2
_CHUNK_BYTES: Final = 4096
_CHUNK_SIGN: Final = 0x3000


def macro_sources(stream: bytes) -> Iterator[bytes]:
    """Iterate over the sources in a stream, as text in whatever code page they have."""
    for found in _START.finditer(stream):
        yield _unpacked(stream, found.start() + 1)


def _unpacked(data: bytes, at: int) -> bytes:
    out = bytearray()
    while at + 2 < len(data) and len(out) < _MOST_BYTES:
        (header,) = struct.unpack_from("<H", data, at)
        end = min(at + (header & 0x0FFF) + 3, len(data))
        if header & 0x7000 != _CHUNK_SIGN:
            break
        out += _chunk(data, at + 2, end) if header & 0x8000 else data[at + 2 : end]
        at = end
    return bytes(out)


def _chunk(data: bytes, at: int, end: int) -> bytes:
    chunk = bytearray()
    while at < end and len(chunk) < _CHUNK_BYTES:
        flags = data[at]
        at += 1
        for bit in range(8):
            if at >= end:
                break
            if not flags & (1 << bit):
                chunk.append(data[at])
                at += 1
            elif at + 1 < end:
                _copy(chunk, struct.unpack_from("<H", data, at)[0])
                at += 2
            else:
                return bytes(chunk)
    return bytes(chunk)


def _copy(chunk: bytearray, token: int) -> None:
    """Repeat earlier bytes. How many bits of the token are the distance depends on how much there is already."""
    bits = max((len(chunk) - 1).bit_length(), 4)
    length = (token & (0xFFFF >> bits)) + 3
    distance = (token >> (16 - bits)) + 1
    if distance > len(chunk):
        return
    for _ in range(length):
        chunk.append(chunk[-distance])
