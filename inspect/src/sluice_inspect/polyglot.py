"""Polyglot files: whether a file is a second format as well, which other programs would open, run or show."""
# Data behind a picture is ordinary (previews, maker notes), and so are a picture in an archive and an attachment in a
# PDF. A second format is one whose readers accept the file: archives and scripts wherever they are, documents and pages
# as far as their readers look. A file that holds others as they are (an archive, a database, a mail, an old Office
# document) is examined only where none of them can be.

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from sluice_inspect.archives.finder import ArchiveFinder, FoundArchive
from sluice_inspect.archives.zip.records import find_end
from sluice_inspect.format import Family, Format, SecondFormats
from sluice_inspect.programs import SCRIPT, SHORTCUT, recognise
from sluice_inspect.report import InspectionError, Measure
from sluice_inspect.signatures import has_binary_signature
from sluice_inspect.source import HEAD_BYTES, Source
from sluice_inspect.text.active_content import LOOK_AHEAD, PAGE_WORDS, ActiveContentFinder

# Their content is written in characters, and a reader may take it for the second format as it is.
_WRITTEN: Final = frozenset({Family.TEXT, Family.DRAWING})
_PLAYED_OR_SHOWN: Final = frozenset({Family.PICTURE, Family.RECORDING})

_PIECE_BYTES: Final = 1024 * 1024
_OVERLAP_BYTES: Final = LOOK_AHEAD + 256
# Browsers search for a page, PDF readers for the header, in this many bytes; some of these let it begin at the last.
_SNIFFED_BYTES: Final = 1024
_PDF_HEADER: Final = re.compile(rb"%PDF-\d")
_PDF_OBJECT: Final = re.compile(rb"\d[ \t\r\n]+obj\b")
# What makes the lines in front of a PDF a script: how interpreters know one, and what keeps them off the rest.
_SCRIPT_BEFORE: Final = re.compile(
    rb"\A(?:\xef\xbb\xbf)?\s*+#!|<\?|<%|(?:^|[;&|])[ \t]*+@?(?:echo[ \t]+off\b|exit\b|goto\b|__END__|=begin\b)"
    rb"|<<[-~]?['\"]?\w",
    re.IGNORECASE | re.MULTILINE,
)
_OTHERS_BEFORE: Final = (b"{\\rtf", b"%!PS", b"\0asm", b"dex\n", b"MSCF", b"Cr24")
_SETTINGS_BEFORE: Final = re.compile(
    rb"(?:\xef\xbb\xbf)?+\s*+(?:\[[A-Za-z][\w .-]{1,60}\][ \t]*+\r?\n|REGEDIT4\b|Windows Registry Editor)"
)  # of addresses, commands, drivers, desktops, registries
_A_DOCUMENT: Final = "document.pdf"
_MEDIA_RANGE: Final = re.compile(rb"(?:\*|text|image|audio|video|application|multipart)/\*(?=[\s,;])")  # in HTTP heads
_QUOTES: Final = ((b"/*", b"*/"), (b"`", b"`"), (b'"""', b'"""'), (b"'''", b"'''"))
_PAGE: Final = re.compile(rb"<(?:!doctype\s+html|html|script)[\s>]", re.IGNORECASE)
# A file runs as JavaScript if its signature is a name and the size behind it opens a comment or a string around the
# rest, which ends before what continues the statement. A quotation mark alone is one byte, so that more is asked of it.
_COMMENT_OPENS: Final = b"/*"
_COMMENT_END: Final = re.compile(rb"\*/\s{0,16}(?:=|[;(,.+\[?][\t\r\n\x20-\x7e]{8})")
_STRING_OPENS: Final = re.compile(
    rb"[A-Za-z\x80-\xff][\w\x80-\xff]{1,7}\s{0,4}[=;,(+\-*/%&|?.<>\[][\x20-\x7e]{0,8}?(//|[`\"'])"
)
_CONTINUES: Final = (
    rb"\s{0,16}[;,(+\-*/%&|?.\[\n]?[!+~\s]{0,8}[A-Za-z_$][\w$.]{2,40}\s{0,4}"
    rb"(?:[(\[][\t\r\n\x20-\x7e]{0,400}?[)\]]|[=`][\x20-\x7e]{4})"
)
_STRING_ENDS: Final = {
    opens: re.compile(end + _CONTINUES)
    for opens, end in ((b"//", rb"(?:[\r\n]|\xe2\x80[\xa8\xa9])"), (b"`", b"`"), (b'"', b'"'), (b"'", b"'"))
}
_ISO_DESCRIPTOR_OFFSET: Final = 0x8000
_SECTOR_BYTES: Final = 2048
_DESCRIPTORS_MOST: Final = 64
_VOLUMES: Final = frozenset({b"\x01CD001\x01", b"\x02CD001\x01"})
_UDF_VOLUMES: Final = frozenset({b"NSR02", b"NSR03"})
_OTHER_DESCRIPTORS: Final = frozenset({b"CD001", b"BEA01", b"BOOT2", b"CDW02", b"TEA01"})  # readers continue after them
_TAR_HEADER_BYTES: Final = 512

