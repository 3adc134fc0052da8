"""Damage in the bytes of a PDF: holes of zeros, line ends added by a transfer in text mode, impossible bytes."""

import re
import zlib
from collections.abc import Iterator
from typing import Final

from sluice_inspect.budget import Deadline
from sluice_inspect.formats.pdf.raw import FLATE, STREAM, STREAM_OR_CR, inflate
from sluice_inspect.formats.pdf.repair import dictionary_before, keywords
from sluice_inspect.images.strict_jpeg import is_common_jpeg, jpeg_error, jpeg_pixels

_SMALL_FILE: Final = 6144  # bytes; in smaller files a shorter run of zeros is a hole
_HOLE_BYTES: Final = 1024
_SMALL_HOLE_BYTES: Final = 128
_HOLES_MOST: Final = 64
_NOT_ZERO: Final = re.compile(rb"[^\0]")
_MARKS: Final = (b"endobj", b" obj", b"startxref", b"xref", b"trailer", b"%%EOF", b"stream")
_MARKS_BEHIND: Final = (b"endobj", b"endstream", b"obj", b"startxref", b"xref", b"trailer", b"%%EOF")
_OBJECT_NUMBER: Final = re.compile(rb"\d\s+\d+\s+$")
_OBJECT_NUMBER_BYTES: Final = 24
# Zeros from a mark of the first set to one of the second are padding between objects.
_BEFORE_PADDING: Final = frozenset({b"endobj", b"startxref", b"%%EOF"})
_AFTER_PADDING: Final = frozenset({b"xref", b"startxref", b"%%EOF", b"obj"})
_LONGEST_MARK: Final = max(map(len, _MARKS))
_BESIDE: Final = 64
_PRINTABLE: Final = bytes([*range(0x20, 0x7F), *b"\t\n\r"])
_LENGTH: Final = re.compile(rb"/Length\s+(\d+)(?!\s+\d+\s+R|\d)")
_FILTER: Final = b"/Filter"
_IMAGE: Final = re.compile(rb"/Subtype\s*/Image\b")
_PICTURE: Final = re.compile(rb"/Filter\s*\[?\s*/DCTDecode\s*\]?")
_INFLATED_MOST: Final = 256 * 1024**2
# What unpacking streams with zeros in them may cost for one file: a second of processor time.
_UNPACKED_BYTES_MOST: Final = 512 * 1024**2
_UNPACKED_PIXELS_MOST: Final = 60_000_000
# Where the last table of objects is, and what it states (ISO 32000-1, 7.5.4, 7.5.5 and 7.5.8).
_START: Final = re.compile(rb"startxref\s+(\d{1,12})")
_END_BYTES: Final = 2048
_OBJECT: Final = re.compile(rb"\s{0,2}(?<!\d)\d{1,10}\s{1,4}\d{1,5}\s{1,4}obj\b")
_ENTRY: Final = re.compile(rb"(\d{10}) \d{5} n")
_WIDTHS: Final = re.compile(rb"/W\s*\[\s*(\d)\s+(\d)\s+(\d)\s*\]")
_PREDICTOR: Final = re.compile(rb"/Predictor\s+1[0-5]")
_TABLE_BYTES: Final = 4 * 1024**2
_ENTRIES_MOST: Final = 500
_NOISE_WINDOW: Final = 64
_NOISE_BYTES: Final = 16  # of the window, those that no object begins with
_OBJECTS_LEAST: Final = 4
_LENGTH_REFERENCE: Final = re.compile(rb"/Length\s+(\d+)\s+\d+\s+R")
_NUMBER_OBJECT: Final = re.compile(rb"(?<!\d)(\d{1,10})\s{1,4}\d{1,5}\s{1,4}obj\s{0,4}(\d{1,12})\s{0,4}endobj")
_LONE_NEWLINE: Final = re.compile(rb"(?<!\r)\n")
_HIGH: Final = bytes(range(0x80))
_BINARY_BYTES: Final = 128  # bytes from 0x80 on: so much binary data has a lone LF in it

