"""The commit protocol: reserve, store, record. No transaction is open while bytes move; a crash anywhere leaves a row that says so.

    reserve   ONE transaction: room in quota and plan by conditional updates, the row `pending` with a lease
    store     the object under its never-reused key
    record    ONE statement: `pending` becomes `stored` (one row, or the lease was lost), and the decision is logged

A row left `pending` by a crash is fenced by the worker when its lease is over; only then is its object deleted.
"""

import asyncio
from datetime import timedelta

from sluice.db.database import Database, DatabaseAway, DatabaseUnreached
from sluice.engines.storage import ObjectStore, StoreFault, StoreFull
from sluice.errors import ContextInactive, NotFound, OutcomeUnknown, StorageFull, Unauthenticated, Unavailable
from sluice.kit.failpoints import reach
from sluice.observe.log import log
from sluice.observe.stages import staged
from sluice.uploads import repository
from sluice.uploads.ahead import Ahead
from sluice.uploads.reasons import Reason
from sluice.uploads.values import Decision, PendingFile


class Outdated(Exception):
    """What the upload was judged by is remembered, and has changed since: it is to be judged again."""


class ClaimLost(Exception):
    """Another upload took the last room between the look and the claim. `reason` is the code that the look would have given."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


@staged("reserve")
async def reserve(file: PendingFile, database: Database, *, free_limit: int) -> None:
    """Claim all that the file needs and write its row, or change nothing.

    Raises `ClaimLost`, `ContextInactive`, `NotFound`, or `Unauthenticated` when the key was revoked meanwhile; `Outdated` where the upload
    was judged by what is `remembered` and no longer so. One statement is enough when all is well; otherwise each claim is asked for by
    itself, to learn which was lost.
    """
    if file.counts or not await repository.claim_at_once(database, file):
        if file.seen.remembered and not await repository.is_as_seen(database, file):
            raise Outdated
        await _claim_one_by_one(file, database, free_limit=free_limit)
    reach("reserve.done")


async def _claim_one_by_one(file: PendingFile, database: Database, *, free_limit: int) -> None:
    async with database.transaction(file.tenant_id) as connection:
        if not await repository.still_welcome(connection, file.uploader):
            raise Unauthenticated
        if not await repository.claim_bytes(connection, file.context_id, file.size_bytes):
            usage = await repository.context_usage(connection, file.context_id)
            if usage is None:
                raise NotFound
            if usage.status != "active":
                raise ContextInactive
            raise ClaimLost(Reason.STORAGE_QUOTA_EXCEEDED)
        month = await repository.claim_plan(connection, file.tenant_id, free_limit) if file.counts else None
        if file.counts and month is None:
            raise ClaimLost(Reason.MONTHLY_LIMIT_EXCEEDED)
        await repository.add_pending(connection, file, month)


@staged("store")
async def store(file: PendingFile, ahead: Ahead, database: Database, *, seconds: float) -> None:
    """Put the object, or end its put where that went ahead; raises `StorageFull` or `Unavailable`, with everything released again."""
    try:
        async with asyncio.timeout(seconds):
            await ahead.finish(file.content_type)
        reach("store.done")
    except StoreFull as fault:
        await _release(file, ahead.to, database)
        raise StorageFull from fault
    except (StoreFault, TimeoutError) as fault:
        log.warning("store_failed", file_id=file.file_id, storage_config_id=file.storage_config_id, fault=str(fault))
        await _release(file, ahead.to, database)
        raise Unavailable("storage") from fault


@staged("record")
async def record(decision: Decision, file: PendingFile, to: ObjectStore, database: Database, *, life: timedelta | None) -> None:
    """Make the file visible, for its `life` if it has one, and log its decision; raises `Unavailable` when the lease was lost: then it was never stored.

    Raises `DatabaseUnreached` when it cannot be asked, which leaves the row to the worker, and `OutcomeUnknown` when it went away after it was
    asked: a commit whose answer was lost may have been one.
    """
    try:
        kept = await repository.record_at_once(database, decision, file.file_id, life)
        reach("record.done")
    except DatabaseUnreached:
        raise
    except DatabaseAway as fault:
        raise OutcomeUnknown from fault
    if not kept:
        await _delete_object(file, to)
        raise Unavailable("storage")


async def _release(file: PendingFile, to: ObjectStore, database: Database) -> None:
    """Give back what was claimed. What fails here, the worker does when the lease is over."""
    try:
        async with database.transaction(file.tenant_id) as connection:
            await repository.abandon(connection, file.file_id, at_once=False)
    except DatabaseAway:
        log.warning("release_left_to_worker", file_id=file.file_id)
        return
    await _delete_object(file, to)


async def _delete_object(file: PendingFile, to: ObjectStore) -> None:
    """Try at once; the row stays, and the worker deletes again after the lease, when no late write can bring the object back."""
    try:
        await to.delete(file.object_key)
    except StoreFault:
        log.warning("delete_left_to_worker", file_id=file.file_id)
