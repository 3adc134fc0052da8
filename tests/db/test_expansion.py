"""Every migration only expands: what the previous release reads and writes is there after it (decision 15).

`make rolling-upgrade` runs the servers of the previous release on the new schema; here each migration is compared
with what their statements need.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Column, Connection, MetaData, Table, inspect, select, text

from sluice.db.database import Database
from sluice.db.migrate import newest, revision, serves, steps, upgrade
from sluice.db.rls import ALL_TENANTS

Columns = Mapping[tuple[str, str], Mapping[str, Any]]
_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_VALUES: Mapping[type, object] = {str: "v", int: 1, bool: False, bytes: b"v", dict: {}, datetime: _NOW}
STEPS = steps()


def _columns(connection: Connection) -> Columns:
    inspector = inspect(connection)
    return {
        (table, column["name"]): column
        for table in inspector.get_table_names()
        for column in inspector.get_columns(table)
    }


def _constraints(connection: Connection) -> set[str]:
    """Return the constraints beyond the columns: unique keys, foreign keys, checks."""
    inspector, found = inspect(connection), set()
    for table in inspector.get_table_names():
        found |= {f"{table} unique {sorted(one['column_names'])}" for one in inspector.get_unique_constraints(table)}
        found |= {f"{table} unique {one['column_names']}" for one in inspector.get_indexes(table) if one["unique"]}
        foreign = inspector.get_foreign_keys(table)
        found |= {f"{table} foreign key {sorted(one['constrained_columns'])}" for one in foreign}
        found |= {f"{table} check {one['sqltext']}" for one in inspector.get_check_constraints(table)}
    return found


def _tables(connection: Connection) -> list[Table]:
    """Return the tables of this migration, referenced tables first."""
    known = MetaData()
    known.reflect(connection)
    return [table for table in known.sorted_tables if table.name != "alembic_version"]


def _value(column: Column[Any]) -> object:
    if "JSON" in str(column.type).upper():
        return {}
    return _VALUES[column.type.python_type]


def _write_and_read(connection: Connection, tables: list[Table]) -> None:
    """Insert a row into each table with every old column, read it and delete it.

    All texts are equal, so every foreign key is satisfied. Rows that triggers left for an earlier migration go first.
    """
    for table in reversed(tables):
        connection.execute(table.delete())
    for table in tables:
        row = {column.name: _value(column) for column in table.columns if column.identity is None}
        connection.execute(table.insert().values(row))
    for table in reversed(tables):
        assert connection.execute(select(table)).all() != []
        connection.execute(table.delete())


async def test_each_migration_keeps_everything_the_previous_release_needs(database: Database) -> None:
    old: Columns = {}
    old_constraints: set[str] = set()
    tables: list[Table] = []
    for step in STEPS:
        await upgrade(database, to=step)
        async with database.reading(ALL_TENANTS) as connection:
            new, new_constraints = await connection.run_sync(_columns), await connection.run_sync(_constraints)
        for place, column in old.items():
            assert str(new[place]["type"]) == str(column["type"]), (step, place)
            assert new[place]["nullable"] or not column["nullable"], (step, place)
        old_tables = {table for table, _ in old}
        for place in set(new) - set(old):
            is_optional = new[place]["nullable"] or new[place]["default"] is not None
            assert place[0] not in old_tables or is_optional, f"{step}: an old insert does not name {place}"
        added_constraints = new_constraints - old_constraints
        assert not {one for one in added_constraints if one.split()[0] in old_tables}, step
        async with database.transaction(ALL_TENANTS) as connection:
            await connection.run_sync(_write_and_read, tables)
            tables = await connection.run_sync(_tables)
        old, old_constraints = new, new_constraints


async def test_a_release_serves_a_database_migrated_by_a_later_release(database: Database) -> None:
    await upgrade(database)
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    await upgrade(database)
    assert await revision(database) == "9999"
    assert [serves(at) for at in ("9999", newest(), STEPS[0], None, "gone")] == [True, True, False, False, False]
