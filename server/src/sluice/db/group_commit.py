"""Group commit: equal statements that arrive together, or while one is running, go to PostgreSQL as one batch.

Under load a round trip and a commit are shared by all uploads that arrived in the meantime; alone, a statement runs at
once. Together are those of one round of the event loop, such as the uploads whose last batch has just ended. While a
batch of its tenant is under way, a statement of another kind waits for its end too: the uploads that the batch serves
come one by one, and would go one by one.
"""

import asyncio
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final

import asyncpg

from sluice.db.statement import BatchDriver, BatchStatement, Row, Statement, Values

_BATCH_SIZE: Final = 64
# A statement that takes longer does not delay others: it may wait for a lock, or for a server that is gone.
_MAX_WAIT_SECONDS: Final = 0.2
# A statement that waits for a batch of another kind waits no longer: a batch takes less, if it waits for no lock.
_MAX_HOLD_SECONDS: Final = 0.01
# Errors that one unit's values can cause for a whole batch.
_CAUSED_BY_ONE: Final = (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError)


@dataclass(frozen=True, slots=True)
class _WaitingUnit:
    values: Values
    result: "asyncio.Future[Row | None]"


@dataclass(eq=False, slots=True)
class _Queue:
    """The units that wait for the statement that is running, and the timer that ends their wait."""

    statement: Statement
    batch: BatchStatement
    key: Hashable
    waiters: list[_WaitingUnit] = field(default_factory=list)
    timer: asyncio.Handle | None = None


class GroupCommit:
    """One queue for each statement and each set of shared values in which the units of a batch must agree."""

    def __init__(self, driver: BatchDriver) -> None:
        self._driver = driver
        self._queues: dict[Hashable, _Queue] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._batches: Counter[str | None] = Counter()  # under way, by tenant
        self._held: dict[str | None, list[_Queue]] = {}

    async def commit(self, statement: Statement, values: Values) -> Row | None:
        """Run a unit, alone or in a batch, and return its row; None if it changed nothing.

        Raise what the driver raises, and `ValueError` if the statement has no form for a batch.
        """
        batch = statement.batch
        if batch is None:
            raise ValueError("a statement without a batch form")
        tenant_id = statement.tenant_of(values)
        key = (batch.text, tenant_id, *(values[name] for name in batch.shared))
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue(statement, batch, key)
            if tenant_id in self._batches:
                self._held.setdefault(tenant_id, []).append(queue)
                self._start_timer(queue, _MAX_HOLD_SECONDS)
            else:
                queue.timer = asyncio.get_running_loop().call_soon(self._start_next, queue)
        elif queue.timer is None:
            self._start_timer(queue, _MAX_WAIT_SECONDS)
        waiter = _WaitingUnit(values, asyncio.get_running_loop().create_future())
        queue.waiters.append(waiter)
        return await waiter.result

    def _start_timer(self, queue: _Queue, seconds: float) -> None:
        queue.timer = asyncio.get_running_loop().call_later(seconds, self._start_next, queue)

    def _start_next(self, queue: _Queue) -> None:
        """Send the units that wait.

        Called when what they wait for ends and when the timer fires: the first call counts.
        """
        if self._queues.get(queue.key) is not queue:
            return
        del self._queues[queue.key]
        if queue.timer is not None:
            queue.timer.cancel()
        waiting = [waiter for waiter in queue.waiters if not waiter.result.done()]
        if not waiting:
            return
        rest = _Queue(queue.statement, queue.batch, queue.key, waiting[_BATCH_SIZE:])
        self._queues[queue.key] = rest
        if rest.waiters:
            self._start_timer(rest, _MAX_WAIT_SECONDS)
        task = asyncio.get_running_loop().create_task(self._run(rest, waiting[:_BATCH_SIZE]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, queue: _Queue, group: Sequence[_WaitingUnit]) -> None:
        left: Sequence[_WaitingUnit] = ()
        try:
            if len(group) > 1:
                left = await self._run_batch(queue, group)
            else:
                await self._run_alone(queue.statement, group[0])
        finally:
            self._start_next(queue)
        # A unit that the batch did not carry out may succeed alone; otherwise it learns alone that it changed nothing.
        await asyncio.gather(*(self._run_alone(queue.statement, waiter) for waiter in left))

    async def _run_batch(self, queue: _Queue, group: Sequence[_WaitingUnit]) -> Sequence[_WaitingUnit]:
        """Run the units as one statement, resolve those that it carried out, and return the others."""
        batch, units = queue.batch, [waiter.values for waiter in group]
        tenant_id = queue.statement.tenant_of(units[0])
        self._batches[tenant_id] += 1
        try:
            rows = await self._driver.fetch_batch(batch, units, tenant_id=tenant_id)
        except _CAUSED_BY_ONE:
            return group
        except Exception as fault:  # noqa: BLE001  (every waiter raises it)
            for waiter in group:
                _resolve(waiter, fault)
            return ()
        finally:
            self._end_batch(tenant_id)
        done = {row[batch.key]: row for row in rows}
        for waiter in group:
            if waiter.values[batch.key] in done:
                _resolve(waiter, done[waiter.values[batch.key]])
        return [waiter for waiter in group if waiter.values[batch.key] not in done]

    def _end_batch(self, tenant_id: str | None) -> None:
        self._batches[tenant_id] -= 1
        if not self._batches[tenant_id]:
            del self._batches[tenant_id]
        for queue in self._held.pop(tenant_id, ()):
            self._start_next(queue)

    async def _run_alone(self, statement: Statement, waiter: _WaitingUnit) -> None:
        if waiter.result.done():  # its caller was cancelled, and nothing was sent
            return
        try:
            _resolve(waiter, await self._driver.fetch(statement, waiter.values, writes=True))
        except Exception as fault:  # noqa: BLE001  (the waiter raises it)
            _resolve(waiter, fault)


def _resolve(waiter: _WaitingUnit, outcome: Row | Exception | None) -> None:
    if waiter.result.done():
        return
    if isinstance(outcome, Exception):
        waiter.result.set_exception(outcome)
    else:
        waiter.result.set_result(outcome)
