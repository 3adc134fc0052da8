"""Damage in the bytes of a PDF: holes of zeros, line ends added by a transfer in text mode, impossible bytes."""

import re
from collections.abc import Iterator
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.formats.pdf.raw import FLATE, STREAM, dictionary_before, inflate
from sluice_inspect.images.strict_jpeg import jpeg_error

_SMALL_FILE: Final = 6144  # bytes; in smaller files a shorter run of zeros is a hole
_HOLE_BYTES: Final = 1024
_SMALL_HOLE_BYTES: Final = 128
_HOLES_MOST: Final = 64
_NOT_ZERO: Final = re.compile(rb"[^\0]")
_MARK: Final = re.compile(rb"endobj|endstream|(?<!\d)\d++\s++\d++\s++obj\b|startxref|xref|trailer|%%EOF")
_MARKS: Final = (b"endobj", b" obj", b"startxref", b"xref", b"trailer", b"%%EOF", b"stream")
# Zeros from a mark of the first set to one of the second are padding between objects.
_BEFORE_PADDING: Final = frozenset({b"endobj", b"startxref", b"%%EOF"})
_AFTER_PADDING: Final = frozenset({b"xref", b"startxref", b"%%EOF"})
_LONGEST_MARK: Final = max(map(len, _MARKS))
_BESIDE: Final = 64
_PRINTABLE: Final = bytes([*range(0x20, 0x7F), *b"\t\n\r"])
_LENGTH: Final = re.compile(rb"/Length\s+(\d+)(?!\s+\d+\s+R|\d)")
_FILTER: Final = b"/Filter"
_PICTURE: Final = re.compile(rb"/Filter\s*\[?\s*/DCTDecode\s*\]?")
_INFLATED_MOST: Final = 256 * 1024**2
_LONE_NEWLINE: Final = re.compile(rb"(?<!\r)\n")
_HIGH: Final = bytes(range(0x80))
_BINARY_BYTES: Final = 128  # bytes from 0x80 on: so much binary data has a lone LF in it

# ISO 32000-1, 7.2: tokens outside of strings, comments, streams and names are numbers, delimiters and keywords: ASCII.
_STREAM_BEGIN: Final = re.compile(rb"(?<!end)stream(?:\r\n?|\n)")  # writers also put a lone CR, which readers accept
_STREAM_END: Final = b"endstream"
_HEADER: Final = b"%PDF"
_END_MARK: Final = b"%%EOF"
_TOKEN: Final = re.compile(
    rb"(?P<string>\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*+\))*+\))|%[^\r\n]*+|/[^\0\t\n\f\r ()<>\[\]{}/%]*+"
    rb"|(?P<word>[^\0\t\n\f\r ()<>\[\]{}/%]++)|(?P<open>\()",
    re.DOTALL,
)
_INVALID_IN_WORD: Final = re.compile(rb"[\x01-\x08\x0b\x0e-\x1f\x7f-\xff]")
_WORDS_SECONDS: Final = 0.5
_STRUCTURE_MOST: Final = 8 * 1024**2  # bytes outside of streams that are read; a document has far fewer


def find_hole(data: bytes, *, is_encrypted: bool) -> int | None:
    """Return where zeros begin that replaced something, as a gap in a download does; None if there are none."""
    # Zeros between objects are padding, and zeros in an unpacked stream may be data: neither is a hole.
    least = _HOLE_BYTES if len(data) >= _SMALL_FILE else _SMALL_HOLE_BYTES
    needle, at, marks = bytes(least), 0, _Marks(data)
    broken: dict[tuple[int, int], bool] = {}
    for _ in range(_HOLES_MOST):
        start = data.find(needle, at)
        if start < 0:
            return None
        behind = _NOT_ZERO.search(data, start + least)
        if behind is None:
            return None
        at = behind.start()
        if _is_hole(data, start, at, marks, broken, is_encrypted=is_encrypted):
            return start
    return None


