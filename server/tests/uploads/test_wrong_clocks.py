"""Two servers on one database, one with a clock that is wrong by more than a month.

Months and the expiry of files follow the clock of the database. Both servers use the same engines.
"""

import os
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from sluice.access import Principal, Scope
from sluice.contexts.service import Draft
from sluice.db.migrate import upgrade
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import files, plan_usage
from sluice.db.sql import month, now
from sluice.errors import LimitExceeded
from sluice.files import repository
from sluice.kit.clock import utc_now
from sluice.kit.read_through_cache import Cached
from sluice.settings import Settings
from sluice.uploads.upload import UploadLimits, Uploads
from sluice.wiring.assembly import Assembled, assembled
from tests.cli.zygotes import ForkedZygote
from tests.operator_action import operator_action

LIMIT = 3
LIFETIME = timedelta(hours=2)
CLOCK_ERRORS = [timedelta(days=40), timedelta(days=-40)]


@pytest.fixture(params=["sqlite", "postgresql"])
async def services(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Assembled]:
    on_file = request.param == "sqlite"
    url = f"sqlite:///{tmp_path / 'test.db'}" if on_file else request.getfixturevalue("postgres").createdb()
    given = {"data_dir": tmp_path / "data", "database_url": url.replace("+asyncpg", "")}
    settings = Settings.model_validate(given | {"scanner": "builtin", "sandbox_workers": 1})
    (tmp_path / "data").mkdir()
    async with assembled(settings, ForkedZygote().launched()) as made:
        await upgrade(made.engines.database)
        yield made


def _server(services: Assembled, wrong_by: timedelta) -> Uploads:
    limits = UploadLimits(LIMIT, 60, timedelta(minutes=10), LIFETIME)
    return replace(services.services.uploads, limits=limits, clock=lambda: utc_now() + wrong_by)


async def _new_tenant(services: Assembled) -> str:
    tenant = await services.services.tenants.create("one", "free")
    await services.services.contexts.create(
        operator_action(tenant.tenant_id), Draft("papers", "Papers", scan_for_viruses=False)
    )
    return tenant.tenant_id


async def _upload(server: Uploads, tenant_id: str, *, is_test: bool = False) -> str:
    """Return the file's id."""
    caller = Principal(tenant_id, "user", "user", frozenset({Scope.UPLOAD}), "jwt", is_test=is_test)

    async def read_caller(_since: float) -> Cached[Principal]:
        return Cached(caller, time.monotonic())

    began = time.monotonic()
    upload = server.begin(await read_caller(began), read_caller, began=began)
    try:
        await upload.name_context("papers")
        await upload.start_file("a.txt")
        await upload.write(b"name,size\nfile,3\n" + os.urandom(8).hex().encode())
        return (await upload.finish(await upload.seal())).file_id
    finally:
        upload.close()


@pytest.mark.parametrize("wrong_by", CLOCK_ERRORS, ids=["ahead", "behind"])
async def test_servers_with_wrong_clocks_count_in_the_same_month(services: Assembled, wrong_by: timedelta) -> None:
    right, wrong, tenant_id = _server(services, timedelta()), _server(services, wrong_by), await _new_tenant(services)
    for server in (right, wrong, right):
        await _upload(server, tenant_id)
    for server in (right, wrong):
        with pytest.raises(LimitExceeded) as refused:
            await _upload(server, tenant_id)
        assert 0 < (refused.value.retry_after or 0) <= _seconds_left_of_the_month() + 5
    async with services.engines.database.reading(ALL_TENANTS) as connection:
        used = (await connection.execute(select(plan_usage.c.month, plan_usage.c.uploads, month()))).all()
        counted_in = set((await connection.execute(select(files.c.plan_month))).scalars())
    assert [(row.uploads, row[0] == row[2]) for row in used] == [(LIMIT, True)]
    assert counted_in == {used[0].month}


@pytest.mark.parametrize("wrong_by", CLOCK_ERRORS, ids=["ahead", "behind"])
async def test_a_test_file_expires_on_time_whatever_the_servers_clock(services: Assembled, wrong_by: timedelta) -> None:
    file_id = await _upload(_server(services, wrong_by), await _new_tenant(services), is_test=True)
    async with services.engines.database.reading(ALL_TENANTS) as connection:
        query = select(files.c.due_at, files.c.plan_month, now()).where(files.c.file_id == file_id)
        due_at, plan_month, present = (await connection.execute(query)).one()
        assert await repository.expired_test_files(connection, 10) == []
    assert LIFETIME - timedelta(minutes=1) < due_at - present <= LIFETIME
    assert plan_month is None


def _seconds_left_of_the_month() -> float:
    present = datetime.now(UTC)
    following = (present.replace(day=1, hour=0, minute=0, second=0, microsecond=0) + timedelta(days=32)).replace(day=1)
    return (following - present).total_seconds()
