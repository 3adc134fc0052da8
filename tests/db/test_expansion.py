"""Every step of the migrations only expands: what the release before reads and writes is there after it, unchanged (decision 15).

`make rolling-upgrade` runs the servers of the release before on the new schema; here each step is held to what their statements need.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Column, Connection, MetaData, Table, inspect, select, text

from sluice.db.database import Database
from sluice.db.migrate import newest, revision, serves, steps, upgrade
from sluice.db.whose import EVERYBODY

Columns = Mapping[tuple[str, str], Mapping[str, Any]]
_VALUES: Mapping[type, object] = {str: "v", int: 1, bool: False, bytes: b"v", dict: {}, datetime: datetime(2026, 1, 1, tzinfo=UTC)}
STEPS = steps()


def _columns(connection: Connection) -> Columns:
    look = inspect(connection)
    return {(table, column["name"]): column for table in look.get_table_names() for column in look.get_columns(table)}


def _promises(connection: Connection) -> set[str]:
    """Answer what a row must fulfil beyond its columns: unique and foreign keys, checks."""
    look, found = inspect(connection), set()
    for table in look.get_table_names():
        found |= {f"{table} unique {sorted(one['column_names'])}" for one in look.get_unique_constraints(table)}
        found |= {f"{table} unique {one['column_names']}" for one in look.get_indexes(table) if one["unique"]}
        found |= {f"{table} foreign key {sorted(one['constrained_columns'])}" for one in look.get_foreign_keys(table)}
        found |= {f"{table} check {one['sqltext']}" for one in look.get_check_constraints(table)}
    return found


def _tables(connection: Connection) -> list[Table]:
    """Answer the tables as the code of this step knows them, those first that others point at."""
    known = MetaData()
    known.reflect(connection)
    return [table for table in known.sorted_tables if table.name != "alembic_version"]


def _value(column: Column[Any]) -> object:
    if "JSON" in str(column.type).upper():
        return {}
    return _VALUES[column.type.python_type]


def _write_and_read(connection: Connection, tables: list[Table]) -> None:
    """Insert into every column that the old code knows, read it again, and delete it: every foreign key is fulfilled, as all texts are one."""
    for table in tables:
        row = {column.name: _value(column) for column in table.columns if column.identity is None}
        connection.execute(table.insert().values(row))
    for table in reversed(tables):
        assert connection.execute(select(table)).all() != []
        connection.execute(table.delete())


@pytest.mark.parametrize(("before", "after"), list(pairwise(STEPS)))
async def test_a_step_leaves_all_that_the_release_before_needs(database: Database, before: str, after: str) -> None:
    await upgrade(database, to=before)
    async with database.reading(EVERYBODY) as connection:
        old, old_promises = await connection.run_sync(_columns), await connection.run_sync(_promises)
        tables = await connection.run_sync(_tables)
    await upgrade(database, to=after)
    async with database.reading(EVERYBODY) as connection:
        new, new_promises = await connection.run_sync(_columns), await connection.run_sync(_promises)
    for place, column in old.items():
        assert str(new[place]["type"]) == str(column["type"]), place
        assert new[place]["nullable"] or not column["nullable"], place
    old_tables = {table for table, _ in old}
    for place in set(new) - set(old):
        added = new[place]
        assert place[0] not in old_tables or added["nullable"] or added["default"] is not None, (
            f"an old insert does not name {place}"
        )
    assert {promise for promise in new_promises - old_promises if promise.split()[0] in old_tables} == set()
    async with database.transaction(EVERYBODY) as connection:
        await connection.run_sync(_write_and_read, tables)


async def test_a_release_serves_a_database_that_a_later_one_has_migrated(database: Database) -> None:
    await upgrade(database)
    async with database.transaction(EVERYBODY) as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    await upgrade(database)
    assert await revision(database) == "9999"
    assert [serves(at) for at in ("9999", newest(), STEPS[0], None, "gone")] == [True, True, False, False, False]
