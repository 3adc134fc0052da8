"""`sluice init` and `sluice migrate`: the schema, the key files, and the first tenant with its admin key."""

# ruff: noqa: PLC0415  (commands load their work when they run: `--help` must not wait for the database's library)

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from sluice.cli import output
from sluice.cli.environment import migrate_database, operator_action, task_settings
from sluice.cli.options import Json, NameOrNone
from sluice.cli.output import CommandRefused

if TYPE_CHECKING:
    from sluice.db.database import Database
    from sluice.tenants import Plan

_DEFAULT_NAME: Final = "default"


@dataclass(frozen=True, slots=True)
class FirstKey:
    """A tenant and an admin key of it. `created` is true if the tenant is new."""

    tenant_id: str
    tenant_name: str
    plan: "Plan"
    api_key_id: str
    api_key: str = field(repr=False)
    created: bool


def init(
    *,
    name: NameOrNone = None,
    plan: Annotated[Literal["free", "unlimited"], typer.Option(help="Plan of a tenant that is made.")] = "unlimited",
    json: Json = False,
) -> None:
    """Set the service up: migrate, make the key files and a tenant if missing, and print an admin key of it.

    Run it as often as you like: a tenant called NAME is made once and then found again; without --name it is the oldest
    tenant, or a new one called `default`. Each run makes a **new** admin key, since no key can be shown twice; the
    older ones stay valid (**sluice keys list**, **sluice keys revoke**).

    With --json: tenant_id, tenant_name, plan, api_key_id, api_key, and `created`, which is true if the tenant is new.
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
            return await _make_key(database, name, plan)
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
        return await _make_key(database, None, "unlimited")


async def _make_key(database: "Database", name: str | None, plan: "Plan") -> FirstKey:
    """Create an admin key of the oldest tenant called `name` (None: of any name), creating the tenant if missing."""
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
    label = "admin key" if found else "first admin key"
    action = operator_action("api_key.created", tenant.tenant_id)
    issued = await ApiKeys(database).create(action, label, [Scope.ADMIN.value])
    return FirstKey(tenant.tenant_id, tenant.name, tenant.plan, issued.key.api_key_id, issued.text, created=not found)


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
