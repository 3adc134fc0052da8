"""What the commands for tenants do with the database."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from sluice.cli.environment import on_database
from sluice.cli.outcomes import CommandRefused
from sluice.db.database import Database
from sluice.errors import NotFound
from sluice.tenants import Plan, Tenant
from sluice.tenants.service import Tenants
from sluice.tenants.tenant import TenantStatus


def create(name: str, plan: Plan) -> Tenant:
    """Make an active tenant."""

    async def act(database: Database) -> Tenant:
        return await Tenants(database).create(name, plan)

    return on_database(act)


def list_all() -> Sequence[Tenant]:
    """Answer all tenants, the oldest first."""

    async def act(database: Database) -> Sequence[Tenant]:
        return await Tenants(database).list_all()

    return on_database(act)


def set_status(tenant_id: str, status: TenantStatus) -> None:
    """Suspend a tenant or let it in again; raises `CommandRefused` when there is none."""

    async def act(database: Database) -> None:
        await existing(database, tenant_id)
        await Tenants(database).set_status(tenant_id, status)

    on_database(act)


async def existing(database: Database, tenant_id: str) -> Tenant:
    """Answer the tenant; raises `CommandRefused` with a sentence that says where to look for its id."""
    try:
        return await Tenants(database).get(tenant_id)
    except NotFound as fault:
        raise CommandRefused(f"There is no tenant {tenant_id}: `sluice tenants list` names them all.") from fault


def fields(tenant: Tenant) -> Mapping[str, object]:
    """Answer the tenant for scripts."""
    return asdict(tenant)
