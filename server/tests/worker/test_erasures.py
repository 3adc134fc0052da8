"""Steps of erasures."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from sluice.access import operator
from sluice.audit import AuditAction
from sluice.db.database import Database
from sluice.db.schema import hash_entries
from sluice.erasures import repository
from sluice.hash_lists.service import EntryDraft, HashLists
from sluice.jobs import Job
from sluice.kit.ids import new_id
from sluice.resumable import repository as resumable
from sluice.resumable.resumable_upload import NewUpload
from sluice.worker.jobs import erasures
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
        waiting = await erasing.step(connection, job_at("objects:"), 100)
    assert (waiting.position, waiting.pause > timedelta(0)) == ("objects:", True)
    assert await end_resumable_uploads(environment.context) == 2
    async with environment.database.transaction("ten_1") as connection:
        assert (await erasing.step(connection, job_at("objects:"), 100)).position == LOG_POSITION


async def test_erasure_forgets_who_added_hash_entries_in_portions(
    environment: WorkerEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasures, "_HASH_ENTRIES", 2)
    lists = HashLists(environment.database)
    by_person = [AuditAction(operator("ten_1", name), "hash_entry.added") for name in ("ada", "bob")]
    for number, by in enumerate((*by_person, *by_person, by_person[0])):
        await lists.add(by, [EntryDraft(bytes([number]) * 32)])
    job = replace(job_at("hash_entries:"), params={"uploaded_by": by_person[0].principal.actor_id})

    async def adders() -> list[str]:
        async with environment.database.reading("ten_1") as connection:
            query = select(hash_entries.c.added_by_name).order_by(hash_entries.c.digest)
            return list((await connection.execute(query)).scalars())

    for erased in (1, 2, 3):
        async with environment.database.transaction("ten_1") as connection:
            step = await Erasing(lambda: NOW).step(connection, job, 100)
        job = replace(job, position=step.position or "")
        assert (await adders()).count("erased") == erased
    assert (job.position, (await adders()).count("bob")) == ("resumable:", 2)
