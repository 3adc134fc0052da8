"""PDF documents: PDFium opens the file, every page loads, and the content of pages decodes."""
# Strict parsers refuse one readable PDF in eight, since readers repair a lot, so warnings never decide. What decides: a
# cut end, holes of zeros, page content that does not decode, and several damaged streams in one file.

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

import pikepdf
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from sluice_inspect.budget import Deadline
from sluice_inspect.format import Examination, Family, Format, MatchOrder, named
from sluice_inspect.formats.pdf.attachments import attachment_ranges
from sluice_inspect.formats.pdf.blank import is_blank
from sluice_inspect.formats.pdf.damage import (
    count_invalid_words,
    find_hole,
    find_overwritten_object,
    has_grown_streams,
    is_text_transfer,
    lost_bytes,
)
from sluice_inspect.formats.pdf.drawings import PageLoads, object_seconds, refuse_multiplied_drawings
from sluice_inspect.formats.pdf.facts import collect, measure_pdf
from sluice_inspect.formats.pdf.parts import OPENER
from sluice_inspect.formats.pdf.raw import HEADER, HEADER_WITHIN, check_end, has_header, refuse_bombs
from sluice_inspect.formats.pdf.reading import PdfReading
from sluice_inspect.formats.pdf.streams import StreamSummary, check_streams, has_content_beside_pages
from sluice_inspect.report import Corrupt, Encrypted, FactSheet, Limits, TooComplex
from sluice_inspect.source import Source

logging.getLogger("pikepdf").setLevel(logging.CRITICAL)  # it logs what qpdf repairs, and quotes the file
logging.getLogger("pypdfium2").setLevel(logging.CRITICAL)

_PAGE_CONTENT_MOST: Final = 32 * 1024**2  # bytes of an unpacked stream beyond which PDFium is not asked to load pages
_INVALID_WORDS_MOST: Final = 3  # words with impossible bytes that are not a writer's mistake
_JUDGED_PAGES_MOST: Final = 2000  # pages beyond which a document is not searched for one that shows something
_PIXELS_MOST: Final = 120_000_000  # pixels of a picture beyond which pages are not rendered


def _examine(source: Source, limits: Limits) -> Examination:
    check_end(source.tail)
    reading = source.cached(PdfReading)
    if reading.is_costly:
        raise TooComplex("searching for the ends of the document's streams takes too long")
    data = reading.data
    if data is not None:
        refuse_bombs(data, limits)
    deadline = Deadline(limits.soft_seconds)
    sheet = FactSheet()
    try:
        streams, is_encrypted, has_content_beside = _read_with_qpdf(reading, limits, deadline, sheet)
    except Encrypted:
        if data is not None:
            _refuse_damage(data, StreamSummary(), is_encrypted=True)
        raise
    if data is not None:
        _refuse_damage(data, streams, is_encrypted=is_encrypted)
    try:
        with _open_document(reading) as document:
            pages = len(document)
            loaded = _load_pages(document, deadline) if streams.largest <= _PAGE_CONTENT_MOST else 0
    except Corrupt:
        if not streams.can_be_shown:
            raise
        pages, loaded = streams.pages, 0  # one reader out of two suffices
    measures = {
        "pages": pages,
        "pages_loaded": loaded,
        "content_unread": streams.unread,
        "streams_damaged": len(streams.damaged),
    }
    if has_content_beside or not 0 < loaded == pages <= _JUDGED_PAGES_MOST or streams.most_pixels > _PIXELS_MOST:
        return Examination(measures, measured=sheet)
    return Examination(measures, lambda: _blank(reading, limits, streams.object_seconds), sheet)


def _blank(reading: PdfReading, limits: Limits, seconds: float) -> str | None:
    deadline = Deadline(limits.soft_seconds)
    try:
        with reading.qpdf() as pdf, _open_document(reading) as document:
            pages = len(document)
            if not is_blank(document, deadline, seconds, PageLoads(pdf, deadline).seconds):
                return None
    except pikepdf.PikepdfError:
        return None  # what it takes to draw the pages is not known
    return "the page shows nothing" if pages == 1 else f"none of the {pages} pages shows anything"


