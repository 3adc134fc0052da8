"""Makes small Word documents: the sample of the kind. Writes what `word_binary.py` reads, and no more."""

import struct
from collections.abc import Sequence
from typing import Final

from sluice.formats.office.compound_sample import make_compound

_TEXT_AT: Final = 1024
_PAGE: Final = 512
_PAIRS: Final = 0x5D
Runs = Sequence[tuple[int, bytes]]
"""How many characters, and their modifiers."""


def make_word(text: str, *, runs: Runs = (), paragraph: bytes = b"", lengths: Sequence[int] = (), data: bytes = b"") -> bytes:
    """Answer a document of this text, with the formatting of its characters, of its one paragraph, and the data of its pictures.

    `lengths` says how much of the text is the main one, footnotes, headers, macros, comments, endnotes, boxes, boxes in headers.
    """
    letters = text.encode("utf-16-le")
    pages_at = -(-(_TEXT_AT + len(letters)) // _PAGE)
    ends, place = [_TEXT_AT], _TEXT_AT
    for count, _ in runs or [(len(text), b"")]:
        place += 2 * count
        ends.append(place)
    characters = _page(ends, [bytes([len(each)]) + each if each else b"" for _, each in runs or [(0, b"")]], 1)
    body = b"\0\0" + paragraph
    paragraphs = _page([_TEXT_AT, place], [bytes([0, (len(body) + 1) // 2]) + body + bytes(len(body) % 2)], 13)
    table, pairs = b"", bytearray(8 * _PAIRS)
    pieces = struct.pack("<2LHLH", 0, len(text), 0, _TEXT_AT, 0)
    for index, part in {
        1: b"\x12\0" + struct.pack("<9H", 15, 10, 1, 0x5B, 15, 0, 0, 0, 0) + bytes(30),
        12: struct.pack("<3L", _TEXT_AT, place, pages_at),
        13: struct.pack("<3L", _TEXT_AT, place, pages_at + 1),
        31: bytes(500),
        33: b"\2" + struct.pack("<L", len(pieces)) + pieces,
    }.items():
        struct.pack_into("<LL", pairs, 8 * index, len(table), len(part))
        table += part
    header = bytearray(0x9A)
    struct.pack_into("<2H6xH", header, 0, 0xA5EC, 0xC1, 0x1200)
    struct.pack_into("<H", header, 0x20, 14)
    struct.pack_into("<H", header, 0x3E, 22)
    struct.pack_into("<8L", header, 0x4C, *(*lengths, *[0] * 8)[:8] if lengths else (len(text), 0, 0, 0, 0, 0, 0, 0))
    struct.pack_into("<H", header, 0x98, _PAIRS)
    stream = (bytes(header) + bytes(pairs)).ljust(_TEXT_AT, b"\0") + letters
    stream = stream.ljust(pages_at * _PAGE, b"\0") + characters + paragraphs
    return make_compound({"WordDocument": stream, "1Table": table, **({"Data": data} if data else {})})


def _page(ends: Sequence[int], entries: Sequence[bytes], entry_bytes: int) -> bytes:
    """Answer a page of formatting: where runs end, where their modifiers lie, and those from its end on."""
    count, body, at = len(entries), b"", _PAGE - 2
    places = []
    for entry in entries:
        at -= len(entry) + len(entry) % 2 if entry else 0
        body = entry + bytes(len(entry) % 2) + body
        places.append(bytes([at // 2 if entry else 0]).ljust(entry_bytes, b"\0"))
    head = struct.pack(f"<{count + 1}L", *ends) + b"".join(places)
    return head.ljust(at, b"\0") + body + bytes([0, count])
