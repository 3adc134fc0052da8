"""What a PDF lost on its way: holes of zeros where a part never arrived, bytes that a transfer in text mode added. Whether it opens is no question here."""

import re
from typing import Final

from sluice.formats.images.strict_jpeg import jpeg_complaint
from sluice.formats.pdf.pdf_bytes import FLATE, STREAM, dictionary_before, inflate

_SMALL_FILE: Final = 6144
_HOLE_BYTES: Final = 1024
_SMALL_HOLE_BYTES: Final = 128
_HOLES_MOST: Final = 64
_NOT_ZERO: Final = re.compile(rb"[^\0]")
_MARK: Final = re.compile(rb"endobj|endstream|\d+\s+\d+\s+obj\b|startxref|xref|trailer|%%EOF")
_MARKS: Final = (b"endobj", b" obj", b"startxref", b"xref", b"trailer", b"%%EOF", b"stream")
_MAY_BE_BEFORE: Final = frozenset({b"endobj", b"startxref", b"%%EOF"})
_MAY_BE_BEHIND: Final = frozenset({b"xref", b"startxref", b"%%EOF"})
_BESIDE: Final = 64
_WRITTEN: Final = bytes([*range(0x20, 0x7F), *b"\t\n\r"])
_LENGTH: Final = re.compile(rb"/Length\s+(\d+)(?!\s+\d+\s+R|\d)")
_FILTER: Final = b"/Filter"
_PICTURE: Final = re.compile(rb"/Filter\s*\[?\s*/DCTDecode\s*\]?")
_INFLATED_MOST: Final = 256 * 1024**2
_LONE_NEWLINE: Final = re.compile(rb"(?<!\r)\n")
_HIGH: Final = bytes(range(0x80))
_BINARY_BYTES: Final = 128
"""Bytes from 0x80 on in a file that has so much binary data that an LF of its own would be in it."""


def find_hole(data: bytes, *, is_encrypted: bool) -> int | None:
    """Answer where a stretch of zeros begins that took the place of something, as a gap in a download does; None when there is none.

    Zeros between objects are padding, and zeros in an unpacked stream may be data: neither is a hole.
    """
    least = _HOLE_BYTES if len(data) >= _SMALL_FILE else _SMALL_HOLE_BYTES
    needle, at = bytes(least), 0
    for _ in range(_HOLES_MOST):
        start = data.find(needle, at)
        if start < 0:
            return None
        behind = _NOT_ZERO.search(data, start + least)
        if behind is None:
            return None
        at = behind.start()
        if _is_hole(data, start, at, is_encrypted=is_encrypted):
            return start
    return None


def _is_hole(data: bytes, start: int, end: int, *, is_encrypted: bool) -> bool:
    at, before = max((data.rfind(mark, 0, start), mark) for mark in _MARKS)
    found = _MARK.search(data, end)
    behind = found.group() if found else b""
    if before == b"stream" and data[at - 3 : at] != b"end":
        return behind != b"endstream" or _is_hole_in_stream(
            data, at, (start, end, found.start() if found else end), is_encrypted=is_encrypted
        )
    if at < 0 or not behind:
        return False
    if (before == b"stream" and behind == b"endobj") or data[end : end + 1] == b")":
        return False  # the second: a string filled up with zeros, as places for signatures are
    is_padding = (before in _MAY_BE_BEFORE or before == b"stream") and (behind in _MAY_BE_BEHIND or behind[:1].isdigit())
    return not is_padding


def _is_hole_in_stream(data: bytes, keyword: int, places: tuple[int, int, int], *, is_encrypted: bool) -> bool:
    """Answer for zeros between `places[0]` and `places[1]` in a stream that ends at `places[2]`."""
    start, end, stream_end = places
    begin, dictionary = _begin(data, keyword), dictionary_before(data, keyword)
    length = _LENGTH.search(dictionary)
    if length and begin + int(length.group(1)) + _BESIDE < end < stream_end - _BESIDE:
        return True  # the zeros reach over the end of the stream, and took its end mark with them
    if _FILTER not in dictionary:
        beside = data[start - _BESIDE : start] + data[end : end + _BESIDE]
        return not is_encrypted and not beside.translate(None, _WRITTEN)
    if b"/Crypt" in dictionary:
        return False
    if is_encrypted:
        return b"/XRef" not in dictionary
    raw = data[begin:stream_end]
    if FLATE.search(dictionary):
        unpacked = inflate(raw, _INFLATED_MOST)
        return bool(unpacked.error) or (not unpacked.ended and unpacked.size <= _INFLATED_MOST)
    return _PICTURE.search(dictionary) is not None and bool(jpeg_complaint(raw))


def _begin(data: bytes, keyword: int) -> int:
    begin = keyword + len(b"stream")
    return begin + (2 if data[begin : begin + 2] == b"\r\n" else 1)


def is_text_transfer(data: bytes) -> bool:
    """Whether this is a file of binary data in which every LF follows a CR, as after a transfer in text mode."""
    return _LONE_NEWLINE.search(data) is None and len(data.translate(None, _HIGH)) >= _BINARY_BYTES


def has_grown_streams(data: bytes) -> bool:
    """Whether a stream of binary data is longer than its dictionary says, which a transfer in text mode does to them."""
    for match in STREAM.finditer(data):
        length = _LENGTH.search(dictionary_before(data, match.start()))
        end = data.find(b"endstream", match.end())
        if length is None or end < 0:
            continue
        raw = data[match.end() : end].rstrip(b"\r\n")
        if len(raw) > int(length.group(1)) + 2 and len(raw.translate(None, _HIGH)) >= _BESIDE:
            return True
    return False
