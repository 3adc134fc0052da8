"""Operations on events: number those that were committed, and read them in order.

Writing one is in `outbox`.
"""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from typing import Final

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.errors import Invalid, TooManyRequests
from sluice.events import repository
from sluice.events.record import StoredEvent
from sluice.kit.text import is_plain

_BATCH: Final = 500
_POLL_SECONDS: Final = 1.0
# Readers that wait for events, in one process: each holds a connection and asks the database once a second.
_MOST_WAITING: Final = 100
_MOST_WAITING_OF_TENANT: Final = 10


async def number_all(database: Database) -> int:
    """Assign numbers to the committed events of all tenants; return how many. Any number of processes may at once."""
    done, tenant_id = 0, ""
    while True:
        async with database.reading(ALL_TENANTS) as connection:
            found = await repository.next_unnumbered_tenant(connection, tenant_id)
        if found is None:
            return done
        tenant_id = found
        done += await number(database, tenant_id)


async def number(database: Database, tenant_id: str) -> int:
    """Assign numbers to the committed events of one tenant; return how many."""
    done, portion = 0, database.portion("number_events", _BATCH)
    while True:
        most = portion.rows
        numbered, seconds = await database.work(tenant_id, partial(repository.number, tenant_id=tenant_id, limit=most))
        portion.took(numbered, seconds)
        done += numbered
        if numbered < most:
            return done


class EventFeed:
    """The events of all tenants in their order, one tenant at a time.

    A reader numbers what is committed itself: no event waits for the worker.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: Counter[str] = Counter()  # by tenant
        self._draining = asyncio.Event()

    @property
    def is_draining(self) -> bool:
        """Whether requests should stop waiting, because the process is about to exit."""
        return self._draining.is_set()

    def drain(self) -> None:
        """Let all who wait return at once."""
        self._draining.set()

    def take_place(self, tenant_id: str) -> None:
        """Take one of the places for readers that wait; raise `TooManyRequests` if none is free."""
        if self._waiting[tenant_id] >= _MOST_WAITING_OF_TENANT or self._waiting.total() >= _MOST_WAITING:
            raise TooManyRequests(errors=["Too many readers of this tenant wait for events"])
        self._waiting[tenant_id] += 1

    def leave_place(self, tenant_id: str) -> None:
        """Give a place back."""
        self._waiting[tenant_id] -= 1
        if not self._waiting[tenant_id]:
            del self._waiting[tenant_id]

    async def position_of(self, tenant_id: str, event_id: str) -> int:
        """Return the number of an event; raise `Invalid` if there is none, or not any more."""
        event = None
        if is_plain(event_id):
            async with self._database.reading(tenant_id) as connection:
                event = await repository.find(connection, tenant_id, event_id)
        if event is None:
            raise Invalid("after: no such event; events are kept for 30 days, and without `after` the oldest is first")
        return event.sequence

    async def last_position(self, tenant_id: str) -> int:
        """Return the number of the last event that was committed before."""
        await self._number(tenant_id)
        async with self._database.reading(tenant_id) as connection:
            return await repository.last_sequence(connection, tenant_id)

    async def read(self, tenant_id: str, position: int, types: Collection[str], limit: int) -> Sequence[StoredEvent]:
        """Return events after a position, in order, at most `limit`: those of `types`, or all if empty."""
        await self._number(tenant_id)
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_after(connection, tenant_id, position, types, limit)

    async def wait(
        self, tenant_id: str, position: int, types: Collection[str], limit: int, *, seconds: float
    ) -> Sequence[StoredEvent]:
        """Return events as `read` does, and wait up to `seconds` while there is none."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while True:
            found = await self.read(tenant_id, position, types, limit)
            left = until - loop.time()
            if found or left <= 0 or self.is_draining:
                return found
            try:
                async with asyncio.timeout(min(left, _POLL_SECONDS)):
                    await self._draining.wait()
            except TimeoutError:
                continue

    async def _number(self, tenant_id: str) -> None:
        async with self._database.reading(tenant_id) as connection:
            waiting = await repository.has_unnumbered(connection, tenant_id)
        if waiting:
            await number(self._database, tenant_id)
