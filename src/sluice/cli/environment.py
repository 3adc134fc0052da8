"""What a command finds around it: a database that is set up. The settings are in `configured`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

from sluice.cli.configured import settings_for_a_task
from sluice.cli.outcomes import CommandRefused, Exit
from sluice.db import migrate, roles
from sluice.db.database import Database
from sluice.settings import Settings
from sluice.wiring.engines import make_database, make_owners_database

T = TypeVar("T")


def on_database(act: Callable[[Database], Awaitable[T]]) -> T:
    """Answer what `act` does with the database of the environment's settings; raises what `opened_database` raises."""
    settings = settings_for_a_task()

    async def acted() -> T:
        async with opened_database(settings) as database:
            return await act(database)

    return asyncio.run(acted())


async def bring_up_to_date(settings: Settings) -> tuple[str | None, str | None]:
    """Migrate the database to the schema of this release, however long that takes; answer the schema before and after.

    Where the tables belong to another role than the service's, that one is granted what it needs. Raises `DatabaseAway`, and
    `CommandRefused` when the service's own role would have to migrate and may not.
    """
    async with AsyncExitStack() as stack:
        owner = make_owners_database(settings)
        stack.push_async_callback(owner.aclose)
        before = await migrate.revision(owner)
        if not migrate.serves(before):
            await _upgrade(owner, before)
        if settings.migration_database_url is not None:
            database = make_database(settings)
            stack.push_async_callback(database.aclose)
            await _let_in(owner, database)
        return before, await migrate.revision(owner)


async def _upgrade(owner: Database, before: str | None) -> None:
    try:
        await migrate.upgrade(owner)
    except migrate.NotTheOwner as fault:
        raise CommandRefused(
            f"The database is at schema {before or 'none'}, this release needs {migrate.newest()}, and SLUICE_DATABASE_URL names a role "
            "that may not change it: run `sluice migrate` with SLUICE_MIGRATION_DATABASE_URL, the same database as its owner.",
            Exit.FAILED,
        ) from fault


async def _let_in(owner: Database, database: Database) -> None:
    role = await roles.role_of(database)
    if role != await roles.role_of(owner):
        await roles.grant(owner, role)


@asynccontextmanager
async def opened_database(settings: Settings) -> AsyncIterator[Database]:
    """Open the database for one command; raises `CommandRefused` when none was set up, or not by this release."""
    _require_file(settings)
    database = make_database(settings)
    try:
        at = await migrate.revision(database)
        if not migrate.serves(at):
            raise CommandRefused(
                f"The database is at schema {at or 'none'} and this release needs {migrate.newest()}: run `sluice migrate`.",
                Exit.FAILED,
            )
        yield database
    finally:
        await database.aclose()


def _require_file(settings: Settings) -> None:
    """Refuse to make an empty database in whatever folder the command was run in."""
    database = settings.resolved_database_url
    path = Path(database.removeprefix("sqlite:///"))
    if database.startswith("sqlite:///") and not path.exists():
        raise CommandRefused(
            f"There is no database at {path}: run `sluice init` first, or set SLUICE_DATA_DIR to the folder of the service.",
            Exit.FAILED,
        )
