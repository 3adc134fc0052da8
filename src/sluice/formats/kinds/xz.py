"""XZ files, those that hold a TAR archive included: the index at the end, then the streams. How streams are read is in `streams`.

The index is read first since a large file may not be unpacked to its end within the time, and since it tells a cut one apart from one
that is packed in a way unknown here.
"""

import lzma
import struct
import zlib
from collections.abc import Mapping
from typing import Final

from sluice.formats.archives.nested import blank_archive, check_archive
from sluice.formats.archives.streams import XZ
from sluice.formats.kind import Kind
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Limits, Measure

_FOOTER: Final = struct.Struct("<LL2s2s")
_FOOTER_MAGIC: Final = b"YZ"
_INDEX_MOST: Final = 64 * 1024**2


def check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Judge the streams whole. Raises as `check_archive` does."""
    _check_end(source)
    return check_archive(XZ, source, limits)


def _check_end(source: Source) -> None:
    """Raise `Corrupt` unless the last stream ends with its footer and an index in front of it. More padding than is looked at is believed."""
    kept = len(source.tail.rstrip(b"\0"))
    if not kept:
        return
    end = source.size - len(source.tail) + kept
    footer = source.read_at(max(0, end - _FOOTER.size), _FOOTER.size)
    if end < _FOOTER.size or not footer.endswith(_FOOTER_MAGIC):
        raise Corrupt(f"the XZ data is cut: it does not end with a footer at byte {end}")
    crc, units, *_ = _FOOTER.unpack(footer)
    if zlib.crc32(footer[4:10]) != crc:
        raise Corrupt("the footer at the end of the XZ data is damaged: its checksum does not fit")
    size = (units + 1) * 4
    begin = end - _FOOTER.size - size
    index = source.read_at(begin, size) if begin > 0 and size <= _INDEX_MOST else b""
    if not index.startswith(b"\0") or zlib.crc32(index[:-4]) != int.from_bytes(index[-4:], "little"):
        raise Corrupt("the index at the end of the XZ data is damaged, or not where its footer says")


KIND: Final = Kind(
    name="xz",
    content_type="application/x-xz",
    extensions=frozenset({"xz", "txz"}),
    recognises=lambda source: XZ.begins(source.head),
    check=check,
    blank=blank_archive,
    sample=lambda: lzma.compress(b"A sluice is a gate.\n", check=lzma.CHECK_CRC32),
)
