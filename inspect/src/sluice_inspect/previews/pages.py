"""The first page of a PDF in small, with its form fields and annotations, on white."""
# PDFium runs no scripts here, follows no links and opens no other file: it has no code for the first, and the worker
# has no file system and no network.

from __future__ import annotations

from typing import Final

import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from PIL import Image

from sluice_inspect.formats.pdf.reading import PdfReading
from sluice_inspect.report import Corrupt, Encrypted, TooComplex
from sluice_inspect.source import Source

_LOCKED: Final = frozenset({pdfium_c.FPDF_ERR_PASSWORD, pdfium_c.FPDF_ERR_SECURITY})
_LESS: Final = 0.01  # pixels of the longer side, so that the number that PDFium rounds up is not one more


def draw_page(source: Source, side: int) -> Image.Image:
    """Return the first page, its longer side of `side` pixels. Raise an `InspectionError` if it cannot be drawn."""
    reading = source.cached(PdfReading)
    if reading.is_costly:
        raise TooComplex("searching for the ends of the document's streams takes too long")
    try:
        with reading.pdfium() as document:
            document.init_forms()
            return _render(document[0], side)
    except pdfium.PdfiumError as error:
        if getattr(error, "err_code", None) in _LOCKED:
            raise Encrypted("the document is protected by a password") from error
        raise Corrupt("the first page of the document cannot be loaded") from error
    except IndexError as error:
        raise Corrupt("the document has no page") from error


def _render(page: pdfium.PdfPage, side: int) -> Image.Image:
    longer = max(page.get_size())
    if longer <= 0:
        raise Corrupt("the first page of the document has no size")
    bitmap = page.render(scale=(side - _LESS) / longer, fill_color=(255, 255, 255, 255), rev_byteorder=True)
    try:
        drawn: Image.Image = bitmap.to_pil()
        return drawn.convert("RGB")  # a copy, which does not need the bitmap
    finally:
        bitmap.close()
