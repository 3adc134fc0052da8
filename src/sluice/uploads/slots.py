"""Turns: how many uploads of one tenant are received at once. Others wait, first come first served, before a byte of their body is taken."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sluice.errors import TooManyRequests
from sluice.observe.metrics import UPLOADS_WAITING


class TenantSlots:
    """A fair bound per tenant, so that one tenant's flood does not become everybody's."""

    def __init__(self, per_tenant: int, wait_seconds: float) -> None:
        self._per_tenant = per_tenant
        self._wait_seconds = wait_seconds
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._users: dict[str, int] = {}

    @asynccontextmanager
    async def hold(self, tenant_id: str) -> AsyncIterator[None]:
        """Hold one of the tenant's slots; raises `TooManyRequests` when none falls free in time."""
        slots = self._slots.setdefault(tenant_id, asyncio.Semaphore(self._per_tenant))
        self._users[tenant_id] = self._users.get(tenant_id, 0) + 1
        try:
            try:
                if slots.locked():
                    with UPLOADS_WAITING.track_inprogress():
                        async with asyncio.timeout(self._wait_seconds):
                            await slots.acquire()
                else:
                    await slots.acquire()
            except TimeoutError as fault:
                raise TooManyRequests(errors=["Too many uploads of this tenant are under way"], limit=self._per_tenant) from fault
            try:
                yield
            finally:
                slots.release()
        finally:
            self._users[tenant_id] -= 1
            if not self._users[tenant_id]:
                del self._users[tenant_id], self._slots[tenant_id]
