"""TrueType and OpenType (ISO/IEC 14496-22): all tables are in the file and have valid checksums."""

import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from sluice_inspect.format import Examination, Family, Format, MatchOrder, has_no_flags
from sluice_inspect.formats.fonts.sample import OPENTYPE, checksum_of, make_font, without_adjustment
from sluice_inspect.report import Corrupt, Limits
from sluice_inspect.source import Source

_TRUETYPE: Final = (b"\0\1\0\0", b"true")
_COLLECTION: Final = b"ttcf"
_HEADER: Final = struct.Struct(">4sH6x")
_ENTRY: Final = struct.Struct(">4sLLL")
_FONTS_MOST: Final = 4096
_TABLES_MOST: Final = 1024
_CHUNK: Final = 256 * 1024
# Small tables that tools change without updating their checksum: one of them alone is no damage.
_EDITED_ALONE: Final = frozenset(
    {b"head", b"hhea", b"name", b"OS/2", b"post", b"DSIG", b"FFTM", b"PCLT", b"gasp", b"meta"}
)
# The compiler of SIL Graphite adds these to a finished font, and states other checksums than theirs.
_GRAPHITE: Final = frozenset({b"Feat", b"Glat", b"Gloc", b"Silf", b"Sill"})


@dataclass(frozen=True, slots=True)
class _FontTable:
    checksum: int
    offset: int
    length: int


def _examine(source: Source, _limits: Limits) -> Examination:
    if source.head.startswith(_COLLECTION):
        count = int.from_bytes(source.head[8:12], "big")
        offsets = source.read_at(12, 4 * count) if count <= _FONTS_MOST else b""
        if not count or len(offsets) < 4 * count:
            raise Corrupt("the collection of fonts is empty, cut or damaged")
        fonts = [_read_tables(source, at) for (at,) in struct.iter_unpack(">L", offsets)]
    else:
        fonts = [_read_tables(source, 0)]
    for font in fonts:
        _check_tables(source, font)
    return Examination({"fonts": len(fonts), "tables": sum(len(font) for font in fonts)})


def _read_tables(source: Source, at: int) -> Mapping[bytes, _FontTable]:
    header = source.read_at(at, _HEADER.size)
    if len(header) < _HEADER.size:
        raise Corrupt("the font's header is cut")
    count: int = _HEADER.unpack(header)[1]
    directory = source.read_at(at + _HEADER.size, count * _ENTRY.size)
    if not count or len(directory) < count * _ENTRY.size:
        raise Corrupt("the font's list of tables is empty or cut")
    tables = {tag: _FontTable(*entry) for tag, *entry in _ENTRY.iter_unpack(directory)}
    for tag, table in tables.items():
        if table.offset + table.length > source.size:
            raise Corrupt(f"the font is cut or damaged: its table {_text(tag)} lies behind the end of the file")
    return tables


def _check_tables(source: Source, tables: Mapping[bytes, _FontTable]) -> None:
    wrong = [
        tag
        for tag, table in tables.items()
        if table.checksum and _checksum(source, tag, table) != table.checksum  # 0: the writer computed none
    ]
    require_few_wrong(wrong, tables)


def require_few_wrong(wrong: Collection[bytes], tables: Collection[bytes]) -> None:
    """Raise `Corrupt` if the tables with a `wrong` checksum are more than writers of sound fonts leave."""
    of_compiler = _GRAPHITE.intersection(tables)
    is_compiled = len(of_compiler) > 1 and of_compiler.issubset(wrong)
    damaged = [tag for tag in wrong if not (is_compiled and tag in of_compiler)]
    if len(damaged) > 1 or (damaged and damaged[0] not in _EDITED_ALONE):
        raise Corrupt(f"the font is damaged: the checksum of its table {_text(damaged[0])} is wrong")


def _checksum(source: Source, tag: bytes, table: _FontTable) -> int:
    total = 0
    for offset in range(0, table.length, _CHUNK):
        chunk = source.read_at(table.offset + offset, min(_CHUNK, table.length - offset))
        total += checksum_of(without_adjustment(chunk) if tag == b"head" and not offset else chunk)
    return total & 0xFFFFFFFF


def _begins_font(head: bytes, magics: tuple[bytes, ...]) -> bool:
    # The magic numbers alone are too common: a plausible number of tables must follow.
    return head.startswith(magics) and 0 < int.from_bytes(head[4:6], "big") <= _TABLES_MOST


def _text(tag: bytes) -> str:
    return repr(tag.decode("latin-1"))


TTF: Final = Format(
    name="ttf",
    family=Family.FONT,
    content_type="font/ttf",
    extensions=frozenset({"ttf", "ttc"}),
    tolerated_extensions=frozenset({"otf", "otc"}),
    begins=(_COLLECTION, *_TRUETYPE),
    matches=lambda source: source.head.startswith(_COLLECTION) or _begins_font(source.head, _TRUETYPE),
    match_order=MatchOrder.PICTURE,
    examine=_examine,
    facts=has_no_flags,
    sample=make_font,
)

# OpenType fonts with PostScript outlines. Those with TrueType outlines are TTF, also if they are named .otf.
OTF: Final = Format(
    name="otf",
    family=Family.FONT,
    content_type="font/otf",
    extensions=frozenset({"otf", "otc"}),
    tolerated_extensions=frozenset({"ttf"}),
    begins=(OPENTYPE,),
    matches=lambda source: _begins_font(source.head, (OPENTYPE,)),
    match_order=MatchOrder.PICTURE,
    examine=_examine,
    facts=has_no_flags,
    sample=lambda: make_font(postscript=True),
)
