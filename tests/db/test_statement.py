"""Units of the hot path on real databases: one transaction each, and the same faults by the same names."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Column, ForeignKey, MetaData, String, Table, bindparam, func, insert, select, update

from sluice.db.database import Conflict, Database, DatabaseAway
from sluice.db.hot import Hot, same
from sluice.db.migrate import upgrade
from sluice.db.schema import tenants
from sluice.db.whose import EVERYBODY

_NOW = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
_NAMES = ("tenant_id", "name", "plan", "status", "created_at")
_ROW = {"tenant_id": "ten_1", "name": "one", "plan": "free", "status": "active", "created_at": _NOW}
_ADD = same(
    insert(tenants)
    .from_select(list(_NAMES), select(*(bindparam(name, type_=tenants.c[name].type) for name in _NAMES)))
    .returning(tenants.c.tenant_id)
)
_FIND = same(select(tenants).where(tenants.c.tenant_id == bindparam("wanted", type_=tenants.c.tenant_id.type)))
_count = select(func.count().label("n")).select_from(tenants)
_COUNT = Hot(postgres=_count, sqlite=[_count], nobody=True)
_NOTES = Table(
    "notes", MetaData(), Column("tenant_id", String, ForeignKey(tenants.c.tenant_id, deferrable=True, initially="DEFERRED"))
)
_note = insert(_NOTES).values(tenant_id=bindparam("tenant", type_=String())).returning(_NOTES.c.tenant_id)
_NOTE = Hot(postgres=_note, sqlite=[_note], nobody=True)
_count_notes = select(func.count().label("n")).select_from(_NOTES)
_COUNT_NOTES = Hot(postgres=_count_notes, sqlite=[_count_notes], nobody=True)


def _rename(wanted: str) -> Any:
    return (
        update(tenants)
        .where(tenants.c.tenant_id == bindparam(wanted, type_=tenants.c.tenant_id.type))
        .values(name="renamed")
        .returning(tenants.c.tenant_id)
    )


_BOTH = Hot(postgres=_rename("second"), sqlite=[_rename("first"), _rename("second")])


async def test_a_row_comes_back_as_it_was_written(tables: Database) -> None:
    assert await tables.commit(_ADD, _ROW) == {"tenant_id": "ten_1"}
    assert await tables.fetch(_FIND, {"wanted": "ten_1", "tenant_id": "ten_1"}) == _ROW


async def test_no_row_is_none(tables: Database) -> None:
    assert await tables.fetch(_FIND, {"wanted": "ten_none", "tenant_id": "ten_none"}) is None


async def test_a_broken_constraint_is_a_conflict_and_changes_nothing(tables: Database) -> None:
    await tables.commit(_ADD, _ROW)
    with pytest.raises(Conflict):
        await tables.commit(_ADD, _ROW)
    assert await tables.fetch(_COUNT, {}) == {"n": 1}


async def test_nothing_is_changed_when_a_later_statement_finds_no_row(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'test.db'}")
    await upgrade(database)
    await database.commit(_ADD, _ROW)
    assert await database.commit(_BOTH, {"first": "ten_1", "second": "ten_none", "tenant_id": "ten_1"}) is None
    found = await database.fetch(_FIND, {"wanted": "ten_1", "tenant_id": "ten_1"})
    await database.aclose()
    assert found is not None
    assert found["name"] == "one"


async def test_a_commit_that_fails_leaves_nothing_open_for_the_next_unit(tables: Database) -> None:
    """A deferred reference is looked up at the commit, which fails, and SQLite leaves the transaction open then."""
    async with tables.transaction(EVERYBODY) as connection:
        await connection.run_sync(_NOTES.create)
    with pytest.raises(Conflict):
        await tables.commit(_NOTE, {"tenant": "ten_none"})
    assert await tables.commit(_ADD, _ROW) == {"tenant_id": "ten_1"}
    assert await tables.commit(_NOTE, {"tenant": "ten_1"}) == {"tenant_id": "ten_1"}
    assert await tables.fetch(_COUNT_NOTES, {}) == {"n": 1}


async def test_what_was_committed_is_seen_by_every_door(tables: Database) -> None:
    await tables.commit(_ADD, _ROW)
    async with tables.transaction(EVERYBODY) as connection:
        await connection.execute(update(tenants).values(name="changed"))
    found = await tables.fetch(_FIND, {"wanted": "ten_1", "tenant_id": "ten_1"})
    assert found is not None
    assert found["name"] == "changed"


@pytest.mark.parametrize("url", ["postgresql://nobody@127.0.0.1:1/none", "sqlite:////nowhere/missing.db"])
async def test_a_database_that_is_away_is_named_so(url: str) -> None:
    database = Database(url)
    with pytest.raises(DatabaseAway):
        await database.fetch(_COUNT, {})
    await database.aclose()
