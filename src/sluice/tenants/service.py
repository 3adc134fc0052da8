"""What may be done with tenants. They are made by commands and by trusted issuers, never through the API."""

from collections.abc import Callable

from sluice.db.database import Conflict, Database
from sluice.db.whose import EVERYBODY
from sluice.errors import NotFound
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.tenants import repository
from sluice.tenants.tenant import Plan, Tenant, TenantStatus
from sluice.trail import Deed
from sluice.trail.repository import note


class Tenants:
    """All tenants."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    async def create(
        self, name: str, plan: Plan, *, tenant_id: str | None = None, deed_of: Callable[[str], Deed] | None = None
    ) -> Tenant:
        """Create an active tenant, under an id of its own or the one that an issuer gave it.

        A given id that exists already answers that tenant: two first requests of a new tenant may race. `deed_of` takes the tenant's id
        and says who makes it; nobody does where an issuer's first token makes it.
        """
        tenant = Tenant(tenant_id or new_id("ten"), name, plan, "active", self._clock())
        try:
            async with self._database.transaction(tenant.tenant_id) as connection:
                await repository.add(connection, tenant)
                if deed_of is not None:
                    await note(connection, deed_of(tenant.tenant_id), tenant.tenant_id, tenant.created_at)
        except Conflict:
            return await self.get(tenant.tenant_id)
        return tenant

    async def get(self, tenant_id: str) -> Tenant:
        """Answer one tenant; raises `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            tenant = await repository.find(connection, tenant_id)
        if tenant is None:
            raise NotFound
        return tenant

    async def list_all(self) -> tuple[Tenant, ...]:
        """Answer every tenant, oldest first."""
        async with self._database.reading(EVERYBODY) as connection:
            return await repository.list_all(connection)

    async def exist(self) -> bool:
        """Answer whether there is any tenant: a service without one was never set up."""
        async with self._database.reading(EVERYBODY) as connection:
            return await repository.count(connection) > 0

    async def set_status(self, deed: Deed, status: TenantStatus) -> Tenant:
        """Suspend a tenant or let it in again; raises `NotFound`."""
        async with self._database.transaction(deed.tenant_id) as connection:
            tenant = await repository.set_status(connection, deed.tenant_id, status)
            if tenant is None:
                raise NotFound
            await note(connection, deed, tenant.tenant_id, self._clock())
        return tenant
