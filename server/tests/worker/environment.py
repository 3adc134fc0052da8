"""A database with one tenant, the platform store and buckets in folders, for tests of the worker's jobs."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select, update

from sluice.buckets.bucket import Bucket
from sluice.buckets.repository import settings_columns
from sluice.buckets.service import Buckets, secret_binding
from sluice.buckets.stores import Stores
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import files, storage_configs
from sluice.db.sql import now_plus
from sluice.kit.cipher import Keyring
from sluice.limiter.memory import MemoryLimiter
from sluice.storage import ObjectStore, S3Settings
from sluice.storage.local.store import LocalStore
from sluice.worker.job import JobContext
from tests.db.rows import add_file

NOW = datetime(2026, 1, 2, tzinfo=UTC)
KEYRING, OTHER_KEYRING = Keyring({"k1": bytes(32)}, "k1"), Keyring({"k2": bytes(32)}, "k2")


def context_of(database: Any, buckets: Any, stores: Any) -> JobContext:
    """Return a context of jobs that keeps idle things for a day; the objects may be fakes."""
    day = timedelta(days=1)
    return JobContext(database, buckets, stores, MemoryLimiter(), day, day, 500, timedelta(0))


def bucket_row(config_id: str, secret_sealed: str) -> dict[str, object]:
    ids = {"config_id": config_id, "tenant_id": "ten_1", "name": config_id, "created_at": NOW, "is_active": True}
    place = {"default_bucket": config_id, "base_path": "", "secret_sealed": secret_sealed}
    return {**ids, **place, **settings_columns(S3Settings("A", "r"))}


class WorkerEnvironment:
    """The context of jobs, in one folder. A bucket sealed with `OTHER_KEYRING` cannot be opened."""

    def __init__(
        self, database: Database, folder: Path, make_store: Callable[[Path], ObjectStore] = LocalStore
    ) -> None:
        self.database = database
        self.folder = folder
        self.make_store = make_store
        self.platform = make_store(folder / "platform")
        self.stores = Stores(self.platform, self._connect)
        self.buckets = Buckets(database, self.stores, KEYRING, allowed_endpoints=(), probe=False)
        self.context = context_of(database, self.buckets, self.stores)

    async def add_bucket(self, config_id: str, keyring: Keyring = KEYRING) -> None:
        sealed = keyring.seal("s", bound_to=("ten_1", config_id, "secret_access_key"))
        async with self.database.transaction(ALL_TENANTS) as connection:
            await connection.execute(insert(storage_configs).values(bucket_row(config_id, sealed)))

    async def reseal(self, config_id: str) -> None:
        """Seal the secret of a bucket with `KEYRING`, like a rotation."""
        sealed = KEYRING.seal("s", bound_to=("ten_1", config_id, "secret_access_key"))
        of_bucket = update(storage_configs).where(storage_configs.c.config_id == config_id)
        async with self.database.transaction(ALL_TENANTS) as connection:
            await connection.execute(of_bucket.values(secret_sealed=sealed))

    async def add_due(self, file_id: str, bucket: str | None = None) -> None:
        """Add a deleted file that is due to be purged; the key of its object is its id."""
        await add_file(self.database, "ten_1", file_id, state="deleted", storage_config_id=bucket)
        await self.make_due()

    async def make_due(self) -> None:
        """Make every deleted file due to be purged."""
        deleted = update(files).where(files.c.state.in_(("deleted", "purging")))
        async with self.database.transaction(ALL_TENANTS) as connection:
            await connection.execute(deleted.values(due_at=now_plus(timedelta(seconds=-1))))

    async def rows(self) -> list[str]:
        async with self.database.reading(ALL_TENANTS) as connection:
            return list((await connection.execute(select(files.c.file_id).order_by(files.c.file_id))).scalars())

    def _connect(self, bucket: Bucket) -> ObjectStore:
        KEYRING.open(bucket.secret_sealed, bound_to=secret_binding(bucket))
        return self.make_store(self.folder / bucket.config_id)


class LogRecorder:
    """Replaces the log of the jobs and keeps their failures."""

    def __init__(self) -> None:
        self.failed: list[dict[str, object]] = []

    def exception(self, event: str, **values: object) -> None:
        assert event == "worker_job_failed"
        self.failed.append(values)

    def warning(self, _event: str, **_values: object) -> None:
        """Ignore expected faults."""

    info = warning
