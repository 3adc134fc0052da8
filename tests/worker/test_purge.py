"""Purging in batches: one request per bucket if the store supports it, else a bounded number at once."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest
from sqlalchemy import event

from sluice.db.database import Database
from sluice.storage import StoreError, StoreUnavailable
from sluice.storage.local.store import LocalStore
from sluice.worker.jobs.purge import purge_objects
from tests.db.migrated import Migrated
from tests.db.rows import add_tenant
from tests.worker.environment import WorkerEnvironment


class SlowStore(LocalStore):
    """Counts concurrent deletions and fails those of keys that start with `bad`."""

    running = most = asked = 0
    fault: StoreError = StoreError("refused")
    delete_many = None  # type: ignore[assignment]  # a store without this ability

    async def delete(self, key: str) -> None:
        self.asked += 1
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.01)
        self.running -= 1
        if key.startswith("bad"):
            raise self.fault


class BatchStore(SlowStore):
    """A store that deletes many objects with one request."""

    calls: list[list[str]]

    async def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:  # type: ignore[override]  # see SlowStore
        self.calls = [*getattr(self, "calls", []), list(keys)]
        return {key: "refused" for key in keys if key.startswith("bad")}


@pytest.fixture
async def database(migrated: Migrated, tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(migrated.sqlite(tmp_path))
    await add_tenant(database, "ten_1", "a")
    yield database
    await database.aclose()


async def test_a_store_without_batches_deletes_at_most_eight_objects_at_once(
    database: Database, tmp_path: Path
) -> None:
    environment = WorkerEnvironment(database, tmp_path, SlowStore)
    for number in range(20):
        await environment.add_due(f"f{number:02}")
    assert await purge_objects(environment.context) == 20
    assert isinstance(environment.platform, SlowStore)
    assert (environment.platform.most, await environment.rows()) == (8, [])


async def test_only_files_whose_deletion_failed_keep_their_rows(database: Database, tmp_path: Path) -> None:
    environment = WorkerEnvironment(database, tmp_path, SlowStore)
    for file_id in ("bad", "f1", "f2"):
        await environment.add_due(file_id)
    await purge_objects(environment.context)
    assert await environment.rows() == ["bad"]
    assert await purge_objects(environment.context) == 0  # due again in five minutes


async def test_an_unavailable_store_is_not_called_for_every_object(database: Database, tmp_path: Path) -> None:
    environment = WorkerEnvironment(database, tmp_path, SlowStore)
    assert isinstance(environment.platform, SlowStore)
    environment.platform.fault = StoreUnavailable("no answer")
    for number in range(40):
        await environment.add_due(f"bad{number:02}")
    await purge_objects(environment.context)
    assert (environment.platform.asked, len(await environment.rows())) == (8, 40)


async def test_a_store_with_batches_is_called_once_and_the_rows_are_deleted_by_one_statement(
    database: Database, tmp_path: Path
) -> None:
    environment = WorkerEnvironment(database, tmp_path, BatchStore)
    for file_id in ("bad", "f1", "f2", "f3"):
        await environment.add_due(file_id)
    deletions: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if statement.startswith("DELETE FROM files"):
            deletions.append(statement)

    event.listen(database.engine.sync_engine, "before_cursor_execute", note)
    await purge_objects(environment.context)
    assert isinstance(environment.platform, BatchStore)
    assert [sorted(keys) for keys in environment.platform.calls] == [["bad", "f1", "f2", "f3"]]
    assert (len(deletions), await environment.rows()) == (1, ["bad"])
