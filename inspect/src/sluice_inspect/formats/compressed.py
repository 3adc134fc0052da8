"""GZIP, bzip2, XZ, Zstandard and LZ4: unpacked to their end, and what is packed in them is checked."""

import bz2
import gzip
import lzma
import struct
import zlib
from functools import partial
from typing import Final

from sluice_inspect.archives import compression
from sluice_inspect.archives.nested import examine_archive
from sluice_inspect.facts.archives import measure_archive
from sluice_inspect.format import Examination, Family, Format, SecondFormats
from sluice_inspect.report import Corrupt, Limits
from sluice_inspect.source import Source

_CONTENT: Final = b"A sluice is a gate.\n"
_XZ_FOOTER: Final = struct.Struct("<LL2s2s")
_XZ_FOOTER_MAGIC: Final = b"YZ"
_MAX_XZ_INDEX_BYTES: Final = 64 * 1024**2


def _examine_xz(source: Source, limits: Limits) -> Examination:
    # The index comes first: a large file may not be unpacked to its end within the time limit, and a file that is cut
    # must be distinguished from one that is packed in a way unknown here.
    _check_xz_index(source)
    return examine_archive(compression.XZ, source, limits)


def _check_xz_index(source: Source) -> None:
    """Raise `Corrupt` unless the last stream ends with its footer and an index in front of it."""
    kept = len(source.tail.rstrip(b"\0"))
    if not kept:  # more padding than was read
        return
    end = source.size - len(source.tail) + kept
    footer = source.read_at(max(0, end - _XZ_FOOTER.size), _XZ_FOOTER.size)
    if end < _XZ_FOOTER.size or not footer.endswith(_XZ_FOOTER_MAGIC):
        raise Corrupt(f"the XZ data is cut: it does not end with a footer at byte {end}")
    crc, units, *_ = _XZ_FOOTER.unpack(footer)
    if zlib.crc32(footer[4:10]) != crc:
        raise Corrupt("the footer at the end of the XZ data is damaged: its checksum does not fit")
    size = (units + 1) * 4
    begin = end - _XZ_FOOTER.size - size
    index = source.read_at(begin, size) if begin > 0 and size <= _MAX_XZ_INDEX_BYTES else b""
    if not index.startswith(b"\0") or zlib.crc32(index[:-4]) != int.from_bytes(index[-4:], "little"):
        raise Corrupt("the index at the end of the XZ data is damaged, or not where its footer says")


GZIP: Final = Format(
    name="gz",
    family=Family.ARCHIVE,
    content_type="application/gzip",
    extensions=frozenset({"gz", "gzip", "tgz", "taz"}),
    matches=lambda source: compression.GZIP.matches(source.head),
    examine=partial(examine_archive, compression.GZIP),
    container=compression.GZIP,
    facts=measure_archive,
    sample=lambda: gzip.compress(_CONTENT, mtime=0),
    second_formats=SecondFormats.NOWHERE,
)

BZIP2: Final = Format(
    name="bz2",
    family=Family.ARCHIVE,
    content_type="application/x-bzip2",
    extensions=frozenset({"bz2", "bz", "tbz", "tbz2", "tb2"}),
    matches=lambda source: compression.BZIP2.matches(source.head),
    examine=partial(examine_archive, compression.BZIP2),
    container=compression.BZIP2,
    facts=measure_archive,
    sample=lambda: bz2.compress(_CONTENT),
    second_formats=SecondFormats.NOWHERE,
)

XZ: Final = Format(
    name="xz",
    family=Family.ARCHIVE,
    content_type="application/x-xz",
    extensions=frozenset({"xz", "txz"}),
    matches=lambda source: compression.XZ.matches(source.head),
    examine=_examine_xz,
    container=compression.XZ,
    facts=measure_archive,
    sample=lambda: lzma.compress(_CONTENT, check=lzma.CHECK_CRC32),
    second_formats=SecondFormats.NOWHERE,
)

ZSTANDARD: Final = Format(
    name="zst",
    family=Family.ARCHIVE,
    content_type="application/zstd",
    extensions=frozenset({"zst", "zstd", "tzst"}),
    matches=lambda source: compression.ZSTANDARD.matches(source.head),
    examine=partial(examine_archive, compression.ZSTANDARD),
    container=compression.ZSTANDARD,
    # a frame of one segment of 20 bytes, in one raw block that is the last
    facts=measure_archive,
    sample=lambda: b"\x28\xb5\x2f\xfd\x20\x14\xa1\x00\x00" + _CONTENT,
    second_formats=SecondFormats.NOWHERE,
)

LZ4: Final = Format(
    name="lz4",
    family=Family.ARCHIVE,
    content_type="application/x-lz4",
    extensions=frozenset({"lz4", "tlz4"}),
    matches=lambda source: compression.LZ4.matches(source.head),
    examine=partial(examine_archive, compression.LZ4),
    container=compression.LZ4,
    # a frame of one block that is stored uncompressed, and the end mark
    facts=measure_archive,
    sample=lambda: b"\x04\x22\x4d\x18\x60\x40\x82\x14\x00\x00\x80" + _CONTENT + b"\x00\x00\x00\x00",
    second_formats=SecondFormats.NOWHERE,
)
