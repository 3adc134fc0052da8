"""The blank rule of PDF: the pages are rendered with PDFium; does a reader see anything on them?"""
# Hidden layers, and clipped, covered and white objects show nothing. Text in fonts that are not installed here counts
# as ink: its readers may have them.

from __future__ import annotations

import codecs
import ctypes
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as pdfium_c

from sluice_inspect.budget import Deadline
from sluice_inspect.images.blank import NOISE_MAX, is_empty_scan, picture_is_blank
from sluice_inspect.text.plaintext import INVISIBLE

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

codecs.lookup("utf-16-le")  # load it now: the sandbox that runs this later has no file system

_Pixels: TypeAlias = "NDArray[np.uint8]"  # rows, columns and, in colour, channels

_SMALL_SIDE: Final = 300  # pixels of the longer side of the first, quick render
_SIDE: Final = 1200
_LARGE_PAGE: Final = 1500.0  # points of the longer side from which the second render has twice the side
_HUGE_PAGE: Final = 4000.0  # points from which small objects may fall between the pixels: with any, it is not blank
_FINE: Final = 2.5  # how many times finer than the second render a picture is that is also judged at its own size
_MIDDLE_SIDE: Final = 256  # pixels of its middle
_PATCH: Final = 16
_CONTRAST: Final = 60  # levels off the background that are not the noise of a scan
_CONTRAST_PIXELS: Final = 24
_FAINT: Final = 3  # levels off the background that are content on a page without pictures, which has no noise
_SCANS_MOST: Final = 8  # pages of a document that are modelled as scans, some 0.2 s each
_WHITE: Final = 250
_OBJECTS_MOST: Final = 2000
_LEVELS: Final = 5  # of drawings within each other in which objects are counted
_DRAWN_SECONDS: Final = 3.0  # of a page
_ZOOMED_MOST: Final = 16  # texts of a page that are drawn larger
_ZOOMED_SIDE: Final = 400.0  # pixels of the longer side
_MOST_SCALE: Final = 64.0  # what viewers offer
_NO_CHARACTER: Final = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0)))) - frozenset("\t\r\n")
_LATIN_END: Final = "\u024f"  # PDFium brings fonts of its own for letters up to here
_PAGE_NUMBER: Final = re.compile(
    r"[\s\-–—|.]*(?:page|p\.|seite|página|pagina|pág\.|strana|sida|side|stranica|страница|第)?\s*(\d{1,4})"
    r"\s*(?:(?:/|of|von|de|sur|di|av|z|из)\s*\d{1,4})?\s*页?[\s\-–—|.]*",
    re.IGNORECASE,
)
_FOOT: Final = 0.1  # share of a page's height at its top and bottom where page numbers are


def is_blank(
    document: pdfium.PdfDocument, deadline: Deadline, object_seconds: float, page_seconds: Callable[[int], float]
) -> bool:
    """Return whether no page shows anything but its number; False if the deadline passes before all are rendered.

    A page that may take too long, at `object_seconds` for each object or by its `page_seconds`, is taken for one with
    content and not drawn.
    """
    document.init_forms()
    for index in range(len(document)):
        if deadline.has_passed:
            return False
        page = document[index]
        try:
            if _has_content(page, index, object_seconds, page_seconds):
                return False
        finally:
            page.close()
    return True


def _has_content(page: pdfium.PdfPage, index: int, object_seconds: float, page_seconds: Callable[[int], float]) -> bool:
    objects, number = [], index + 1
    for item in page.get_objects(max_depth=_LEVELS):
        objects.append(item)
        if len(objects) > _OBJECTS_MOST:
            return True
    has_notes = pdfium_c.FPDFPage_GetAnnotCount(page) > 0
    if not objects and not has_notes:
        return False
    types = {item.type for item in objects}
    is_counted = not has_notes and not any(
        item.type == pdfium_c.FPDF_PAGEOBJ_FORM and item.level >= _LEVELS - 1 for item in objects
    )
    if object_seconds > 0 and object_seconds * (len(objects) if is_counted else _OBJECTS_MOST) > _DRAWN_SECONDS:
        return True
    if page_seconds(index) > _DRAWN_SECONDS:
        return True
    if not has_notes and types == {pdfium_c.FPDF_PAGEOBJ_TEXT} and _is_page_number(page, number):
        return False
    # A scan, and what was read from it.
    scanned = {pdfium_c.FPDF_PAGEOBJ_IMAGE, pdfium_c.FPDF_PAGEOBJ_TEXT, pdfium_c.FPDF_PAGEOBJ_FORM}
    is_scan = number <= _SCANS_MOST and pdfium_c.FPDF_PAGEOBJ_IMAGE in types and types <= scanned
    pictures = [item for item in objects if isinstance(item, pdfium.PdfImage)]
    if _is_drawn(page, pictures, is_scan=is_scan and not has_notes):
        return True
    if max(page.get_size()) > _HUGE_PAGE and objects:
        return True
    return _has_text_without_font(page, objects) or _has_small_text(page)


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


