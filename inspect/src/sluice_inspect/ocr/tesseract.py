"""Tesseract, by the C interface of its library, in a process that is locked after its models are loaded."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PIL import Image

from sluice_inspect.budget import Deadline
from sluice_inspect.ocr.languages import Installed

_LEVEL_OF_WORDS: Final = "5"
_COLUMNS: Final = 12  # of the table that Tesseract writes
# Of 100. Pages of text have 58 and more on average; print that shines through and drawings are read with up to 37.
_TEXT_CONFIDENCE: Final = 50
_SURE_CONFIDENCE: Final = 60  # a word of another page counts from here
_FIRST_UNSPACED: Final = "\u2e80"  # of the signs of Chinese and Japanese
_LAST_UNSPACED: Final = "\ua4cf"
_CONTINUED: Final = "\ufffe"  # as PDFium writes a hyphen at the end of a line
_Cancel = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int)


@dataclass(frozen=True, slots=True)
class Recognised:
    """The text of one page, and how sure Tesseract is of it, of 100."""

    text: str
    words: int
    confidence: int


class Tesseract:
    """The library with the models of some languages, the most frequent first. Raise `OSError` if it does not load."""

    def __init__(self, installed: Installed, names: Sequence[str]) -> None:
        # OpenMP ends the process if it cannot start its threads, and reads this when the library is loaded.
        os.environ["OMP_THREAD_LIMIT"] = "1"
        self._library = library = ctypes.CDLL(str(installed.library))
        pointer, number, text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p
        for name, result, arguments in (
            ("BaseAPICreate", pointer, []),
            ("BaseAPIInit3", number, [pointer, text, text]),
            ("BaseAPISetPageSegMode", None, [pointer, number]),
            ("BaseAPISetImage", None, [pointer, text, number, number, number, number]),
            ("BaseAPISetSourceResolution", None, [pointer, number]),
            ("BaseAPIRecognize", number, [pointer, pointer]),
            ("BaseAPIMeanTextConf", number, [pointer]),
            ("BaseAPIGetTsvText", pointer, [pointer, number]),
            ("BaseAPIClear", None, [pointer]),
            ("DeleteText", None, [pointer]),
            ("MonitorCreate", pointer, []),
            ("MonitorSetCancelFunc", None, [pointer, _Cancel]),
        ):
            function = getattr(library, f"Tess{name}")
            function.restype, function.argtypes = result, arguments
        self._handle = library.TessBaseAPICreate()
        if library.TessBaseAPIInit3(self._handle, os.fsencode(installed.data), "+".join(names).encode()):
            raise OSError(f"Tesseract cannot load its data for {', '.join(names)} in {installed.data}")
        library.TessBaseAPISetPageSegMode(self._handle, 3)  # columns and blocks are found, upright
        self._monitor = library.TessMonitorCreate()

    def read(self, page: Image.Image, dpi: int, deadline: Deadline) -> Recognised | None:
        """Return the text of a grey picture, None if the time is over before it is read."""
        library, handle = self._library, self._handle
        library.TessBaseAPISetImage(handle, page.tobytes(), page.width, page.height, 1, page.width)
        library.TessBaseAPISetSourceResolution(handle, dpi)
        cancel = _Cancel(lambda _data, _words: deadline.has_passed)
        library.TessMonitorSetCancelFunc(self._monitor, cancel)
        try:
            if library.TessBaseAPIRecognize(handle, self._monitor):
                return None
            table = library.TessBaseAPIGetTsvText(handle, 0)
            confidence = library.TessBaseAPIMeanTextConf(handle)
            try:
                lines = lines_of(ctypes.string_at(table).decode(errors="replace"), confidence)
            finally:
                library.TessDeleteText(table)
        finally:
            library.TessBaseAPIClear(handle)
        return Recognised(joined(lines), sum(map(len, lines)), confidence)


def lines_of(table: str, confidence: int) -> list[list[str]]:
    """Return the words of each line of the table that Tesseract writes of a page, of which it is so sure."""
    least = 0 if confidence >= _TEXT_CONFIDENCE else _SURE_CONFIDENCE
    lines: dict[tuple[str, ...], list[str]] = {}
    for row in table.splitlines():
        cells = row.split("\t")
        if len(cells) == _COLUMNS and cells[0] == _LEVEL_OF_WORDS and float(cells[10]) >= least:
            lines.setdefault(tuple(cells[1:5]), []).append(cells[11])
    return [words for words in lines.values() if "".join(words).strip()]


def joined(lines: Sequence[Sequence[str]]) -> str:
    """Return the text of the lines, with words that are hyphenated at the end of a line joined."""
    text = ""
    for words in lines:
        line = ""
        for word in words:
            line += word if not line or (_is_unspaced(line[-1]) and _is_unspaced(word[:1])) else f" {word}"
        if text[-1:] == "-" and text[-2:-1].isalpha() and line[:1].islower():
            text = f"{text[:-1]}{_CONTINUED}"
        text += f"\n{line}" if text else line
    return text


def _is_unspaced(sign: str) -> bool:
    return _FIRST_UNSPACED <= sign <= _LAST_UNSPACED
