"""How much unpacking one scan may cost, counted while bytes come: sizes that headers claim are not trusted."""

from dataclasses import dataclass
from typing import Final

_MIB: Final = 1024**2


class OverBudget(Exception):
    """Scanning all of it would cost more than the budget. `str()` is one sentence that names the limit."""


class BufferFull(OverBudget):
    """The shared buffer has no room for another part."""


@dataclass(frozen=True, slots=True)
class ScanBudget:
    """Limits of one scan. `max_held_bytes` is memory for what must be read in any order: archives within archives."""

    max_unpacked_bytes: int = 2 * 1024 * _MIB
    max_ratio: int = (
        200  # unpacked to packed bytes, from `ratio_floor_bytes` of output on: small files compress well honestly
    )
    ratio_floor_bytes: int = 64 * _MIB
    max_members: int = 100_000
    max_depth: int = 16
    max_held_bytes: int = 128 * _MIB


class Meter:
    """Counts the cost of one scan, over all levels of nesting together."""

    def __init__(self, budget: ScanBudget, packed_bytes: int) -> None:
        self.budget = budget
        self.members = 0
        self.unpacked_bytes = 0
        self.depth = 0
        self._packed_bytes = packed_bytes
        self._held_bytes = 0

    def count_member(self) -> None:
        """Count one unpacked member. Raise `OverBudget` if there are too many."""
        self.members += 1
        if self.members > self.budget.max_members:
            raise OverBudget(f"more than {self.budget.max_members} members")

    def count_bytes(self, count: int) -> None:
        """Count unpacked bytes. Raise `OverBudget` if they are too many, or too many for the size of the file."""
        self.unpacked_bytes += count
        if self.unpacked_bytes > self.budget.max_unpacked_bytes:
            raise OverBudget(f"unpacks to more than {self.budget.max_unpacked_bytes} bytes")
        past_floor = self.unpacked_bytes > self.budget.ratio_floor_bytes
        if past_floor and self.unpacked_bytes > self._packed_bytes * self.budget.max_ratio:
            raise OverBudget(f"unpacks to more than {self.budget.max_ratio} times its size")

    def deeper(self, depth: int) -> int:
        """Return the level below `depth`. Raise `OverBudget` if it is too deep."""
        if depth >= self.budget.max_depth:
            raise OverBudget(f"nested more than {self.budget.max_depth} levels deep")
        self.depth = max(self.depth, depth + 1)
        return depth + 1

    def reserve(self, count: int) -> bool:
        """Reserve memory for `count` more bytes. Return whether there was enough."""
        if self._held_bytes + count > self.budget.max_held_bytes:
            return False
        self._held_bytes += count
        return True

    def release(self, count: int) -> None:
        """Release reserved memory."""
        self._held_bytes -= count
