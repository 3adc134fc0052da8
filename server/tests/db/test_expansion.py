"""Every migration step only expands: what the previous release reads and writes is there after it (decision 15).

`make rolling-upgrade` runs the servers of the previous release on the new schema; here each step is compared with what
their statements need.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, Connection, Inspector, MetaData, Table, create_engine, inspect, select
from sqlalchemy.exc import IntegrityError

from sluice.db import migrate
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from tests.db.first_schema import create, first_schema
from tests.db.steps import EXPAND, FILL, all_steps, run_steps, write_steps
from tests.rows import each_row

_NOW = datetime(2026, 1, 1, tzinfo=UTC)
_VALUES: Mapping[type, object] = {str: "v", int: 1, bool: False, bytes: b"v", dict: {}, datetime: _NOW}


@dataclass(frozen=True)
class Schema:
    """What statements of a release need: columns by table and name, constraints, and tables, referenced ones first."""

    columns: Mapping[tuple[str, str], Mapping[str, Any]]
    constraints: frozenset[str]
    tables: tuple[Table, ...]


def read_schema(connection: Connection) -> Schema:
    inspector, known = inspect(connection), MetaData()
    columns = {
        (table, column["name"]): column
        for table in inspector.get_table_names()
        for column in inspector.get_columns(table)
    }
    known.reflect(connection)
    tables = tuple(table for table in known.sorted_tables if table.name != "alembic_version")
    return Schema(columns, frozenset(_constraints(inspector)), tables)


@contextmanager
def memory() -> Iterator[Connection]:
    """A connection to an empty database in memory."""
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        yield connection
    engine.dispose()


def _constraints(inspector: Inspector) -> set[str]:
    """Return the constraints beyond the columns: unique keys, foreign keys, checks."""
    found: set[str] = set()
    for table in inspector.get_table_names():
        found |= {f"{table} unique {sorted(one['column_names'])}" for one in inspector.get_unique_constraints(table)}
        found |= {f"{table} unique {one['column_names']}" for one in inspector.get_indexes(table) if one["unique"]}
        foreign = inspector.get_foreign_keys(table)
        found |= {f"{table} foreign key {sorted(one['constrained_columns'])}" for one in foreign}
        found |= {f"{table} check {one['sqltext']}" for one in inspector.get_check_constraints(table)}
    return found


def broken_by(old: Schema, new: Schema) -> set[str]:
    """Return what statements on the old schema need and do not have on the new one."""
    found: set[str] = set()
    old_tables = {table for table, _ in old.columns}
    for (table, name), column in old.columns.items():
        now = new.columns.get((table, name))
        if now is None:
            found.add(f"{table}.{name} is gone")
        elif str(now["type"]) != str(column["type"]):
            found.add(f"{table}.{name} has another type")
        elif column["nullable"] and not now["nullable"]:
            found.add(f"{table}.{name} is required")
    for table, name in new.columns.keys() - old.columns.keys():
        column = new.columns[table, name]
        if table in old_tables and not column["nullable"] and column["default"] is None:
            found.add(f"an old insert does not name {table}.{name}")
    return found | {one for one in new.constraints - old.constraints if one.split()[0] in old_tables}


def _value(column: Column[Any]) -> object:
    if "JSON" in str(column.type).upper():
        return {}
    return _VALUES[column.type.python_type]


def write_and_read(connection: Connection, schema: Schema) -> None:
    """Insert a row into each table with every old column, read it and delete it.

    All texts are equal, so every foreign key is satisfied. Rows that triggers left for an earlier step go first.
    """
    for table in reversed(schema.tables):
        connection.execute(table.delete())
    for table in schema.tables:
        row = {column.name: _value(column) for column in table.columns if column.identity is None}
        connection.execute(table.insert().values(row))
    for table in reversed(schema.tables):
        assert connection.execute(select(table)).all() != []
        connection.execute(table.delete())


@pytest.mark.parametrize("later", [(), (EXPAND, FILL)], ids=["steps of the product", "and later steps"])
async def test_each_step_keeps_everything_the_previous_release_needs(
    database: Database, tmp_path: Path, later: tuple[str, ...]
) -> None:
    write_steps(tmp_path / "steps", *later)
    first, *steps = all_steps(tmp_path / "steps")
    assert first == "0001"
    await create(database, first_schema("sqlite" if database.is_sqlite else "postgresql"))
    async with database.reading(ALL_TENANTS) as connection:
        old = await connection.run_sync(read_schema)
    for step in steps:
        await run_steps(database, tmp_path / "steps", step)
        async with database.reading(ALL_TENANTS) as connection:
            new = await connection.run_sync(read_schema)
        assert broken_by(old, new) == set(), step
        async with database.transaction(ALL_TENANTS) as connection:
            await connection.run_sync(write_and_read, old)
        old = new
    assert await migrate.revision(database) == max([first, *steps])
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.run_sync(write_and_read, old)


_TABLES = (
    "CREATE TABLE tenants (tenant_id VARCHAR(64) PRIMARY KEY)",
    "CREATE TABLE files (file_id VARCHAR(64) PRIMARY KEY, name VARCHAR(255), size INTEGER)",
)


def _changed_files(columns: str) -> str:
    return f"DROP TABLE files; CREATE TABLE files (file_id VARCHAR(64) PRIMARY KEY, {columns})"


@each_row(
    "step, broken",
    [
        ("ALTER TABLE files ADD COLUMN more VARCHAR(64)", set()),
        ("ALTER TABLE files ADD COLUMN more VARCHAR(64) NOT NULL DEFAULT ''", set()),
        ("CREATE TABLE more (more_id VARCHAR(64) PRIMARY KEY, name VARCHAR(64) NOT NULL UNIQUE)", set()),
        ("CREATE INDEX ix_files_name ON files (name)", set()),
        ("DROP TABLE tenants", {"tenants.tenant_id is gone"}),
        ("ALTER TABLE files DROP COLUMN name", {"files.name is gone"}),
        ("ALTER TABLE files RENAME COLUMN name TO title", {"files.name is gone"}),
        (_changed_files("name VARCHAR(64), size INTEGER"), {"files.name has another type"}),
        (_changed_files("name VARCHAR(255) NOT NULL, size INTEGER"), {"files.name is required"}),
        (
            _changed_files("name VARCHAR(255), size INTEGER, more VARCHAR(64) NOT NULL"),
            {"an old insert does not name files.more"},
        ),
        ("CREATE UNIQUE INDEX ix_files_name ON files (name)", {"files unique ['name']"}),
        (_changed_files("name VARCHAR(255), size INTEGER, UNIQUE (size, name)"), {"files unique ['name', 'size']"}),
        (_changed_files("name VARCHAR(255), size INTEGER CHECK (size > 0)"), {"files check size > 0"}),
        (
            _changed_files("name VARCHAR(255) REFERENCES tenants (tenant_id), size INTEGER"),
            {"files foreign key ['name']"},
        ),
    ],
)
def test_step_that_breaks_the_previous_release_is_noticed(step: str, broken: set[str]) -> None:
    with memory() as connection:
        for statement in _TABLES:
            connection.exec_driver_sql(statement)
        old = read_schema(connection)
        for statement in step.split("; "):
            connection.exec_driver_sql(statement)
        assert broken_by(old, read_schema(connection)) == broken


def test_step_whose_trigger_refuses_an_old_insert_is_noticed() -> None:
    with memory() as connection:
        for statement in _TABLES:
            connection.exec_driver_sql(statement)
        old = read_schema(connection)
        write_and_read(connection, old)
        connection.exec_driver_sql("CREATE TRIGGER no BEFORE INSERT ON files BEGIN SELECT RAISE(ABORT, 'no'); END")
        with pytest.raises(IntegrityError, match="no"):
            write_and_read(connection, old)
