"""Web fonts: WOFF, in which each table is deflated, and WOFF2, with all tables in one Brotli stream."""
# WOFF2 has no checksums: damage is found where it does not unpack, or where lengths no longer add up.

import struct
import zlib
from collections.abc import Mapping
from typing import Final

import brotli

from sluice_inspect.budget import CHUNK_BYTES, Budget
from sluice_inspect.format import Examination, Family, Format, MatchOrder, has_no_flags
from sluice_inspect.formats.fonts.sample import make_font, make_woff, make_woff2, table_checksum
from sluice_inspect.formats.fonts.sfnt import require_few_wrong
from sluice_inspect.report import Corrupt, Limits, TooComplex, Unsupported
from sluice_inspect.source import Source

_WOFF: Final = b"wOFF"
_WOFF2: Final = b"wOF2"
_WOFF_HEADER: Final = struct.Struct(">4s4sLHHL4xLLLLL")
_WOFF_ENTRY: Final = struct.Struct(">4sLLLL")
_WOFF2_HEADER: Final = struct.Struct(">4s4sLHHLL4xLLLLL")
_UNPACKED_MOST: Final = 256 * 1024**2
_NO_TAG: Final = 63
_TAGS: Final = (
    b"cmap head hhea hmtx maxp name OS/2 post cvt_ fpgm glyf loca prep CFF_ VORG EBDT EBLC gasp hdmx kern LTSH "
    b"PCLT VDMX vhea vmtx BASE GDEF GPOS GSUB EBSC JSTF MATH CBDT CBLC COLR CPAL SVG_ sbix acnt avar bdat bloc "
    b"bsln cvar fdsc feat fmtx fvar gvar hsty just lcar mort morx opbd prop trak Zapf Silf Glat Gloc Feat Sill"
).replace(b"_", b" ")
_HEAD_MAGIC: Final = b"\x5f\x0f\x3c\xf5"
_GLYPHS_HEADER: Final = struct.Struct(">HHHH7L")
_HAS_OVERLAPS: Final = 1


def _examine_woff(source: Source, limits: Limits) -> Examination:
    header = source.head[: _WOFF_HEADER.size]
    if len(header) < _WOFF_HEADER.size:
        raise Corrupt("the web font's header is cut")
    _, _, length, count, _, _, *extras = _WOFF_HEADER.unpack(header)
    _check_length(source, length, extras)
    directory = source.read_at(_WOFF_HEADER.size, count * _WOFF_ENTRY.size)
    if not count or len(directory) < count * _WOFF_ENTRY.size:
        raise Corrupt("the web font's list of tables is empty or cut")
    budget, tags, wrong = Budget(limits, packed_bytes=source.size), set[bytes](), list[bytes]()
    for tag, offset, packed, size, checksum in _WOFF_ENTRY.iter_unpack(directory):
        if offset + packed > source.size or packed > size:
            raise Corrupt(f"the web font is cut or damaged: its table {tag!r} does not lie in the file")
        data = source.read_at(offset, packed)
        table = data if packed == size else _inflate_table(data, size, budget)
        if len(table) != size:
            raise Corrupt(f"the web font is damaged: its table {tag!r} does not have its length")
        tags.add(tag)
        if checksum and table_checksum(tag, table) != checksum:  # 0: the writer computed none
            wrong.append(tag)
    require_few_wrong(wrong, tags)
    return Examination({"tables": len(tags)})


def _examine_woff2(source: Source, limits: Limits) -> Examination:
    header = source.head[: _WOFF2_HEADER.size]
    if len(header) < _WOFF2_HEADER.size:
        raise Corrupt("the web font's header is cut")
    _, flavour, length, count, _, _, packed, *extras = _WOFF2_HEADER.unpack(header)
    _check_length(source, length, extras)
    if flavour == b"ttcf":
        raise Unsupported("the web font is a collection, which is not read here")
    entries, at = _read_woff2_entries(source, count)
    if not entries or at + packed > source.size:
        raise Corrupt("the web font is cut or damaged: its tables do not lie in the file")
    size = sum(size for _, size, _ in entries)
    data = _unpack_brotli(source.read_at(at, packed), size, Budget(limits, packed_bytes=source.size))
    tables, start = {}, 0
    for tag, size, _ in entries:
        tables[tag] = data[start : start + size]
        start += size
    has_transformed_glyphs = any(tag == b"glyf" and is_transformed for tag, _, is_transformed in entries)
    _check_woff2_tables(tables, has_transformed_glyphs=has_transformed_glyphs)
    return Examination({"tables": len(tables)})


