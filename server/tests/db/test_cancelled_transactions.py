"""A transaction whose caller is cancelled is undone at once, wherever the cancellation meets it."""

import asyncio
import contextlib
from pathlib import Path

from sqlalchemy import func, select, update

from sluice.db.database import Database
from sluice.db.schema import tenants
from tests.db.migrated import Migrated

_STEPS = 60
"""Of the event loop, after which the caller is cancelled: some find the transaction at each of its statements."""


async def test_cancelled_transaction_leaves_no_lock(migrated: Migrated, tmp_path: Path) -> None:
    """SQLite closes a connection whose cursors are still open later, when these are collected."""
    url = migrated.sqlite(tmp_path)
    database, other = Database(url), Database(url)

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
