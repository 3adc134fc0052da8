"""Steps of erasures."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sluice.db.database import Database
from sluice.erasures import repository
from sluice.jobs import Job
from sluice.kit.ids import new_id
from sluice.resumable import repository as resumable
from sluice.resumable.resumable_upload import NewUpload
from sluice.worker.jobs.erasures import LOG_POSITION, Erasing
from sluice.worker.jobs.incoming import end_resumable_uploads
from tests.db.migrated import Migrated
from tests.db.rows import add_tenant
from tests.worker.environment import NOW, WorkerEnvironment


@pytest.fixture
async def environment(migrated: Migrated, tmp_path: Path) -> AsyncIterator[WorkerEnvironment]:
    database = Database(migrated.sqlite(tmp_path))
    for tenant_id in ("ten_1", "ten_2"):
        await add_tenant(database, tenant_id, "a")
    yield WorkerEnvironment(database, tmp_path)
    await database.aclose()


def job_at(position: str) -> Job:
    found = {"job_id": "job_1", "tenant_id": "ten_1", "kind": "erasure", "state": "running", "position": position}
    actor = {"actor_id": "key_1", "actor_name": "key", "via": "api_key", "request_id": None}
    numbers = {"total": None, "done": 0, "skipped": 0, "generation": 1, "failures": 0}
    moments = {"created_at": NOW, "started_at": NOW, "ended_at": None}
    params = {"end_user": "somebody", "names": [], "blanked": {}}
    fields: dict[str, Any] = {**found, **actor, **numbers, **moments, "params": params, "result": None, "error": None}
    return Job(**fields)


async def add_upload(environment: WorkerEnvironment, tenant_id: str, filename: str) -> str:
    upload_id = new_id("upl")
    announced = NewUpload(tenant_id, "key_1", "api_key", "claims", filename, None, None, 5)
    async with environment.database.transaction(tenant_id) as connection:
        assert await resumable.create(connection, announced, upload_id, timedelta(hours=1), 100) is not None
    return upload_id


async def test_an_erasure_waits_until_the_open_uploads_that_it_ended_are_gone(environment: WorkerEnvironment) -> None:
    theirs = await add_upload(environment, "ten_1", "a.txt")
    foreign = await add_upload(environment, "ten_2", "a.txt")
    await add_upload(environment, "ten_1", "erased")
    for tenant_id, upload_id in (("ten_1", theirs), ("ten_2", foreign)):
        async with environment.database.transaction(tenant_id) as connection:
            await repository.end_resumable(connection, tenant_id, [upload_id])
    erasing = Erasing(lambda: NOW)
    async with environment.database.transaction("ten_1") as connection:
        waiting = await erasing.step(connection, job_at("objects:"))
    assert (waiting.position, waiting.pause > timedelta(0)) == ("objects:", True)
    assert await end_resumable_uploads(environment.context) == 2
    async with environment.database.transaction("ten_1") as connection:
        assert (await erasing.step(connection, job_at("objects:"))).position == LOG_POSITION