Windows = Iterator[tuple[int, bytes]]


def second_format(source: Source, first: Format | None, measures: Mapping[str, Measure]) -> str | None:
    """Return what else the file is, in words that follow "the file is also", or None. `first` is its own format."""
    if first is None or first.second_formats is SecondFormats.NOWHERE:
        return None
    if first.second_formats is SecondFormats.AROUND:
        return _find_around_zip(source)
    if first.content_end is not None:
        return _find_behind(source, first.content_end, measures)
    family = first.family
    is_listed = _Attachments(source, first.attachments) if first.attachments else (lambda _start, _end: False)
    if found := _find_at_start(source, first, is_listed):
        return found
    archives, active = ArchiveFinder(source), _active_finder(family)
    for begin, window in _windows(source, 0, source.size):
        for archive in archives.find(window, begin):
            if not is_listed(archive.start, archive.end):
                return archive.words
        if active is not None:
            for at, words in active.find(window):
                is_quoted = family is Family.RECORDING and words == PAGE_WORDS  # tags of podcasts hold pages
                if not is_quoted and not is_listed(begin + at, begin + at + 1):
                    return words
    if family in _PLAYED_OR_SHOWN and _is_script(source):
        return "a script"
    return _find_page_behind(source, int(measures.get("trailing_bytes", 0))) if family is Family.RECORDING else None


def _active_finder(family: Family) -> ActiveContentFinder | None:
    if family is Family.TEXT:
        return None  # pages and programs are texts, and quoted in others
    return ActiveContentFinder(text_like=family is not Family.PICTURE)


def _windows(source: Source, start: int, end: int) -> Windows:
    """Yield offset and bytes of windows, each of which begins with the last bytes of the one before."""
    if start == 0 and end <= HEAD_BYTES:
        yield 0, source.head[:end]
        return
    while start < end:
        window = source.read_at(start, min(_PIECE_BYTES + _OVERLAP_BYTES, end - start))
        yield start, window
        start += _PIECE_BYTES


class _Attachments:
    """Whether bytes of a document are in a file that it lists as attached, so that its readers offer it themselves."""

    def __init__(self, source: Source, read: Callable[[Source], Iterable[tuple[int, int]]]) -> None:
        self._source = source
        self._read = read
        self._ranges: Sequence[tuple[int, int]] | None = None

    def __call__(self, start: int, end: int) -> bool:
        if self._ranges is None:
            self._ranges = list(self._read(self._source))
        return any(begin <= start and end <= stop for begin, stop in self._ranges)


def _is_read_as_pdf(source: Source) -> bool:
    """Return whether PDF readers find a header and an object behind it, whatever is in front of them."""
    header = _PDF_HEADER.search(source.head[: _SNIFFED_BYTES + 8])
    if header is None or header.start() > _SNIFFED_BYTES:
        return False
    return any(_PDF_OBJECT.search(window) for _, window in _windows(source, header.start(), source.size))


def _find_at_start(source: Source, first: Format, is_listed: Callable[[int, int], bool]) -> str | None:
    is_pdf = first.name == "pdf"
    if not is_pdf and _is_read_as_pdf(source):
        return "a PDF document"
    if first.family in _WRITTEN:
        return None
    head = source.head[: _SNIFFED_BYTES + 8]
    if is_pdf and (found := _opens_before(source, head)):
        return found
    page = _PAGE.search(head[:_SNIFFED_BYTES]) if first.family is not Family.RECORDING else None
    if page and not is_listed(*page.span()):
        return "a web page"
    return _find_disk_image(source)


