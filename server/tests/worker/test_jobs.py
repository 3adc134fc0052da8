"""Jobs of the worker in memory, without a database: error boundaries of jobs, rows, buckets; purging in batches."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace

import pytest

from sluice.db.database import DatabaseUnavailable, Portion
from sluice.files import lifecycle, repository
from sluice.storage import StoreError, StoreUnavailable, without_preview
from sluice.worker import job, runner
from sluice.worker import repository as worker_rows
from sluice.worker.job import JobContext, error_boundary, run_until
from sluice.worker.jobs.expiry import expire_test_files, fence_expired_leases
from sluice.worker.jobs.purge import purge_objects
from tests.worker.environment import LogRecorder, context_of


class FakeDatabase:
    """Opens transactions that change nothing, of at most `most_rows` each."""

    def __init__(self) -> None:
        self.most_rows = 500

    @asynccontextmanager
    async def transaction(self, _scope: object) -> AsyncIterator[object]:
        yield object()

    reading = transaction

    async def work(self, _scope: object, unit: Callable[[object], Awaitable[object]]) -> tuple[object, float]:
        return await unit(object()), 0.0

    def portion(self, _kind: str, most: int) -> Portion:
        return Portion(min(most, self.most_rows), is_fixed=True)


class FakeStore:
    """A store that deletes one object at a time, and keeps which; a fault may be set for each key."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.faults: dict[str, Exception] = {}
        self.running = self.most = 0

    async def delete(self, key: str) -> None:
        self.asked.append(key)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if key in self.faults:
            raise self.faults[key]


class FakeBatchStore(FakeStore):
    """A store that deletes many objects with one request. Of each file, `batches` has the object, not its previews."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []
        self.fault: Exception | None = None  # of every request

    async def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        self.batches.append([key for key in keys if without_preview(key) == key])
        assert len(keys) == 3 * len(self.batches[-1])
        if self.fault is not None:
            raise self.fault
        return {key: str(self.faults[key]) for key in keys if key in self.faults}


class Memory:
    """The context of jobs over files and stores in memory. A bucket is named by its id, the platform store by None."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.due: list[SimpleNamespace] = []
        self.purged: list[str] = []
        self.portions: list[int] = []
        self.buckets: dict[str | None, FakeStore | Exception] = {}
        self.database = FakeDatabase()
        buckets = SimpleNamespace(for_file=self._for_file)
        self.context = context_of(self.database, buckets, SimpleNamespace(of=self._of))
        monkeypatch.setattr(lifecycle, "begin_purges", self._claim)
        monkeypatch.setattr(lifecycle, "purge", self._purge)

    def add(self, *file_ids: str, bucket: str | None = None) -> None:
        self.due += [
            SimpleNamespace(tenant_id="ten_1", storage_config_id=bucket, file_id=file_id, object_key=f"key-{file_id}")
            for file_id in file_ids
        ]

    async def _claim(self, _connection: object, _again: timedelta, limit: int) -> tuple[list[SimpleNamespace], int]:
        claimed, self.due = self.due[:limit], self.due[limit:]
        return claimed, 0

    async def _purge(self, _connection: object, owned: Sequence[tuple[str, str]]) -> None:
        assert {tenant_id for tenant_id, _file_id in owned} <= {"ten_1"}
        file_ids = [file_id for _tenant_id, file_id in owned]
        self.purged += file_ids
        self.portions.append(len(file_ids))

    async def _for_file(self, _tenant_id: str, config_id: str | None) -> str | None:
        return config_id

    def _of(self, bucket: str | None) -> FakeStore:
        store = self.buckets[bucket]
        if isinstance(store, Exception):
            raise store
        return store


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> LogRecorder:
    recorder = LogRecorder()
    monkeypatch.setattr(job, "log", recorder)
    monkeypatch.setattr(runner, "log", recorder)
    return recorder


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    return Memory(monkeypatch)


def _raise(fault: Exception) -> None:
    raise fault


async def test_a_job_that_raises_does_not_stop_the_others_but_an_unavailable_database_does(
    memory: Memory, log: LogRecorder
) -> None:
    ran: list[str] = []

    async def first(_context: JobContext) -> int:
        ran.append("first")
        return 2

    async def last(_context: JobContext) -> int:
        ran.append("last")
        return 3

    async def fails(_context: JobContext) -> int:
        raise fault

    fault: Exception = ZeroDivisionError()
    assert await runner.run_round(memory.context, {"first": first, "fails": fails, "last": last}) == (5, 1)
    assert ran == ["first", "last"]
    assert log.failed == [{"job": "fails"}]
    fault = DatabaseUnavailable()
    with pytest.raises(DatabaseUnavailable):
        await runner.run_round(memory.context, {"fails": fails, "never": last})
    assert ran == ["first", "last"]
    assert log.failed == [{"job": "fails"}]


