"""Ogg, Matroska, WebM and AVI without tags: they are overwritten in their place, as indexes name places in the file."""
# RFC 3533 (Ogg), the Vorbis comment header, RFC 7845 (Opus), RFC 9559 (Matroska), RIFF.

from __future__ import annotations

import zlib
from typing import Final

from sluice_inspect.report import Corrupt, TooComplex
from sluice_inspect.sanitise.cleaning import Cleaning

_WORDS: Final = {
    "author": (b"ARTIST", b"COMPOSER", b"COPYRIGHT", b"IART", b"ICOP", b"IENG"),
    "dates": (b"DATE=", b"DATE_", b"CREATION_TIME", b"ICRD", b"IDIT"),
    "gps": (b"LOCATION", b"GEO_LOCATION"),
    "comments": (b"TITLE", b"COMMENT", b"DESCRIPTION", b"INAM", b"ICMT", b"ISBJ"),
    "thumbnail": (b"METADATA_BLOCK_PICTURE", b"COVERART"),
}
_SEARCHED: Final = 64 * 1024


def _note(tags: bytes, removed: set[str]) -> None:
    head = tags[:_SEARCHED].upper()
    removed |= {word for word, names in _WORDS.items() if any(name in head for name in names)} or {"other_metadata"}


# Ogg

_PAGE_HEAD: Final = 27
_PAGES_MOST: Final = 500_000
# Ogg's CRC-32 has zlib's polynomial, but processes the bits of each byte in the opposite order.
_REVERSED_BITS: Final = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))
# By how a packet begins, how many bytes are in front of the comments.
_COMMENTS: Final = {b"\x03vorbis": 7, b"OpusTags": 8, b"\x81theora": 7}
_FLAC_COMMENT, _FLAC_PICTURE, _FLAC_PADDING = 4, 6, 1


