"""Group commit: units of one kind that come while another is under way wait for it, and then go to PostgreSQL as one statement.

Under load a round trip and a commit are shared by as many uploads as came meanwhile; alone, a unit goes at once. Which units can be one
statement is said in `hot`.
"""

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import asyncpg

from sluice.db.drivers import Driver, Row
from sluice.db.hot import Compiled, CompiledTogether

Values = Mapping[str, Any]

_MOST: Final = 64
"""Units of one statement."""
_PATIENCE_SECONDS: Final = 0.2
"""A statement that takes longer holds nobody back: it may wait for a lock, or for a server that is gone."""
_FAULTS_OF_ONE: Final = (asyncpg.IntegrityConstraintViolationError, asyncpg.DataError)
"""What one unit's values can bring upon all of a statement."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Units that may be one statement: how one is asked for by itself, how several are, and whose rows they are about."""

    alone: Sequence[Compiled]
    together: CompiledTogether
    tenant_id: str | None


class GroupDriver(Driver, Protocol):
    """A driver that can run several units as one statement."""

    async def fetch_together(self, unit: CompiledTogether, values: Sequence[Values], *, tenant_id: str | None) -> Sequence[Row]:
        """Answer the rows of those units that were done."""
        ...


@dataclass(frozen=True, slots=True)
class _Waiter:
    values: Values
    answer: "asyncio.Future[Row | None]"


@dataclass(eq=False, slots=True)
class _Line:
    """Those who wait for the statement that is under way, and what ends their patience."""

    waiters: list[_Waiter] = field(default_factory=list)
    alarm: asyncio.TimerHandle | None = None


class GroupCommit:
    """One line for each kind of unit and each set of values in which units must agree."""

    def __init__(self, driver: GroupDriver) -> None:
        self._driver = driver
        self._lines: dict[Hashable, _Line] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def commit(self, kind: Kind, values: Values) -> Row | None:
        """Run a unit, by itself or with others, and answer its row; None when it changed nothing. Raises what the driver raises."""
        alike = (kind.together.text, *(values[name] for name in kind.together.alike))
        line = self._lines.get(alike)
        if line is None:
            line = self._lines[alike] = _Line()
            try:
                return await self._alone(kind, values)
            finally:
                self._next(kind, alike, line)
        loop = asyncio.get_running_loop()
        if line.alarm is None:
            line.alarm = loop.call_later(_PATIENCE_SECONDS, self._next, kind, alike, line)
        waiter = _Waiter(values, loop.create_future())
        line.waiters.append(waiter)
        return await waiter.answer

    def _next(self, kind: Kind, alike: Hashable, line: _Line) -> None:
        """Send those who waited. Called when the statement is done and when patience is over: the first call counts."""
        if self._lines.get(alike) is not line:
            return
        del self._lines[alike]
        if line.alarm is not None:
            line.alarm.cancel()
        waiting = [waiter for waiter in line.waiters if not waiter.answer.done()]
        if not waiting:
            return
        loop = asyncio.get_running_loop()
        behind = self._lines[alike] = _Line(waiting[_MOST:])
        if behind.waiters:
            behind.alarm = loop.call_later(_PATIENCE_SECONDS, self._next, kind, alike, behind)
        task = loop.create_task(self._run(kind, alike, behind, waiting[:_MOST]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, kind: Kind, alike: Hashable, behind: _Line, group: Sequence[_Waiter]) -> None:
        left: Sequence[_Waiter] = ()
        try:
            if len(group) > 1:
                left = await self._settle_together(kind, group)
            else:
                await self._settle(kind, group[0])
        finally:
            self._next(kind, alike, behind)
        # What was not done with the others may be done without them; else it says by itself that it changed nothing.
        await asyncio.gather(*(self._settle(kind, waiter) for waiter in left))

    async def _settle_together(self, kind: Kind, group: Sequence[_Waiter]) -> Sequence[_Waiter]:
        """Run them as one statement, answer those that it did, and return the others."""
        key = kind.together.key
        try:
            rows = await self._driver.fetch_together(kind.together, [waiter.values for waiter in group], tenant_id=kind.tenant_id)
        except _FAULTS_OF_ONE:
            return group
        except Exception as fault:  # noqa: BLE001  (whatever it is, each of those who wait is told)
            for waiter in group:
                _tell(waiter, fault)
            return ()
        done = {row[key]: row for row in rows}
        for waiter in group:
            if waiter.values[key] in done:
                _tell(waiter, done[waiter.values[key]])
        return [waiter for waiter in group if waiter.values[key] not in done]

    async def _settle(self, kind: Kind, waiter: _Waiter) -> None:
        if waiter.answer.done():  # its caller has left, and nothing was asked
            return
        try:
            _tell(waiter, await self._alone(kind, waiter.values))
        except Exception as fault:  # noqa: BLE001  (the same)
            _tell(waiter, fault)

    async def _alone(self, kind: Kind, values: Values) -> Row | None:
        return await self._driver.fetch(kind.alone, values, tenant_id=kind.tenant_id, writes=True)


def _tell(waiter: _Waiter, answer: Row | Exception | None) -> None:
    if waiter.answer.done():
        return
    if isinstance(answer, Exception):
        waiter.answer.set_exception(answer)
    else:
        waiter.answer.set_result(answer)
