"""Pages of lists, and files to purge, on both databases: complete, and read through an index."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, text

from sluice.audit import AuditFilter
from sluice.audit.repository import list_slice
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.files import repository
from sluice.kit.paging import PageRequest, SliceRequest
from tests.db.rows import add_file, add_tenant

_INDEXES = {
    (None, None): "ix_files_listing",
    ("a", None): "ix_files_by_context",
    (None, "u"): "ix_files_by_uploader",
    ("a", "u"): "ix_files_by_both",
}


@pytest.fixture
async def tables(tables: Database) -> Database:
    await add_tenant(tables, "ten_1", "a", "b")
    for number in range(11):
        await add_file(tables, "ten_1", f"f{number:02}")
    await add_file(tables, "ten_1", "f99", context="b", by="v")
    return tables


async def page(
    database: Database, number: int, size: int, context: str | None = None, by: str | None = None
) -> list[str]:
    async with database.reading(ALL_TENANTS) as connection:
        found = await repository.list_page(connection, "ten_1", context, by, PageRequest(number, size))
    return [file.file_id for file in found.items]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 11, 12])
async def test_pages_of_any_size_list_every_file_once_newest_first(size: int, tables: Database) -> None:
    pages = [await page(tables, number, size, "a") for number in range(1, 12 // size + 3)]
    assert [file_id for files in pages for file_id in files] == [f"f{number:02}" for number in range(10, -1, -1)]
    assert all(len(files) <= size for files in pages)


@contextmanager
def _record_statements(database: Database) -> Iterator[list[tuple[str, Any]]]:
    """Collect the statements that are sent to the driver."""
    statements: list[tuple[str, Any]] = []

    def note(_connection: object, _cursor: object, statement: str, parameters: object, *_more: object) -> None:
        statements.append((statement, parameters))

    event.listen(database.engine.sync_engine, "before_cursor_execute", note)
    yield statements
    event.remove(database.engine.sync_engine, "before_cursor_execute", note)


@pytest.mark.parametrize("wanted", _INDEXES)
@pytest.mark.parametrize("number", [1, 4])
async def test_filters_use_covering_index(wanted: tuple[str | None, str | None], number: int, tables: Database) -> None:
    async with tables.transaction(ALL_TENANTS) as connection:
        await connection.execute(text("ANALYZE"))
    with _record_statements(tables) as statements:
        await page(tables, number, 3, *wanted)
    statement, parameters = statements[-1]
    async with tables.reading(ALL_TENANTS) as connection:
        if not tables.is_sqlite:
            await connection.execute(text("SET LOCAL enable_seqscan = off"))
            await connection.execute(text("SET LOCAL enable_bitmapscan = off"))
        explain = "EXPLAIN QUERY PLAN" if tables.is_sqlite else "EXPLAIN"
        plan = list(map(str, (await connection.exec_driver_sql(f"{explain} {statement}", parameters)).all()))
    kind = "COVERING INDEX" if tables.is_sqlite else "Index Only Scan"
    (line,) = [line for line in plan if kind in line]
    assert f" {_INDEXES[wanted]} " in line, plan


async def test_history_of_a_thing_is_read_from_an_index(tables: Database) -> None:
    with _record_statements(tables) as statements:
        async with tables.reading(ALL_TENANTS) as connection:
            await list_slice(connection, "ten_a", AuditFilter(target="file_x"), SliceRequest(50))
    statement, parameters = statements[-1]
    async with tables.reading(ALL_TENANTS) as connection:
        if not tables.is_sqlite:
            for name in ("seqscan", "bitmapscan", "sort"):
                await connection.execute(text(f"SET LOCAL enable_{name} = off"))
        explain = "EXPLAIN QUERY PLAN" if tables.is_sqlite else "EXPLAIN"
        plan = str((await connection.exec_driver_sql(f"{explain} {statement}", parameters)).all())
    assert "ix_audit_events_by_target" in plan
    assert plan.count("TEMP B-TREE") <= 1  # the rows of the page, not all that were found


async def test_files_to_purge_are_read_from_an_index_in_order(tables: Database) -> None:
    async with tables.transaction(ALL_TENANTS) as connection:
        await connection.execute(text("ANALYZE"))
    with _record_statements(tables) as statements:
        async with tables.transaction(ALL_TENANTS) as connection:
            await repository.lock_due_purges(connection, 100)
            await repository.load_waiting_times(connection, "purge", 100)
    found = [(statement, parameters) for statement, parameters in statements if "files.due_at" in statement]
    assert len(found) == 6
    async with tables.reading(ALL_TENANTS) as connection:
        if not tables.is_sqlite:
            for name in ("seqscan", "bitmapscan"):
                await connection.execute(text(f"SET LOCAL enable_{name} = off"))
        for statement, parameters in found:
            explain = "EXPLAIN QUERY PLAN" if tables.is_sqlite else "EXPLAIN"
            plan = str((await connection.exec_driver_sql(f"{explain} {statement}", parameters)).all())
            assert "ix_files_due" in plan
            assert "TEMP B-TREE" not in plan  # of SQLite
            assert "Sort" not in plan  # of PostgreSQL
