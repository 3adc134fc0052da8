"""Small files of one tenant that wait for a child go to it together. What becomes of a file in a child is the affair of `runs`.

To wake a process costs more than the check of a small file, and a process that goes on from file to file finds its code in the cache:
of four files together each costs half of what it costs alone (docs/performance.md). A file that comes while a child is idle waits for no other.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from sluice.engines.sandbox.protocol import Away, Job, RunResult
from sluice.engines.sandbox.tray import Tray
from sluice.engines.sandbox.turns import Turn, Turns
from sluice.kit.sealed import Sealed

_MOST: Final = 4
"""More together save little, and let other tenants wait longer."""


@dataclass(frozen=True, slots=True)
class Work:
    """One file for one child."""

    job: Job
    sealed: Sealed
    filename: str
    tenant_id: str
    tray: Tray | None


@dataclass(frozen=True, slots=True)
class Waiter:
    """A file in line. Its answer is the result, and whether it may be tried again: an earlier file in that child may be to blame."""

    work: Work
    deadline: float
    answer: "asyncio.Future[tuple[RunResult, bool]]"

    def tell(self, result: RunResult, *, again: bool = False) -> None:
        """Answer, unless it was answered or its caller has left."""
        if not self.answer.done():
            self.answer.set_result((result, again))


@dataclass(eq=False, slots=True)
class Line:
    """The waiting files of one tenant."""

    tenant_id: str
    waiters: list[Waiter] = field(default_factory=list)
    in_turn: bool = False
    """Whether somebody takes a turn for those who wait now."""


class Groups:
    """One line for each tenant. `serve` is called with a line when it is its turn; it must `take` from it once, and tell whom it took."""

    def __init__(self, turns: Turns, serve: Callable[[Line], Awaitable[None]], *, wait_seconds: float) -> None:
        self._turns = turns
        self._serve = serve
        self._wait_seconds = wait_seconds
        self._lines: dict[str, Line] = {}
        self._rounds: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """Files in line, but for one of each line, who stands in line for a turn too."""
        return sum(max(0, len(line.waiters) - line.in_turn) for line in self._lines.values())

    async def run(self, work: Work) -> tuple[RunResult, bool]:
        """Answer what became of a file, and whether it may be tried again. Cancelling the call stops the child."""
        line = self._lines.get(work.tenant_id)
        if line is None:
            line = self._lines[work.tenant_id] = Line(work.tenant_id)
        waiter = Waiter(work, time.monotonic() + self._wait_seconds, asyncio.get_running_loop().create_future())
        line.waiters.append(waiter)
        self._send(line)
        return await waiter.answer

    def take(self, line: Line, most: int) -> list[Waiter]:
        """Take the first out of the line."""
        waiting = [waiter for waiter in line.waiters if not waiter.answer.done()]
        number = max(1, min(most, _MOST))
        line.waiters, line.in_turn = waiting[number:], False
        self._send(line)
        return waiting[:number]

    def _send(self, line: Line) -> None:
        if line.waiters and not line.in_turn:
            line.in_turn = True
            task = asyncio.get_running_loop().create_task(self._round(line))
            self._rounds.add(task)
            task.add_done_callback(self._rounds.discard)

    async def _round(self, line: Line) -> None:
        turn = Turn(line.tenant_id, small=True)
        if await self._turns.take(turn, max(0.0, line.waiters[0].deadline - time.monotonic())):
            try:
                await self._serve(line)
            finally:
                self._turns.give(turn)
        else:
            self._send_away(line)
        if not line.waiters and not line.in_turn and self._lines.get(line.tenant_id) is line:
            del self._lines[line.tenant_id]

    def _send_away(self, line: Line) -> None:
        line.in_turn = False
        now = time.monotonic()
        for waiter in [waiter for waiter in line.waiters if waiter.deadline <= now]:
            line.waiters.remove(waiter)
            waiter.tell(Away(f"no child was free for {self._wait_seconds:.0f} s"))
        self._send(line)