async def test_a_round_runs_the_jobs_that_have_rows_and_every_25_seconds_and_after_work_all(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    stop = asyncio.Event()
    found = iter([frozenset[str](), frozenset({"purge_objects"}), frozenset[str]()])
    old_events, seconds = iter([1, 0]), 0.0

    async def find_due(_connection: object) -> frozenset[str]:
        nonlocal seconds
        seconds += 10
        ran.append([])
        return next(found)

    async def measure(_context: object) -> None:
        """Leave the database alone."""

    def job_of(name: str) -> runner.Job:
        async def note(_context: JobContext) -> int:
            if name == "fold_counts":  # the first of a round without `find_due`
                ran.append([])
            ran[-1].append(name)
            if name != "delete_old_events":
                return 0
            if (deleted := next(old_events)) == 0:
                stop.set()
            return deleted

        return note

    monkeypatch.setattr(worker_rows, "find_due", find_due)
    monkeypatch.setattr(runner, "_measure_backlog", measure)
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: seconds))
    names = ("fold_counts", "purge_objects", "announce_limits", "delete_old_events")
    await runner.run(memory.context, pause_seconds=0, stop=stop, jobs={name: job_of(name) for name in names})
    assert ran[:3] == [[], ["purge_objects", "announce_limits"], []]
    assert ran[3:] == [list(names), list(names)], "after 25 seconds, and another one since it did something"


