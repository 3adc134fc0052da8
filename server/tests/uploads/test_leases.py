"""Leases expire by the clock of the database, whatever the clocks of servers and workers show.

The servers of these tests have the year 2020.
"""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.sql import now, now_plus
from sluice.files import lifecycle, repository
from tests.uploads.rows import pending, reserve

HOUR = timedelta(hours=1)


async def _due(database: Database) -> list[str]:
    async with database.reading(ALL_TENANTS) as connection:
        return [row.file_id for row in await repository.expired_leases(connection, 10)]


@pytest.mark.parametrize("counts", [False, True])
async def test_a_lease_expires_by_the_clock_of_the_database(database: Database, *, counts: bool) -> None:
    await reserve(pending(1, HOUR, counts=counts), database, free_limit=5)
    assert await _due(database) == []
    await reserve(pending(2, timedelta(seconds=-0.001), counts=counts), database, free_limit=5)
    assert await _due(database) == ["file_2"]


async def test_a_released_upload_is_purged_only_after_its_lease(database: Database) -> None:
    for number, lease in enumerate((HOUR, -HOUR)):
        await reserve(pending(number, lease), database, free_limit=5)
        async with database.transaction(ALL_TENANTS) as connection:
            assert await lifecycle.release(connection, "ten_1", f"file_{number}")
    async with database.transaction(ALL_TENANTS) as connection:
        assert [row.file_id for row in (await lifecycle.begin_purges(connection, HOUR, 10))[0]] == ["file_1"]
        assert await lifecycle.begin_purges(connection, HOUR, 10) == ((), 0)


async def test_sql_times_are_read_back_as_utc(database: Database) -> None:
    async with database.transaction(ALL_TENANTS) as connection:
        present, later = (await connection.execute(select(now(), now_plus(timedelta(days=1, milliseconds=250))))).one()
    assert abs(present - datetime.now(UTC)) < timedelta(seconds=5)
    assert timedelta(days=1) <= later - present < timedelta(days=1, seconds=5)
