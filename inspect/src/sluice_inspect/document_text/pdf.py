"""The text of a PDF, page by page, with what its form fields show. A scanned page has none but by OCR."""

from __future__ import annotations

import contextlib
from typing import Final

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from sluice_inspect.document_text.extent import Extent, ReadsPictures
from sluice_inspect.formats.pdf.reading import PdfReading
from sluice_inspect.report import Corrupt, Encrypted, Limits, TooComplex
from sluice_inspect.source import Source

_LOCKED: Final = frozenset({pdfium_c.FPDF_ERR_PASSWORD, pdfium_c.FPDF_ERR_SECURITY})
_SCAN_WORDS_MOST: Final = 9  # a number, a stamp or a line of the scanner


def pdf_text(source: Source, _limits: Limits, extent: Extent) -> str:
    """Return the text of the first pages. Raise an `InspectionError` if it cannot be read."""
    reading = source.cached(PdfReading)
    if reading.is_costly:
        raise TooComplex("searching for the ends of the document's streams takes too long")
    parts, left = list[str](), extent.characters
    try:
        with reading.pdfium() as document:
            has_form = document.get_formtype() != pdfium_c.FORMTYPE_NONE
            if has_form:
                document.init_forms()
            for number in range(min(len(document), extent.pages)):
                if has_form:
                    _write_fields(document[number])
                parts.append(_page_text(document[number], left, extent.pictures))
                left -= len(parts[-1])
                if left <= 0:
                    break
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) in _LOCKED:
            raise Encrypted("the document is protected by a password") from error
        raise Corrupt("a page of the document cannot be loaded") from error
    return "\n".join(parts)


def _write_fields(page: pdfium.PdfPage) -> None:
    """Make what form fields and annotations show a part of the page, in memory; one that cannot be keeps the rest."""
    try:
        with contextlib.suppress(pdfium.PdfiumError):
            page.flatten()
    finally:
        page.close()


def _page_text(page: pdfium.PdfPage, most: int, pictures: ReadsPictures | None) -> str:
    try:
        letters = page.get_textpage()
        try:
            found: str = letters.get_text_range(0, min(letters.count_chars(), most))
        finally:
            letters.close()
        words = len(found.split())
        if pictures is None or words > _SCAN_WORDS_MOST or not _shows_more(page):
            return found
        seen = pictures.read_page(page)
        return seen if len(seen.split()) > words else found
    finally:
        page.close()


def _shows_more(page: pdfium.PdfPage) -> bool:
    """Return whether anything but text is drawn on a page."""
    return any(each.type != pdfium_c.FPDF_PAGEOBJ_TEXT for each in page.get_objects(max_depth=1))
