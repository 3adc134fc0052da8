"""The store audit: rows compared with objects and objects with rows, store by store, while the service runs.

Files come and go meanwhile, so a difference is checked twice before it is reported: a row is written before its object,
and removed after it. Nothing is changed but stray objects and wrong counts of lists, and those only on request.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from sluice.buckets import repository as bucket_rows
from sluice.buckets.bucket import Bucket
from sluice.buckets.service import Buckets
from sluice.buckets.stores import Stores
from sluice.db import counts
from sluice.db.database import Database, DatabaseUnavailable
from sluice.db.rls import ALL_TENANTS
from sluice.errors import NotFound
from sluice.files import FileRecord
from sluice.files import repository as file_rows
from sluice.kit.ids import FILE_ID
from sluice.observe.log import log
from sluice.storage import ListedObject, ListsObjects, ObjectStore, StoreError, without_preview
from sluice.tenants import repository as tenant_rows

_BATCH: Final = 500
_AT_ONCE: Final = 16
_OVERDUE: Final = 1000

AuditFindingKind = Literal["missing", "changed", "stray", "unreachable", "miscounted", "unsettled", "no_default"]
PLATFORM: Final = "platform"
# The position after the platform's store and before the first bucket. Ids of buckets begin with `bkt_`.
BEFORE_BUCKETS: Final = "before-buckets"


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """One difference.

    `store` is a bucket's id or `platform`; `subject` the file, key, context or tenant that it is about.
    """

    kind: AuditFindingKind
    store: str
    tenant_id: str
    subject: str
    detail: str
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class Position:
    """The progress of an audit: all rows up to `after`, then the objects of each `store`, then it is `done`.

    `store` is empty before the first store, `platform`, `before-buckets`, or a bucket's id; `after` is the last key
    seen in it.
    """

    part: Literal["rows", "objects", "done"] = "rows"
    store: str = ""
    after: str = ""
    rows: int = 0
    objects: int = 0


class StoreAudit:
    """Compares rows and objects.

    `contents` reads every object and compares its SHA-256; `repair` deletes stray objects that this service has
    written, and recounts lists whose counts are wrong.
    """

    def __init__(
        self, database: Database, buckets: Buckets, stores: Stores, *, contents: bool = False, repair: bool = False
    ) -> None:
        self._database = database
        self._buckets = buckets
        self._stores = stores
        self._contents = contents
        self._repair = repair

    async def compare(self, position: Position) -> AsyncIterator[AuditFinding | Position]:
        """Yield every difference from `position` on, and after each batch the new position.

        Raise `DatabaseUnavailable`.
        """
        if position.part == "rows":
            async for step in self._compare_rows(position):
                position = step if isinstance(step, Position) else position
                yield step
            position = replace(position, part="objects", store="", after="")
        async for step in self._compare_objects(position):
            position = step if isinstance(step, Position) else position
            yield step
        yield replace(position, part="done", store="", after="")

    async def check_invariants(self) -> AsyncIterator[AuditFinding]:
        """Yield what must not be true once the worker has caught up: wrong quotas, overdue rows, no default bucket."""
        async with self._database.reading(ALL_TENANTS) as connection:
            wrong = await file_rows.find_wrong_quotas(connection)
            overdue = await file_rows.find_overdue(connection, _OVERDUE)
            without_default = await bucket_rows.find_tenants_without_default(connection)
            tenants = await tenant_rows.list_all(connection)
        for tenant in tenants:
            for name in counts.LISTS:
                finding = await self._check_list(tenant.tenant_id, name)
                if finding is not None:
                    yield finding
        for row in wrong:
            detail = f"counts {row.storage_used_bytes} bytes, its files have {row.counted}"
            yield AuditFinding("miscounted", "", row.tenant_id, row.context_id, detail)
        for row in overdue:
            yield AuditFinding(
                "unsettled", "", row.tenant_id, row.file_id, f"waits for the worker in state {row.state}"
            )
        for tenant_id in without_default:
            yield AuditFinding("no_default", "", tenant_id, tenant_id, "has buckets and no default among them")

    async def _check_list(self, tenant_id: str, name: counts.ListName) -> AuditFinding | None:
        async with self._database.transaction(ALL_TENANTS) as connection:
            wrong = await counts.find_wrong(connection, tenant_id, name)
        if not wrong:
            return None
        facets, (counted, actual) = min(wrong.items())
        shown = ", ".join(filter(None, facets)) or "all"
        detail = f"{len(wrong)} counts are wrong, among them that of {shown}: {counted}, there are {actual}"
        if self._repair:
            async with self._database.transaction(ALL_TENANTS) as connection:
                await counts.recount(connection, tenant_id, name)
        return AuditFinding("miscounted", "", tenant_id, name, detail, repaired=self._repair)

    async def _compare_rows(self, position: Position) -> AsyncIterator[AuditFinding | Position]:
        while True:
            async with self._database.reading(ALL_TENANTS) as connection:
                files = await file_rows.list_stored(connection, position.after, _BATCH)
            if not files:
                return
            for start in range(0, len(files), _AT_ONCE):
                found = await asyncio.gather(*(self._compare_row(file) for file in files[start : start + _AT_ONCE]))
                for finding in found:
                    if finding is not None:
                        yield finding
            position = replace(position, after=files[-1].file_id, rows=position.rows + len(files))
            yield position

    async def _compare_row(self, file: FileRecord) -> AuditFinding | None:
        name = PLATFORM if file.storage_config_id is None else file.storage_config_id
        try:
            bucket = await self._buckets.for_file(file.tenant_id, file.storage_config_id)
            name = PLATFORM if bucket is None else bucket.config_id
            difference = await self._difference(file, self._stores.of(bucket))
        except DatabaseUnavailable:
            raise
        except Exception as fault:  # noqa: BLE001  (one row that cannot be compared must not end the audit)
            return _unreachable(name, file.tenant_id, file.file_id, fault)
        if difference is None:
            return None
        async with self._database.reading(ALL_TENANTS) as connection:
            if not await file_rows.is_stored(connection, file.tenant_id, file.file_id):
                return None
        return AuditFinding(difference[0], name, file.tenant_id, file.file_id, difference[1])

    async def _difference(self, file: FileRecord, store: ObjectStore) -> tuple[AuditFindingKind, str] | None:
        size = await store.size(file.object_key)
        if size is None:
            return "missing", f"no object under {file.object_key}"
        if size != file.size_bytes:
            return "changed", f"the object has {size} bytes, the record {file.size_bytes}"
        if not self._contents:
            return None
        digest = hashlib.sha256()
        try:
            async for chunk in store.read(file.object_key):
                digest.update(chunk)
        except KeyError:
            return "missing", f"no object under {file.object_key}"
        if digest.hexdigest() == file.sha256:
            return None
        return "changed", "the object's SHA-256 is not that of the record"

    async def _compare_objects(self, position: Position) -> AsyncIterator[AuditFinding | Position]:
        if position.store in {"", PLATFORM}:
            position = replace(position, store=PLATFORM)
            async for step in self._compare_store(position, "", "", self._stores.platform):
                position = step if isinstance(step, Position) else position
                yield step
            position = replace(position, store=BEFORE_BUCKETS, after="")
            yield position
        async for bucket in self._buckets_from(position):
            if bucket.config_id != position.store:
                position = replace(position, store=bucket.config_id, after="")
            try:
                store = self._stores.of(bucket)
            except Exception as fault:  # noqa: BLE001  (one bucket that fails must not end the audit)
                yield _unreachable(bucket.config_id, bucket.tenant_id, bucket.default_bucket, fault)
                continue
            async for step in self._compare_store(position, bucket.tenant_id, bucket.base_path, store):
                position = step if isinstance(step, Position) else position
                yield step

    async def _buckets_from(self, position: Position) -> AsyncIterator[Bucket]:
        """Yield every bucket, in the order of ids, from the one that the position is in."""
        first = "" if position.store == BEFORE_BUCKETS else position.store
        after = ""
        while True:
            async with self._database.reading(ALL_TENANTS) as connection:
                buckets = await bucket_rows.list_of_all_tenants(connection, after, _BATCH)
            if not buckets:
                return
            for bucket in buckets:
                if bucket.config_id < first:
                    continue
                try:
                    # Credentials may have changed since the list was read: the buckets before it may have taken hours.
                    current = await self._buckets.get(bucket.tenant_id, bucket.config_id)
                except NotFound:  # deleted in the meantime
                    continue
                yield current
            after = buckets[-1].config_id

    async def _compare_store(
        self, position: Position, tenant_id: str, prefix: str, store: ObjectStore
    ) -> AsyncIterator[AuditFinding | Position]:
        """Compare the objects of one store below `prefix`.

        A bucket may hold other things: a key without the id of a file is not ours.
        """
        if not isinstance(store, ListsObjects):
            return
        try:
            async for batch in store.list_objects(prefix, after=position.after):
                for finding in await self._find_strays(batch, position.store, tenant_id, store):
                    yield finding
                if batch:
                    position = replace(position, after=batch[-1].key, objects=position.objects + len(batch))
                yield position
        except DatabaseUnavailable:
            raise
        except Exception as fault:  # noqa: BLE001  (one bucket that fails must not end the audit)
            yield _unreachable(position.store, tenant_id, prefix, fault)

    async def _find_strays(
        self, batch: Sequence[ListedObject], name: str, tenant_id: str, store: ObjectStore
    ) -> Sequence[AuditFinding]:
        ours = {found.key: ids for found in batch if (ids := FILE_ID.findall(found.key))}
        known: dict[str, str] = {}
        ids = [file_id for found in ours.values() for file_id in found]
        for start in range(0, len(ids), _BATCH):
            async with self._database.reading(ALL_TENANTS) as connection:
                known |= await file_rows.object_keys(connection, ids[start : start + _BATCH])
        unknown = [
            key
            for key, found in ours.items()
            if not {key, without_preview(key)} & {known.get(file_id) for file_id in found}
        ]
        return [finding for key in unknown if (finding := await self._stray(key, name, tenant_id, store))]

    async def _stray(self, key: str, name: str, tenant_id: str, store: ObjectStore) -> AuditFinding | None:
        """Return the finding of an object without a row; None if it is gone by now, or is not ours."""
        if not isinstance(store, ListsObjects) or not await store.is_ours(key):
            return None
        if self._repair:
            await store.delete(key)
        return AuditFinding("stray", name, tenant_id, key, "no file has this object", repaired=self._repair)


def _unreachable(store: str, tenant_id: str, subject: str, fault: Exception) -> AuditFinding:
    if isinstance(fault, StoreError):
        return AuditFinding("unreachable", store, tenant_id, subject, str(fault))
    log.error("worker_job_failed", job="store_audit", store=store, subject=subject, exc_info=fault)
    return AuditFinding("unreachable", store, tenant_id, subject, f"it could not be compared: {type(fault).__name__}")
