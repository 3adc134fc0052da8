"""Who may run next: a bounded number of runs at once, in order of arrival, fair between tenants. Knows nothing of processes."""

import asyncio
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """One place among the runs. A small file may take a place that large ones may not."""

    tenant_id: str
    small: bool


@dataclass(frozen=True, slots=True)
class _Waiter:
    turn: Turn
    granted: "asyncio.Future[None]"


class Turns:
    """Places for `places` runs of any size and `small_places` more that only small files take, so that they overtake large ones.

    Among those who wait, the tenant with the fewest runs under way comes first, then the earliest.
    """

    def __init__(self, places: int, small_places: int) -> None:
        self._places = places
        self._all_places = places + small_places
        self._running: Counter[str] = Counter()
        self._large = 0
        self._total = 0
        self._waiters: list[_Waiter] = []

    @property
    def running(self) -> int:
        """Turns under way."""
        return self._total

    @property
    def waiting(self) -> int:
        """Callers in line."""
        return len(self._waiters)

    async def take(self, turn: Turn, seconds: float) -> bool:
        """Wait for a place, at most `seconds`. True: the caller has it and must `give` it back. False: none came free."""
        if self._free(turn):
            self._start(turn)
            return True
        waiter = _Waiter(turn, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        try:
            await asyncio.wait([waiter.granted], timeout=seconds)
        except asyncio.CancelledError:
            if waiter.granted.done():
                self.give(turn)
            else:
                self._waiters.remove(waiter)
            raise
        if waiter.granted.done():
            return True
        self._waiters.remove(waiter)
        return False

    def give(self, turn: Turn) -> None:
        """Give a place back, to the next in line."""
        self._total -= 1
        self._large -= not turn.small
        self._running[turn.tenant_id] -= 1
        if not self._running[turn.tenant_id]:
            del self._running[turn.tenant_id]
        while waiter := self._next():
            self._waiters.remove(waiter)
            self._start(waiter.turn)
            waiter.granted.set_result(None)

    def _next(self) -> _Waiter | None:
        able = [waiter for waiter in self._waiters if self._free(waiter.turn)]
        return min(able, key=lambda waiter: self._running[waiter.turn.tenant_id], default=None)

    def _free(self, turn: Turn) -> bool:
        return self._total < self._all_places and (turn.small or self._large < self._places)

    def _start(self, turn: Turn) -> None:
        self._total += 1
        self._large += not turn.small
        self._running[turn.tenant_id] += 1