class _Marks:
    """The marks around places that are asked for in rising order. Each stretch of the file is searched once."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._last = dict.fromkeys(_MARKS, -1)
        self._searched = 0
        self._following: re.Match[bytes] | None = None
        self._is_last = False

    def before(self, place: int) -> tuple[int, bytes]:
        """Return where the last mark before a place is, -1 for none, and which."""
        begin = max(0, self._searched - _LONGEST_MARK)
        for mark, last in self._last.items():
            self._last[mark] = max(last, self._data.rfind(mark, begin, place))
        self._searched = place
        return max((at, mark) for mark, at in self._last.items())

    def behind(self, place: int) -> "re.Match[bytes] | None":
        """Return the first mark from a place on."""
        if not self._is_last and (self._following is None or self._following.start() < place):
            self._following = _MARK.search(self._data, place)
            self._is_last = self._following is None
        return self._following


def _is_hole(
    data: bytes, start: int, end: int, marks: _Marks, broken: dict[tuple[int, int], bool], *, is_encrypted: bool
) -> bool:
    at, before = marks.before(start)
    found = marks.behind(end)
    behind = found.group() if found else b""
    if before == b"stream" and data[at - 3 : at] != b"end":
        return behind != b"endstream" or _is_hole_in_stream(
            data, at, (start, end), found.start() if found else end, broken, is_encrypted=is_encrypted
        )
    if at < 0 or not behind:
        return False
    if (before == b"stream" and behind == b"endobj") or data[end : end + 1] == b")":
        return False  # the second is a string filled up with zeros, which reserves room for a signature
    is_padding = (before in _BEFORE_PADDING or before == b"stream") and (
        behind in _AFTER_PADDING or behind[:1].isdigit()
    )
    return not is_padding


def _is_hole_in_stream(
    data: bytes,
    keyword: int,
    zeros: tuple[int, int],
    stream_end: int,
    broken: dict[tuple[int, int], bool],
    *,
    is_encrypted: bool,
) -> bool:
    start, end = zeros
    begin = keyword + len(b"stream")
    begin += 2 if data[begin : begin + 2] == b"\r\n" else 1
    dictionary = dictionary_before(data, keyword)
    length = _LENGTH.search(dictionary)
    if length and begin + int(length.group(1)) + _BESIDE < end < stream_end - _BESIDE:
        return True  # the zeros extend over the end of the stream, and replaced its end mark
    if _FILTER not in dictionary:
        beside = data[start - _BESIDE : start] + data[end : end + _BESIDE]
        return not is_encrypted and not beside.translate(None, _PRINTABLE)
    if b"/Crypt" in dictionary:
        return False
    if is_encrypted:
        return b"/XRef" not in dictionary
    if (begin, stream_end) not in broken:  # several holes may be in one stream
        broken[begin, stream_end] = _is_broken(data[begin:stream_end], dictionary)
    return broken[begin, stream_end]


def _is_broken(raw: bytes, dictionary: bytes) -> bool:
    if FLATE.search(dictionary):
        unpacked = inflate(raw, _INFLATED_MOST)
        return bool(unpacked.error) or (not unpacked.ended and unpacked.size <= _INFLATED_MOST)
    return _PICTURE.search(dictionary) is not None and bool(jpeg_error(raw))


def is_text_transfer(data: bytes) -> bool:
    """Return whether every LF in a file of binary data follows a CR, as after a transfer in text mode."""
    return _LONE_NEWLINE.search(data) is None and len(data.translate(None, _HIGH)) >= _BINARY_BYTES


def has_grown_streams(data: bytes) -> bool:
    """Return whether a stream of binary data is longer than its dictionary says, as after a transfer in text mode."""
    at = 0
    while (match := STREAM.search(data, at)) and (end := data.find(b"endstream", match.end())) >= 0:
        at = end  # what looks like a stream within a stream is its data
        length = _LENGTH.search(dictionary_before(data, match.start()))
        if length is None or end - match.end() <= int(length.group(1)) + 2:
            continue
        raw = data[match.end() : end].rstrip(b"\r\n")
        if len(raw) > int(length.group(1)) + 2 and len(raw.translate(None, _HIGH)) >= _BESIDE:
            return True
    return False


def count_invalid_words(data: bytes, most: int) -> int:
    """Count words outside of strings, names, comments and streams with bytes that no word has, up to `most`."""
    # Readers repair what such a byte damages, so one proves nothing. No writer makes several.
    deadline = Deadline(_WORDS_SECONDS)
    found = read = 0
    for part in _outside_streams(data):
        for token in _TOKEN.finditer(part):
            if token["open"] or deadline.has_passed:  # all behind a string without an end may be part of it
                return found
            found += token["word"] is not None and _INVALID_IN_WORD.search(token["word"]) is not None
            if found >= most:
                return found
        read += len(part)
        if read > _STRUCTURE_MOST:
            return found
    return found


def _outside_streams(data: bytes) -> Iterator[bytes]:
    """Yield the bytes before, between and after the streams, from the header to the last end mark."""
    at, end = max(0, data.find(_HEADER)), data.rfind(_END_MARK)
    end = len(data) if end < 0 else end
    while at < end:
        match = _STREAM_BEGIN.search(data, at, end)
        yield data[at : match.start() if match else end]
        if match is None:
            return
        at = data.find(_STREAM_END, match.end())
        if at < 0:
            return
        at += len(_STREAM_END)
