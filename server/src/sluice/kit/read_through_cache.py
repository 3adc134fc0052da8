"""A cache of values that are read from elsewhere.

Callers say how old a value may be; reads of one key that overlap are shared.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Cached(Generic[V]):
    """A value and the moment at which its read began, on the monotonic clock.

    A change before that moment is in the value.
    """

    value: V
    read_at: float


@dataclass(frozen=True, slots=True)
class _Read(Generic[V]):
    began: float
    task: "asyncio.Task[Cached[V]]"


class ReadThroughCache(Generic[K, V]):
    """Keeps the newest value of up to `capacity` keys, each for `lifetime_seconds` at most.

    What `read` raises is passed on and never kept. No caller may ask for a value older than the lifetime.
    """

    def __init__(
        self,
        read: Callable[[K], Awaitable[V]],
        *,
        capacity: int = 10_000,
        lifetime_seconds: float = 10.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read_value = read
        self._capacity = capacity
        self._lifetime_seconds = lifetime_seconds
        self._monotonic = monotonic
        self._newest: dict[K, Cached[V]] = {}  # oldest read first
        self._reads: dict[K, _Read[V]] = {}

    def find(self, key: K, *, since: float) -> Cached[V] | None:
        """Return the value of `key` if it was read at `since` or later."""
        cached = self._newest.get(key)
        return cached if cached is not None and cached.read_at >= since else None

    async def get(self, key: K, *, since: float) -> Cached[V]:
        """Return a value of `key` that was read at `since` or later, reading it now if there is none."""
        cached = self.find(key, since=since)
        if cached is not None:
            return cached
        read = self._reads.get(key)
        if read is None or read.began < since:
            began = self._monotonic()
            read = self._reads[key] = _Read(began, asyncio.create_task(self._read(key, began)))
            read.task.add_done_callback(lambda task: self._end(key, task))
        # Shielded: a caller that gives up must not cancel the read that others wait for.
        return await asyncio.shield(read.task)

    def clear(self) -> None:
        """Drop every value."""
        self._newest.clear()

    async def _read(self, key: K, began: float) -> Cached[V]:
        cached = Cached(await self._read_value(key), began)
        newest = self._newest.pop(key, cached)
        self._newest[key] = cached if cached.read_at >= newest.read_at else newest
        self._drop_oldest()
        return cached

    def _drop_oldest(self) -> None:
        expired_at = self._monotonic() - self._lifetime_seconds
        while self._newest:
            key, oldest = next(iter(self._newest.items()))
            if len(self._newest) <= self._capacity and oldest.read_at >= expired_at:
                return
            del self._newest[key]

    def _end(self, key: K, task: "asyncio.Task[Cached[V]]") -> None:
        read = self._reads.get(key)
        if read is not None and read.task is task:
            del self._reads[key]
        if not task.cancelled():
            task.exception()  # every waiter has seen it; without this line a read without waiters logs a warning
