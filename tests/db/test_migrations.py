"""The migrations lead to the tables that the code declares, on both databases, from nothing and a second time."""

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from sluice.db.database import Database
from sluice.db.migrate import newest, revision, upgrade
from sluice.db.schema import metadata
from sluice.db.whose import EVERYBODY


def differences(connection: Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata))


async def test_the_migrated_tables_are_the_declared_ones(database: Database) -> None:
    await upgrade(database)
    async with database.reading(EVERYBODY) as connection:
        assert await connection.run_sync(differences) == []


async def test_migrating_twice_changes_nothing(database: Database) -> None:
    assert await revision(database) is None
    await upgrade(database)
    await upgrade(database)
    assert await revision(database) == newest()
