"""Connections that stay out of asyncpg's pool between two units of work. What runs on them is in `drivers`; the pool makes and ends them."""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import asyncpg

_SWEEP_SECONDS: Final = 30.0


class Spares:
    """The pool's connections, those that worked last at hand: to take one out of the pool and give it back costs as much as a statement.

    What was not needed between two sweeps goes back to the pool, which closes in its own time what is idle there.
    """

    def __init__(self, pool: asyncpg.Pool, *, wait_seconds: float) -> None:
        self._pool = pool
        self._wait_seconds = wait_seconds
        self._at_hand: list[Any] = []
        self._idle = 0
        """How many of them, from the front, nobody has taken since the last sweep."""
        self._waiting = 0
        self._sweep: asyncio.TimerHandle | None = None
        self._returning: set[asyncio.Task[None]] = set()
        self._closed = False

    async def take(self) -> Any:
        """Answer a connection for one unit; raises `TimeoutError` when none falls free in time, and what keeps one from being made."""
        while self._at_hand:
            connection = self._at_hand.pop()
            self._idle = min(self._idle, len(self._at_hand))
            if not _is_closed(connection):
                return connection
            await self._pool.release(connection)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=self._wait_seconds)
        finally:
            self._waiting -= 1

    async def keep(self, connection: Any) -> None:
        """Take back a connection whose unit went well. Whoever waits for one waits at the pool: then it goes there."""
        if self._waiting or self._closed:
            await self._pool.release(connection)
            return
        self._at_hand.append(connection)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(_SWEEP_SECONDS, self._end_sweep)

    async def give_back(self, connection: Any) -> None:
        """Let the pool see to a connection on which something went wrong."""
        await self._pool.release(connection)

    async def aclose(self) -> None:
        """Close every connection when its unit is done."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        at_hand, self._at_hand = self._at_hand, []
        await self._return(at_hand)
        await self._pool.close()

    def terminate(self) -> None:
        """Drop every connection at once."""
        self._closed = True
        self._pool.terminate()

    def _end_sweep(self) -> None:
        self._sweep = None
        idle, self._at_hand = self._at_hand[: self._idle], self._at_hand[self._idle :]
        self._idle = len(self._at_hand)
        loop = asyncio.get_running_loop()
        if idle:
            task = loop.create_task(self._return(idle))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)
        if self._at_hand:
            self._sweep = loop.call_later(_SWEEP_SECONDS, self._end_sweep)

    async def _return(self, connections: Sequence[Any]) -> None:
        for connection in connections:
            await self._pool.release(connection)


def _is_closed(connection: Any) -> bool:
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:  # the pool has noticed by itself, and taken it back
        return True