def _read_with_qpdf(
    reading: PdfReading, limits: Limits, deadline: Deadline, sheet: FactSheet
) -> tuple[StreamSummary, bool, bool]:
    """Return the streams, whether the document is encrypted, and whether readers show more than its pages."""
    # All of it is empty if qpdf does not open the file: other readers may.
    try:
        with reading.qpdf() as pdf:
            refuse_multiplied_drawings(pdf, deadline)
            streams = check_streams(pdf, limits, deadline)
            streams.object_seconds = object_seconds(pdf, streams.most_pixels, deadline)
            collect(pdf, reading, deadline, sheet)
            return streams, pdf.is_encrypted, has_content_beside_pages(pdf)
    except pikepdf.PasswordError as error:
        raise Encrypted("the document is protected by a password") from error
    except (pikepdf.PikepdfError, ValueError):  # numbers beyond 64 bits are a `ValueError`
        return StreamSummary(), False, False


def _refuse_damage(data: bytes, streams: StreamSummary, *, is_encrypted: bool) -> None:
    hole = find_hole(data, is_encrypted=is_encrypted)
    if hole is not None:
        raise Corrupt(f"a part of the file is missing: there are only zeros from byte {hole} on")
    lost = lost_bytes(data)
    if lost:
        raise Corrupt(f"a part of the file is missing: {lost} bytes in front of its table of objects")
    if is_text_transfer(data) and (streams.damaged or has_grown_streams(data)):
        raise Corrupt("the file was sent in text mode: every line end in its binary data was changed")
    invalid_words = count_invalid_words(data, _INVALID_WORDS_MOST)
    if invalid_words >= _INVALID_WORDS_MOST or (invalid_words and streams.broken):
        raise Corrupt("the file is damaged: bytes that no PDF has stand between its objects")
    overwritten = find_overwritten_object(data)
    if overwritten is not None:
        raise Corrupt(f"the file is damaged: other bytes stand at byte {overwritten}, where an object begins")
    if streams.is_damaged:
        raise Corrupt(f"{len(streams.damaged)} streams of the document are damaged, the first is {streams.damaged[0]}")


@contextmanager
def _open_document(reading: PdfReading) -> Iterator[pdfium.PdfDocument]:
    with ExitStack() as opened:
        try:
            document = opened.enter_context(reading.pdfium())
        except pdfium.PdfiumError as error:
            code = getattr(error, "err_code", None)
            if code == pdfium_c.FPDF_ERR_PASSWORD:
                raise Encrypted("the document is protected by a password") from error
            if code == pdfium_c.FPDF_ERR_SECURITY:
                raise Encrypted("the document is protected by a scheme that is not known here") from error
            raise Corrupt("the document cannot be opened: its objects do not lead to any page") from error
        yield document


def _load_pages(document: pdfium.PdfDocument, deadline: Deadline) -> int:
    """Load every page and return how many were loaded before the deadline. Raise `Corrupt` for one that cannot be."""
    for index in range(len(document)):
        if deadline.has_passed:
            return index
        try:
            document[index].close()
        except pdfium.PdfiumError as error:
            raise Corrupt(f"page {index + 1} of {len(document)} cannot be loaded") from error
    return len(document)


def _sample() -> bytes:
    content = b"BT /F 24 Tf 20 40 Td (Sluice) Tj ET"
    objects = (
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 120 100]/Contents 4 0 R/Resources<</Font<</F 5 0 R>>>>>>",
        b"<</Length %d>>stream\n%b\nendstream" % (len(content), content),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    )
    body, offsets = b"%PDF-1.4\n", []
    for number, value in enumerate(objects, start=1):
        offsets.append(len(body))
        body += b"%d 0 obj%b endobj\n" % (number, value)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    return body + b"xref\n0 6\n0000000000 65535 f \n%btrailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (
        table,
        len(body),
    )


FORMAT: Final = Format(
    name="pdf",
    family=Family.DOCUMENT,
    content_type="application/pdf",
    extensions=frozenset({"pdf"}),
    begins=(HEADER,),
    begins_within=HEADER_WITHIN,
    matches=lambda source: has_header(source.head),
    match_order=MatchOrder.HEADER_IN_HEAD,
    examine=_examine,
    facts=measure_pdf,
    own_facts=frozenset({"encrypted", "pages", "attachments"}),
    opener=OPENER,
    sample=_sample,
    names=named("PDF", "application/pdf"),
    attachments=attachment_ranges,
)
