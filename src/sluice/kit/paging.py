"""Pages of a list, as the interface numbers them. How a noun is listed lives in its repository."""

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which page is asked for, from 1 on, and how many items it holds."""

    page: int
    page_size: int

    @property
    def offset(self) -> int:
        """Items before this page."""
        return (self.page - 1) * self.page_size


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """The items of one page, and how many there are in all."""

    items: tuple[T, ...]
    request: PageRequest
    total: int

    @property
    def total_pages(self) -> int:
        """Pages in all; 0 when there is nothing."""
        return -(-self.total // self.request.page_size)