async def test_all_jobs_run_when_those_with_rows_cannot_be_found(
    memory: Memory, log: LogRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = asyncio.Event()

    async def breaks(*_arguments: object) -> None:
        raise ZeroDivisionError

    async def stops(_context: JobContext) -> int:
        stop.set()
        return 0

    monkeypatch.setattr(worker_rows, "find_due", breaks)
    monkeypatch.setattr(runner, "_measure_backlog", breaks)
    await runner.run(memory.context, pause_seconds=0, stop=stop, jobs={"stops": stops})
    assert log.failed == [{"job": "backlog"}, {"job": "find_due"}]


def test_an_error_boundary_logs_the_item_and_continues(log: LogRecorder) -> None:
    with error_boundary("some job", file_id="f1"):
        _raise(ZeroDivisionError())
    assert log.failed == [{"job": "some job", "file_id": "f1"}]


@pytest.mark.parametrize("fault", [DatabaseUnavailable, asyncio.CancelledError])
def test_a_boundary_lets_a_lost_database_and_a_cancellation_by(log: LogRecorder, fault: type[BaseException]) -> None:
    with pytest.raises(fault), error_boundary("some job", file_id="f1"):
        raise fault
    assert log.failed == []


@pytest.mark.parametrize(
    ("fault", "failures"), [(ZeroDivisionError, [{"job": "some job"}] * 3), (DatabaseUnavailable, [])]
)
async def test_repeated_job_survives_errors(log: LogRecorder, fault: type[Exception], failures: list[object]) -> None:
    stop, runs = asyncio.Event(), 0

    async def once() -> int:
        nonlocal runs
        runs += 1
        if runs == 3:
            stop.set()
        raise fault

    await job.repeat("some job", once, stop=stop, pause_seconds=lambda: 0.001)
    assert (runs, log.failed) == (3, failures)


async def test_a_stop_cancels_work_in_progress() -> None:
    stop, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        stop.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    await run_until(stop, work())
    assert ended.is_set()


async def test_a_test_file_that_cannot_be_expired_does_not_stop_the_others(
    memory: Memory, log: LogRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    expired: list[str] = []

    async def expired_test_files(_connection: object, _limit: int, *, failed: Sequence[str]) -> list[SimpleNamespace]:
        due = {"f1", "f2", "f3"} - {*failed, *expired}
        return [SimpleNamespace(tenant_id="ten_1", file_id=file_id) for file_id in sorted(due)]

    async def expire(_connection: object, _tenant_id: str, file_id: str) -> None:
        if file_id == "f2":
            raise ZeroDivisionError
        expired.append(file_id)

    monkeypatch.setattr(repository, "expired_test_files", expired_test_files)
    monkeypatch.setattr(lifecycle, "expire", expire)
    assert await expire_test_files(memory.context) == 2
    assert expired == ["f1", "f3"]
    assert log.failed == [{"job": "expire_test_files", "file_id": "f2"}]


async def test_lost_database_stops_fencing(memory: Memory, log: LogRecorder, monkeypatch: pytest.MonkeyPatch) -> None:
    fenced: list[str] = []

    async def expired_leases(_connection: object, _limit: int, *, failed: Sequence[str]) -> list[SimpleNamespace]:
        return [SimpleNamespace(tenant_id="ten_1", file_id=file_id) for file_id in ("f1", "f2")]

    async def fence(_connection: object, _tenant_id: str, file_id: str) -> bool:
        fenced.append(file_id)
        raise DatabaseUnavailable

    monkeypatch.setattr(repository, "expired_leases", expired_leases)
    monkeypatch.setattr(lifecycle, "fence", fence)
    with pytest.raises(DatabaseUnavailable):
        await fence_expired_leases(memory.context)
    assert (fenced, log.failed) == (["f1"], [])


async def test_purge_sends_one_batch_to_each_bucket(memory: Memory) -> None:
    one, other = FakeBatchStore(), FakeBatchStore()
    memory.buckets = {"bkt_1": one, "bkt_2": other}
    memory.add("f1", "f2", bucket="bkt_1")
    memory.add("f3", bucket="bkt_2")
    memory.add("f4", bucket="bkt_1")
    assert await purge_objects(memory.context) == 4
    assert (one.batches, other.batches) == ([["key-f1", "key-f2", "key-f4"]], [["key-f3"]])
    assert sorted(memory.purged) == ["f1", "f2", "f3", "f4"]


async def test_purge_claims_files_and_deletes_objects_by_many_and_rows_in_small_transactions(memory: Memory) -> None:
    memory.database.most_rows = 2
    store = memory.buckets[None] = FakeBatchStore()
    memory.add("f1", "f2", "f3", "f4", "f5")
    assert await purge_objects(memory.context) == 5
    assert (store.batches, memory.portions) == ([["key-f1", "key-f2", "key-f3", "key-f4", "key-f5"]], [2, 2, 1])
    memory.add(*(f"f{number}" for number in range(5030)))
    assert [await purge_objects(memory.context) for _ in range(3)] == [5000, 30, 0]


async def test_a_bucket_that_fails_gets_one_request_of_a_round_and_others_are_purged(memory: Memory) -> None:
    failing, other = FakeBatchStore(), FakeBatchStore()
    failing.fault = StoreUnavailable("away")
    memory.buckets = {"bkt_1": failing, "bkt_2": other}
    memory.add(*(f"f{number}" for number in range(1200)), bucket="bkt_1")
    memory.add("f", bucket="bkt_2")
    assert await purge_objects(memory.context) == 1201
    assert (len(failing.batches), memory.purged) == (1, ["f"])


async def test_purge_keeps_the_rows_of_objects_that_a_batch_did_not_delete(memory: Memory) -> None:
    store = memory.buckets[None] = FakeBatchStore()
    store.faults = {"key-f2": StoreError("refused")}
    memory.add("f1", "f2", "f3")
    assert await purge_objects(memory.context) == 3
    assert memory.purged == ["f1", "f3"]


async def test_purge_deletes_at_most_eight_objects_at_once_and_stops_at_an_unavailable_store(memory: Memory) -> None:
    store = memory.buckets[None] = FakeStore()
    file_ids = [f"f{number}" for number in range(20)]
    memory.add(*file_ids)
    assert await purge_objects(memory.context) == 20
    assert (store.most, len(memory.purged)) == (8, 20)
    store = memory.buckets[None] = FakeStore()
    store.faults = {f"key-{file_id}": StoreUnavailable("no response") for file_id in file_ids}
    memory.add(*file_ids)
    assert await purge_objects(memory.context) == 20
    assert (len(store.asked), len(memory.purged)) == (8, 20)


async def test_purge_continues_after_an_object_whose_deletion_raises(memory: Memory, log: LogRecorder) -> None:
    store = memory.buckets[None] = FakeStore()
    store.faults = {"key-f1": ZeroDivisionError()}
    memory.add("f1", "f2")
    assert await purge_objects(memory.context) == 2
    assert memory.purged == ["f2"]
    assert log.failed == [{"job": "purge_objects", "object_key": "key-f1"}]


@pytest.mark.parametrize(("fault", "logged"), [(StoreUnavailable("no response"), []), (ZeroDivisionError(), ["bkt_1"])])
async def test_purge_continues_after_a_bucket_that_cannot_be_opened(
    memory: Memory, log: LogRecorder, fault: Exception, logged: list[str]
) -> None:
    memory.buckets = {"bkt_1": fault, None: FakeStore()}
    memory.add("f1", bucket="bkt_1")
    memory.add("f2")
    assert await purge_objects(memory.context) == 2
    assert memory.purged == ["f2"]
    assert [failed["storage_config_id"] for failed in log.failed] == logged


async def test_file_whose_key_leaves_no_room_for_that_of_a_preview_is_purged(memory: Memory) -> None:
    store = memory.buckets[None] = FakeStore()
    memory.due = [SimpleNamespace(file_id="f1", tenant_id="ten_1", storage_config_id=None, object_key="k" * 1024)]
    await purge_objects(memory.context)
    assert (store.asked, memory.purged) == (["k" * 1024], ["f1"])
