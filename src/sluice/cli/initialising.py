"""Setting the service up by command: schema, key files, a tenant, a key. Serving it is in `serving`."""

import asyncio
from dataclasses import asdict

from sluice.cli import show
from sluice.cli.environment import bring_up_to_date
from sluice.cli.first_key import FirstKey, ensure_key
from sluice.settings import Settings
from sluice.tenants import Plan
from sluice.wiring.engines import make_database
from sluice.wiring.secrets import make_key_files


def init(settings: Settings, name: str | None, plan: Plan, *, json: bool) -> int:
    """Migrate, make what is missing, and show a new admin key."""
    made = make_key_files(settings)
    first = asyncio.run(_init(settings, name, plan))
    if json:
        show.as_json(asdict(first))
        return 0
    for path in made:
        show.line(f"Made {path}. Keep a copy: nothing can replace it.")
    _tell(first)
    return 0


def migrate(settings: Settings) -> int:
    """Migrate, and say from where to where."""
    before, after = asyncio.run(bring_up_to_date(settings))
    show.line(f"The database is at schema {after} already." if before == after else f"Schema {before or 'none'} became {after}.")
    return 0


async def _init(settings: Settings, name: str | None, plan: Plan) -> FirstKey:
    await bring_up_to_date(settings)
    database = make_database(settings)
    try:
        return await ensure_key(database, name, plan)
    finally:
        await database.aclose()


def _tell(first: FirstKey) -> None:
    show.line(f"{'Made' if first.created else 'Found'} the tenant {first.tenant_id} ({first.tenant_name}, plan {first.plan}).")
    show.line(f"Its new admin key {first.api_key_id}, shown now and never again:")
    show.line(f"  {first.api_key}")
