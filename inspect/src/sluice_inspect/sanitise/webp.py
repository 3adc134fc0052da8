"""WebP without metadata: the chunks of its picture, its colour profile, and the orientation."""
# RFC 9649, section 2.

import struct
from typing import Final

from sluice_inspect.report import Corrupt, TooComplex
from sluice_inspect.sanitise import exif
from sluice_inspect.sanitise.cleaning import Cleaning

_CHUNKS_MOST: Final = 500_000
_PICTURE: Final = frozenset({b"ALPH", b"VP8 ", b"VP8L"})
_KEPT: Final = _PICTURE | {b"VP8X", b"ICCP", b"ANIM", b"ANMF"}
_FRAME_HEAD: Final = 16
_HAS_EXIF, _HAS_XMP = 0x08, 0x04


def clean(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the picture without metadata, if that is wanted."""
    if not cleaning.metadata:
        return data
    end = 8 + int.from_bytes(data[4:8], "little")
    if end + (end & 1) < len(data):
        cleaning.removed.add("other_metadata")
    chunks: list[tuple[bytes, bytes]] = []
    orientation = b""
    for name, body in _chunks(data, 12, min(end, len(data))):
        if name in _KEPT:
            chunks.append((name, _frame(body, cleaning.removed) if name == b"ANMF" else body))
        elif name == b"EXIF":
            head = 6 if body.startswith(b"Exif\0\0") else 0
            orientation = orientation or exif.without_metadata(body[head:], cleaning.removed)
        else:
            cleaning.removed.add("xmp" if name == b"XMP " else "other_metadata")
    if orientation:
        chunks.append((b"EXIF", orientation))
    flags = _HAS_EXIF if orientation else 0
    packed = b"".join(
        _chunk(name, _with_flags(body, flags, cleaning.removed) if name == b"VP8X" else body) for name, body in chunks
    )
    return b"RIFF" + struct.pack("<L", 4 + len(packed)) + b"WEBP" + packed


def _chunks(data: bytes, at: int, end: int) -> list[tuple[bytes, bytes]]:
    chunks: list[tuple[bytes, bytes]] = []
    while at + 8 <= end:
        name, size = struct.unpack_from("<4sL", data, at)
        if at + 8 + size > end:
            raise Corrupt(f"the chunk at byte {at} of the WebP passes its end")
        if len(chunks) == _CHUNKS_MOST:
            raise TooComplex("the WebP is cut into too many chunks")
        chunks.append((name, data[at + 8 : at + 8 + size]))
        at += 8 + size + (size & 1)
    return chunks


def _chunk(name: bytes, body: bytes) -> bytes:
    return name + struct.pack("<L", len(body)) + body + b"\0" * (len(body) & 1)


def _frame(body: bytes, removed: set[str]) -> bytes:
    """Return a frame of an animation without the chunks that readers skip."""
    chunks = _chunks(body, _FRAME_HEAD, len(body))
    if all(name in _PICTURE for name, _content in chunks):
        return body
    removed.add("other_metadata")
    return body[:_FRAME_HEAD] + b"".join(_chunk(*each) for each in chunks if each[0] in _PICTURE)


def _with_flags(header: bytes, flags: int, removed: set[str]) -> bytes:
    """Return the header with these flags for metadata."""
    if not header:
        raise Corrupt("the WebP has an empty header")
    kept = header[0] & ~(_HAS_EXIF | _HAS_XMP) | flags
    if kept != header[0] and not removed:
        removed.add("other_metadata")
    return bytes([kept]) + header[1:]