def _is_drawn(page: pdfium.PdfPage, pictures: list[pdfium.PdfImage], *, is_scan: bool) -> bool:
    longer = max(*page.get_size(), 1.0)
    if _has_contrast(_render(page, _SMALL_SIDE / longer, grayscale=True)):
        return not (is_scan and _is_empty_scan(page, _SIDE / longer))
    scale = (2 if longer > _LARGE_PAGE else 1) * _SIDE / longer
    if not pictures:
        # Without noise, any pixel that differs from the first is ink.
        pixels = _render(page, scale)
        off = np.maximum(pixels, pixels[0, 0]) - np.minimum(pixels, pixels[0, 0]) if pixels.size else pixels
        return int(off.max(initial=0)) > _FAINT
    if any(_is_rough(page, picture) for picture in pictures):
        return True
    bitmap = page.render(scale=scale)
    try:
        return not picture_is_blank(_without_equal_channels(bitmap.to_pil()), is_page=True, is_scan=is_scan)
    finally:
        bitmap.close()


def _is_empty_scan(page: pdfium.PdfPage, scale: float) -> bool:
    bitmap = page.render(scale=scale)
    try:
        return is_empty_scan(_without_equal_channels(bitmap.to_pil()), is_page=True)
    finally:
        bitmap.close()


def _without_equal_channels(page: Image.Image) -> Image.Image:
    """Return a grey page, which is rendered in three equal channels, with one: it takes a third of the time."""
    if page.mode != "RGB":
        return page
    pixels = np.asarray(page)
    is_grey = np.array_equal(pixels[..., 0], pixels[..., 1]) and np.array_equal(pixels[..., 1], pixels[..., 2])
    return page.getchannel(0) if is_grey else page


def _render(page: pdfium.PdfPage, scale: float, *, grayscale: bool = False) -> _Pixels:
    """Render a page without its outermost pixels, into which shapes over the edge blend."""
    bitmap = page.render(scale=scale, grayscale=grayscale)
    try:
        pixels: _Pixels = np.array(bitmap.to_numpy()[1:-1, 1:-1])
    finally:
        bitmap.close()
    return pixels


