"""Looks at the pages of a PDF with PDFium: does a reader see anything? Whether the file is sound is judged before, elsewhere.

What a render shows decides: hidden layers, clipped, covered and white things are not seen. The exception is text in fonts that this
machine has not: its readers may have them.
"""

import codecs
import ctypes
import re
from collections.abc import Iterator
from typing import Final

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c
from numpy.typing import NDArray

from sluice.formats.budget import Deadline
from sluice.formats.images.pictures import picture_is_blank
from sluice.formats.text.plaintext import INVISIBLE

codecs.lookup("utf-16-le")  # loaded now: the sandbox that runs this later has no file system

_Pixels = NDArray[np.uint8]
"""Rows, columns and, in colour, channels."""

_SMALL_SIDE: Final = 300
"""Pixels of the longer side of the first, quick render."""
_SIDE: Final = 1200
_LARGE_PAGE: Final = 1500.0
"""Points of the longer side of a page from which the second render has twice the side."""
_HUGE_PAGE: Final = 4000.0
"""Points from which small things may fall between the pixels: a page with any is not blank."""
_CONTRAST: Final = 60
"""Levels off the background that are no noise of a scan."""
_CONTRAST_PIXELS: Final = 24
_FAINT: Final = 3
"""Levels off the background that are content on a page without pictures, which has no noise."""
_WHITE: Final = 250
_OBJECTS_MOST: Final = 2000
_INVISIBLE_MODES: Final = frozenset({pdfium_c.FPDF_TEXTRENDERMODE_INVISIBLE, pdfium_c.FPDF_TEXTRENDERMODE_CLIP})
_LATIN_END: Final = "\u024f"
"""PDFium brings fonts of its own for letters up to here."""

_PAGE_NUMBER: Final = re.compile(
    r"[\s\-–—|.]*(?:page|p\.|seite|página|pagina|pág\.|strana|sida|side|stranica|страница|第)?\s*(\d{1,4})\s*(?:(?:/|of|von|de|sur|di|av|z|из)\s*\d{1,4})?\s*页?[\s\-–—|.]*",
    re.IGNORECASE,
)
_FOOT: Final = 0.1
"""Share of a page's height at its top and bottom where page numbers stand."""


def shows_nothing(document: pdfium.PdfDocument, deadline: Deadline) -> bool:
    """Whether every page was looked at and none shows anything but its number. Past the deadline: False."""
    document.init_forms()
    for index in range(len(document)):
        if deadline.has_passed:
            return False
        page = document[index]
        try:
            if _shows_something(page, index + 1):
                return False
        finally:
            page.close()
    return True


def _shows_something(page: pdfium.PdfPage, number: int) -> bool:
    objects = []
    for thing in page.get_objects(max_depth=5):
        objects.append(thing)
        if len(objects) > _OBJECTS_MOST:
            return True
    has_notes = pdfium_c.FPDFPage_GetAnnotCount(page) > 0
    if not objects and not has_notes:
        return False
    kinds = {thing.type for thing in objects}
    if not has_notes and kinds == {pdfium_c.FPDF_PAGEOBJ_TEXT} and _is_page_number(page, number):
        return False
    if _render_shows(page, has_pictures=pdfium_c.FPDF_PAGEOBJ_IMAGE in kinds):
        return True
    if max(page.get_size()) > _HUGE_PAGE and objects:
        return True
    return _has_text_without_font(page, objects)


def _is_page_number(page: pdfium.PdfPage, number: int) -> bool:
    text_page = page.get_textpage()
    try:
        match = _PAGE_NUMBER.fullmatch(text_page.get_text_range().strip(INVISIBLE))
        if match is None or int(match.group(1)) != number:
            return False
        height = page.get_height()
        boxes = (text_page.get_charbox(index) for index in range(text_page.count_chars()))
        return all(top <= height * _FOOT or bottom >= height * (1 - _FOOT) for _, bottom, _, top in boxes)
    finally:
        text_page.close()


def _render_shows(page: pdfium.PdfPage, *, has_pictures: bool) -> bool:
    longer = max(*page.get_size(), 1.0)
    if _has_contrast(_render(page, _SMALL_SIDE / longer, grayscale=True)):
        return True
    scale = (2 if longer > _LARGE_PAGE else 1) * _SIDE / longer
    if not has_pictures:
        return _has_spread(_render(page, scale))
    bitmap = page.render(scale=scale)
    try:
        return not picture_is_blank(bitmap.to_pil())
    finally:
        bitmap.close()


def _render(page: pdfium.PdfPage, scale: float, *, grayscale: bool = False) -> _Pixels:
    """Answer the page without its outermost pixels, into which shapes over the edge blend."""
    bitmap = page.render(scale=scale, grayscale=grayscale)
    try:
        pixels: _Pixels = np.array(bitmap.to_numpy()[1:-1, 1:-1])
    finally:
        bitmap.close()
    return pixels


def _has_contrast(pixels: _Pixels) -> bool:
    """Whether enough pixels are far off the most usual brightness: more than scanners leave on an empty page."""
    if not pixels.size:
        return False
    counts = np.bincount(pixels.reshape(-1), minlength=256)
    background = int(counts.argmax())
    near = counts[max(0, background - _CONTRAST) : background + _CONTRAST + 1].sum()
    return int(pixels.size - near) >= _CONTRAST_PIXELS


def _has_spread(pixels: _Pixels) -> bool:
    """Whether any pixel differs from the first, on a page that has no noise."""
    if not pixels.size:
        return False
    off = np.maximum(pixels, pixels[0, 0]) - np.minimum(pixels, pixels[0, 0])
    return int(off.max()) > _FAINT


def _has_text_without_font(page: pdfium.PdfPage, objects: list[pdfium.PdfObject]) -> bool:
    texts = [thing for thing in objects if thing.type == pdfium_c.FPDF_PAGEOBJ_TEXT and _should_be_seen(thing, page)]
    if not texts:
        return False
    text_page = page.get_textpage()
    try:
        return any(_is_unknown_here(thing, text_page) for thing in texts)
    finally:
        text_page.close()


def _should_be_seen(text: pdfium.PdfObject, page: pdfium.PdfPage) -> bool:
    """Whether a text object is meant to be seen: on the page, drawn, and not white."""
    if pdfium_c.FPDFTextObj_GetTextRenderMode(text) in _INVISIBLE_MODES:
        return False
    red, green, blue, alpha = (ctypes.c_uint() for _ in range(4))
    if pdfium_c.FPDFPageObj_GetFillColor(text, red, green, blue, alpha) and (
        alpha.value == 0 or min(red.value, green.value, blue.value) >= _WHITE
    ):
        return False
    left, bottom, right, top = text.get_bounds()
    width, height = page.get_size()
    return bool(right >= 0 and top >= 0 and left <= width and bottom <= height)


def _is_unknown_here(text: pdfium.PdfObject, text_page: pdfium.PdfTextPage) -> bool:
    font = pdfium_c.FPDFTextObj_GetFont(text)
    if not font or pdfium_c.FPDFFont_GetIsEmbedded(font) == 1:
        return False
    return any(letter > _LATIN_END for letter in _letters(text, text_page))


def _letters(text: pdfium.PdfObject, text_page: pdfium.PdfTextPage) -> Iterator[str]:
    size = pdfium_c.FPDFTextObj_GetText(text, text_page, None, 0)
    buffer = ctypes.create_string_buffer(size + 2)
    pdfium_c.FPDFTextObj_GetText(text, text_page, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    yield from buffer.raw[:size].decode("utf-16-le", "ignore").strip("\0")
