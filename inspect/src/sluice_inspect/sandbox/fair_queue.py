"""A queue for a bounded resource: fair between keys (such as tenants), first come first served within a key."""

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import Generic, TypeVar

K = TypeVar("K")
R = TypeVar("R", bound=Hashable)
G = TypeVar("G")


@dataclass(frozen=True, slots=True, eq=False)
class _QueuedRequest(Generic[R, G]):
    serial: int
    request: R
    granted: "asyncio.Future[G]"


class FairQueue(Generic[K, R, G]):
    """Hand out a bounded resource to requests (`R`) made for keys (`K`), and make those wait that do not fit yet.

    The queue decides who is next; its owner decides what fits, by two plain functions that never wait:

    - `acquire(key, request)` takes what the request needs and returns it as the grant (`G`), or returns None, and
      changes nothing, while the request does not fit. It may raise: that ends the wait with this error, for a request
      that can never be granted. Equal requests of a key need the same: where one does not fit, no other is tried.
    - `release(key, grant)` puts it back. Without it nothing needs to be put back, because `acquire` only compares
      `queue.held` with a limit.

    Capacity may change at any time: call `refresh` after it grew, or after `acquire` has a reason to raise.

    Order: the key that holds the fewest grants is served first; among equals, the key that was served longest ago. So
    keys take turns, however many requests each has queued. Within a key, the first request blocks the others until it
    fits, so that a large one is not starved by small ones. With `overtaking`, any request that fits may pass others of
    its key that do not.

    Nothing is lost or leaked when a waiting task is cancelled or times out, even in the moment of the grant. One event
    loop at a time.

    A limit for each tenant:

        queue = FairQueue[str, None, bool](lambda tenant, _: True if queue.held.get(tenant, 0) < limit else None)
        async with queue.take(tenant_id, None, timeout=5): ...

    `ByteBudget` below is a budget of bytes with a single key. For the best of several servers, `acquire`
    picks the server, counts the request there, and returns the server as the grant; it raises when no server is left.
    """

    def __init__(
        self,
        acquire: Callable[[K, R], G | None],
        release: Callable[[K, G], None] | None = None,
        *,
        overtaking: bool = False,
    ) -> None:
        self._acquire = acquire
        self._release = release
        self._overtaking = overtaking
        # By key, and by request if requests may overtake: then the first of each kind is tried. Else all are one kind.
        self._queues: dict[K, dict[R | None, deque[_QueuedRequest[R, G]]]] = {}
        self._held: Counter[K] = Counter()
        self._last_served: dict[K, int] = {}  # only of keys that hold or wait, so that memory is bounded
        self._serials = itertools.count(1)

    @property
    def held(self) -> Mapping[K, int]:
        """The number of grants that each key holds; keys without any are missing."""
        return self._held

    @property
    def held_total(self) -> int:
        """The number of grants that are held."""
        return self._held.total()

    @property
    def waiting(self) -> int:
        """The number of requests that wait."""
        return sum(len(queue) for kinds in self._queues.values() for queue in kinds.values())

    def waiting_of(self, key: K) -> int:
        """Return the number of requests of `key` that wait."""
        return sum(len(queue) for queue in self._queues.get(key, {}).values())

    @asynccontextmanager
    async def take(
        self,
        key: K,
        request: R,
        *,
        timeout: float | None = None,  # noqa: ASYNC109  (it limits the wait, not the block)
    ) -> AsyncIterator[G]:
        """Hold what the request needs while the block runs; it is yielded. Raise what `get` raises."""
        grant = await self.get(key, request, timeout=timeout)
        try:
            yield grant
        finally:
            self.put_back(key, grant)

    async def get(self, key: K, request: R, *, timeout: float | None = None) -> G:  # noqa: ASYNC109  (as for `take`)
        """Return what the request needs; the caller gives it back with `put_back`.

        Raise `TimeoutError` if it is not granted within `timeout` seconds, and what `acquire` raises.
        """
        grant = self.get_nowait(key, request)
        return await self._wait(key, request, timeout) if grant is None else grant

    def get_nowait(self, key: K, request: R) -> G | None:
        """Return what the request needs, as `get` does, or None if it would have to wait."""
        return self._try(key, request) if self._overtaking or key not in self._queues else None

    def put_back(self, key: K, grant: G) -> None:
        """Give back what `get` returned."""
        self._held[key] -= 1
        if not self._held[key]:
            del self._held[key]
        self._forget_idle(key)
        if self._release is not None:
            self._release(key, grant)
        self.refresh()

    def refresh(self) -> None:
        """Grant every waiting request that fits now.

        Call it when capacity changed for a reason that the queue cannot see.
        """
        while self._queues:
            # Sorted again after each grant, because the grant changes whose turn it is.
            turns = sorted(self._queues, key=lambda key: (self._held[key], self._last_served.get(key, 0)))
            if not any(self._serve(key) for key in turns):
                return

    async def _wait(self, key: K, request: R, seconds: float | None) -> G:
        granted: asyncio.Future[G] = asyncio.get_running_loop().create_future()
        queued = _QueuedRequest(next(self._serials), request, granted)
        self._queues.setdefault(key, {}).setdefault(self._kind(request), deque()).append(queued)
        try:
            # `wait` leaves the future alone when it times out or is cancelled, so a grant that comes in that very
            # moment shows.
            await asyncio.wait([queued.granted], timeout=seconds)
        except asyncio.CancelledError:
            if not queued.granted.done():
                self._leave(key, queued)
            elif queued.granted.exception() is None:
                self.put_back(key, queued.granted.result())
            raise
        if not queued.granted.done():
            self._leave(key, queued)
            raise TimeoutError
        return queued.granted.result()

    def _serve(self, key: K) -> bool:
        """Settle one request of `key`: grant it, or fail it with what `acquire` raises. Return False if none fits."""
        for queued in sorted((queue[0] for queue in self._queues[key].values()), key=attrgetter("serial")):
            try:
                grant = self._try(key, queued.request)
            except Exception as error:  # noqa: BLE001  (every error belongs to the task that waits)
                queued.granted.set_exception(error)
            else:
                if grant is None:
                    continue
                queued.granted.set_result(grant)
            self._remove(key, queued)
            return True
        return False

    def _try(self, key: K, request: R) -> G | None:
        grant = self._acquire(key, request)
        if grant is not None:
            self._held[key] += 1
            self._last_served[key] = next(self._serials)
        return grant

    def _leave(self, key: K, queued: _QueuedRequest[R, G]) -> None:
        self._remove(key, queued)
        self.refresh()  # it may have blocked smaller requests of its key

    def _remove(self, key: K, queued: _QueuedRequest[R, G]) -> None:
        kinds, kind = self._queues[key], self._kind(queued.request)
        kinds[kind].remove(queued)
        if kinds[kind]:
            return
        del kinds[kind]
        if not kinds:
            del self._queues[key]
            self._forget_idle(key)

    def _kind(self, request: R) -> R | None:
        return request if self._overtaking else None

    def _forget_idle(self, key: K) -> None:
        if key not in self._held and key not in self._queues:
            self._last_served.pop(key, None)


class ByteBudget:
    """A bound on memory that several tasks share: at most `total` bytes are held at once.

    First come first served: a large part is not starved by small ones.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._free = total
        self._queue: FairQueue[None, int, int] = FairQueue(self._acquire, self._release)

    def has(self, size: int) -> bool:
        """Return whether `size` bytes would be granted without a wait."""
        return not self._queue.waiting and min(size, self._total) <= self._free

    def hold(self, size: int) -> AbstractAsyncContextManager[int]:
        """Hold `size` bytes, at most the total, while the block runs. Waits for them without a time limit."""
        return self._queue.take(None, min(size, self._total))

    def _acquire(self, _: None, size: int) -> int | None:
        if size > self._free:
            return None
        self._free -= size
        return size

    def _release(self, _: None, size: int) -> None:
        self._free += size