def _check_length(source: Source, length: int, extras: list[int]) -> None:
    metadata, metadata_length, _, private, private_length = extras
    if max(length, metadata + metadata_length, private + private_length) > source.size:
        raise Corrupt(f"the web font is cut: it states {length} bytes and has {source.size}")


def _inflate_table(data: bytes, size: int, budget: Budget) -> bytes:
    if size > _UNPACKED_MOST:
        raise TooComplex("the web font has a table too large to be unpacked")
    inflating = zlib.decompressobj()
    try:
        table = inflating.decompress(data, size + 1)
    except zlib.error as error:
        raise Corrupt(f"the web font is damaged: a table does not inflate: {error}") from error
    budget.spend(len(table))
    return table


def _read_woff2_entries(source: Source, count: int) -> tuple[list[tuple[bytes, int, bool]], int]:
    """Return tag, length and whether it is transformed of each table, and where their list ends."""
    data, at = source.read_at(0, _WOFF2_HEADER.size + 16 * count), _WOFF2_HEADER.size
    entries = []
    try:
        for _ in range(count):
            flags, at = data[at], at + 1
            tag = _TAGS[5 * (flags & 0x3F) :][:4]
            if flags & 0x3F == _NO_TAG:
                tag, at = data[at : at + 4], at + 4
            size, at = _base128(data, at)
            # For glyphs and their locations the transformation is the default, for other tables it is the exception.
            is_transformed = (flags >> 6 != 3) if tag in {b"glyf", b"loca"} else flags >> 6 != 0
            if is_transformed:
                size, at = _base128(data, at)
            entries.append((tag, size, is_transformed))
    except IndexError as error:
        raise Corrupt("the web font's list of tables is cut or damaged") from error
    return entries, at


def _base128(data: bytes, at: int) -> tuple[int, int]:
    number = 0
    for _ in range(5):
        byte, at = data[at], at + 1
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, at
    raise Corrupt("the web font's list of tables is damaged: it holds an invalid length")


def _unpack_brotli(data: bytes, size: int, budget: Budget) -> bytes:
    if size > _UNPACKED_MOST:
        raise TooComplex("the web font's tables are too large to be unpacked")
    unpacking, unpacked, total = brotli.Decompressor(), [], 0
    try:
        while total <= size and not unpacking.is_finished():
            piece = unpacking.process(data, output_buffer_limit=CHUNK_BYTES)
            total += len(piece)
            budget.spend(len(piece))
            if not piece and unpacking.can_accept_more_data():  # the stream is cut
                break
            data = b""
            unpacked.append(piece)
    except brotli.error as error:
        raise Corrupt(f"the web font is damaged: its tables do not unpack: {error}") from error
    if total != size or not unpacking.is_finished():
        raise Corrupt(f"the web font is damaged: its tables are not of the {size} bytes that are stated")
    return b"".join(unpacked)


def _check_woff2_tables(tables: Mapping[bytes, bytes], *, has_transformed_glyphs: bool) -> None:
    """Raise `Corrupt` if tables, which have no checksums in WOFF2, are plainly damaged."""
    if tables.get(b"head", _HEAD_MAGIC * 4)[12:16] != _HEAD_MAGIC:
        raise Corrupt("the web font is damaged: its table 'head' has no magic number")
    if not has_transformed_glyphs:
        return
    glyphs = tables[b"glyf"]
    if len(glyphs) < _GLYPHS_HEADER.size:
        raise Corrupt("the web font is damaged: its glyphs are cut")
    _, options, count, _, *streams = _GLYPHS_HEADER.unpack_from(glyphs)
    overlaps = (count + 7) // 8 if options & _HAS_OVERLAPS else 0
    if _GLYPHS_HEADER.size + sum(streams) + overlaps != len(glyphs) or streams[0] != 2 * count:
        raise Corrupt("the web font is damaged: the parts of its glyphs do not add up")


WOFF: Final = Format(
    name="woff",
    family=Family.FONT,
    content_type="font/woff",
    extensions=frozenset({"woff"}),
    begins=(_WOFF,),
    matches=lambda source: source.head.startswith(_WOFF),
    match_order=MatchOrder.PICTURE,
    examine=_examine_woff,
    facts=has_no_flags,
    sample=lambda: make_woff(make_font()),
)

WOFF2: Final = Format(
    name="woff2",
    family=Family.FONT,
    content_type="font/woff2",
    extensions=frozenset({"woff2"}),
    begins=(_WOFF2,),
    matches=lambda source: source.head.startswith(_WOFF2),
    match_order=MatchOrder.PICTURE,
    examine=_examine_woff2,
    facts=has_no_flags,
    sample=lambda: make_woff2(make_font()),
)
