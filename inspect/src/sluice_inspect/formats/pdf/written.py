"""What is written in a damaged PDF, wherever it stands: readers repair more than qpdf does, and in other ways."""
# An object that qpdf gives up may have a script for another reader. So its names are searched in the bytes of the file
# and in what its streams unpack to, with whatever filters they name and in whatever order.

import base64
import binascii
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

# Each has a flag, or may have.
_ACTIVE: Final = "JS|JavaScript|Launch|EF|XFA|OnInstantiate|Scripts|GoToR|GoToE|Thread|SubmitForm|ImportData|URI"
ACTIVE_NAME: Final = re.compile(rf"/({_ACTIVE})(?![^\0\t\n\f\r ()<>\[\]{{}}/%])".encode())
_ESCAPE: Final = re.compile(rb"#([0-9A-Fa-f]{2})")
# Most files have neither these names nor escapes that may spell them.
_SUSPECT: Final = re.compile(rb"/(?:JS|Jav|Lau|[A-Za-z]{0,9}#)")
_STREAM: Final = re.compile(rb"(?<!end)stream\r?\n?")
_END: Final = b"endstream"
_PICTURE: Final = re.compile(rb"/Subtype\s*/Image\b")
_FILTER: Final = re.compile(
    rb"/(Fl(?:ateDecode)?|A85|ASCII85Decode|AHx|ASCIIHexDecode|RL|RunLengthDecode|LZW(?:Decode)?|Crypt|Predictor)\b"
)
_DICTIONARY_BYTES: Final = 4096
_NO_DIGITS: Final = re.compile(rb"[^0-9A-Fa-f]+")
_UNPACKED_MOST: Final = 64 * 1024**2  # bytes of all streams
_STREAM_MOST: Final = 16 * 1024**2  # bytes of one text
_TEXTS_MOST: Final = 100  # of one stream
_STREAMS_MOST: Final = 20_000
_STRING: Final = re.compile(rb"\(((?:[^()\\]|\\[\s\S]|\((?:[^()\\]|\\[\s\S])*+\)|(?!))*+)\)|<([0-9A-Fa-f\s]{2,})>")
_STRING_ESCAPE: Final = re.compile(rb"\\(?:([0-7]{1,3})|(\r\n|[\s\S]))")
_LETTERS: Final[Mapping[bytes, bytes]] = MappingProxyType({b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b"})
_NEAR_BYTES: Final = 4096
_SEARCHED_MOST: Final = 100  # places of a name near which strings are read


@dataclass(slots=True)
class Written:
    """The active names that are written in a file, by how often; whether all of its streams could be searched."""

    names: Counter[str] = field(default_factory=Counter)
    is_complete: bool = True
    strings: dict[str, list[bytes]] = field(default_factory=dict)
    """The strings that stand near each name."""

    def exceeds(self, found: Mapping[str, int]) -> set[str]:
        """Return the names that are written more often than they were found in the objects of the document."""
        return {name for name, count in self.names.items() if count > found.get(name, 0)}


def read_written(data: bytes) -> Written:
    """Return the active names in a file and in its streams, whose filters are undone as far as that costs little."""
    written = Written()
    _search(data, written)
    if b"/Encrypt" in data:
        written.is_complete = False
    unpacked = 0
    for number, (begin, end) in enumerate(_streams(data)):
        if number >= _STREAMS_MOST or unpacked > _UNPACKED_MOST:
            written.is_complete = False
            break
        dictionary = data[max(0, begin - _DICTIONARY_BYTES) : begin].rpartition(b"obj")[2]
        if _PICTURE.search(dictionary):
            continue
        filters = {name[:2] for name in _FILTER.findall(_without_escapes(dictionary))}
        if filters - {b"Fl", b"A8", b"AS", b"AH"}:
            written.is_complete = False  # LZW and the like, or rows that are coded
        for text in _unpacked(data[begin:end], written):
            unpacked += len(text)
            _search(text, written)
            if unpacked > _UNPACKED_MOST:
                break
    return written


def read_unlisted(data: bytes) -> Written:
    """Return the active names that stand outside of streams, in objects that a table may leave out."""
    written = Written()
    if _SUSPECT.search(data):
        end = 0
        for begin, following in _streams(data):
            _search(data[end:begin], written)
            end = following
        _search(data[end:], written)
    return written


def _search(text: bytes, written: Written) -> None:
    text = _without_escapes(text)
    for found in ACTIVE_NAME.finditer(text):
        name = found[1].decode()
        written.names[name] += 1
        if name in {"JS", "JavaScript", "Launch"} and written.names[name] <= _SEARCHED_MOST:
            near = text[max(0, found.start() - _NEAR_BYTES) : found.end() + _NEAR_BYTES]
            written.strings.setdefault(name, []).extend(map(_plain_string, _STRING.finditer(near)))


def _without_escapes(text: bytes) -> bytes:
    return _ESCAPE.sub(lambda code: bytes([int(code[1], 16)]), text) if b"#" in text else text


def _streams(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each stream begins and ends."""
    end = 0
    for found in _STREAM.finditer(data):
        if found.start() >= end:  # no word in the bytes of the stream before
            end = data.find(_END, found.end())
            end = len(data) if end < 0 else end
            yield found.end(), end


def _unpacked(raw: bytes, written: Written) -> Iterator[bytes]:
    """Yield all that bytes may unpack to."""
    left, seen = [raw], 0
    while left:
        packed = left.pop()
        seen += 1
        if seen > _TEXTS_MOST:
            written.is_complete = False
            return
        for text in (_inflated(packed), _from_hex(packed), _from_base85(packed)):
            if len(text) > _STREAM_MOST:
                written.is_complete = False
            if text:
                yield text[:_STREAM_MOST]
                left.append(text[:_STREAM_MOST])


def _inflated(packed: bytes) -> bytes:
    """Return what a deflated stream holds up to where it is damaged."""
    packed = packed.lstrip(b"\0\t\n\f\r ")
    if packed[:1] not in {b"x", b"h", b"X", b"H", b"8", b"(", b"\x18", b"\x08"}:  # method 8 and the sizes of its window
        return b""
    unpacking, text = zlib.decompressobj(), bytearray()
    try:
        for at in range(0, len(packed), 256):  # a fault loses what was unpacked with it
            text += unpacking.decompress(packed[at : at + 256], _STREAM_MOST + 1 - len(text))
            if len(text) > _STREAM_MOST or unpacking.eof:
                break
    except zlib.error:
        pass
    return bytes(text)


def _from_hex(packed: bytes) -> bytes:
    head = packed.partition(b">")[0]
    digits = _NO_DIGITS.sub(b"", head)
    if 2 * len(digits) < len(head):
        return b""
    return binascii.unhexlify(digits + b"0" * (len(digits) % 2))


def _from_base85(packed: bytes) -> bytes:
    head = packed.partition(b"~")[0].strip().removeprefix(b"<~")
    try:
        return base64.a85decode(head, ignorechars=b" \t\n\r\f\v\0")
    except ValueError:
        return b""


def _plain_string(found: re.Match[bytes]) -> bytes:
    if found[2] is not None:
        return _from_hex(found[2])
    return _STRING_ESCAPE.sub(
        lambda code: bytes([int(code[1], 8) & 0xFF]) if code[1] else _LETTERS.get(code[2], code[2].strip(b"\r\n")),
        found[1],
    )
