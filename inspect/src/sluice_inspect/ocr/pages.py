"""Pictures and scanned pages as OCR reads them: drawn, turned upright, and no more of them than time allows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final

from PIL import Image

from sluice_inspect.budget import Deadline
from sluice_inspect.ocr.languages import find_installed
from sluice_inspect.ocr.tesseract import Recognised, Tesseract
from sluice_inspect.previews.pictures import draw_picture
from sluice_inspect.report import Corrupt, Limits
from sluice_inspect.source import Source
from sluice_inspect.text_questions import OCR_PAGES_MOST

_PAGE_DPI: Final = 200  # with more, Tesseract takes longer and reads no better
_SIDE_MOST: Final = 2400  # of a page of office size
_SIDE_LEAST: Final = 1500  # smaller pictures are doubled: a page of 75 dpi is read with a third of the faults
_SECONDS: Final = 14.0  # of the 20 that a text may take
_SURE: Final = 55  # of 100: a page of less is tried upside down
_FEW: Final = 5  # words, on a picture that shows no text

_loaded: Tesseract | None = None


def load(names: Sequence[str]) -> None:
    """Load the models of languages as Tesseract names them, in a process that is not locked yet. Raise `OSError`."""
    global _loaded  # noqa: PLW0603  (a process loads it once)
    installed = find_installed()
    if installed is None:
        raise OSError("Tesseract or its data is not installed")
    _loaded = Tesseract(installed, names)


def loaded() -> ReadPages | None:
    """Return what reads the pages of one file, None in a process that has no models."""
    return None if _loaded is None else ReadPages(_loaded)


class ReadPages:
    """Reads pictures and pages of one file by OCR. `pages` counts them; `is_cut`: some were left out."""

    def __init__(self, engine: Tesseract) -> None:
        self._engine = engine
        self._deadline = Deadline(_SECONDS)
        self.pages = 0
        self.is_cut = False

    def read_picture(self, source: Source, format_name: str, limits: Limits) -> str:
        """Return the text of a picture, or of all pages of a TIFF. Raise an `InspectionError` if it cannot be drawn."""
        parts: list[str] = []
        for number in itertools.count():
            if not self._has_time():
                break
            try:
                picture = draw_picture(source, format_name, _SIDE_MOST, limits, frame=number).convert("L")
            except Corrupt:
                if number == 0:
                    raise
                break  # there are no more pages
            if max(picture.size) < _SIDE_LEAST:
                picture = picture.resize((2 * picture.width, 2 * picture.height), Image.Resampling.BICUBIC)
            parts.append(self._read(picture, _PAGE_DPI))
            if format_name != "tiff":
                break
        return "\n".join(parts)

    def read_page(self, page: Any) -> str:
        """Return the text of a page of PDFium."""
        longer = max(page.get_size())
        if longer <= 0 or not self._has_time():
            return ""
        dpi = min(_PAGE_DPI, 72 * _SIDE_MOST / longer)
        bitmap = page.render(scale=dpi / 72, grayscale=True)
        try:
            return self._read(bitmap.to_pil().convert("L"), round(dpi))
        finally:
            bitmap.close()

    def _has_time(self) -> bool:
        if self.pages < OCR_PAGES_MOST and not self._deadline.has_passed:
            return True
        self.is_cut = True
        return False

    def _read(self, page: Image.Image, dpi: int) -> str:
        self.pages += 1
        found = self._engine.read(page, dpi, self._deadline)
        if found is None:
            self.is_cut = True
            return ""
        if found.confidence < _SURE and found.words >= _FEW:
            turned = self._engine.read(page.transpose(Image.Transpose.ROTATE_180), dpi, self._deadline)
            found = max(found, turned or found, key=_confidence)
        return found.text


def _confidence(found: Recognised) -> int:
    return found.confidence
