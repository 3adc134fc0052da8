"""How much of a document is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from sluice_inspect.report import Limits
from sluice_inspect.source import Source


class ReadsPictures(Protocol):
    """Reads the text of pictures and of scanned pages of one file, as many as it has time for."""

    def read_picture(self, source: Source, format_name: str, limits: Limits) -> str:
        """Return the text of a picture. Raise an `InspectionError` if it cannot be drawn."""

    def read_page(self, page: Any) -> str:
        """Return the text of a page of PDFium."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The most that is read of one document; what is behind it is left out.

    `markup_bytes` are those of web pages and mails, whose text may come late; `pages` are also slides; `cells` are of a
    row. `has_margins`: headers, footers and notes are read too. Without `pictures`, those are not read.
    """

    characters: int
    markup_bytes: int
    pages: int
    sheets: int
    rows: int
    cells: int
    has_margins: bool
    pictures: ReadsPictures | None = None


BEGINNING: Final = Extent(
    characters=12_000,  # more than the largest drawn page holds
    markup_bytes=512 * 1024,
    pages=20,
    sheets=5,
    rows=120,
    cells=40,
    has_margins=False,
)
