"""What resumable uploads and exports leave in their folders: it is deleted, and nothing that only resembles it.

Parts without an upload are searched rarely.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import insert

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import jobs
from sluice.kit.ids import new_id
from sluice.resumable import repository
from sluice.resumable.resumable_upload import NewUpload
from sluice.storage import ListedObject
from sluice.storage.local.store import LocalStore
from sluice.worker import runner
from sluice.worker.jobs import incoming
from sluice.worker.jobs.exports import sweep_exports
from sluice.worker.jobs.incoming import end_resumable_uploads, run_orphan_sweep, sweep_orphan_parts
from tests.db.migrated import Migrated
from tests.db.rows import add_tenant
from tests.worker.environment import NOW, WorkerEnvironment


class CountingStore(LocalStore):
    """A store that counts its listings; `was_listed_often` is set by the third."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.listings = 0
        self.was_listed_often = asyncio.Event()

    async def list_objects(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[ListedObject]]:
        self.listings += 1
        if self.listings == 3:
            self.was_listed_often.set()
        async for batch in super().list_objects(prefix, after=after):
            yield batch


@pytest.fixture
async def environment(migrated: Migrated, tmp_path: Path) -> AsyncIterator[WorkerEnvironment]:
    database = Database(migrated.sqlite(tmp_path))
    await add_tenant(database, "ten_1", "a")
    yield WorkerEnvironment(database, tmp_path, CountingStore)
    await database.aclose()


def store_of(environment: WorkerEnvironment) -> CountingStore:
    assert isinstance(environment.platform, CountingStore)
    return environment.platform


async def add_part(environment: WorkerEnvironment, *, has_upload: bool) -> Path:
    """Make the object of a part, and the row of its upload; return the file."""
    upload_id = new_id("upl")
    if has_upload:
        announced = NewUpload("ten_1", "key_1", "api_key", "claims", "a.txt", None, None, 5)
        async with environment.database.transaction("ten_1") as connection:
            assert await repository.create(connection, announced, upload_id, timedelta(hours=1), 100) is not None
    part = environment.folder / "platform" / "objects" / "_incoming" / f"{upload_id}-{0:012}-1"
    part.parent.mkdir(parents=True, exist_ok=True)
    part.write_bytes(b"bytes")
    return part


async def test_only_parts_without_an_upload_are_deleted(environment: WorkerEnvironment) -> None:
    orphan, part = [await add_part(environment, has_upload=has_upload) for has_upload in (False, True)]
    foreign = orphan.with_name("something-else")
    foreign.write_bytes(b"bytes")
    await sweep_orphan_parts(environment.context)
    assert [each.exists() for each in (orphan, part, foreign)] == [False, True, True]


async def test_a_cancelled_upload_takes_only_its_parts_along(environment: WorkerEnvironment) -> None:
    part = await add_part(environment, has_upload=True)
    upload_id = part.name.partition("-")[0]
    unnoted = part.with_name(f"{upload_id}-000008388608-12")
    kept = [part.parent / f"{upload_id}{end}" for end in ("-file_1", f"-{0:012}-9/file_1", f"-{0:012}-1-file_1")]
    for path in (unnoted, *kept):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"bytes")
    async with environment.database.transaction("ten_1") as connection:
        assert await repository.cancel(connection, "ten_1", upload_id)
    assert await end_resumable_uploads(environment.context) == 1
    await sweep_orphan_parts(environment.context)
    assert [each.exists() for each in (part, unnoted, *kept)] == [False, False, True, True, True]


async def test_an_export_that_is_over_takes_only_its_parts_along(environment: WorkerEnvironment) -> None:
    numbers = dict.fromkeys(("done", "skipped", "generation", "failures"), 0)
    texts = dict.fromkeys(("position", "actor_id", "actor_name", "via"), "a")
    over = {"job_id": "job_1", "tenant_id": "ten_1", "kind": "export", "state": "cancelled", "params": {}}
    async with environment.database.transaction(ALL_TENANTS) as connection:
        await connection.execute(insert(jobs).values(over | numbers | texts | {"created_at": NOW, "due_at": NOW}))
    folder = environment.folder / "platform" / "objects" / "_exports"
    part = folder / "job_1-000000001"
    kept = [folder / name for name in ("job_1-file_1.txt", "job_1-000000009/file_1", "job_1-000000001-file_1")]
    for path in (part, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"bytes")
    assert await sweep_exports(environment.context) == 1
    assert [each.exists() for each in (part, *kept)] == [False, True, True, True]


async def test_rounds_of_the_worker_list_nothing(environment: WorkerEnvironment) -> None:
    orphan = await add_part(environment, has_upload=False)
    for _ in range(3):
        assert await runner.run_round(environment.context) == (0, 0)
    assert store_of(environment).listings == 0
    assert orphan.exists()


async def test_orphans_are_looked_for_again_and_again_until_the_worker_stops(
    environment: WorkerEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert incoming._ORPHANS_SECONDS == 3600
    monkeypatch.setattr(incoming, "_ORPHANS_SECONDS", 0.02)
    stop = asyncio.Event()
    sweeping = asyncio.create_task(run_orphan_sweep(environment.context, stop))
    async with asyncio.timeout(60):
        await store_of(environment).was_listed_often.wait()
        stop.set()
        await sweeping
