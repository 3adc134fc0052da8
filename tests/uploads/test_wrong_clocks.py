"""Two servers on one database, one of whose clocks is wrong by more than a month: months and the lives of files are the database's matter.

The server with the wrong clock is the same pipeline on the same engines, with another clock.
"""

import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from sluice.access import Principal, Scope
from sluice.contexts.service import Draft
from sluice.db.migrate import upgrade
from sluice.db.moments import month, now
from sluice.db.schema import files, plan_usage
from sluice.db.whose import EVERYBODY
from sluice.errors import LimitExceeded
from sluice.kit.clock import utc_now
from sluice.settings import Settings
from sluice.uploads import repository
from sluice.uploads.names import read_name
from sluice.uploads.pipeline import Pipeline, Terms
from sluice.uploads.sight import Sight, Uploader
from sluice.uploads.spool import Spool
from sluice.uploads.values import Arrival
from sluice.wiring.assembly import Services, assembled
from tests.cli.zygotes import Begun
from tests.deeds import deed_of

LIMIT = 3
LIFE = timedelta(hours=2)
WRONG = [timedelta(days=40), timedelta(days=-40)]


@pytest.fixture(params=["sqlite", "postgresql"])
async def services(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Services]:
    on_file = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'test.db'}" if on_file else request.getfixturevalue("postgres").createdb().replace("+asyncpg", "")
    settings = Settings.model_validate(
        {"data_dir": tmp_path / "data", "database_url": url, "scanner": "builtin", "sandbox_workers": 1}
    )
    (tmp_path / "data").mkdir()
    async with assembled(settings, Begun().launched()) as made:
        await upgrade(made.engines.database)
        yield made


def _server(services: Services, wrong_by: timedelta) -> Pipeline:
    engines = services.engines

    def clock() -> datetime:
        return utc_now() + wrong_by

    return Pipeline(
        database=engines.database,
        limiter=engines.limiter,
        sandbox=engines.sandbox,
        scanner=engines.scanner,
        stores=engines.stores,
        sight=Sight(engines.database, clock),
        terms=Terms(LIMIT, timedelta(minutes=10), LIFE),
        clock=clock,
    )


async def _newcomer(services: Services) -> str:
    tenant = await services.tenants.create("one", "free")
    await services.contexts.create(deed_of(tenant.tenant_id), Draft("papers", "Papers", scan_for_viruses=False))
    return tenant.tenant_id


async def _upload(server: Pipeline, tenant_id: str, folder: Path, *, is_test: bool = False) -> str:
    """Answer the file's id."""
    spool = Spool(1_000_000, folder)
    try:
        await spool.write(b"name,size\nfile,3\n" + os.urandom(8).hex().encode())
        principal = Principal(tenant_id, "user", "user", frozenset({Scope.UPLOAD}), "jwt", is_test=is_test)

        async def ask() -> Principal:
            return principal

        arrival = Arrival(principal, await server.sight.look(tenant_id, "papers"), read_name("a.txt"), await spool.seal(), {})
        stored = await server.run(arrival, Uploader(principal, ask))
    finally:
        spool.close()
    assert stored.file_id is not None
    return stored.file_id


@pytest.mark.parametrize("wrong_by", WRONG, ids=["ahead", "behind"])
async def test_all_servers_count_in_one_month(services: Services, tmp_path: Path, wrong_by: timedelta) -> None:
    right, wrong, tenant_id = _server(services, timedelta()), _server(services, wrong_by), await _newcomer(services)
    for server in (right, wrong, right):
        await _upload(server, tenant_id, tmp_path)
    for server in (right, wrong):
        with pytest.raises(LimitExceeded) as refused:
            await _upload(server, tenant_id, tmp_path)
        assert 0 < (refused.value.retry_after or 0) <= _seconds_left_of_the_month() + 5
    async with services.engines.database.reading(EVERYBODY) as connection:
        used = (await connection.execute(select(plan_usage.c.month, plan_usage.c.uploads, month()))).all()
        counted_in = set((await connection.execute(select(files.c.plan_month))).scalars())
    assert [(row.uploads, row[0] == row[2]) for row in used] == [(LIMIT, True)]
    assert counted_in == {used[0].month}


@pytest.mark.parametrize("wrong_by", WRONG, ids=["ahead", "behind"])
async def test_a_file_of_a_test_key_lives_as_long_whoever_took_it(services: Services, tmp_path: Path, wrong_by: timedelta) -> None:
    file_id = await _upload(_server(services, wrong_by), await _newcomer(services), tmp_path, is_test=True)
    async with services.engines.database.reading(EVERYBODY) as connection:
        query = select(files.c.due_at, files.c.plan_month, now()).where(files.c.file_id == file_id)
        due_at, plan_month, present = (await connection.execute(query)).one()
        assert await repository.expired_test_files(connection, 10) == []
    assert LIFE - timedelta(minutes=1) < due_at - present <= LIFE
    assert plan_month is None


def _seconds_left_of_the_month() -> float:
    present = datetime.now(UTC)
    following = (present.replace(day=1, hour=0, minute=0, second=0, microsecond=0) + timedelta(days=32)).replace(day=1)
    return (following - present).total_seconds()
