"""How much unpacking one scan may cost, and the meter that counts it while the bytes come. Sizes claimed by headers are never believed."""

from dataclasses import dataclass
from typing import Final

_MIB: Final = 1024**2


class OverBudget(Exception):
    """Looking at all of it would cost more than the budget. `str()` is one sentence that names the limit."""


class NoRoom(OverBudget):
    """There is no room left to lay parts out."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of one scan. `max_held_bytes` is memory for what must be read in any order: archives within archives."""

    max_unpacked_bytes: int = 2 * 1024 * _MIB
    max_ratio: int = 200
    """Unpacked to packed bytes, judged only from `ratio_floor_bytes` of output on: small files compress well honestly."""
    ratio_floor_bytes: int = 64 * _MIB
    max_members: int = 100_000
    max_depth: int = 16
    max_held_bytes: int = 128 * _MIB


class Meter:
    """Counts what one scan has cost so far, over all levels of nesting together."""

    def __init__(self, budget: Budget, packed_bytes: int) -> None:
        self.budget = budget
        self._packed_bytes = packed_bytes
        self._unpacked_bytes = 0
        self._members = 0
        self._held_bytes = 0
        self._deepest = 0

    @property
    def members(self) -> int:
        """Unpacked members so far."""
        return self._members

    @property
    def total_bytes(self) -> int:
        """Unpacked bytes so far."""
        return self._unpacked_bytes

    @property
    def depth(self) -> int:
        """The deepest level so far."""
        return self._deepest

    def member(self) -> None:
        """Count one unpacked member; raises `OverBudget`."""
        self._members += 1
        if self._members > self.budget.max_members:
            raise OverBudget(f"more than {self.budget.max_members} members")

    def unpacked(self, count: int) -> None:
        """Count bytes that were unpacked; raises `OverBudget`."""
        self._unpacked_bytes += count
        if self._unpacked_bytes > self.budget.max_unpacked_bytes:
            raise OverBudget(f"unpacks to more than {self.budget.max_unpacked_bytes} bytes")
        past_floor = self._unpacked_bytes > self.budget.ratio_floor_bytes
        if past_floor and self._unpacked_bytes > self._packed_bytes * self.budget.max_ratio:
            raise OverBudget(f"unpacks to more than {self.budget.max_ratio} times its size")

    def deeper(self, depth: int) -> int:
        """Answer the level below `depth`; raises `OverBudget`."""
        if depth >= self.budget.max_depth:
            raise OverBudget(f"nested more than {self.budget.max_depth} levels deep")
        self._deepest = max(self._deepest, depth + 1)
        return depth + 1

    def may_hold(self, count: int) -> bool:
        """Claim memory for `count` more bytes; answers whether it was claimed."""
        if self._held_bytes + count > self.budget.max_held_bytes:
            return False
        self._held_bytes += count
        return True

    def let_go(self, count: int) -> None:
        """Give claimed memory back."""
        self._held_bytes -= count
