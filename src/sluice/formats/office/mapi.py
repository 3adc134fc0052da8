"""The properties of Outlook items in compound files ([MS-OXMSG]): one stream that lists them, and one for each that is long.

Which properties a reader sees is known by the kind.
"""

import re
import struct
import zlib
from collections.abc import Iterator
from typing import Final

from sluice.formats.office.compound import CompoundFile, Entry
from sluice.formats.verdict import Corrupt, TooComplex

TEXT: Final = 0x001F
BYTES_TEXT: Final = 0x001E
BINARY: Final = 0x0102
OBJECT: Final = 0x000D
_LIST: Final = "__properties_version1.0"
_ENTRY: Final = struct.Struct("<HHLLL")
_ROOT_HEADER, _INNER_HEADER, _PART_HEADER = 32, 24, 8
"""Bytes in front of the list: in the file itself, in a message within it, in a recipient or an attachment."""
_KNOWN: Final = frozenset({2, 3, 4, 5, 6, 7, 10, 11, OBJECT, 0x14, BYTES_TEXT, TEXT, 0x40, 0x48, 0xFB, 0xFD, 0xFE, BINARY})
_LONG: Final = frozenset({OBJECT, BYTES_TEXT, TEXT, 0x48, 0xFB, BINARY})
_MANY: Final = 0x1000
"""Added to the type of properties with many values."""
_SLACK: Final = {TEXT: 2, BYTES_TEXT: 1}
"""The stated length of a text may count the zero that its stream lacks."""
_MESSAGE: Final = f"__substg1.0_3701{OBJECT:04x}"
_ZEROS: Final = re.compile(rb"\0{16}")
_DEPTH_MOST: Final = 32

_RTF: Final = 0x1009
_RTF_HEADER: Final = struct.Struct("<LLLL")
_PACKED: Final = 0x75465A4C
_UNPACKED: Final = 0x414C454D
_RTF_MOST: Final = 32 * 1024**2
_WINDOW: Final = 4096
_PRESET: Final = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS Sans SerifSymbolArial"
    rb"Times New RomanCourier{\colortbl\red0\green0\blue0" b"\r\n" rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)  # fmt: skip


def stream_of(storage: Entry, number: int, *types: int) -> Entry | None:
    """Answer the stream of a property, in the first of these types in which there is one with content."""
    return storage.stream(*(f"__substg1.0_{number:04x}{each:04x}" for each in types))


def attachments(message: Entry) -> Iterator[Entry]:
    """Yield the storages of a message's attachments."""
    return (entry for name, entry in message.children.items() if name.startswith("__attach_version1.0_") and not entry.is_stream)


def check_item(container: CompoundFile, item: Entry, *, depth: int = 0) -> int:
    """Answer how many properties a message has, with all that is in it. Raises `Corrupt` where they are not as they are listed."""
    if depth > _DEPTH_MOST:
        raise TooComplex("the message holds messages within messages, too many")
    count = _check_properties(container, item, _INNER_HEADER if depth else _ROOT_HEADER)
    for name, part in item.children.items():
        if part.is_stream or not name.startswith(("__recip_version1.0_", "__attach_version1.0_")):
            continue
        count += _check_properties(container, part, _PART_HEADER)
        within = part.children.get(_MESSAGE)
        if within is not None and _LIST in within.children:
            count += check_item(container, within, depth=depth + 1)
    return count


def unpack_rtf(packed: bytes) -> bytes:
    """Answer the Rich Text of a message ([MS-OXRTFCP]). Raises `Corrupt` when it is cut or its checksum is wrong."""
    if len(packed) < _RTF_HEADER.size:
        raise Corrupt("the message is damaged: its formatted text is cut")
    size, unpacked, kind, checksum = _RTF_HEADER.unpack_from(packed)
    content = packed[_RTF_HEADER.size : size + 4]
    if kind == _UNPACKED:
        return content
    if kind != _PACKED or zlib.crc32(content, 0xFFFFFFFF) ^ 0xFFFFFFFF != checksum:
        raise Corrupt("the message is damaged: the checksum of its formatted text is wrong")
    return _inflate(content, min(unpacked, _RTF_MOST))


def _inflate(content: bytes, most: int) -> bytes:
    text, at = bytearray(_PRESET), 0
    while at < len(content) and len(text) - len(_PRESET) < most:
        flags, at = content[at], at + 1
        for bit in range(8):
            if flags >> bit & 1:
                place = int.from_bytes(content[at : at + 2], "big")
                at += 2
                distance = (len(text) - (place >> 4)) % _WINDOW
                if not distance:
                    return bytes(text[len(_PRESET) :])
                for _ in range((place & 0xF) + 2):
                    text.append(text[-distance] if distance <= len(text) else 0x20)
            else:
                text += content[at : at + 1]
                at += 1
    return bytes(text[len(_PRESET) :])


def _check_properties(container: CompoundFile, storage: Entry, header: int) -> int:
    listed = storage.stream(_LIST)
    if listed is None or listed.size < header:
        raise Corrupt("the message is damaged: a list of its properties is missing or cut")
    data = container.read(listed)[header:]
    whole = data[: len(data) // _ENTRY.size * _ENTRY.size]
    for kind, number, _, size, _ in _ENTRY.iter_unpack(whole):
        if kind & ~_MANY not in _KNOWN:
            raise Corrupt(f"the message is damaged: its property {number:#06x} is of a type that does not exist")
        if kind in _LONG or kind & _MANY:
            _check_long(container, storage, kind, number, size)
    return len(whole) // _ENTRY.size


def _check_long(container: CompoundFile, storage: Entry, kind: int, number: int, size: int) -> None:
    entry = storage.children.get(f"__substg1.0_{number:04x}{kind:04x}")
    if entry is None:
        raise Corrupt(f"the message is damaged: its property {number:#06x} is listed, but missing")
    if kind & _MANY or not entry.is_stream:
        return
    if not 0 <= size - entry.size <= _SLACK.get(kind, 0):
        raise Corrupt(f"the message is damaged: its property {number:#06x} is not as long as stated")
    if kind in _SLACK and entry.size and _ZEROS.search(container.read(entry)):
        raise Corrupt(f"the message is damaged: its text {number:#06x} has zeros in it")
    if number == _RTF and entry.size and entry.size <= _RTF_MOST:
        unpack_rtf(container.read(entry))
