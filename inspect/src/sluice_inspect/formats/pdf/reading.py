"""A PDF as its readers have it open: the check of the format, its facts and the scan share it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Final

import pikepdf
import pypdfium2 as pdfium

from sluice_inspect.formats.pdf.repair import repair_is_costly
from sluice_inspect.source import RandomAccess, RandomAccessReader

_IN_MEMORY: Final = 128 * 1024**2  # a larger file is read in pieces by the libraries
_KEPT_OPEN: Final = 8 * 1024**2  # a larger file is closed after each use: its objects take too much memory
_BUFFER_BYTES: Final = 64 * 1024


class PdfReading:
    """One document, opened when it is first needed. `Source.cached` keeps it, and `Source.forget` closes it."""

    def __init__(self, source: RandomAccess) -> None:
        self._source = source
        self._qpdf: pikepdf.Pdf | Exception | None = None
        self._pdfium: pdfium.PdfDocument | None = None
        # What qpdf says of damaged tables and objects. It warns of streams when they are read.
        self.object_warnings: list[str] = []

    @cached_property
    def is_costly(self) -> bool:
        """Whether readers would search the document over and over for the ends of its streams."""
        return repair_is_costly(self._source)

    @cached_property
    def data(self) -> bytes | None:
        """All bytes, None of a file that is too large to be held."""
        return self._source.read_at(0, self._source.size) if self._source.size <= _IN_MEMORY else None

    @contextmanager
    def qpdf(self) -> Iterator[pikepdf.Pdf]:
        """Open the document with qpdf. Raise what `pikepdf.open` raises."""
        if self._qpdf is None:
            try:
                self._qpdf = self._open()
            except Exception as error:
                self._qpdf = error
                raise
        elif isinstance(self._qpdf, Exception):
            raise self._qpdf
        try:
            yield self._qpdf
        finally:
            if self._source.size > _KEPT_OPEN:
                self._close_qpdf()

    def _open(self) -> pikepdf.Pdf:
        pdf = pikepdf.open(self._file(), suppress_warnings=True)
        with contextlib.suppress(pikepdf.PikepdfError, ValueError, TypeError, AttributeError, RuntimeError):
            pdf.objects  # noqa: B018  (it reads all objects, and warns of those that are damaged)
        self.object_warnings = [str(warning) for warning in pdf.get_warnings()]
        return pdf

    def _file(self) -> io.BytesIO | io.BufferedReader:
        if self.data is not None:
            return io.BytesIO(self.data)
        return io.BufferedReader(RandomAccessReader(self._source.read_at, self._source.size), _BUFFER_BYTES)

    @contextmanager
    def pdfium(self) -> Iterator[pdfium.PdfDocument]:
        """Open the document with PDFium. Raise `PdfiumError` if that fails."""
        if self._pdfium is None:
            self._pdfium = pdfium.PdfDocument(self.data if self.data is not None else self._file())
        try:
            yield self._pdfium
        finally:
            if self._source.size > _KEPT_OPEN:
                self._close_pdfium()

    def close(self) -> None:
        """Close the document in all readers."""
        self._close_qpdf()
        self._close_pdfium()

    def _close_qpdf(self) -> None:
        if isinstance(self._qpdf, pikepdf.Pdf):
            self._qpdf.close()
            self._qpdf = None

    def _close_pdfium(self) -> None:
        if self._pdfium is not None:
            self._pdfium.close()
            self._pdfium = None
