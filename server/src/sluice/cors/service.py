"""Allowed origins: read and replace a tenant's own, and decide whether a page may read a response."""

import time
from collections.abc import Sequence
from typing import Final

from sluice.access import Principal
from sluice.audit import AuditAction
from sluice.audit.repository import append
from sluice.cors import repository
from sluice.db.database import Database, DatabaseUnavailable
from sluice.db.rls import ALL_TENANTS
from sluice.kit.clock import Clock, utc_now
from sluice.kit.read_through_cache import ReadThroughCache

_FRESH_SECONDS: Final = 5.0
# While the database is unavailable, pages may still read the 503.
_KEPT_SECONDS: Final = 600.0
_CAPACITY: Final = 1000
_LONGEST_ORIGIN: Final = 255


class Cors:
    """The allowed origins of all tenants."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock
        self._anywhere: ReadThroughCache[str, bool] = ReadThroughCache(
            self._read_anywhere, capacity=_CAPACITY, lifetime_seconds=_KEPT_SECONDS
        )
        self._of_tenants: ReadThroughCache[str, frozenset[str]] = ReadThroughCache(
            self._read_of_tenant, capacity=_CAPACITY, lifetime_seconds=_KEPT_SECONDS
        )

    async def get(self, tenant_id: str) -> Sequence[str]:
        """Return the tenant's own origins."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_of_tenant(connection, tenant_id)

    async def replace(self, by: AuditAction, origins: Sequence[str]) -> Sequence[str]:
        """Make these the tenant's own origins, and return them. Other processes follow within seconds."""
        wanted = sorted(set(origins))
        async with self._database.transaction(by.tenant_id) as connection:
            await repository.replace(connection, by.tenant_id, wanted)
            await append(connection, by, by.tenant_id, self._clock())
        self._anywhere.clear()
        self._of_tenants.clear()
        return wanted

    async def origins_of(self, tenant_id: str) -> frozenset[str]:
        """Return the tenant's own origins, a few seconds old at most."""
        return (await self._of_tenants.get(tenant_id, since=time.monotonic() - _FRESH_SECONDS)).value

    async def allows(self, origin: str, caller: Principal | None, *, tenant_id: str | None = None) -> bool:
        """Return whether a page of `origin` may read responses to `caller`.

        The holder of an upload token may if the token lists the origin, other callers if their tenant does, or the
        tenant `tenant_id` of a file that is sent by its link. For an unknown caller it is enough that any
        tenant lists it. A refusal is never taken from the cache.
        """
        if caller is not None and caller.permit is not None:
            return origin in caller.permit.allowed_origins
        if caller is not None:
            tenant_id = caller.tenant_id
        if len(origin) > _LONGEST_ORIGIN or not origin.isascii() or "\0" in origin:
            return False
        now = time.monotonic()
        try:
            return await self._is_listed(origin, tenant_id, now - _FRESH_SECONDS) or await self._is_listed(
                origin, tenant_id, now
            )
        except DatabaseUnavailable:
            since = now - _KEPT_SECONDS
            if tenant_id is not None:
                of_tenant = self._of_tenants.find(tenant_id, since=since)
                return of_tenant is not None and origin in of_tenant.value
            anywhere = self._anywhere.find(origin, since=since)
            return anywhere is not None and anywhere.value

    async def _is_listed(self, origin: str, tenant_id: str | None, since: float) -> bool:
        if tenant_id is None:
            return (await self._anywhere.get(origin, since=since)).value
        return origin in (await self._of_tenants.get(tenant_id, since=since)).value

    async def _read_anywhere(self, origin: str) -> bool:
        async with self._database.reading(ALL_TENANTS) as connection:
            return await repository.is_listed_anywhere(connection, origin, self._clock())

    async def _read_of_tenant(self, tenant_id: str) -> frozenset[str]:
        return frozenset(await self.get(tenant_id))
