"""What the commands for tenants do with the database."""

import getpass
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial

from sluice.access import operator
from sluice.cli.environment import on_database
from sluice.cli.outcomes import CommandRefused
from sluice.db.database import Database
from sluice.errors import NotFound
from sluice.tenants import Plan, Tenant
from sluice.tenants.service import Tenants
from sluice.tenants.tenant import TenantStatus
from sluice.trail import Deed


def create(name: str, plan: Plan) -> Tenant:
    """Make an active tenant."""

    async def act(database: Database) -> Tenant:
        return await Tenants(database).create(name, plan, deed_of=partial(deed, "tenant.created"))

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
        await Tenants(database).set_status(
            deed("tenant.suspended" if status == "suspended" else "tenant.resumed", tenant_id), status
        )

    on_database(act)


def deed(action: str, tenant_id: str) -> Deed:
    """Answer what a command sets out to do, under the name of the machine's user that runs it."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without a name; KeyError until Python 3.12
        user = str(os.getuid())
    return Deed(operator(tenant_id, user), action)


async def existing(database: Database, tenant_id: str) -> Tenant:
    """Answer the tenant; raises `CommandRefused` with a sentence that says where to look for its id."""
    try:
        return await Tenants(database).get(tenant_id)
    except NotFound as fault:
        raise CommandRefused(f"There is no tenant {tenant_id}: `sluice tenants list` names them all.") from fault


def fields(tenant: Tenant) -> Mapping[str, object]:
    """Answer the tenant for scripts."""
    return asdict(tenant)
