"""Runs: a file, or a few small ones, handed to a child, waited for, judged, and tried again where an earlier file may be to blame.

Which child it is, is decided in `pool`; what a reply means, in `judge`; which files go together, in `groups`.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final

from sluice.engines.sandbox.groups import Groups, Line, Waiter, Work
from sluice.engines.sandbox.judge import TRIED_FIRST, Budget, is_worn, judge, took_its_hands_off
from sluice.engines.sandbox.link import Gone, Reply, Task, Unread
from sluice.engines.sandbox.nursery import Child, NoChild
from sluice.engines.sandbox.pool import Pool
from sluice.engines.sandbox.program import Ending
from sluice.engines.sandbox.protocol import Away, Died, Job, Overran, RunResult
from sluice.engines.sandbox.turns import Turn, Turns

_SMALL_BYTES: Final = 1024**2
_GROUPED_BYTES: Final = 64 * 1024
"""Larger files take longer than it takes to wake a child for each."""


class Runs:
    """Runs files in the children of whichever pool lives, one turn each."""

    def __init__(
        self,
        turns: Turns,
        living_pool: Callable[[float], Awaitable[Pool]],
        *,
        budget: Budget,
        files_per_child: int,
        wait_seconds: float,
    ) -> None:
        """`living_pool` answers it, or raises `NoChild` when there is none by a moment of the monotonic clock."""
        self._turns = turns
        self._living_pool = living_pool
        self._budget = budget
        self._files_per_child = files_per_child
        self._wait_seconds = wait_seconds
        self._groups = Groups(turns, self._serve, wait_seconds=wait_seconds)

    @property
    def in_line(self) -> int:
        """Files that wait behind others of their tenant, for the same turn."""
        return self._groups.waiting

    async def run(self, work: Work) -> RunResult:
        """Run one job; see `Sandbox.run`. A failure in a used child is tried again in a fresh one: an earlier file may be to blame."""
        again = False
        if work.tray is None and work.sealed.size <= _GROUPED_BYTES:
            result, again = await self._groups.run(work)
            if not again:
                return result
        return await self._alone(work, fresh=again)

    async def _alone(self, work: Work, *, fresh: bool) -> RunResult:
        deadline = time.monotonic() + self._wait_seconds
        turn = Turn(work.tenant_id, small=work.sealed.size <= _SMALL_BYTES)
        if not await self._turns.take(turn, self._wait_seconds):
            return Away(f"no child was free for {self._wait_seconds:.0f} s")
        try:
            result, again = await self._attempt(work, deadline, fresh=fresh)
            if again and not fresh:
                result, _again = await self._attempt(work, deadline, fresh=True)
        except (NoChild, OSError) as fault:
            return Away(str(fault))
        finally:
            self._turns.give(turn)
        return result

    async def _serve(self, line: Line) -> None:
        """Have a child work off the first of a line."""
        try:
            pool = await self._living_pool(line.waiters[0].deadline)
            child = await pool.lease(line.tenant_id)
        except Exception as fault:  # noqa: BLE001  (whatever it is, who waits is told)
            for waiter in self._groups.take(line, 1):
                waiter.tell(Away(str(fault)))
            return
        group, keep = self._groups.take(line, self._files_per_child - child.served), False
        if not group:  # all who waited have left
            pool.give_back(child)
            return
        try:
            keep = await self._work_off(pool, child, group)
        finally:
            (pool.give_back if keep else pool.discard)(child)
            for waiter in group:  # those who were told are told nothing more
                waiter.tell(Away("no child came to the file"))

    async def _work_off(self, pool: Pool, child: Child, group: Sequence[Waiter]) -> bool:
        """Tell each of the group what became of its file; answer whether the child may work on."""
        began, keep = time.perf_counter(), True
        try:
            replies = self._hand_over(child, [waiter.work for waiter in group])
        except OSError:
            return False
        for waiter, pending in zip(group[1:], replies[1:], strict=True):
            pending.add_done_callback(partial(_send_elsewhere, waiter))
        for waiter, pending in zip(group, replies, strict=True):
            waiter.answer.add_done_callback(partial(_stop_if_left, child, pending))
            reply = await pending
            keep = keep and not is_worn(reply)
            ending = await pool.nursery.ending(child) if isinstance(reply, Gone) and not waiter.answer.done() else None
            now = time.perf_counter()
            result = self._judged(pool, reply, ending, (now - began) * 1000)
            waiter.tell(result, again=child.served > 0 and _blames_another(waiter.work.job, reply, result))
            began = now
            child.served += 1
        return keep and not child.link.spent

    async def _attempt(self, work: Work, deadline: float, *, fresh: bool = False) -> tuple[RunResult, bool]:
        """Answer the result in one child, and whether an earlier file in that child may be to blame for it."""
        pool = await self._living_pool(deadline)
        child = await pool.lease(work.tenant_id, fresh=fresh)
        used = child.served > 0
        reply, ending, ms = await self._ask(pool, child, work)
        result = self._judged(pool, reply, ending, ms)
        return result, used and _blames_another(work.job, reply, result)

    async def _ask(self, pool: Pool, child: Child, work: Work) -> tuple[Reply, Ending | None, float]:
        """Answer the child's reply, how it ended if it did, and the milliseconds; keep the child only when it did its work well."""
        keep = False
        began = time.perf_counter()
        try:
            (pending,) = self._hand_over(child, [work])
            reply = took_its_hands_off(await pending, work.tray)
            ms = (time.perf_counter() - began) * 1000
            keep = not is_worn(reply)
            ending = await pool.nursery.ending(child) if isinstance(reply, Gone) else None
        finally:
            if keep:
                child.served += 1
                pool.give_back(child)
            else:
                pool.discard(child)
        return reply, ending, ms

    def _hand_over(self, child: Child, works: Sequence[Work]) -> "list[asyncio.Future[Reply]]":
        fds: list[int] = []
        try:
            fds.extend(work.sealed.reopen() for work in works)
            return child.link.ask_all([self._task(work, fd) for work, fd in zip(works, fds, strict=True)])
        finally:
            for fd in fds:
                os.close(fd)

    def _task(self, work: Work, fd: int) -> Task:
        return Task(
            work.job,
            work.filename,
            (fd,) if work.tray is None else (fd, work.tray.fd),
            cpu_seconds=self._budget.cpu_for(work.sealed.size, work.job),
            wall_seconds=self._budget.wall_for(work.sealed.size, work.job),
        )

    def _judged(self, pool: Pool, reply: Reply, ending: Ending | None, ms: float) -> RunResult:
        return judge(reply, ending, memory_bytes=self._budget.memory_bytes + pool.nursery.resident_bytes, ms=ms)


def _blames_another(job: Job, reply: Reply, result: RunResult) -> bool:
    """Answer whether what happened in a child that had seen files before may be one of theirs to answer for."""
    if isinstance(reply, Unread):
        return True
    return job != TRIED_FIRST and (isinstance(result, Died) or (isinstance(result, Overran) and result.limit == "memory"))


def _send_elsewhere(waiter: Waiter, pending: "asyncio.Future[Reply]") -> None:
    """Tell the caller of a file that stood behind another one, as soon as it is known that this child will not come to it."""
    if not pending.cancelled() and isinstance(pending.result(), Unread):
        waiter.tell(Away("the child did not come to the file"), again=True)


def _stop_if_left(child: Child, pending: "asyncio.Future[Reply]", answer: "asyncio.Future[tuple[RunResult, bool]]") -> None:
    if answer.cancelled() and not pending.done():
        child.link.close()
