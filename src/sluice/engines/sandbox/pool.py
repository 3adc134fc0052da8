"""Which child works for whom: a child belongs to one tenant from its first file on. How many run at once is decided in `turns`."""

import asyncio
from typing import Final

from sluice.engines.sandbox.nursery import Child, NoChild, Nursery
from sluice.engines.sandbox.protocol import Level

_SPARES: Final = 1
"""Children kept ready and unbound, so that a tenant's first file waits for no fork."""


class Pool:
    """At most `living` children of one nursery, idle ones kept for their tenant until another needs the place.

    A child is replaced after `files_per_child` files, and ended after `idle_seconds` without one.
    """

    def __init__(self, nursery: Nursery, *, level: Level, living: int, files_per_child: int, idle_seconds: float) -> None:
        self.nursery = nursery
        self._level: Level = level
        self._most = living
        self._files_per_child = files_per_child
        self._idle_seconds = idle_seconds
        self._living: set[Child] = set()
        self._births = 0
        self._idle: list[Child] = []
        """Children between two files, the longest idle first."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def living(self) -> int:
        """How many children there are, those being born included."""
        return len(self._living) + self._births

    async def lease(self, tenant_id: str, *, fresh: bool = False) -> Child:
        """Answer a child that works for `tenant_id` alone, until `give_back` or `discard`. Raises `NoChild`.

        With `fresh`, one that has seen no file.
        """
        child = self._idle_child(None if fresh else tenant_id) or self._idle_child(None) or await self._born()
        child.tenant_id = tenant_id
        self._top_up()
        return child

    def give_back(self, child: Child) -> None:
        """Keep a child that did its work for its tenant's next file."""
        if child not in self._living or not child.link.open or child.served >= self._files_per_child:
            self.discard(child)
            return
        child.idle_since = asyncio.get_running_loop().time()
        self._idle.append(child)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(self._idle_seconds, self._end_idle)

    def discard(self, child: Child) -> None:
        """End a child and forget it."""
        self._living.discard(child)
        if child in self._idle:
            self._idle.remove(child)
        self.nursery.kill(child)

    def discard_idle(self) -> None:
        """End every child that belongs to a tenant and is between two files."""
        for child in [child for child in self._idle if child.tenant_id is not None]:
            self.discard(child)

    def add(self, child: Child) -> None:
        """Take in a child that was born elsewhere and has seen no file."""
        self._living.add(child)
        self._idle.append(child)

    def close(self) -> None:
        """End every child; whoever waits for one of them is answered that it is gone."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for task in self._tasks:
            task.cancel()
        for child in list(self._living):
            self.discard(child)

    def _idle_child(self, tenant_id: str | None) -> Child | None:
        for child in [child for child in self._idle if not child.link.open]:
            self.discard(child)
        found = next((child for child in reversed(self._idle) if child.tenant_id == tenant_id), None)
        if found is not None:
            self._idle.remove(found)
        return found

    async def _born(self) -> Child:
        """Answer a new child, in the place of the longest idle one when there is no other."""
        if self._closed:
            raise NoChild("the sandbox is closing")
        if self.living >= self._most and self._idle:
            self.discard(self._idle[0])
        self._births += 1
        try:
            child = await self.nursery.birth(self._level)
        finally:
            self._births -= 1
        self._living.add(child)
        return child

    def _top_up(self) -> None:
        """Have a spare born while the present file is looked at."""
        if not self._tasks and not self._closed and sum(child.tenant_id is None for child in self._idle) < _SPARES:
            task = asyncio.get_running_loop().create_task(self._bear_spare())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _bear_spare(self) -> None:
        try:
            self._idle.append(await self._born())
        except NoChild:
            return  # whoever needs a child next is told why there is none

    def _end_idle(self) -> None:
        self._sweep = None
        loop = asyncio.get_running_loop()
        bound = [child for child in self._idle if child.tenant_id is not None]
        for child in bound:
            if child.idle_since + self._idle_seconds <= loop.time():
                self.discard(child)
            elif self._sweep is None:
                self._sweep = loop.call_at(child.idle_since + self._idle_seconds, self._end_idle)
