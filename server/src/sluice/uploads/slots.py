"""How many uploads of one tenant are processed at once.

Others wait, first come first served, before a byte of their body is read.

A tenant alone may have `per_tenant`. Where several tenants upload and uploads take longer than they need, each gets a
smaller share, found as TCP Vegas finds its window (Brakmo and Peterson, 1995): halved while small uploads take half as
long again as they did when few were under way, one more while they do not. So a flood waits in a queue of its own, and
uploads that only wait for a distant bucket are not held back.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from sluice.errors import TooManyRequests
from sluice.observe.metrics import UPLOADS_WAITING
from sluice_inspect.sandbox.fair_queue import FairQueue

_ADJUST_SECONDS: Final = 0.05
_CROWDED: Final = 1.5  # uploads that take this many times longer than usual wait for each other
_USUAL_OF_QUICKEST: Final = (
    2.0  # the usual time, as a multiple of the quickest, of a context that was never seen when it was quiet
)
_WEIGHT_OF_NEWEST: Final = 0.05
_MOST_CONTEXTS: Final = 1000
_SMALL_BYTES: Final = 64 * 1024  # uploads whose time shows how busy the service is, and not how large they are
_WAITING_PER_SLOT: Final = 4  # uploads that may wait for each slot of a tenant; each takes a connection
_PER_TOKEN: Final = 8  # uploads of one upload token: its holder may be slow on purpose
_ASKED_PER_TENANT: Final = 16  # uploads about which external checks are asked at once
_CORES: Final = os.cpu_count() or 2
_LEAST_SHARE: Final = 2 * _CORES  # enough to keep every core busy
_INSPECTED_PER_TOKEN: Final = max(1, _CORES // 2)  # checkers are more than that, so that one stays for other senders

_waits: ContextVar[list[float] | None] = ContextVar("waits for inspections", default=None)
"""Seconds that the upload whose time is being learned has waited for others of its token, or for external checks."""


class NoQuestionFree(Exception):
    """The tenant has too many questions to external checks under way."""


class UploadSlots:
    """A fair limit per tenant, so that one tenant's flood does not slow down the others."""

    def __init__(
        self, per_tenant: int, wait_seconds: float, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.share = per_tenant  # uploads that a tenant may have under way while others have some
        self._per_tenant = per_tenant
        self._wait_seconds = wait_seconds
        self._monotonic = monotonic
        self._queue: FairQueue[str, None, bool] = FairQueue(self._acquire)
        self._of_tokens: FairQueue[str, None, bool] = FairQueue(self._acquire_of_token)
        self._inspected: FairQueue[str, None, bool] = FairQueue(self._acquire_inspection)
        self._asked: FairQueue[str, None, bool] = FairQueue(self._acquire_question)
        self._is_adjusting = False
        self._durations = _Durations()

    @contextmanager
    def learning(self, context_id: str, size: int) -> Iterator[None]:
        """Learn from the time that the block takes to judge and store `size` received bytes.

        Rejections are not counted, nor the time in which the upload waited for others of its token.
        """
        began, others, waits = self._monotonic(), self._queue.held_total, list[float]()
        learned = _waits.set(waits)
        try:
            yield
        finally:
            _waits.reset(learned)
        if size <= _SMALL_BYTES:
            is_quiet = max(others, self._queue.held_total) <= _LEAST_SHARE
            self._durations.add(context_id, self._monotonic() - began - sum(waits), is_quiet=is_quiet)

    @asynccontextmanager
    async def hold(self, tenant_id: str, *, token_id: str | None = None) -> AsyncIterator[None]:
        """Hold one of the tenant's slots, for an upload token one of its few.

        Raise `TooManyRequests` if none is free in time, or if too many wait.
        """
        of_token = False
        if token_id is not None:
            if self._of_tokens.waiting_of(token_id) >= _WAITING_PER_SLOT * _PER_TOKEN:
                raise TooManyRequests(errors=["Too many uploads of this token wait"], limit=_PER_TOKEN)
            of_token = await self._wait(self._of_tokens, token_id, "token", _PER_TOKEN)
        try:
            slot = await self._take(tenant_id)
            try:
                yield
            finally:
                self._queue.put_back(tenant_id, slot)
        finally:
            if token_id is not None:
                self._of_tokens.put_back(token_id, of_token)

    @asynccontextmanager
    async def hold_inspection(self, token_id: str | None) -> AsyncIterator[None]:
        """Hold one of the few inspections of an upload token while the block runs; None: of another sender, no limit.

        Files that are slow to check on purpose then leave checkers to the other senders of their tenant.
        """
        if token_id is None:
            yield
            return
        began = self._monotonic()
        async with self._inspected.take(token_id, None):
            if (waits := _waits.get()) is not None:
                waits.append(self._monotonic() - began)
            yield

    @asynccontextmanager
    async def hold_question(self, tenant_id: str) -> AsyncIterator[None]:
        """Hold one of the tenant's questions to external checks while the block runs.

        Raise `NoQuestionFree` if none is free in time. How long a check takes says nothing of how busy the service is,
        so it is not learned.
        """
        began = self._monotonic()
        try:
            try:
                held = await self._asked.get(tenant_id, None, timeout=self._wait_seconds)
            except TimeoutError as fault:
                raise NoQuestionFree from fault
            try:
                yield
            finally:
                self._asked.put_back(tenant_id, held)
        finally:
            if (waits := _waits.get()) is not None:
                waits.append(self._monotonic() - began)

    async def _take(self, tenant_id: str) -> bool:
        if self._queue.waiting_of(tenant_id) >= _WAITING_PER_SLOT * self._per_tenant:
            raise TooManyRequests(errors=["Too many uploads of this tenant wait"], limit=self._per_tenant)
        slot = self._queue.get_nowait(tenant_id, None)
        if slot is None:
            slot = await self._wait(self._queue, tenant_id, "tenant", self._per_tenant)
        if not self._is_adjusting:
            self.share, self._is_adjusting = self._per_tenant, True
            asyncio.get_running_loop().call_later(_ADJUST_SECONDS, self._adjust)
        return slot

    async def _wait(self, queue: FairQueue[str, None, bool], key: str, whose: str, limit: int) -> bool:
        try:
            with UPLOADS_WAITING.track_inprogress():
                return await queue.get(key, None, timeout=self._wait_seconds)
        except TimeoutError as fault:
            raise TooManyRequests(errors=[f"Too many uploads of this {whose} are under way"], limit=limit) from fault

    def _acquire_of_token(self, token_id: str, _request: None) -> bool | None:
        return True if self._of_tokens.held.get(token_id, 0) < _PER_TOKEN else None

    def _acquire_inspection(self, token_id: str, _request: None) -> bool | None:
        return True if self._inspected.held.get(token_id, 0) < _INSPECTED_PER_TOKEN else None

    def _acquire_question(self, tenant_id: str, _request: None) -> bool | None:
        return True if self._asked.held.get(tenant_id, 0) < _ASKED_PER_TENANT else None

    def _acquire(self, tenant_id: str, _request: None) -> bool | None:
        held = self._queue.held
        has_others = len(held) > (tenant_id in held)
        return True if held.get(tenant_id, 0) < (self.share if has_others else self._per_tenant) else None

    def _adjust(self) -> None:
        """Compute the share again, as long as there are uploads."""
        if self._durations.are_crowded():
            self.share = max(_LEAST_SHARE, min(self.share, max(self._queue.held.values(), default=0)) // 2)
        else:
            self.share = min(self.share + 1, self._per_tenant)
        self._queue.refresh()
        self._is_adjusting = bool(self._queue.held_total or self._queue.waiting)
        if self._is_adjusting:
            asyncio.get_running_loop().call_later(_ADJUST_SECONDS, self._adjust)


@dataclass(slots=True)
class _UsualDuration:
    """Seconds that small uploads into one context take: the quickest, and the average when few were under way."""

    quickest: float
    when_quiet: float | None = None

    def add(self, seconds: float, *, is_quiet: bool) -> None:
        self.quickest = min(self.quickest, seconds)
        if is_quiet:
            before = seconds if self.when_quiet is None else self.when_quiet
            self.when_quiet = before + _WEIGHT_OF_NEWEST * (seconds - before)

    @property
    def seconds(self) -> float:
        return _USUAL_OF_QUICKEST * self.quickest if self.when_quiet is None else self.when_quiet


class _Durations:
    """How long small uploads take now, as ratios of what those into the same context usually take: one scans, another
    does not.
    """

    def __init__(self) -> None:
        self._ratios, self._count = 0.0, 0
        self._usual: dict[str, _UsualDuration] = {}

    def add(self, context_id: str, seconds: float, *, is_quiet: bool) -> None:
        if len(self._usual) >= _MOST_CONTEXTS and context_id not in self._usual:
            self._usual.clear()
        usual = self._usual.setdefault(context_id, _UsualDuration(seconds))
        usual.add(seconds, is_quiet=is_quiet)
        self._ratios += seconds / max(usual.seconds, 1e-9)
        self._count += 1

    def are_crowded(self) -> bool:
        """Judge by those that ended since the last call."""
        average = self._ratios / max(1, self._count)
        self._ratios, self._count = 0.0, 0
        return average > _CROWDED