def _is_rough(page: pdfium.PdfPage, image: pdfium.PdfImage) -> bool:
    """Return whether the middle of a picture, at its own size, is rougher than any paper: a page averages that out."""
    left, bottom, right, top = image.get_bounds()
    longer = max(right - left, top - bottom)
    scale = min(max(image.get_px_size()) / longer, _MOST_SCALE) if longer > 0 else 0.0
    if scale * max(page.get_size()) < _FINE * _SIDE:
        return False
    half = _MIDDLE_SIDE / 2 / scale
    x, y, (width, height) = (left + right) / 2, (bottom + top) / 2, page.get_size()
    edges = x - half, y - half, width - x - half, height - y - half
    if min(edges) < 0:
        return False
    bitmap = page.render(scale=scale, crop=edges, grayscale=True)
    try:
        pixels = np.array(bitmap.to_numpy()[:, :, 0] if bitmap.to_numpy().ndim == 3 else bitmap.to_numpy())
    finally:
        bitmap.close()
    rows, columns = (side // _PATCH for side in pixels.shape)
    patches = pixels[: rows * _PATCH, : columns * _PATCH].reshape(rows, _PATCH, columns, _PATCH)
    return bool(patches.size) and float(np.median(patches.std(axis=(1, 3)))) > NOISE_MAX


def _has_contrast(pixels: _Pixels) -> bool:
    """Return whether more pixels are far off the most common brightness than scanners leave on an empty page."""
    if not pixels.size:
        return False
    counts = np.bincount(pixels.reshape(-1), minlength=256)
    background = int(counts.argmax())
    near = counts[max(0, background - _CONTRAST) : background + _CONTRAST + 1].sum()
    return int(pixels.size - near) >= _CONTRAST_PIXELS


def _has_small_text(page: pdfium.PdfPage) -> bool:
    """Return whether a text changes the page where it stands, drawn as large as readers can make it."""
    # At the scale of a page a word may be smaller than a pixel, or fainter than the noise of the picture under it.
    width, height = page.get_size()
    texts, views = [], []
    for item in page.get_objects(max_depth=1):
        if item.type == pdfium_c.FPDF_PAGEOBJ_TEXT and _is_meant_to_show(item, page):
            left, bottom, right, top = item.get_bounds()
            edges = max(left - 1, 0.0), max(bottom - 1, 0.0), max(width - right - 1, 0.0), max(height - top - 1, 0.0)
            shown = width - edges[0] - edges[2], height - edges[1] - edges[3]
            if min(shown) > 0:
                texts.append(item)
                views.append((edges, min(_MOST_SCALE, _ZOOMED_SIDE / max(shown))))
        if len(texts) >= _ZOOMED_MOST:
            break
    before = [_render_part(page, *view) for view in views]
    for item in texts:
        page.remove_obj(item)
    return any(
        bool((np.maximum(with_text, without) - np.minimum(with_text, without) > _FAINT).any())
        for with_text, without in zip(before, (_render_part(page, *view) for view in views), strict=True)
    )


def _render_part(page: pdfium.PdfPage, edges: tuple[float, float, float, float], scale: float) -> _Pixels:
    bitmap = page.render(scale=scale, crop=edges)
    try:
        pixels: _Pixels = np.array(bitmap.to_numpy())
    finally:
        bitmap.close()
    return pixels


def _has_text_without_font(page: pdfium.PdfPage, objects: list[pdfium.PdfObject]) -> bool:
    texts = [item for item in objects if item.type == pdfium_c.FPDF_PAGEOBJ_TEXT and _is_meant_to_show(item, page)]
    if not texts:
        return False
    text_page = page.get_textpage()
    try:
        return any(_needs_other_font(text, text_page) for text in texts)
    finally:
        text_page.close()


def _is_meant_to_show(text: pdfium.PdfObject, page: pdfium.PdfPage) -> bool:
    """Return whether a text object is on the page, drawn, and not white."""
    invisible = (pdfium_c.FPDF_TEXTRENDERMODE_INVISIBLE, pdfium_c.FPDF_TEXTRENDERMODE_CLIP)
    if pdfium_c.FPDFTextObj_GetTextRenderMode(text) in invisible:
        return False
    red, green, blue, alpha = (ctypes.c_uint() for _ in range(4))
    if pdfium_c.FPDFPageObj_GetFillColor(text, red, green, blue, alpha) and (
        alpha.value == 0 or min(red.value, green.value, blue.value) >= _WHITE
    ):
        return False
    left, bottom, right, top = text.get_bounds()
    width, height = page.get_size()
    return bool(right >= 0 and top >= 0 and left <= width and bottom <= height)


def _needs_other_font(text: pdfium.PdfObject, text_page: pdfium.PdfTextPage) -> bool:
    font = pdfium_c.FPDFTextObj_GetFont(text)
    if not font or pdfium_c.FPDFFont_GetIsEmbedded(font) == 1:
        return False
    size = pdfium_c.FPDFTextObj_GetText(text, text_page, None, 0)
    buffer = ctypes.create_string_buffer(size + 2)
    pdfium_c.FPDFTextObj_GetText(text, text_page, ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)), size)
    letters = buffer.raw[:size].decode("utf-16-le", "ignore").strip("\0")
    # Where the font's encoding names no characters, some were written all the same.
    return not letters or any(letter > _LATIN_END or letter in _NO_CHARACTER for letter in letters)
