"""Purging: deleting the objects of files that are due, bucket by bucket, and then the rows of these files."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from sluice.db.rls import ALL_TENANTS
from sluice.db.sql import AnyRow, Connection
from sluice.files import lifecycle
from sluice.kit.failpoints import failpoint
from sluice.observe.log import log
from sluice.observe.metrics import WORKER_PUT_OFF
from sluice.storage import PREVIEW_SIDES, DeletesMany, ObjectStore, StoreError, StoreUnavailable, preview_key
from sluice.worker.job import JobContext, error_boundary

_BATCH: Final = 500
_BATCHES: Final = 10  # of a round, which other jobs wait for
_TRY_AGAIN: Final = timedelta(minutes=5)
_DELETES_AT_ONCE: Final = 8
_BucketKey = tuple[str, str | None]  # a tenant, and its bucket; None: the platform's


async def purge_objects(context: JobContext) -> int:
    """Delete objects that are due and the rows of their files; return how many were due.

    Files under a legal hold are put off. Objects of a bucket that fails are due again in five minutes; other
    buckets are purged. Such a bucket gets one request of the round, however many of its files are due.
    """
    total, failing = 0, set[_BucketKey]()
    for _ in range(_BATCHES):
        due = await _purge_batch(context, failing)
        total += due
        if due < _BATCH:
            break
    return total


async def _purge_batch(context: JobContext, failing: set[_BucketKey]) -> int:
    due: list[AnyRow] = []
    held = 0
    claims = context.database.portion("claim_purges", _BATCH)
    while len(due) + held < _BATCH:
        most = min(claims.rows, _BATCH - len(due) - held)

        async def claim(connection: Connection, limit: int = most) -> tuple[Sequence[AnyRow], int]:
            return await lifecycle.begin_purges(connection, _TRY_AGAIN, limit)

        (claimed, put_off), seconds = await context.database.work(ALL_TENANTS, claim)
        claims.took(len(claimed) + put_off, seconds)
        due += claimed
        held += put_off
        if len(claimed) + put_off < most:
            break
    if not due:
        return held
    failpoint("purge.claimed")
    by_bucket: dict[_BucketKey, list[AnyRow]] = defaultdict(list)
    for row in due:
        by_bucket[row.tenant_id, row.storage_config_id].append(row)
    deleted: list[tuple[str, str]] = []
    for (tenant_id, config_id), rows in by_bucket.items():
        if (tenant_id, config_id) in failing:
            continue
        with error_boundary("purge_objects", storage_config_id=config_id, tenant_id=tenant_id):
            gone = await _purge_bucket(context, tenant_id, config_id, rows, failing)
            deleted += [(tenant_id, file_id) for file_id in gone]
    WORKER_PUT_OFF.inc(len(due) - len(deleted))
    purges, start = context.database.portion("purge", _BATCH), 0
    while start < len(deleted):
        portion = deleted[start : start + purges.rows]
        _, seconds = await context.database.work(ALL_TENANTS, partial(lifecycle.purge, owned=portion))
        purges.took(len(portion), seconds)
        start += len(portion)
        failpoint("purge.done")
    if deleted:
        log.info("purged", files=len(deleted))
    return len(due) + held


async def _purge_bucket(
    context: JobContext,
    tenant_id: str,
    config_id: str | None,
    rows: Sequence[AnyRow],
    failing: set[_BucketKey],
) -> Sequence[str]:
    """Delete the objects of `rows`, all in one bucket; return the ids of the files whose object is gone.

    If the bucket fails as a whole, it is added to `failing`.
    """
    try:
        store = context.stores.of(await context.buckets.for_file(tenant_id, config_id))
        left = await _delete_many(store, [key for row in rows for key in _keys_of(row)])
    except StoreError as fault:
        failing.add((tenant_id, config_id))
        left = dict.fromkeys((row.object_key for row in rows), str(fault))
    for reason, files in Counter(left.values()).items():
        log.warning("purge_put_off", storage_config_id=config_id, tenant_id=tenant_id, files=files, fault=reason)
    deleted = [row.file_id for row in rows if left.keys().isdisjoint(_keys_of(row))]
    if deleted:
        failpoint("purge.removed")
    return deleted


def _keys_of(row: AnyRow) -> Sequence[str]:
    """Return the keys of a file's object and of the previews that may be beside it."""
    previews = (preview_key(row.object_key, side) for side in PREVIEW_SIDES)
    return (row.object_key, *(key for key in previews if key is not None))


async def _delete_many(store: ObjectStore, keys: Sequence[str]) -> Mapping[str, str]:
    """Delete the objects; return the keys that failed, with the reason.

    Raise `StoreError` if the store failed as a whole.
    """
    if isinstance(store, DeletesMany):
        return await store.delete_many(keys)
    failed: dict[str, str] = {}
    slots = asyncio.Semaphore(_DELETES_AT_ONCE)
    unavailable = asyncio.Event()

    async def delete(key: str) -> None:
        async with slots:
            if unavailable.is_set():
                # Each further request would wait for its own timeout.
                failed[key] = "The store is unavailable."
                return
            failed[key] = "The deletion failed unexpectedly."
            with error_boundary("purge_objects", object_key=key):
                try:
                    await store.delete(key)
                except StoreError as fault:
                    failed[key] = str(fault)
                    if isinstance(fault, StoreUnavailable):
                        unavailable.set()
                else:
                    del failed[key]

    await asyncio.gather(*(delete(key) for key in keys))
    return failed
