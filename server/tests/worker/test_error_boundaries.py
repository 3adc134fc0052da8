"""Error boundaries of the worker: a bad row, bucket or job is logged and never stops the others."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest
from sqlalchemy import insert, select

from sluice.buckets import Bucket
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import jobs
from sluice.files import lifecycle
from sluice.files import repository as file_rows
from sluice.kit.clock import utc_now
from sluice.storage import ObjectStore, StoreUnavailable
from sluice.storage.local.store import LocalStore
from sluice.worker import job, runner
from sluice.worker.job import JobContext
from sluice.worker.jobs import move_objects
from sluice.worker.jobs.bulk import BulkJobs
from sluice.worker.jobs.expiry import fence_expired_leases
from sluice.worker.jobs.housekeeping import StalePartsSweep
from sluice.worker.jobs.move_objects import ObjectMove
from sluice.worker.jobs.purge import purge_objects
from sluice.worker.jobs.store_audit import BEFORE_BUCKETS, AuditFinding, Position, StoreAudit
from tests.db.migrated import Migrated
from tests.db.rows import add_file, add_tenant
from tests.worker.environment import NOW, OTHER_KEYRING, LogRecorder, WorkerEnvironment


class Row(NamedTuple):
    """The row of a file, as the repository returns it."""

    tenant_id: str
    file_id: str


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> LogRecorder:
    recorder = LogRecorder()
    monkeypatch.setattr(job, "log", recorder)
    monkeypatch.setattr(runner, "log", recorder)
    return recorder


async def steps_of(environment: WorkerEnvironment, position: Position) -> list[Position | AuditFinding]:
    """Return the steps of an audit of the stores from a position on."""
    audit = StoreAudit(environment.database, environment.buckets, environment.stores)
    return [step async for step in audit.compare(position)]


def move_of(environment: WorkerEnvironment) -> ObjectMove:
    return ObjectMove(environment.database, environment.stores, environment.folder, "ten_1")


@pytest.fixture
async def environment(migrated: Migrated, tmp_path: Path) -> AsyncIterator[WorkerEnvironment]:
    """Three buckets; the second cannot be opened."""
    database = Database(migrated.sqlite(tmp_path))
    await add_tenant(database, "ten_1", "a")
    prepared = WorkerEnvironment(database, tmp_path)
    for config_id in ("bkt_1", "bkt_3"):
        await prepared.add_bucket(config_id)
    await prepared.add_bucket("bkt_2", OTHER_KEYRING)
    yield prepared
    await database.aclose()


async def test_purge_skips_a_bucket_that_cannot_be_opened_and_retries_it_later(environment: WorkerEnvironment) -> None:
    for number, bucket in enumerate(("bkt_2", "bkt_1", "bkt_3", None)):
        await environment.add_due(f"f{number}", bucket)
    await purge_objects(environment.context)
    assert await environment.rows() == ["f0"]
    await environment.reseal("bkt_2")
    await environment.make_due()
    await purge_objects(environment.context)
    assert await environment.rows() == []


async def test_purge_continues_after_an_unexpected_exception_in_one_bucket(
    environment: WorkerEnvironment, log: LogRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, bucket in enumerate(("bkt_1", "bkt_3", None)):
        await environment.add_due(f"f{number}", bucket)
    of = environment.stores.of

    def broken(bucket: Bucket | None) -> ObjectStore:
        if bucket is not None and bucket.config_id == "bkt_1":
            raise ZeroDivisionError
        return of(bucket)

    monkeypatch.setattr(environment.stores, "of", broken)
    await purge_objects(environment.context)
    assert await environment.rows() == ["f0"]
    assert log.failed == [{"job": "purge_objects", "storage_config_id": "bkt_1", "tenant_id": "ten_1"}]


async def test_stale_parts_sweep_survives_error_in_a_bucket(environment: WorkerEnvironment, log: LogRecorder) -> None:
    visited: list[str] = []

    class Parts(LocalStore):
        def __init__(self, folder: Path) -> None:
            super().__init__(folder)
            self._name = folder.name

        async def abort_stale_parts(self, _prefix: str, _age: timedelta, _is_ours: Callable[[str], bool]) -> int:
            visited.append(self._name)
            if self._name == "bkt_1":
                raise ZeroDivisionError
            return 1

    environment.make_store = Parts
    sweep = StalePartsSweep(environment.buckets, environment.stores, older_than=timedelta(hours=1))
    assert await sweep.one_round() == 1
    assert visited == ["bkt_1", "bkt_3"]
    assert log.failed == [{"job": "stale_parts", "storage_config_id": "bkt_1"}]


async def test_store_audit_reports_a_bucket_it_cannot_open_compares_others_and_resumes_in_its_bucket(
    environment: WorkerEnvironment,
) -> None:
    for store, visited in ((BEFORE_BUCKETS, ["bkt_2"]), ("", ["bkt_2"]), ("bkt_2", ["bkt_2"]), ("bkt_3", [])):
        steps = await steps_of(environment, Position("objects", store))
        assert [step.store for step in steps if isinstance(step, AuditFinding)] == visited, store
    for number, bucket in enumerate(("bkt_1", "bkt_2", "bkt_3")):
        await add_file(environment.database, "ten_1", f"f{number}", storage_config_id=bucket)
    steps = await steps_of(environment, Position())
    found = {(step.kind, step.store, step.subject) for step in steps if isinstance(step, AuditFinding)}
    lost = {("missing", "bkt_1", "f0"), ("missing", "bkt_3", "f2")}
    assert found == lost | {("unreachable", "bkt_2", "f1"), ("unreachable", "bkt_2", "bkt_2")}
    assert steps[-1] == Position("done", rows=3)
    assert Position("objects", BEFORE_BUCKETS, rows=3) in steps


async def test_moving_from_a_bucket_that_cannot_be_opened_fails_for_that_file(environment: WorkerEnvironment) -> None:
    await add_file(environment.database, "ten_1", "f1", storage_config_id="bkt_2")
    closed, opened = [await environment.buckets.get("ten_1", config_id) for config_id in ("bkt_2", "bkt_3")]
    assert [moved.outcome async for moved in move_of(environment).run(closed, opened)] == ["failed"]


async def test_a_lease_that_cannot_be_fenced_does_not_stop_the_others(
    environment: WorkerEnvironment, log: LogRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    expired = [Row("ten_1", f"f{number}") for number in range(250)]
    fenced: list[str] = []

    async def expired_leases(_connection: object, limit: int, *, failed: Sequence[str]) -> list[Row]:
        return [row for row in expired if row.file_id not in {*failed, *fenced}][:limit]

    async def breaks_on_the_first_200(_connection: object, _tenant_id: str, file_id: str) -> bool:
        if int(file_id[1:]) < 200:
            raise ZeroDivisionError
        fenced.append(file_id)
        return True

    monkeypatch.setattr(file_rows, "expired_leases", expired_leases)
    monkeypatch.setattr(lifecycle, "fence", breaks_on_the_first_200)
    assert await fence_expired_leases(environment.context) == 50
    assert log.failed == [{"job": "fence_expired_leases", "file_id": f"f{number}"} for number in range(200)]


async def test_moving_reports_an_unexpected_exception_and_goes_on_unless_the_folder_cannot_be_used(
    environment: WorkerEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("f1", "f2"):
        await add_file(environment.database, "ten_1", name, storage_config_id="bkt_3")
    opened = await environment.buckets.get("ten_1", "bkt_3")

    async def broken(*_arguments: object) -> bool:
        raise ZeroDivisionError("a defect")

    async def refused(*_arguments: object) -> bool:
        raise PermissionError("no")

    monkeypatch.setattr(move_objects, "copy_object", broken)
    details = [moved.detail async for moved in move_of(environment).run(opened, None)]
    assert details == ["unexpected ZeroDivisionError: a defect"] * 2
    monkeypatch.setattr(move_objects, "copy_object", refused)
    with pytest.raises(PermissionError):
        assert [moved async for moved in move_of(environment).run(opened, None)]


async def test_a_job_that_fails_is_logged_and_the_others_run(
    environment: WorkerEnvironment, log: LogRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_COMPLETE_SECONDS", 0.0)
    ran: list[str] = []
    stop = asyncio.Event()

    async def fails(_context: JobContext) -> int:
        ran.append("fails")
        raise ZeroDivisionError

    async def works(_context: JobContext) -> int:
        ran.append("works")
        if len(ran) >= 4:
            stop.set()
        return 0

    await runner.run(environment.context, pause_seconds=0.001, stop=stop, jobs={"fails": fails, "works": works})
    assert ran == ["fails", "works"] * 2
    assert log.failed == [{"job": "fails"}] * 2


async def test_jobs_run_when_the_backlog_cannot_be_measured(
    environment: WorkerEnvironment, log: LogRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = asyncio.Event()

    async def breaks(*_arguments: object) -> None:
        raise ZeroDivisionError

    async def stops(_context: JobContext) -> int:
        stop.set()
        return 0

    monkeypatch.setattr(file_rows, "load_waiting_times", breaks)
    monkeypatch.setattr(runner, "_COMPLETE_SECONDS", 0.0)
    await runner.run(environment.context, pause_seconds=0.001, stop=stop, jobs={"stops": stops})
    assert log.failed == [{"job": "backlog"}]


async def test_an_export_into_a_full_store_is_no_defect_and_stays_due(
    environment: WorkerEnvironment, log: LogRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = dict.fromkeys(("done", "skipped", "generation", "failures"), 0)
    texts = {"position": "", "actor_id": "a", "actor_name": "a", "via": "api_key"}
    export = {"job_id": "job_1", "tenant_id": "ten_1", "kind": "export", "state": "waiting"}
    params = {"params": {"filter": {}, "format": "csv"}, "created_at": NOW, "due_at": NOW}
    async with environment.database.transaction(ALL_TENANTS) as connection:
        await connection.execute(insert(jobs).values(export | params | numbers | texts))

    async def is_full(*_arguments: object, **_options: object) -> None:
        raise StoreUnavailable("full")

    monkeypatch.setattr(LocalStore, "put", is_full)
    platform = environment.stores.platform
    exports = BulkJobs(
        environment.database, platform, purge_after=timedelta(0), two_persons=False, pause_seconds=0, clock=utc_now
    )
    assert await exports.one_step() == 1
    assert log.failed == []
    async with environment.database.reading(ALL_TENANTS) as connection:
        state, position, due_at = (await connection.execute(select(jobs.c.state, jobs.c.position, jobs.c.due_at))).one()
    assert (state, position, due_at > utc_now()) == ("running", "", True)


async def test_a_secret_that_cannot_be_opened_makes_its_bucket_unavailable(environment: WorkerEnvironment) -> None:
    bucket = await environment.buckets.get("ten_1", "bkt_2")
    for use in (environment.stores.of, environment.stores.connect):
        with pytest.raises(StoreUnavailable, match="keyring"):
            use(bucket)
