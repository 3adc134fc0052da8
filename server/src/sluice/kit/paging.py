"""Pages of a list: numbered as in the interface, or continued from a row as in the console."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The requested page, from 1 on, and the items per page."""

    page: int
    page_size: int

    @property
    def offset(self) -> int:
        """The number of items before this page."""
        return (self.page - 1) * self.page_size


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """The items of one page, and the total number of items."""

    items: tuple[T, ...]
    request: PageRequest
    total: int

    @property
    def total_pages(self) -> int:
        """The number of pages; 0 when there are no items."""
        return -(-self.total // self.request.page_size)


@dataclass(frozen=True, slots=True)
class SliceRequest:
    """The rows of a list, newest first: those after the id `before`, or before the id `after`; None: the newest.

    Whatever the place in the list, such rows cost one descent of an index.
    """

    size: int
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Slice(Generic[T]):
    """Some rows of a list, newest first, and whether there are newer and older ones."""

    items: tuple[T, ...]
    has_newer: bool
    has_older: bool
