"""Is this file a second format as well? Looks for what other programs would open, run or show; the first format is judged elsewhere.

Data behind the end of a picture is ordinary (previews, maker notes), a picture in an archive is, an attachment in a PDF is. A second
*format* is one whose own readers would take the file: archives found from the end, pages and scripts found at the start.
"""

import re
import struct
import zlib
from collections.abc import Mapping
from typing import Final

from sluice.formats.source import Source
from sluice.formats.verdict import Measure

PICTURES: Final = frozenset({"png", "jpeg", "gif", "webp", "heic", "avif", "bmp", "tiff", "jp2", "j2k"})
MEDIA: Final = frozenset({"mp3", "flac", "ogg", "opus", "wav", "aiff", "m4a", "aac", "mp4", "mov", "mkv", "webm", "avi"})
SEALED: Final = PICTURES | MEDIA | {"pdf"}
"""Kinds that are never archives: an archive's reader that takes such a file takes another file than the one that was judged."""

_SNIFFED: Final = 1024
"""Bytes in which browsers look for a page, and PDF readers for `%PDF`."""
_PAGE: Final = re.compile(rb"<(?:!doctype\s+html|html|script)[\s>]", re.IGNORECASE)
_PHP: Final = re.compile(rb"<\?(?:php\s|(?:=\s*[$`\w]|\s*\w+\s*\()[\t\r\n\x20-\x7e]{1,400}?\?>)")
"""PHP with its long mark, or a short one around what can be a call; `<?xml`, `<?xpacket` and noise are none."""
_SCRIPT_END: Final = re.compile(rb"\*/\s*=")
_ARCHIVE_WITHIN: Final = 1024 * 1024
"""How far readers of RAR and 7z look for an archive behind a self-extractor."""
_ATTACHMENT: Final = re.compile(rb"/(?:EmbeddedFile|Params|Subtype\s*/application)\b[^\x00]{0,600}?\bstream\r?\n\Z", re.DOTALL)
_END_OF_ZIP: Final = struct.Struct("<4s4H2LH")
_ISO_AT: Final = 0x8000
_TAR_HEADER: Final = 512


def second_format(source: Source, kind: str | None, measures: Mapping[str, Measure]) -> str | None:
    """Answer what else the file is, in words that follow "the file is also", or None. `kind` is the name of what it was judged as."""
    if kind == "rtf":  # a text, in which pages are quoted
        return _archive(source)
    if kind not in SEALED:
        return None
    found = _archive(source) or _disk_image(source)
    if found is None and kind not in MEDIA:  # tags of podcasts hold pages, which nobody opens there
        found = _page_or_script(source, kind)
    if found is None and kind != "pdf" and b"%PDF-" in source.head[:_SNIFFED] and b"%%EOF" in source.tail:
        found = "a PDF document"
    if found is None and kind in PICTURES | MEDIA:
        found = _behind_the_picture(source, int(measures.get("trailing_bytes", 0)))
    return found


def _archive(source: Source) -> str | None:
    if (start := _zip_start(source)) is not None and not _is_attachment(source, start):
        return "a ZIP archive"
    head = source.head if source.size <= len(source.head) else source.read_at(0, _ARCHIVE_WITHIN)
    for mark, whole, name in ((b"Rar!\x1a\x07", _is_rar, "a RAR archive"), (b"7z\xbc\xaf\x27\x1c", _is_7z, "a 7z archive")):
        place = -1
        while (place := head.find(mark, place + 1)) >= 0:
            if whole(head[place : place + 32]) and not _is_attachment(source, place):
                return name
    return None


def _zip_start(source: Source) -> int | None:
    """Answer where an archive that ZIP readers would find from the end begins, its directory and first member checked."""
    tail, base = source.tail, max(0, source.size - len(source.tail))
    place = len(tail)
    while (place := tail.rfind(b"PK\x05\x06", 0, place)) >= 0:
        if len(tail) - place < _END_OF_ZIP.size:
            continue
        entries, size, offset = _END_OF_ZIP.unpack_from(tail, place)[4:7]
        directory = base + place - size
        start: int = directory - offset
        if entries and start >= 0 and directory >= 0 and _has_member(source, directory, start):
            return start
    return None


def _has_member(source: Source, directory: int, start: int) -> bool:
    entry = source.read_at(directory, 46)
    if len(entry) < 46 or not entry.startswith(b"PK\x01\x02"):  # noqa: PLR2004  (size of a central header)
        return False
    (offset,) = struct.unpack_from("<L", entry, 42)
    return source.read_at(start + offset, 4) == b"PK\x03\x04"


def _is_rar(block: bytes) -> bool:
    """Answer whether the mark is followed by an archive header with the check sum of its version (4 or 5)."""
    if len(block) < 20:  # noqa: PLR2004  (mark 7 and header 13, or mark 8 and header 8 or more)
        return False
    if block[6] == 0:
        return block[9] == 0x73 and zlib.crc32(block[9:20]) & 0xFFFF == int.from_bytes(block[7:9], "little")  # noqa: PLR2004  (type of an archive header)
    return block[6:8] == b"\x01\x00" and zlib.crc32(block[12 : 13 + block[12]]) == int.from_bytes(block[8:12], "little")


def _is_7z(block: bytes) -> bool:
    return len(block) == 32 and zlib.crc32(block[12:32]) == int.from_bytes(block[8:12], "little")  # noqa: PLR2004  (size of the start header)


def _is_attachment(source: Source, start: int) -> bool:
    """Answer whether the archive is the body of a PDF's embedded file, where readers list it as such."""
    return _ATTACHMENT.search(source.read_at(max(0, start - 1024), min(start, 1024))) is not None


def _disk_image(source: Source) -> str | None:
    if source.read_at(_ISO_AT, 7) in {b"\x01CD001\x01", b"\x02CD001\x01"}:
        return "a disk image"
    header = source.head[:_TAR_HEADER]
    if header[257:262] == b"ustar" and _tar_sum(header) == _octal(header[148:156]):
        return "a TAR archive"
    return None


def _tar_sum(header: bytes) -> int:
    return sum(header[:148]) + 8 * 0x20 + sum(header[156:])


def _octal(digits: bytes) -> int | None:
    text = digits.strip(b" \x00")
    return int(text, 8) if text and not text.strip(b"01234567") else None


def _page_or_script(source: Source, kind: str) -> str | None:
    head = source.head
    if _PAGE.search(head[:_SNIFFED]):
        return "a web page"
    if kind in PICTURES:
        ends = {head, source.tail}  # of a small file the same bytes
        if any(map(_PHP.search, ends)):
            return "a PHP script"
        if head[6:8] == b"/*" or head[4:6] == b"/*":
            return "a script" if any(map(_SCRIPT_END.search, ends)) else None
    return None


def _behind_the_picture(source: Source, trailing: int) -> str | None:
    behind = source.read_at(source.size - trailing, min(trailing, _SNIFFED)).lstrip() if trailing else b""
    return "a web page or script" if _PAGE.match(behind) or _PHP.match(behind) else None
