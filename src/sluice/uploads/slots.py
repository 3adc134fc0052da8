"""Turns: how many uploads of one tenant are under way at once. Others wait, first come first served, before a byte of their body is taken.

A tenant alone may have `per_tenant`. Where several upload and uploads take longer than they need, each has a share, which is found as TCP
Vegas finds its window (Brakmo and Peterson, 1995): halved while small uploads take half as long again as they did when few were under way, one more
while they do not. So a flood fills a line of its own, and not everybody's; and where time is spent on waiting for a distant bucket, nobody is held back.
"""

import asyncio
import os
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Final

from sluice.errors import TooManyRequests
from sluice.observe.metrics import UPLOADS_WAITING

_TICK_SECONDS: Final = 0.05
_CROWDED: Final = 1.5
"""So many times longer than when few were under way, and they wait for each other."""
_OF_THE_QUICKEST: Final = 2.0
"""So many times longer than the quickest an upload is supposed to take where it was never quiet."""
_NEWEST: Final = 0.05
_MOST_CONTEXTS: Final = 1000
_SMALL_BYTES: Final = 64 * 1024
"""Uploads whose time tells how busy the service is, and not how large they are."""
_LEAST: Final = 2 * (os.cpu_count() or 2)
"""Enough to keep every core busy."""


class TenantSlots:
    """A fair bound per tenant, so that one tenant's flood does not become everybody's."""

    def __init__(self, per_tenant: int, wait_seconds: float, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._per_tenant = per_tenant
        self._wait_seconds = wait_seconds
        self.share = per_tenant
        """How many uploads a tenant may have under way while others have some."""
        self._running: Counter[str] = Counter()
        self._lines: dict[str, deque[asyncio.Future[None]]] = {}
        self._ticking = False
        self._pace = _Pace()

    @contextmanager
    def learning(self, context_id: str, size: int) -> Iterator[None]:
        """Learn from how long the block takes, which judges and stores `size` bytes that have come. What is refused tells nothing."""
        began, at_once = self._monotonic(), self._running.total()
        yield
        if size <= _SMALL_BYTES:
            quiet = max(at_once, self._running.total()) <= _LEAST
            self._pace.took(context_id, self._monotonic() - began, quiet=quiet)

    @asynccontextmanager
    async def hold(self, tenant_id: str) -> AsyncIterator[None]:
        """Hold one of the tenant's slots; raises `TooManyRequests` when none falls free in time."""
        if tenant_id not in self._lines and self._running[tenant_id] < self._bound(tenant_id):
            self._running[tenant_id] += 1
        else:
            await self._wait(tenant_id)
        if not self._ticking:
            self.share, self._ticking = self._per_tenant, True
            asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)
        try:
            yield
        finally:
            self._give(tenant_id)

    async def _wait(self, tenant_id: str) -> None:
        slot: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant_id, deque()).append(slot)
        try:
            with UPLOADS_WAITING.track_inprogress():
                async with asyncio.timeout(self._wait_seconds):
                    await slot
        except BaseException as fault:
            if slot.done() and not slot.cancelled():
                self._give(tenant_id)  # it was handed over at the moment in which nobody waited any more
            else:
                self._leave(tenant_id, slot)
            if isinstance(fault, TimeoutError):
                raise TooManyRequests(errors=["Too many uploads of this tenant are under way"], limit=self._per_tenant) from fault
            raise

    def _bound(self, tenant_id: str) -> int:
        others = len(self._running) - (tenant_id in self._running)
        return self.share if others else self._per_tenant

    def _give(self, tenant_id: str) -> None:
        self._running[tenant_id] -= 1
        if not self._running[tenant_id]:
            del self._running[tenant_id]
        self._fill()

    def _leave(self, tenant_id: str, slot: "asyncio.Future[None]") -> None:
        line = self._lines.get(tenant_id)
        if line is not None and slot in line:  # else it was passed over already
            line.remove(slot)
            if not line:
                del self._lines[tenant_id]

    def _fill(self) -> None:
        """Hand out what is free."""
        for tenant_id, line in list(self._lines.items()):
            while line and self._running[tenant_id] < self._bound(tenant_id):
                slot = line.popleft()
                if not slot.done():
                    self._running[tenant_id] += 1
                    slot.set_result(None)
            if not line:
                del self._lines[tenant_id]

    def _tick(self) -> None:
        """Find the share anew, and go on while there are uploads."""
        if self._pace.is_crowded():
            self.share = max(_LEAST, min(self.share, max(self._running.values(), default=0)) // 2)
        else:
            self.share += 1
        self.share = min(self.share, self._per_tenant)
        self._fill()
        self._ticking = bool(self._running or self._lines)
        if self._ticking:
            asyncio.get_running_loop().call_later(_TICK_SECONDS, self._tick)


@dataclass(slots=True)
class _Usual:
    """What small uploads into one context take, in seconds: the quickest, and on average when few were under way, if they ever were."""

    quickest: float
    when_quiet: float | None = None

    def learn(self, seconds: float, *, quiet: bool) -> None:
        self.quickest = min(self.quickest, seconds)
        if quiet:
            before = seconds if self.when_quiet is None else self.when_quiet
            self.when_quiet = before + _NEWEST * (seconds - before)

    @property
    def seconds(self) -> float:
        return _OF_THE_QUICKEST * self.quickest if self.when_quiet is None else self.when_quiet


class _Pace:
    """How long small uploads take now, against what those into the same context usually take: one scans and another does not."""

    def __init__(self) -> None:
        self._ratios, self._count = 0.0, 0
        self._usual: dict[str, _Usual] = {}

    def took(self, context_id: str, seconds: float, *, quiet: bool) -> None:
        if len(self._usual) >= _MOST_CONTEXTS and context_id not in self._usual:
            self._usual.clear()
        usual = self._usual.setdefault(context_id, _Usual(seconds))
        usual.learn(seconds, quiet=quiet)
        self._ratios += seconds / max(usual.seconds, 1e-9)
        self._count += 1

    def is_crowded(self) -> bool:
        """Judge by those that ended since the last look."""
        average = self._ratios / max(1, self._count)
        self._ratios, self._count = 0.0, 0
        return average > _CROWDED
