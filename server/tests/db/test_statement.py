"""`Statement` on both databases: one transaction each, and the same errors."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Column, ForeignKey, MetaData, String, Table, update

from sluice.db.database import Conflict, Database, DatabaseUnavailable
from sluice.db.migrate import upgrade
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import tenants
from sluice.db.statement import BatchStatement, PostgresQuery, Statement
from tests.rows import each_row

_NOW = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
_ROW = {"tenant_id": "ten_1", "name": "one", "plan": "free", "status": "active", "created_at": _NOW}
_TYPES = {"created_at": tenants.c.created_at.type}


def _same(sql: str, *, needs_tenant: bool = True) -> Statement:
    """Return a statement with the same SQL on both databases."""
    return Statement(postgres=sql, sqlite=[sql], types=_TYPES, needs_tenant=needs_tenant)


_ADD = _same(
    "INSERT INTO tenants (tenant_id, name, plan, status, created_at) "
    "VALUES (:tenant_id, :name, :plan, :status, :created_at) RETURNING tenant_id"
)
_FIND = _same("SELECT tenant_id, name, plan, status, created_at FROM tenants WHERE tenant_id = :wanted")
_COUNT = _same("SELECT count(*) AS n FROM tenants", needs_tenant=False)
_DEFERRED = ForeignKey(tenants.c.tenant_id, deferrable=True, initially="DEFERRED")
_NOTES = Table("notes", MetaData(), Column("tenant_id", String, _DEFERRED))
_NOTE = _same("INSERT INTO notes (tenant_id) VALUES (:tenant) RETURNING tenant_id", needs_tenant=False)
_COUNT_NOTES = _same("SELECT count(*) AS n FROM notes", needs_tenant=False)
_RENAME = "UPDATE tenants SET name = 'renamed' WHERE tenant_id = :{} RETURNING tenant_id"
_BOTH = Statement(postgres=_RENAME.format("second"), sqlite=[_RENAME.format("first"), _RENAME.format("second")])


def test_named_parameters_are_numbered_in_order_of_first_use() -> None:
    query = PostgresQuery("SELECT :sha256::varchar, :b FROM t WHERE c = :sha256 AND d > now() + interval '1 second'")
    assert query.text == "SELECT $1::varchar, $2 FROM t WHERE c = $1 AND d > now() + interval '1 second'"
    assert query.bind({"b": {"x": 1}, "sha256": "s", "unused": 0}) == ("s", '{"x":1}')


def test_a_batch_binds_arrays_of_varying_values_and_single_shared_values() -> None:
    batch = BatchStatement("SELECT :shared, unnest(:a::int[])", each=["a", "never_used"], key="a")
    assert batch.shared == ("shared",)
    assert batch.bind([{"a": 1, "shared": "s"}, {"a": 2, "shared": "s"}]) == ("s", [1, 2])


async def test_a_row_is_read_back_unchanged(tables: Database) -> None:
    with pytest.raises(ValueError, match="without a zone"):
        await tables.commit(_ADD, _ROW | {"created_at": _NOW.replace(tzinfo=None)})
    assert await tables.fetch(_FIND, {"wanted": "ten_1", "tenant_id": "ten_1"}) is None
    assert await tables.commit(_ADD, _ROW) == {"tenant_id": "ten_1"}
    assert await tables.fetch(_FIND, {"wanted": "ten_1", "tenant_id": "ten_1"}) == _ROW


async def test_a_conflict_changes_nothing_and_a_change_through_sqlalchemy_is_seen(tables: Database) -> None:
    await tables.commit(_ADD, _ROW)
    with pytest.raises(Conflict):
        await tables.commit(_ADD, _ROW)
    assert await tables.fetch(_COUNT, {}) == {"n": 1}
    async with tables.transaction(ALL_TENANTS) as connection:
        await connection.execute(update(tenants).values(name="changed"))
    assert await tables.fetch(_FIND, {"wanted": "ten_1", "tenant_id": "ten_1"}) == _ROW | {"name": "changed"}


async def test_no_row_changes_when_a_later_statement_finds_no_row(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'test.db'}")
    await upgrade(database)
    await database.commit(_ADD, _ROW)
    assert await database.commit(_BOTH, {"first": "ten_1", "second": "ten_none", "tenant_id": "ten_1"}) is None
    assert await database.fetch(_FIND, {"wanted": "ten_1", "tenant_id": "ten_1"}) == _ROW
    await database.aclose()


async def test_a_failed_commit_leaves_no_open_transaction(tables: Database) -> None:
    """A deferred foreign key fails at the commit, after which SQLite leaves the transaction open."""
    async with tables.transaction(ALL_TENANTS) as connection:
        await connection.run_sync(_NOTES.create)
    with pytest.raises(Conflict):
        await tables.commit(_NOTE, {"tenant": "ten_none"})
    assert await tables.commit(_ADD, _ROW) == {"tenant_id": "ten_1"}
    assert await tables.commit(_NOTE, {"tenant": "ten_1"}) == {"tenant_id": "ten_1"}
    assert await tables.fetch(_COUNT_NOTES, {}) == {"n": 1}


@each_row("url", ["postgresql://nobody@127.0.0.1:1/none", "sqlite:////nowhere/missing.db"])
async def test_an_unreachable_database_raises_database_unavailable(url: str) -> None:
    database = Database(url)
    with pytest.raises(DatabaseUnavailable):
        await database.fetch(_COUNT, {})
    await database.aclose()