def clean_ogg(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the stream without comments and covers, if that is wanted."""
    if not cleaning.metadata:
        return data
    result = bytearray(data)
    pages: list[tuple[int, int]] = []
    at = data.find(b"OggS")
    packets: dict[bytes, list[tuple[int, int]]] = {}  # by stream: where the pieces of its open packet are
    touched = set[int]()
    while at >= 0 and at + _PAGE_HEAD <= len(data):
        if len(pages) == _PAGES_MOST:
            raise TooComplex("the stream has too many pages")
        lacing = data[at + _PAGE_HEAD : at + _PAGE_HEAD + data[at + 26]]
        start = at + _PAGE_HEAD + len(lacing)
        end = start + sum(lacing)
        if end > len(data):
            raise Corrupt(f"the stream ends inside the page at byte {at}")
        pages.append((at, end))
        serial = data[at + 14 : at + 18]
        for size in lacing:
            pieces = packets.setdefault(serial, [])
            pieces.append((start, size))
            start += size
            if size < 255:
                if _clean_packet(result, pieces, cleaning.removed):
                    touched |= {piece for piece, _size in pieces}
                packets[serial] = []
        at = data.find(b"OggS", end)
    for start, end in pages:
        if touched and any(start <= piece < end for piece in touched):
            result[start + 22 : start + 26] = bytes(4)
            crc = zlib.crc32(result[start:end].translate(_REVERSED_BITS), 0xFFFFFFFF) ^ 0xFFFFFFFF
            result[start + 22 : start + 26] = crc.to_bytes(4, "big").translate(_REVERSED_BITS)
    return bytes(result)


def _clean_packet(result: bytearray, pieces: list[tuple[int, int]], removed: set[str]) -> bool:
    """Overwrite the comments of a packet that has some; return whether it had."""
    start, size = pieces[0]
    head = bytes(result[start : start + min(size, 8)])
    skipped = next((skipped for begin, skipped in _COMMENTS.items() if head.startswith(begin)), 0)
    is_flac = len(head) > 4 and head[0] & 0x7F in {_FLAC_COMMENT, _FLAC_PICTURE} and head[0] != 0xFF
    if not skipped and not is_flac:
        return False
    packet = b"".join(bytes(result[at : at + length]) for at, length in pieces)
    if not skipped:
        if int.from_bytes(packet[1:4], "big") != len(packet) - 4:  # it is sound
            return False
        skipped = 4
    if packet[0] & 0x7F == _FLAC_PICTURE and skipped == 4:
        removed.add("thumbnail")
        cleaned = bytes([packet[0] & 0x80 | _FLAC_PADDING]) + packet[1:4] + bytes(len(packet) - 4)
    else:
        vendor = skipped + 4 + int.from_bytes(packet[skipped : skipped + 4], "little")
        if vendor + 4 > len(packet):
            raise Corrupt("the comments of the stream are longer than their packet")
        end = b"\x01" if packet.startswith(b"\x03vorbis") else b""
        cleaned = (packet[:vendor] + bytes(4) + end).ljust(len(packet), b"\0")
        if cleaned == packet:
            return False
        _note(packet[vendor:], removed)
    done = 0
    for at, length in pieces:
        result[at : at + length] = cleaned[done : done + length]
        done += length
    return True


# Matroska

_SEGMENT, _CLUSTER, _INFORMATION, _TAGS, _ATTACHMENTS, _TRACKS, _TRACK = (
    0x18538067, 0x1F43B675, 0x1549A966, 0x1254C367, 0x1941A469, 0x1654AE6B, 0xAE,
)  # fmt: skip
_VOID, _CRC = 0xEC, 0xBF
_ENTERED: Final = frozenset({_SEGMENT, _INFORMATION, _TRACKS, _TRACK})
# Title, date, names and identifiers of the file and those beside it; the name of a track.
_REMARKS: Final = {
    0x7BA9: "comments", 0x4461: "dates", 0x7384: "other_metadata", 0x3C83AB: "other_metadata",
    0x3E83BB: "other_metadata", 0x536E: "comments",
}  # fmt: skip
_ELEMENTS_MOST: Final = 2_000_000


def clean_matroska(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the film without tags, title, date and attached files, if that is wanted."""
    if not cleaning.metadata:
        return data
    result = bytearray(data)
    # Of elements that are entered with a checksum, which no longer fits: where that is, and how much was found before.
    checks: list[tuple[int, int]] = []
    at = 0
    for _ in range(_ELEMENTS_MOST):
        if at + 2 > len(data):
            break
        number, body = _read_number(data, at, keeps_mark=True)
        size, start = _read_number(data, body, keeps_mark=False)
        is_endless = size == (1 << 7 * (start - body)) - 1
        end = len(data) if is_endless else start + size
        if end > len(data):
            raise Corrupt(f"the element at byte {at} passes the end of the film")
        if number in {_TAGS, _ATTACHMENTS} or number in _REMARKS:
            if number in _REMARKS:
                cleaning.removed.add(_REMARKS[number])
            else:
                _note(data[start:end], cleaning.removed)
            _make_void(result, at, end)
        elif number == _CRC and size == 4:
            checks.append((at, end))
        elif number == _VOID and data[start:end].strip(b"\0"):
            cleaning.removed.add("other_metadata")
            _make_void(result, at, end)
        at = start if number in _ENTERED or (is_endless and number == _CLUSTER) else end
    else:
        raise TooComplex("the film has too many elements")
    if cleaning.removed:
        for start, end in checks:
            _make_void(result, start, end)
    return bytes(result)


def _read_number(data: bytes, at: int, *, keeps_mark: bool) -> tuple[int, int]:
    """Return a number of variable length, and where it ends."""
    first = data[at] if at < len(data) else 0
    length = 9 - first.bit_length()
    if length > 8 or at + length > len(data):
        raise Corrupt(f"there is no element at byte {at} of the film, where one must be")
    value = int.from_bytes(data[at : at + length], "big")
    return value if keeps_mark else value & ((1 << 7 * length) - 1), at + length


def _make_void(result: bytearray, start: int, end: int) -> None:
    size = end - start
    length = bytes([0x80 | size - 2]) if size < 9 else (1 << 56 | size - 9).to_bytes(8, "big")
    result[start:end] = (bytes([_VOID]) + length).ljust(size, b"\0")


# AVI

_TELLING: Final = frozenset({b"IDIT", b"ISMP", b"strn", b"strd", b"exif", b"_PMX", b"XMP\0"})
_LISTS: Final = frozenset({b"AVI ", b"AVIX", b"hdrl", b"strl", b"odml"})
_CHUNKS_MOST: Final = 100_000


def clean_avi(data: bytes, cleaning: Cleaning) -> bytes:
    """Return the film without its lists of tags, if that is wanted."""
    if not cleaning.metadata:
        return data
    result = bytearray(data)
    at = 0
    for _ in range(_CHUNKS_MOST):
        if at + 8 > len(data):
            break
        name, size = data[at : at + 4], int.from_bytes(data[at + 4 : at + 8], "little")
        end = min(len(data), at + 8 + size)
        kind = data[at + 8 : at + 12]
        if name in {b"RIFF", b"LIST"} and kind in _LISTS:
            at += 12
            continue
        is_told = name in _TELLING or (name == b"LIST" and kind in {b"INFO", b"exif", b"ncdt"})
        if is_told or (name == b"JUNK" and data[at + 8 : end].strip(b"\0")):
            _note(data[at:end], cleaning.removed)
            result[at:end] = b"JUNK" + data[at + 4 : at + 8] + bytes(end - at - 8)
        at += 8 + size + (size & 1)
    else:
        raise TooComplex("the film is cut into too many chunks")
    return bytes(result)
