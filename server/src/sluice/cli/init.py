"""`sluice init` and `sluice migrate`: the schema, the key files, and the first tenant with its admin key."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the database's library)

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from sluice.cli.environment import migrate_database, operator_action, task_settings
from sluice_client.cli import output
from sluice_client.cli.options import Json, NameOrNone
from sluice_client.cli.output import CommandRefused

if TYPE_CHECKING:
    from sluice.db.database import Database
    from sluice.tenants import Plan

_DEFAULT_NAME: Final = "default"
_KEYS_PER_PAGE: Final = 100


@dataclass(frozen=True, slots=True)
class FirstKey:
    """A tenant and an admin key of it. `created` is true if the tenant is new."""

    tenant_id: str
    tenant_name: str
    plan: "Plan"
    api_key_id: str | None
    api_key: str | None = field(repr=False)
    created: bool


def init(
    *,
    name: NameOrNone = None,
    plan: Annotated[Literal["free", "unlimited"], typer.Option(help="Plan of a tenant that is made.")] = "unlimited",
    new_key: Annotated[
        bool, typer.Option("--new-key", help="Make an admin key although the tenant has one already.")
    ] = False,
    json: Json = False,
) -> None:
    """Set the service up: migrate, make the key files, a tenant and an admin key of it, as far as they are missing.

    Run it as often as you like: a tenant called NAME is made once and then found again; without --name it is the oldest
    tenant, or a new one called `default`. A key is shown once, when it is made. With --new-key another one is made for
    a tenant that has one; the older ones stay valid (**sluice keys list**, **sluice keys revoke**).

    With --json: tenant_id, tenant_name, plan, api_key_id and api_key (null if no key was made), and `created`, which is
    true if the tenant is new.
    """
    import asyncio

    from sluice.wiring.engines import make_database
    from sluice.wiring.start import make_key_files

    settings = task_settings()
    made = make_key_files(settings)

    async def migrate_and_make_key() -> FirstKey:
        await migrate_database(settings)
        database = make_database(settings)
        try:
            return await _make_key(database, name, plan, is_asked_for=new_key)
        finally:
            await database.aclose()

    first = asyncio.run(migrate_and_make_key())
    if json:
        output.as_json(asdict(first))
        return
    for path in made:
        output.line(f"Made {path}. Keep a copy: nothing can replace it.")
    found = "Made" if first.created else "Found"
    output.line(f"{found} the tenant {first.tenant_id} ({first.tenant_name}, plan {first.plan}).")
    if first.api_key is None:
        output.line("It has an admin key already. For another: sluice init --new-key")
        return
    output.line(f"Its new admin key {first.api_key_id}, shown now and never again:")
    output.line(f"  {first.api_key}")


def migrate() -> None:
    """Bring the database to the schema of this release, keeping its data.

    `serve`, `work` and `init` do it too. Several may run at once; one of them does the work.
    """
    import asyncio

    before, after = asyncio.run(migrate_database(task_settings()))
    if before == after:
        output.line(f"The database is at schema {after} already.")
    else:
        output.line(f"Schema {before or 'none'} became {after}.")


async def make_first_key(database: "Database", data_dir: Path) -> FirstKey | None:
    """Create the first tenant and an admin key of it. Return None if there is any tenant already."""
    from sluice.tenants.service import Tenants

    with _exclusive_start(data_dir):
        if await Tenants(database).exist():
            return None
        return await _make_key(database, None, "unlimited", is_asked_for=True)


async def _make_key(database: "Database", name: str | None, plan: "Plan", *, is_asked_for: bool) -> FirstKey:
    """Create an admin key of the oldest tenant called `name` (None: of any name), creating the tenant if missing.

    If the tenant has an admin key that works, another one is created only if `is_asked_for`.
    """
    from sluice.access import Scope
    from sluice.api_keys.service import ApiKeys
    from sluice.tenants.service import Tenants

    found = [tenant for tenant in await Tenants(database).list_all() if name in {None, tenant.name}]
    tenant = found[0] if found else await Tenants(database).create(name or _DEFAULT_NAME, plan)
    if tenant.status != "active":
        raise CommandRefused(
            f"The tenant {tenant.tenant_id} is suspended: let it in again with `sluice tenants resume "
            f"{tenant.tenant_id}`."
        )
    if not is_asked_for and await _has_admin_key(database, tenant.tenant_id):
        return FirstKey(tenant.tenant_id, tenant.name, tenant.plan, None, None, created=False)
    label = "admin key" if found else "first admin key"
    action = operator_action("api_key.created", tenant.tenant_id)
    issued = await ApiKeys(database).create(action, label, [Scope.ADMIN.value])
    return FirstKey(tenant.tenant_id, tenant.name, tenant.plan, issued.key.api_key_id, issued.text, created=not found)


async def _has_admin_key(database: "Database", tenant_id: str) -> bool:
    from sluice.access import Scope
    from sluice.api_keys.service import ApiKeys
    from sluice.kit.clock import utc_now
    from sluice.kit.paging import PageRequest

    keys, now = ApiKeys(database), utc_now()
    page = await keys.list_page(tenant_id, "active", PageRequest(1, _KEYS_PER_PAGE))
    while page.items:
        for key in page.items:
            if Scope.ADMIN.value in key.scopes and (key.expires_at is None or key.expires_at > now):
                return True
        page = await keys.list_page(tenant_id, "active", PageRequest(page.request.page + 1, _KEYS_PER_PAGE))
    return False


@contextmanager
def _exclusive_start(data_dir: Path) -> Iterator[None]:
    # Several servers may start on one empty folder at once. Without the lock each would create a tenant and show a key.
    import fcntl
    import os

    fd = os.open(data_dir / "first-start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