def _opens_before(source: Source, head: bytes) -> str | None:
    """Return what the bytes in front of the header of a PDF are for other programs, if it is more than garbage."""
    at = head.find(b"%PDF")
    before = head[: max(0, at)]
    if before.startswith(_OTHERS_BEFORE) or (has_binary_signature(before) and not before.startswith(b"\0")):
        return "a file of another format"
    found = recognise("", before)
    if found is None and _SETTINGS_BEFORE.match(before):
        found = SHORTCUT, "name"
    if found is not None and found[0] != SCRIPT:
        return f"a {found[0]}"
    return "a script" if _runs_before(source, before, at) else None


def _runs_before(source: Source, before: bytes, at: int) -> bool:
    """Return whether what is in front of the header of a PDF runs: as a whole, or with the document in a comment."""
    if recognise(_A_DOCUMENT, before) is not None:
        return True
    before = _MEDIA_RANGE.sub(b" ", before)
    if _SCRIPT_BEFORE.search(before):
        return True
    for opens, closes in _QUOTES:
        # What opens and closes alike is open behind an odd number of them.
        is_open = before.count(opens) % 2 == 1 if opens == closes else before.rfind(opens) > before.rfind(closes)
        if is_open and any(closes in window for _, window in _windows(source, at, source.size)):
            return True
    return False


def _find_disk_image(source: Source) -> str | None:
    if source.size > _ISO_DESCRIPTOR_OFFSET:
        for number in range(_DESCRIPTORS_MOST):
            descriptor = source.read_at(_ISO_DESCRIPTOR_OFFSET + number * _SECTOR_BYTES, 7)
            if descriptor in _VOLUMES or descriptor[1:6] in _UDF_VOLUMES:
                return "a disk image"
            if descriptor[1:6] not in _OTHER_DESCRIPTORS:
                break
    header = source.head[:_TAR_HEADER_BYTES]
    if header[257:262] != b"ustar":
        return None
    # POSIX ustar: the sum of all bytes, those of the checksum itself counted as spaces.
    checksum = sum(header[:148]) + 8 * 0x20 + sum(header[156:])
    digits = header[148:156].strip(b" \x00")
    stated = int(digits, 8) if digits and not digits.strip(b"01234567") else -1
    return "a TAR archive" if checksum == stated else None


def _is_script(source: Source) -> bool:
    """Return whether the first bytes open a comment or string after whose end a script continues."""
    head = source.head
    if _COMMENT_OPENS in {head[6:8], head[4:6], head[2:4]}:
        end = _COMMENT_END
    elif opens := _STRING_OPENS.match(head):
        end = _STRING_ENDS[opens[1]]
    else:
        return False
    return any(end.search(window) for _, window in _windows(source, 0, source.size))


def _find_page_behind(source: Source, trailing: int) -> str | None:
    if trailing <= 0:
        return None
    finder = ActiveContentFinder(text_like=False)
    windows = _windows(source, max(0, source.size - trailing), source.size)
    return next((words for _, window in windows for _, words in finder.find(window)), None)


def _find_around_zip(source: Source) -> str | None:
    """Return what is in front of the members of a ZIP archive, in its comment or behind it, if a reader opens that."""
    try:
        end = source.cached(find_end)
    except InspectionError:
        return None
    if end is None:
        return None
    archives = ArchiveFinder(source)
    records_end = end.directory + end.directory_size
    begin = min(end.shift, records_end)
    head = source.read_at(0, min(begin, _SNIFFED_BYTES + 8))
    if _PDF_HEADER.search(head):
        return "a PDF document"
    # The archive's own end record is the first one behind its directory; what it leads to is what was inspected.
    return _find_archive(source, archives, (0, begin), lambda found: found.end <= begin) or _find_archive(
        source,
        archives,
        (records_end, source.size),
        lambda found: not found.words.startswith("a ZIP") or found.start >= records_end,
    )


def _find_behind(
    source: Source, content_end: Callable[[Source, Mapping[str, Measure]], int], measures: Mapping[str, Measure]
) -> str | None:
    """Return what is behind all sectors or pages of a file that holds other files in them, if a reader opens that."""
    try:
        end = content_end(source, measures)
    except InspectionError:
        return None
    if not 0 < end < source.size:
        return None
    return _find_archive(source, ArchiveFinder(source), (end, source.size), lambda found: found.start >= end)


def _find_archive(
    source: Source, archives: ArchiveFinder, part: tuple[int, int], counts: Callable[[FoundArchive], bool]
) -> str | None:
    found = (archive for at, window in _windows(source, *part) for archive in archives.find(window, at))
    return next((archive.words for archive in found if counts(archive)), None)
