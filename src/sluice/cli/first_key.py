"""The first tenant and its admin key: how a service that nobody can enter yet lets its owner in. How it is shown is the commands' affair."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sluice.access import Scope
from sluice.api_keys.service import ApiKeys
from sluice.cli.outcomes import CommandRefused
from sluice.cli.tenants import deed
from sluice.db.database import Database
from sluice.tenants import Plan, Tenant
from sluice.tenants.service import Tenants

DEFAULT_NAME: Final = "default"


@dataclass(frozen=True, slots=True)
class FirstKey:
    """A tenant and a key that may do everything in it. `created` tells whether the tenant is new."""

    tenant_id: str
    tenant_name: str
    plan: Plan
    api_key_id: str
    api_key: str = field(repr=False)
    created: bool


async def make_first_key(database: Database, data_dir: Path) -> FirstKey | None:
    """Answer a new tenant and its key, or None when there is any tenant already."""
    with _one_at_a_time(data_dir):
        if await Tenants(database).exist():
            return None
        return await ensure_key(database, None, "unlimited")


async def ensure_key(database: Database, name: str | None, plan: Plan) -> FirstKey:
    """Answer a new admin key of the oldest tenant called `name` (None: of any name), made on `plan` when there is none.

    Raises `CommandRefused` when that tenant is suspended: its keys would be refused.
    """
    found = [tenant for tenant in await Tenants(database).list_all() if name in {None, tenant.name}]
    tenant = found[0] if found else await Tenants(database).create(name or DEFAULT_NAME, plan)
    if tenant.status != "active":
        raise CommandRefused(
            f"The tenant {tenant.tenant_id} is suspended: let it in again with `sluice tenants resume {tenant.tenant_id}`."
        )
    return await _with_key(database, tenant, created=not found)


async def _with_key(database: Database, tenant: Tenant, *, created: bool) -> FirstKey:
    by = deed("api_key.created", tenant.tenant_id)
    issued = await ApiKeys(database).create(by, "first admin key" if created else "admin key", [Scope.ADMIN.value])
    return FirstKey(tenant.tenant_id, tenant.name, tenant.plan, issued.key.api_key_id, issued.text, created)


@contextmanager
def _one_at_a_time(data_dir: Path) -> Iterator[None]:
    """Of several first starts on one folder, let one look and act before the next one looks."""
    fd = os.open(data_dir / "first-start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
