"""How much of a document is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Extent:
    """The most that is read of one document; what is behind it is left out.

    `markup_bytes` are those of web pages and mails, whose text may come late; `pages` are also slides; `cells` are of a
    row. `has_margins`: headers, footers and notes are read too.
    """

    characters: int
    markup_bytes: int
    pages: int
    sheets: int
    rows: int
    cells: int
    has_margins: bool


BEGINNING: Final = Extent(
    characters=12_000,  # more than the largest drawn page holds
    markup_bytes=512 * 1024,
    pages=20,
    sheets=5,
    rows=120,
    cells=40,
    has_margins=False,
)
