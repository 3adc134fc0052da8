"""The migrations make the tables that the code declares, on both databases, and can be run twice."""

import asyncio

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text

from sluice.db.database import Database
from sluice.db.migrate import newest, revision, steps, upgrade
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import metadata
from tests.servers.postgres import Postgres


def differences(connection: Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata))


async def test_migrated_tables_match_the_declared_ones(database: Database) -> None:
    await upgrade(database)
    async with database.reading(ALL_TENANTS) as connection:
        assert await connection.run_sync(differences) == []


async def test_migrating_twice_changes_nothing(database: Database) -> None:
    assert await revision(database) is None
    await upgrade(database)
    await upgrade(database)
    assert await revision(database) == newest()


async def test_a_migration_that_deadlocks_with_a_server_is_retried(postgres: Postgres) -> None:
    """Server and migration wait for each other's lock. The server waits longer, so the migration is aborted."""
    database = Database(postgres.createdb())
    await upgrade(database, to=steps()[steps().index("0007") - 1])
    async with database.transaction(ALL_TENANTS) as server:
        await server.execute(text("SET LOCAL deadlock_timeout = '300s'"))
        await server.execute(text("LOCK TABLE decisions IN ACCESS SHARE MODE"))
        migrating = asyncio.create_task(upgrade(database))
        while not (await server.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted"))).scalar_one():
            pass
        await server.execute(text("LOCK TABLE tenants IN ACCESS SHARE MODE"))
    await migrating
    assert await revision(database) == newest()
    await database.aclose()
