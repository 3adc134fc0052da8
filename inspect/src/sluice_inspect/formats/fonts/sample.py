"""Small fonts for the self-test, as TTF, OTF, WOFF and WOFF2, and the checksum of a font's table."""

import struct
import zlib
from array import array
from collections.abc import Mapping
from typing import Final

OPENTYPE: Final = b"OTTO"
# Four bytes of `head` that belong to the checksum of the whole file and count as zero in that of the table.
_ADJUSTMENT: Final = slice(8, 12)
# A glyph of one contour of four points, as a TrueType outline and as a PostScript program.
_HEAD: Final = struct.pack(">LLLLHH16x4hHHhhh", 0x10000, 0x10000, 0, 0x5F0F3CF5, 0, 1000, 0, 0, 500, 500, 0, 8, 2, 1, 0)
_SQUARE: Final = (
    struct.pack(">hhhhh", 1, 0, 0, 500, 500)
    + struct.pack(">HH", 3, 0)
    + bytes([1] * 4)
    + struct.pack(">8h", 0, 500, 0, -500, 0, 0, 500, 0)
)
_SQUARE_PROGRAM: Final = bytes([139, 139, 21, 248, 136, 6, 248, 136, 7, 252, 136, 6, 14])


def make_font(
    outline: bytes = _SQUARE, *, postscript: bool = False, tables: Mapping[bytes, bytes] | None = None
) -> bytes:
    """Return a font of two glyphs: an empty one for missing characters, and one with this outline or program."""
    content = {b"head": _HEAD, b"maxp": struct.pack(">LH", 0x5000, 2), **(tables or {})}
    if postscript:
        programs = [b"\x0e", outline if outline != _SQUARE else _SQUARE_PROGRAM]
        names, strings, subroutines = _index([b"Sluice"]), _index([]), _index([])
        start = 4 + len(names) + len(_index([bytes(6)])) + len(strings) + len(subroutines)
        top = b"\x1d" + struct.pack(">l", start) + b"\x11"
        content[b"CFF "] = b"\1\0\4\4" + names + _index([top]) + strings + subroutines + _index(programs)
    else:
        padded = outline + bytes(-len(outline) % 4)
        content |= {b"glyf": padded, b"loca": struct.pack(">3L", 0, 0, len(padded))}
    entries, body, at = b"", b"", 12 + 16 * len(content)
    for tag, table in sorted(content.items()):
        entries += struct.pack(">4sLLL", tag, table_checksum(tag, table), at + len(body), len(table))
        body += table + bytes(-len(table) % 4)
    magic = OPENTYPE if postscript else b"\0\1\0\0"
    return magic + struct.pack(">HHHH", len(content), 0, 0, 0) + entries + body


def make_woff(font: bytes) -> bytes:
    """Return a font packed as WOFF."""
    count = int.from_bytes(font[4:6], "big")
    entries, body, at = b"", b"", 44 + 20 * count
    for tag, checksum, offset, length in struct.iter_unpack(">4sLLL", font[12 : 12 + 16 * count]):
        table = font[offset : offset + length]
        packed = min(table, zlib.compress(table), key=len)
        entries += struct.pack(">4sLLLL", tag, at + len(body), len(packed), length, checksum)
        body += packed + bytes(-len(packed) % 4)
    length = at + len(body)
    return struct.pack(">4s4sLHHL24x", b"wOFF", font[:4], length, count, 0, len(font)) + entries + body


def make_woff2(font: bytes, transformed: Mapping[bytes, bytes] | None = None) -> bytes:
    """Return a font as WOFF2, its tables stored uncompressed in a Brotli stream. `transformed` replaces tables."""
    entries, tables = b"", b""
    for tag, _, offset, length in struct.iter_unpack(">4sLLL", font[12 : 12 + 16 * int.from_bytes(font[4:6], "big")]):
        table = (transformed or {}).get(tag, font[offset : offset + length])
        is_transformable = tag in {b"glyf", b"loca"}
        entries += bytes([(0xC0 if is_transformable and not transformed else 0) | 0x3F]) + tag + _base128(length)
        entries += _base128(len(table)) if is_transformable and transformed else b""
        tables += table
    stream = ((len(tables) - 1) << 4 | 1 << 20).to_bytes(3, "little") + tables + b"\3"
    length = 48 + len(entries) + len(stream)
    header = struct.pack(
        ">4s4sLHHLL24x", b"wOF2", font[:4], length, int.from_bytes(font[4:6], "big"), 0, len(font), len(stream)
    )
    return header + entries + stream


def _base128(number: int) -> bytes:
    """Return a number in groups of seven bits, without leading zero groups (WOFF2, section 4.1)."""
    if number >> 14:
        return bytes([0x80 | number >> 14, 0x80 | number >> 7 & 0x7F, number & 0x7F])
    return bytes([0x80 | number >> 7, number & 0x7F]) if number >> 7 else bytes([number])


def _index(entries: list[bytes]) -> bytes:
    if not entries:
        return b"\0\0"
    offsets, at = [1], 1
    for entry in entries:
        at += len(entry)
        offsets.append(at)
    return struct.pack(">HB", len(entries), 2) + struct.pack(f">{len(offsets)}H", *offsets) + b"".join(entries)


def checksum_of(data: bytes) -> int:
    """Return the sum of the 32-bit words of a table or a part of it."""
    words = array("I", data + bytes(-len(data) % 4))
    words.byteswap()
    return sum(words) & 0xFFFFFFFF


def table_checksum(tag: bytes, data: bytes) -> int:
    """Return the checksum of a whole table."""
    return checksum_of(without_adjustment(data) if tag == b"head" else data)


def without_adjustment(head: bytes) -> bytes:
    """Return the table `head` with its checksum of the whole file set to zero."""
    return head[: _ADJUSTMENT.start] + bytes(4) + head[_ADJUSTMENT.stop :] if len(head) >= _ADJUSTMENT.stop else head
