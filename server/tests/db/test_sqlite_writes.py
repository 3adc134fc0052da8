"""Writes of the upload path on SQLite: units that wait for the writer share a transaction, and fail alone."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import pytest

from sluice.db import sqlite
from sluice.db.database import Conflict, Database, DatabaseUnavailable
from sluice.db.rls import ALL_TENANTS
from sluice.db.statement import Row, Statement

ADD = Statement(
    postgres="",
    sqlite=["INSERT INTO things VALUES (:id, 0) RETURNING id", "UPDATE things SET n = 1 WHERE id = :id RETURNING id"],
    needs_tenant=False,
)
TOUCH = Statement(
    postgres="",
    sqlite=["INSERT INTO touched VALUES (:id) RETURNING id", "UPDATE things SET n = n + 1 WHERE id = :id RETURNING id"],
    needs_tenant=False,
)
_SCHEMA = """
CREATE TABLE things (id TEXT PRIMARY KEY, n INTEGER);
CREATE TABLE touched (id TEXT);
CREATE TRIGGER full BEFORE INSERT ON things WHEN NEW.id = 'full' BEGIN SELECT RAISE(ROLLBACK, 'disk full'); END;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "things.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_SCHEMA)
    return path


@pytest.fixture
async def database(path: Path) -> AsyncIterator[Database]:
    async with aclosing(Database(f"sqlite:///{path}")) as database:
        yield database


async def _add(database: Database, *names: str) -> list[Row | BaseException | None]:
    commits = (database.commit(ADD, {"id": name}) for name in names)
    return list(await asyncio.gather(*commits, return_exceptions=True))


def _rows(path: Path, sql: str = "SELECT id, n FROM things ORDER BY id") -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


async def test_units_that_wait_together_share_a_transaction(
    database: Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions: list[str] = []
    monkeypatch.setattr(sqlite, "failpoint", transactions.append)
    assert await _add(database, "a", "b", "c") == [{"id": "a"}, {"id": "b"}, {"id": "c"}]
    async with database.transaction(ALL_TENANTS):
        waiting = asyncio.create_task(_add(database, "d", "e"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(_rows(path)) == 3
    await waiting
    assert _rows(path) == [(name, 1) for name in "abcde"]
    assert transactions == ["unit.open"] * 2


async def test_a_unit_that_is_refused_or_changes_nothing_leaves_nothing_of_itself_and_all_of_the_others(
    database: Database, path: Path
) -> None:
    results = await asyncio.gather(
        database.commit(ADD, {"id": "a"}),
        database.commit(ADD, {"id": "a"}),
        database.commit(TOUCH, {"id": "missing"}),
        database.commit(TOUCH, {"id": "a"}),
        return_exceptions=True,
    )
    assert [results[0], type(results[1]), *results[2:]] == [{"id": "a"}, Conflict, None, {"id": "a"}]
    assert _rows(path) == [("a", 2)]
    assert _rows(path, "SELECT id FROM touched") == [("a",)]


async def test_no_unit_succeeds_in_a_transaction_that_the_database_undid(database: Database, path: Path) -> None:
    results = await _add(database, "a", "full", "b")
    assert not any(isinstance(result, dict) for result in results)
    assert isinstance(results[0], DatabaseUnavailable | Conflict)
    assert _rows(path) == []
    assert await _add(database, "a") == [{"id": "a"}]


async def test_a_unit_whose_caller_is_cancelled_while_it_waits_is_not_begun(database: Database, path: Path) -> None:
    async with database.transaction(ALL_TENANTS):
        commits = [asyncio.create_task(database.commit(ADD, {"id": name})) for name in "abc"]
        await asyncio.sleep(0)
        commits[1].cancel()
        await asyncio.sleep(0)
    await asyncio.wait(commits)
    assert _rows(path) == [("a", 1), ("c", 1)]