# ISO 32000-1, 7.2: tokens outside of strings, comments, streams and names are numbers, delimiters and keywords: ASCII.
_STREAM_END: Final = b"endstream"
_HEADER: Final = b"%PDF"
_END_MARK: Final = b"%%EOF"
_TOKEN: Final = re.compile(
    rb"(?P<string>\((?:[^()\\]|\\.|\((?:[^()\\]|\\.)*+\)|(?!))*+\))|%[^\r\n]*+|/[^\0\t\n\f\r ()<>\[\]{}/%]*+"
    rb"|(?P<word>[^\0\t\n\f\r ()<>\[\]{}/%]++)|(?P<open>\()",
    re.DOTALL,
)
_INVALID_IN_WORD: Final = re.compile(rb"[\x01-\x08\x0b\x0e-\x1f\x7f-\xff]")
_WORDS_SECONDS: Final = 0.5
_STRUCTURE_MOST: Final = 8 * 1024**2  # bytes outside of streams that are read; a document has far fewer


def find_hole(data: bytes, *, is_encrypted: bool) -> int | None:
    """Return the offset of zeros that replaced something, as a gap in a download does; None if there are none.

    Zeros between objects are padding, and zeros in an unpacked stream may be data: neither is a hole.
    """
    least = _HOLE_BYTES if len(data) >= _SMALL_FILE else _SMALL_HOLE_BYTES
    needle, at, marks, packed = bytes(least), 0, _Marks(data), _PackedStreams(data)
    for _ in range(_HOLES_MOST):
        start = data.find(needle, at)
        if start < 0:
            return None
        behind = _NOT_ZERO.search(data, start + least)
        if behind is None:
            return None
        at = behind.start()
        if _is_hole(data, start, at, marks, packed, is_encrypted=is_encrypted):
            return start
    return None


class _Marks:
    """The marks around places that are asked for in rising order. Each stretch of the file is searched once."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._last = dict.fromkeys(_MARKS, -1)
        self._searched = 0
        self._next = dict.fromkeys(_MARKS_BEHIND, -1)

    def before(self, place: int) -> tuple[int, bytes]:
        """Return where the last mark before a place is, -1 for none, and which."""
        begin = max(0, self._searched - _LONGEST_MARK)
        for mark, last in self._last.items():
            self._last[mark] = max(last, self._data.rfind(mark, begin, place))
        self._searched = place
        return max((at, mark) for mark, at in self._last.items())

    def behind(self, place: int) -> tuple[int, bytes]:
        """Return where the first mark from a place on is, and which; the end of the file and b"" if there is none."""
        for mark, found in self._next.items():
            if found < place:
                self._next[mark] = self._find(mark, place)
        at, mark = min((at, mark) for mark, at in self._next.items())
        return (at, mark) if at < len(self._data) else (at, b"")

    def _find(self, mark: bytes, place: int) -> int:
        at = place
        while (at := self._data.find(mark, at)) >= 0:
            # The word `obj` follows two numbers: as an object that begins here.
            if mark != b"obj" or _OBJECT_NUMBER.search(self._data[max(place, at - _OBJECT_NUMBER_BYTES) : at]):
                return at
            at += len(mark)
        return len(self._data)


def _is_hole(data: bytes, start: int, end: int, marks: _Marks, packed: "_PackedStreams", *, is_encrypted: bool) -> bool:
    at, before = marks.before(start)
    behind_at, behind = marks.behind(end)
    if before == b"stream" and data[at - 3 : at] != b"end":
        return behind != b"endstream" or _is_hole_in_stream(
            data, at, (start, end), behind_at, packed, is_encrypted=is_encrypted
        )
    if at < 0 or not behind:
        return False
    if (before == b"stream" and behind == b"endobj") or data[end : end + 1] == b")":
        return False  # the second is a string filled up with zeros, which reserves room for a signature
    is_padding = (before in _BEFORE_PADDING or before == b"stream") and behind in _AFTER_PADDING
    return not is_padding


def _is_hole_in_stream(
    data: bytes, keyword: int, zeros: tuple[int, int], stream_end: int, packed: "_PackedStreams", *, is_encrypted: bool
) -> bool:
    start, end = zeros
    begin = keyword + len(b"stream")
    begin += 2 if data[begin : begin + 2] == b"\r\n" else 1
    dictionary = dictionary_before(data, keyword)
    length = _LENGTH.search(dictionary)
    if length and begin + int(length.group(1)) + _BESIDE < end < stream_end - _BESIDE:
        return True  # the zeros extend over the end of the stream, and replaced its end mark
    if _FILTER not in dictionary:
        # In text that is a hole. In a picture it is black.
        beside = data[max(begin, start - _BESIDE) : start] + data[end : min(end + _BESIDE, stream_end)]
        return not is_encrypted and not _IMAGE.search(dictionary) and not beside.translate(None, _PRINTABLE)
    if b"/Crypt" in dictionary:
        return False
    return b"/XRef" not in dictionary if is_encrypted else packed.is_broken(begin, stream_end, dictionary)


class _PackedStreams:
    """Unpacks streams with zeros in them, within a budget for all of them. Beyond it, a stream counts as sound."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._bytes_left = _UNPACKED_BYTES_MOST
        self._pixels_left = _UNPACKED_PIXELS_MOST
        self._known: dict[tuple[int, int], bool] = {}  # several holes may be in one stream

    def is_broken(self, begin: int, end: int, dictionary: bytes) -> bool:
        if (begin, end) not in self._known:
            self._known[begin, end] = self._unpack(begin, end, dictionary)
        return self._known[begin, end]

    def _unpack(self, begin: int, end: int, dictionary: bytes) -> bool:
        if end - begin > self._bytes_left:
            return False
        raw = memoryview(self._data)[begin:end]
        if FLATE.search(dictionary):
            most = min(_INFLATED_MOST, self._bytes_left)
            unpacked = inflate(raw, most)
            self._bytes_left -= max(len(raw), unpacked.size)
            return bool(unpacked.error) or (not unpacked.ended and unpacked.size <= most)
        if _PICTURE.search(dictionary) is None:
            return False
        picture = bytes(raw)
        self._bytes_left -= len(raw)
        self._pixels_left -= jpeg_pixels(picture)
        return self._pixels_left >= 0 and is_common_jpeg(picture) and bool(jpeg_error(picture))


