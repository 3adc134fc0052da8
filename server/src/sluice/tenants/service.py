"""Operations on tenants. They are made by commands and by trusted issuers, never through the API."""

from collections.abc import Callable, Mapping
from typing import Any

from sluice.audit import AuditAction
from sluice.audit.repository import append
from sluice.db.database import Conflict, Database
from sluice.db.rls import ALL_TENANTS
from sluice.errors import NotFound, or_not_found
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import new_id
from sluice.kit.text import TENANT_ID_RULE, is_tenant_id
from sluice.tenants import repository
from sluice.tenants.tenant import Plan, Tenant, TenantStatus


class Tenants:
    """All tenants."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    async def create(
        self,
        name: str,
        plan: Plan,
        *,
        tenant_id: str | None = None,
        action_of: Callable[[str], AuditAction] | None = None,
    ) -> Tenant:
        """Create an active tenant, under an id of its own or the one that an issuer gave it.

        Raise `ValueError` if the given id cannot be one. If it exists already, return that tenant: two first
        requests of a new tenant may race. `action_of`
        returns who creates the tenant of an id; it is None where the first token of an issuer does.
        """
        if tenant_id is not None and not is_tenant_id(tenant_id):
            raise ValueError(f"expected {TENANT_ID_RULE}")
        tenant = Tenant(tenant_id or new_id("ten"), name, plan, "active", self._clock())
        try:
            async with self._database.transaction(tenant.tenant_id) as connection:
                await repository.add(connection, tenant)
                if action_of is not None:
                    await append(connection, action_of(tenant.tenant_id), tenant.tenant_id, tenant.created_at)
        except Conflict:
            return await self.get(tenant.tenant_id)
        return tenant

    async def get(self, tenant_id: str) -> Tenant:
        """Return one tenant; raise `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            return or_not_found(await repository.find(connection, tenant_id))

    async def list_all(self) -> tuple[Tenant, ...]:
        """Return every tenant, oldest first."""
        async with self._database.reading(ALL_TENANTS) as connection:
            return await repository.list_all(connection)

    async def exist(self) -> bool:
        """Return whether there is any tenant; a service without one was never set up."""
        async with self._database.reading(ALL_TENANTS) as connection:
            return await repository.count(connection) > 0

    async def set_status(self, by: AuditAction, status: TenantStatus) -> Tenant:
        """Suspend or resume a tenant; raise `NotFound`."""
        return await self._change(by, {"status": status})

    async def change(self, by: AuditAction, *, name: str | None = None, plan: Plan | None = None) -> Tenant:
        """Change name or plan; raise `NotFound`. Uploads that begin from now on are judged by the new plan."""
        given = {"name": name, "plan": plan}
        return await self._change(by, {field: value for field, value in given.items() if value is not None})

    async def _change(self, by: AuditAction, values: Mapping[str, Any]) -> Tenant:
        async with self._database.transaction(by.tenant_id) as connection:
            tenant = await repository.change(connection, by.tenant_id, values)
            if tenant is None:
                raise NotFound
            await append(connection, by, tenant.tenant_id, self._clock())
        return tenant
