"""PDF documents. Sound is what PDFium opens with every page loading and content that decodes; readers' own repairs are no damage.

Strict parsers refuse one readable PDF in eight, so warnings never decide. What does: a cut end, holes of zeros, page content that does not
decode, and several damaged streams at once. One damaged picture or font leaves a document that everybody can read.
"""

import io
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import pikepdf
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from sluice.formats.budget import Deadline
from sluice.formats.kind import Kind
from sluice.formats.pdf.pdf_bytes import check_end, has_header, refuse_bombs
from sluice.formats.pdf.pdf_damage import find_hole, has_grown_streams, is_text_transfer
from sluice.formats.pdf.pdf_look import shows_nothing
from sluice.formats.pdf.pdf_streams import Streams, shows_beside_pages, walk
from sluice.formats.pdf.pdf_syntax import stray_words
from sluice.formats.source import Source
from sluice.formats.verdict import Corrupt, Encrypted, Limits, Measure

logging.getLogger("pikepdf").setLevel(logging.CRITICAL)  # it logs what qpdf repairs, and quotes the file
logging.getLogger("pypdfium2").setLevel(logging.CRITICAL)

_IN_MEMORY: Final = 128 * 1024**2
"""Bytes of a file that is read whole; a larger one is read in pieces by the libraries, and not searched for holes."""
_PAGE_CONTENT_MOST: Final = 32 * 1024**2
"""Bytes of an unpacked stream from which PDFium is not asked to make pages of it."""
_STRAY_MOST: Final = 3
"""Words with impossible bytes that are no accident of a writer."""
_PIXELS_MOST: Final = 120_000_000
"""Pixels of a picture from which pages are not rendered."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the check of a source learned for its blank rule."""

    may_render: bool
    shows_beside_pages: bool


_SEEN: Final[WeakKeyDictionary[Source, _Seen]] = WeakKeyDictionary()


def recognises(source: Source) -> bool:
    """Whether a PDF begins within the first KiB."""
    return has_header(source.head)


def check(source: Source, limits: Limits) -> Mapping[str, Measure]:
    """Judge the document; answer its pages and how many of them were loaded within the soft budget."""
    check_end(source.tail)
    data = source.read_at(0, source.size) if source.size <= _IN_MEMORY else None
    if data is not None:
        refuse_bombs(data, limits)
    deadline = Deadline(limits.soft_seconds)
    streams, is_encrypted, beside = _walk(source, data, limits, deadline)
    if data is not None:
        _refuse_damage(data, streams, is_encrypted=is_encrypted)
    try:
        with _document(source, data) as document:
            pages = len(document)
            loaded = _load_pages(document, deadline) if streams.largest <= _PAGE_CONTENT_MOST else 0
    except Corrupt:
        if not streams.can_be_shown:
            raise
        pages, loaded = streams.pages, 0  # one reader out of two suffices
    _SEEN[source] = _Seen(0 < loaded == pages and streams.most_pixels <= _PIXELS_MOST, beside)
    return {"pages": pages, "pages_loaded": loaded, "content_unread": streams.unread, "streams_damaged": len(streams.damaged)}


def blank(source: Source, limits: Limits) -> str | None:
    """Answer that no page shows anything but its number, and that there are no notes, attachments or filled fields."""
    seen = _SEEN.get(source)
    if seen is None or not seen.may_render or seen.shows_beside_pages:
        return None
    data = source.read_at(0, source.size) if source.size <= _IN_MEMORY else None
    with _document(source, data) as document:
        pages = len(document)
        if not shows_nothing(document, Deadline(limits.soft_seconds)):
            return None
    return "the page shows nothing" if pages == 1 else f"none of the {pages} pages shows anything"


def _walk(source: Source, data: bytes | None, limits: Limits, deadline: Deadline) -> tuple[Streams, bool, bool]:
    """Answer what qpdf sees; nothing of it when it does not open what other readers do."""
    try:
        with pikepdf.open(io.BytesIO(data) if data is not None else source.open(), suppress_warnings=True) as pdf:
            return walk(pdf, limits, deadline), pdf.is_encrypted, shows_beside_pages(pdf)
    except pikepdf.PasswordError as error:
        raise Encrypted("the document is protected by a password") from error
    except (pikepdf.PikepdfError, ValueError):  # numbers beyond 64 bits are a `ValueError`
        return Streams(), False, False


def _refuse_damage(data: bytes, streams: Streams, *, is_encrypted: bool) -> None:
    hole = find_hole(data, is_encrypted=is_encrypted)
    if hole is not None:
        raise Corrupt(f"a part of the file is missing: there are only zeros from byte {hole} on")
    if is_text_transfer(data) and (streams.damaged or has_grown_streams(data)):
        raise Corrupt("the file was sent in text mode: every line end in its binary data was changed")
    stray = 0 if is_encrypted else stray_words(data, _STRAY_MOST)
    if stray >= _STRAY_MOST or (stray and streams.broken):
        raise Corrupt("the file is damaged: bytes that no PDF has stand between its objects")
    if streams.is_damaged:
        raise Corrupt(f"{len(streams.damaged)} streams of the document are damaged, the first is {streams.damaged[0]}")


@contextmanager
def _document(source: Source, data: bytes | None) -> Iterator[pdfium.PdfDocument]:
    try:
        document = pdfium.PdfDocument(data if data is not None else source.open())
    except pdfium.PdfiumError as error:
        code = getattr(error, "err_code", None)
        if code == pdfium_c.FPDF_ERR_PASSWORD:
            raise Encrypted("the document is protected by a password") from error
        if code == pdfium_c.FPDF_ERR_SECURITY:
            raise Encrypted("the document is protected by a scheme that is not known here") from error
        raise Corrupt("the document cannot be opened: its objects do not lead to any page") from error
    try:
        yield document
    finally:
        document.close()


def _load_pages(document: pdfium.PdfDocument, deadline: Deadline) -> int:
    """Load every page; answer how many could be before the deadline. Raises `Corrupt` for one that cannot."""
    for index in range(len(document)):
        if deadline.has_passed:
            return index
        try:
            document[index].close()
        except pdfium.PdfiumError as error:
            raise Corrupt(f"page {index + 1} of {len(document)} cannot be loaded") from error
    return len(document)


def sample() -> bytes:
    """Answer a page of one word."""
    content = b"BT /F 24 Tf 20 40 Td (Sluice) Tj ET"
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 120 100]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    body, offsets = b"%PDF-1.4\n", []
    for number, thing in enumerate(objects, start=1):
        offsets.append(len(body))
        body += b"%d 0 obj%b endobj\n" % (number, thing)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return body + b"xref\n0 6\n0000000000 65535 f \n%btrailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (table, len(body))


KIND: Final = Kind(
    name="pdf",
    content_type="application/pdf",
    extensions=frozenset({"pdf"}),
    recognises=recognises,
    check=check,
    sample=sample,
    blank=blank,
)
