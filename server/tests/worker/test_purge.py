"""Purging in a database: the rows of what was deleted go by one statement. What it asks of stores is in `test_jobs`."""

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest
from sqlalchemy import Engine, event

from sluice.db.database import Database
from sluice.storage.local.store import LocalStore
from sluice.worker.jobs.purge import purge_objects
from tests.db.migrated import Migrated
from tests.db.rows import add_tenant
from tests.worker.environment import WorkerEnvironment


class BatchStore(LocalStore):
    """A store that deletes many objects with one request, and fails for keys that start with `bad`."""

    calls: list[list[str]]

    async def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        self.calls = [*getattr(self, "calls", []), list(keys)]
        return {key: "refused" for key in keys if key.startswith("bad")}


@pytest.fixture
async def database(migrated: Migrated, tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(migrated.sqlite(tmp_path))
    await add_tenant(database, "ten_1", "a")
    yield database
    await database.aclose()


async def test_store_with_batches_is_called_once_and_rows_go_at_once(database: Database, tmp_path: Path) -> None:
    environment = WorkerEnvironment(database, tmp_path, BatchStore)
    for file_id in ("bad", "f1", "f2", "f3"):
        await environment.add_due(file_id)
    deletions: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_more: object) -> None:
        if statement.startswith("DELETE FROM files"):
            deletions.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        await purge_objects(environment.context)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert isinstance(environment.platform, BatchStore)
    previews = ("", ".preview-1200.png", ".preview-200.png")
    expected = [f"{file_id}{preview}" for file_id in ("bad", "f1", "f2", "f3") for preview in previews]
    assert [sorted(keys) for keys in environment.platform.calls] == [expected]
    assert (len(deletions), await environment.rows()) == (1, ["bad"])
    assert await purge_objects(environment.context) == 0  # due again in five minutes
