"""A transaction whose caller is cancelled is undone at once, wherever the cancellation meets it."""

import asyncio
import contextlib
import gc
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select, update

from sluice.db.database import Database
from sluice.db.schema import rate_takes, tenants
from sluice.db.sql import Connection
from sluice.db.sqlite import PooledConnection
from tests.db.migrated import Migrated

_STEPS = 60
"""Of the event loop, after which the caller is cancelled: some find the transaction at each of its statements."""


async def test_cancelled_transaction_leaves_no_lock_and_no_fault(
    migrated: Migrated, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """SQLite closes a connection whose cursors are still open later, when these are collected."""
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: faults.append(context))
    url = migrated.sqlite(tmp_path)
    database, other = Database(url), Database(url)
    gc.freeze()  # collections then do not traverse what other tests left
    request.addfinalizer(gc.unfreeze)

    async def read_and_write() -> None:
        async with database.transaction("ten_1") as connection:
            await connection.execute(select(func.count()).select_from(tenants))
            await connection.execute(update(tenants).values(name="other"))

    async with contextlib.aclosing(database), contextlib.aclosing(other):
        for steps in range(_STEPS):
            task = asyncio.create_task(read_and_write())
            for _ in range(steps):
                await asyncio.sleep(0.0001)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            async with asyncio.timeout(3), other.transaction("ten_1"):
                pass
            gc.collect()  # a future whose exception was not retrieved reports it when it is collected
    assert faults == []


async def test_background_work_that_waits_for_anything_but_its_statements_is_undone(
    migrated: Migrated, tmp_path: Path
) -> None:
    taken = {"key": "a", "taken_us": 1, "token": "b"}

    async def add(connection: Connection) -> int:
        return (await connection.execute(insert(rate_takes).values(taken))).rowcount

    async def add_and_wait(connection: Connection) -> None:
        await add(connection)
        await asyncio.sleep(0)

    async with contextlib.aclosing(Database(migrated.sqlite(tmp_path))) as database:
        with pytest.raises(RuntimeError, match="waited"):
            await database.work("ten_1", add_and_wait)
        added, _cost = await database.work("ten_1", add)
    assert added == 1


def test_pooled_connection_may_be_closed_twice(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db", factory=PooledConnection, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    connection.close()
    connection.close()