def lost_bytes(data: bytes) -> int:
    """Return how many bytes were cut out of a file in front of its last table of objects, 0 if none or not known."""
    # The table says where it is and where each object is. If it comes earlier, an object is where it should be, and
    # others are nowhere, or a stream is shorter by as much, then that many bytes are missing in between. A file that
    # was edited by hand has all of its objects, and its writer can edit text alone.
    stated = _START.findall(data, max(0, len(data) - _END_BYTES))
    begin = int(stated[-1]) if stated else 0
    is_table = begin == 0 or data[begin : begin + 64].lstrip().startswith(b"xref") or _OBJECT.match(data, begin)
    if is_table:
        return 0
    found = _find_table(data)
    if found is None or begin - found[0] <= data.count(b"\n"):  # fewer, where every line end lost its CR
        return 0
    lost, entries = begin - found[0], found[1]
    step = max(1, len(entries) // _ENTRIES_MOST)
    if not any(at and _OBJECT.match(data, at) for at in entries[::step]):
        return 0
    objects = {mark.group() for mark in _OBJECT.finditer(data)}
    return lost if len(objects) < len(entries) or _has_short_stream(data, lost) else 0


def _has_short_stream(data: bytes, lost: int) -> bool:
    """Return whether a stream of a kind not edited by hand lacks `lost` of the bytes that its dictionary states."""
    for match in keywords(STREAM_OR_CR, data):
        dictionary = dictionary_before(data, match.start())
        length = _LENGTH.search(dictionary)
        stated = match.end() + int(length.group(1)) if length else 0
        end = data.find(_STREAM_END, match.end()) if stated > match.end() + lost else -1
        if end >= 0 and abs(end + lost - stated) < _BESIDE:
            return _FILTER in dictionary or bool(data[match.end() : end].translate(None, _PRINTABLE))
    return False


def find_overwritten_object(data: bytes) -> int | None:
    """Return where the table says that an object begins and other bytes stand instead of it; None if nowhere.

    Most other objects are where it says. An entry that leads into a sound stream is its writer's mistake.
    """
    found = _find_table(data)
    places = [place for place in found[1] if 0 < place < len(data)] if found else []
    missing = [place for place in places if not _OBJECT.match(data, place)]
    if len(places) - len(missing) < max(_OBJECTS_LEAST, len(missing)):
        return None
    noisy = sorted(place for place in missing if _is_noise(data[place : place + _NOISE_WINDOW]))
    streams = _sound_streams(data) if noisy else iter(())
    begin, end = 0, 0
    for place in noisy:
        while end <= place:
            begin, end = next(streams, (len(data), len(data) + 1))
        if place < begin:
            return place
    return None


def _is_noise(window: bytes) -> bool:
    return len(window.translate(None, _PRINTABLE + b"\0")) >= _NOISE_BYTES and b"obj" not in window


def _sound_streams(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the streams that end where their dictionaries say, or as one with an unknown length."""
    at, numbers = 0, {number[1]: int(number[2]) for number in _NUMBER_OBJECT.finditer(data)}
    for match in keywords(STREAM_OR_CR, data):
        if match.start() < at:
            continue
        dictionary = dictionary_before(data, match.start())
        if length := _LENGTH.search(dictionary):
            end = match.end() + int(length[1])
        elif (reference := _LENGTH_REFERENCE.search(dictionary)) and reference[1] in numbers:
            end = match.end() + numbers[reference[1]]
        else:
            end = data.find(_STREAM_END, match.end())
            if end < 0:
                return
        if data[end : end + _BESIDE].lstrip().startswith(_STREAM_END):
            yield match.end(), end
            at = end


def _find_table(data: bytes) -> tuple[int, list[int]] | None:
    """Return where the last table of objects is, and the places that it states."""
    at = data.rfind(b"xref")
    while at >= 0 and data[at - 5 : at] == b"start":
        at = data.rfind(b"xref", 0, at)
    stream = data.rfind(b"/XRef")
    if at > stream:
        end = data.find(b"trailer", at)
        table = data[at : end if end >= 0 else at + _TABLE_BYTES]
        return at, [int(place) for place in _ENTRY.findall(table)]
    begins = list(_OBJECT.finditer(data, max(0, stream - _BESIDE * 16), stream)) if stream >= 0 else []
    return (begins[-1].start(), _stream_entries(data, stream)) if begins else None


def _stream_entries(data: bytes, at: int) -> list[int]:
    """Return the places that a table states that is a packed stream whose dictionary holds the byte `at`."""
    keyword = next(keywords(STREAM_OR_CR, data, at), None)
    if keyword is None:
        return []
    dictionary = dictionary_before(data, keyword.start())
    widths = _WIDTHS.search(dictionary)
    unpacking = zlib.decompressobj()
    try:
        table = unpacking.decompress(data[keyword.end() : keyword.end() + _TABLE_BYTES], _TABLE_BYTES)
    except zlib.error:
        return []
    if widths is None:
        return []
    first, second, third = (int(width) for width in widths.groups())
    row = first + second + third
    predictor = _PREDICTOR.search(dictionary)
    if predictor:
        table = _without_up_filter(table, row)
    if not 0 < row <= _BESIDE:
        return []
    rows = (table[start : start + row] for start in range(0, len(table) - row + 1, row))
    return [
        int.from_bytes(entry[first : first + second], "big") for entry in rows if entry[:first] in {b"", b"\1", b"\0\1"}
    ]


def _without_up_filter(table: bytes, row: int) -> bytes:
    """Undo the PNG filter that all writers choose for such tables: each byte as its difference to the one above."""
    above, out = bytes(row), bytearray()
    for start in range(0, len(table) - row, row + 1):
        line = table[start + 1 : start + 1 + row]
        above = bytes((a + b) & 0xFF for a, b in zip(above, line, strict=True)) if table[start] == 2 else line
        out += above
    return bytes(out)


def is_text_transfer(data: bytes) -> bool:
    """Return whether every LF in a file of binary data follows a CR, as after a transfer in text mode."""
    return _LONE_NEWLINE.search(data) is None and len(data.translate(None, _HIGH)) >= _BINARY_BYTES


def has_grown_streams(data: bytes) -> bool:
    """Return whether a stream of binary data is longer than its dictionary says, as after a transfer in text mode."""
    end = 0
    for match in keywords(STREAM, data):
        if match.start() < end:
            continue  # what looks like a stream within a stream is its data
        end = data.find(b"endstream", match.end())
        if end < 0:
            return False
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
    for match in keywords(STREAM_OR_CR, data, at):
        if match.start() < at:
            continue
        if match.start() >= end:
            break
        yield data[at : match.start()]
        at = data.find(_STREAM_END, match.end())
        if at < 0:
            return
        at += len(_STREAM_END)
    yield data[at:end]
