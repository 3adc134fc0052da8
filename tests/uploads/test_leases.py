"""Leases are told by the database's clock: a server or a worker whose own clock is wrong fences no living upload and keeps no dead one.

The servers of these tests believe that it is the year 2020.
"""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from sluice.db.database import Database
from sluice.db.moments import ahead, now
from sluice.db.whose import EVERYBODY
from sluice.uploads import repository
from sluice.uploads.stages.commit import reserve
from tests.uploads.rows import pending, prepare

HOUR = timedelta(hours=1)


@pytest.fixture(params=["sqlite", "postgresql"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    on_file = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'test.db'}" if on_file else request.getfixturevalue("postgres").createdb()
    database = Database(url)
    await prepare(database)
    yield database
    await database.aclose()


async def _due(database: Database) -> list[str]:
    async with database.reading(EVERYBODY) as connection:
        return list(await repository.expired_leases(connection, 10))


@pytest.mark.parametrize("counts", [False, True])
async def test_an_upload_keeps_its_lease_whatever_the_servers_clock_shows(database: Database, *, counts: bool) -> None:
    await reserve(pending(1, HOUR, counts=counts), database, free_limit=5)
    assert await _due(database) == []
    await reserve(pending(2, timedelta(seconds=-0.001), counts=counts), database, free_limit=5)
    assert await _due(database) == ["file_2"]


async def test_what_could_not_be_stored_is_purged_when_its_lease_would_have_ended(database: Database) -> None:
    for number, lease in enumerate((HOUR, -HOUR)):
        await reserve(pending(number, lease), database, free_limit=5)
        async with database.transaction(EVERYBODY) as connection:
            assert await repository.abandon(connection, f"file_{number}", at_once=False)
    async with database.transaction(EVERYBODY) as connection:
        assert [row.file_id for row in await repository.claim_purges(connection, HOUR, 10)] == ["file_1"]
        assert await repository.claim_purges(connection, HOUR, 10) == []


async def test_a_moment_in_sql_is_read_as_it_was_meant(database: Database) -> None:
    async with database.transaction(EVERYBODY) as connection:
        present, later = (await connection.execute(select(now(), ahead(timedelta(days=1, milliseconds=250))))).one()
    assert abs(present - datetime.now(UTC)) < timedelta(seconds=5)
    assert timedelta(days=1) <= later - present < timedelta(days=1, seconds=5)
