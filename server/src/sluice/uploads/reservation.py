"""The commit protocol: reserve, store, record. A crash anywhere leaves a row that says so.

    reserve   ONE transaction: room in quota and plan by conditional updates, the row `pending` with a lease
    store     the object under its never-reused key, outside any transaction
    record    ONE statement: `pending` becomes `stored` (one row, or the lease was lost), and the decision is logged

A row left `pending` by a crash is fenced by the worker when its lease is over; only then is its object deleted.
"""

import asyncio
from datetime import timedelta

from sluice.buckets import repository as bucket_rows
from sluice.db.database import Database, DatabaseNotReached, DatabaseUnavailable
from sluice.db.sql import Connection
from sluice.errors import (
    BucketInactive,
    ContextInactive,
    IdempotencyKeyInUse,
    NotFound,
    OutcomeUnknown,
    ServiceUnavailable,
    StorageFull,
    TokenSpent,
    Unauthenticated,
)
from sluice.files import lifecycle
from sluice.idempotency_keys import KeyClaim
from sluice.idempotency_keys.repository import hold
from sluice.kit.failpoints import failpoint
from sluice.observe.log import log
from sluice.observe.stages import staged
from sluice.storage import ObjectStore, StoreError, StoreFull
from sluice.upload_tokens import repository as token_rows
from sluice.uploads import repository
from sluice.uploads.reasons import LIMIT_REASONS, Reason
from sluice.uploads.speculative_put import SpeculativePut
from sluice.uploads.values import Decision, PendingFile, Rejection, Usage


class ClaimLost(Exception):
    """The file cannot have what it needs: room in quota or plan, or bytes that no other has. `reason` says which."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason

    def to_rejection(self, usage: Usage, *, free_limit: int) -> Rejection:
        """Return the rejection that it means."""
        if self.reason is Reason.DUPLICATE_FILE:
            return Rejection(self.reason, "another upload stored the same bytes first")
        detail = "another upload took the last room"
        if self.reason not in LIMIT_REASONS:
            return Rejection(self.reason, detail)
        return Rejection(self.reason, detail, usage.seconds_to_next_month, free_limit)


@staged("reserve")
async def reserve_at_once(file: PendingFile, database: Database, claim: KeyClaim | None) -> bool:
    """Claim the file's bytes and write its row in one statement; return False, with nothing claimed, if that cannot be.

    It can if there is room, neither a plan nor an upload token counts the file, it may be stored twice, its bytes came
    in one request, it is no original of another, caller, context and bucket have the versions it was judged by, and
    the upload still has its idempotency key, if it has one.
    """
    if file.counts or file.is_unique or file.uploader.permit is not None or file.attempt is not None:
        return False
    if file.sanitised_file_id is not None:
        return False
    if not await repository.reserve(database, file, claim):
        return False
    failpoint("reserve.done")
    return True


@staged("reserve")
async def reserve_step_by_step(
    file: PendingFile, database: Database, free_limit: int, claim: KeyClaim | None = None
) -> None:
    """Claim all that the file needs and write its row, or change nothing.

    `claim` is that of an upload with an idempotency key. Raise `ClaimLost`, `ContextInactive`, `BucketInactive`,
    `NotFound`, `IdempotencyKeyInUse`, `Unauthenticated` if the key was revoked meanwhile, `TokenSpent` if the upload
    token has no file left, or `ServiceUnavailable` if another attempt judges the upload.
    """
    permit = file.uploader.permit
    async with database.transaction(file.tenant_id) as connection:
        if claim is not None and not await hold(connection, claim, file.file_id):
            raise IdempotencyKeyInUse
        if not await repository.is_uploader_active(connection, file.uploader):
            raise Unauthenticated
        if not await repository.bucket_exists(connection, file.tenant_id, file.storage_config_id):
            raise BucketInactive
        await _claim_bytes(connection, file)
        # The claim above holds the context's row, so no other upload of the same bytes is between the two.
        if file.is_unique:
            twin = await repository.find_twin(connection, file)
            if twin == "stored":
                raise ClaimLost(Reason.DUPLICATE_FILE)
            if twin is not None:  # it may still fail, and then this one is needed
                raise ServiceUnavailable("other upload of the same file", retry_after=1.0)
        month = await repository.claim_plan(connection, file.tenant_id, free_limit) if file.counts else None
        if file.counts and month is None:
            raise ClaimLost(Reason.MONTHLY_LIMIT_EXCEEDED)
        if permit is not None and not await repository.claim_token_file(connection, file.tenant_id, permit.token_id):
            token = await token_rows.find(connection, file.tenant_id, permit.token_id)
            raise TokenSpent if token is not None and token.revoked_at is None else Unauthenticated
        attempt = file.attempt
        if attempt is not None and not await repository.claim_attempt(
            connection, file.tenant_id, attempt, file.file_id
        ):
            raise ServiceUnavailable("upload (another request judges it)")
        await repository.add_pending(connection, file, month)
    failpoint("reserve.done")


async def _claim_bytes(connection: Connection, file: PendingFile) -> None:
    if await repository.claim_bytes(connection, file.tenant_id, file.context_id, file.size_bytes):
        return
    usage = await repository.context_usage(connection, file.tenant_id, file.context_id)
    if usage is None:
        raise NotFound
    if usage.status != "active":
        raise ContextInactive
    raise ClaimLost(Reason.STORAGE_QUOTA_EXCEEDED)


@staged("store")
async def store(file: PendingFile, put: SpeculativePut, database: Database, *, seconds: float) -> None:
    """Have the object stored; raise `StorageFull` or `ServiceUnavailable`, with everything released again."""
    try:
        async with asyncio.timeout(seconds):
            await put.finish(file.content_type)
        failpoint("store.done")
    except StoreFull as fault:
        await release(file, put.store, database)
        raise StorageFull from fault
    except (StoreError, TimeoutError) as fault:
        log.warning("store_failed", file_id=file.file_id, storage_config_id=file.storage_config_id, fault=str(fault))
        await release(file, put.store, database, bucket_failed=True)
        raise ServiceUnavailable(fault.part if isinstance(fault, StoreError) else "storage") from fault


@staged("record")
async def record(
    decision: Decision, file: PendingFile, to: ObjectStore, database: Database, *, life: timedelta | None
) -> None:
    """Make the file visible, for its `life` if it has one, and log its decision.

    Raise `ServiceUnavailable` if the lease was lost: then the file was never stored. Raise `DatabaseNotReached` if the
    statement was not sent, which leaves the row to the worker, and `OutcomeUnknown` if the connection failed after it
    was sent: the commit may have happened.
    """
    try:
        is_recorded = await repository.record(database, decision, file, life)
        failpoint("record.done")
    except DatabaseNotReached:
        raise
    except DatabaseUnavailable as fault:
        raise OutcomeUnknown from fault
    if not is_recorded:
        await _delete_object(file, to)
        raise ServiceUnavailable("storage")


async def release(file: PendingFile, to: ObjectStore, database: Database, *, bucket_failed: bool = False) -> None:
    """Give back what was claimed. What fails here, the worker does when the lease is over.

    With `bucket_failed`, the worker watches the bucket from now on.
    """
    try:
        async with database.transaction(file.tenant_id) as connection:
            await lifecycle.release(connection, file.tenant_id, file.file_id)
            if bucket_failed and file.storage_config_id is not None:
                await bucket_rows.note_failure(connection, file.tenant_id, file.storage_config_id)
    except DatabaseUnavailable:
        log.warning("release_left_to_worker", file_id=file.file_id)
        return
    await _delete_object(file, to)


async def _delete_object(file: PendingFile, to: ObjectStore) -> None:
    # The worker deletes once more after the lease, when no late write can bring the object back.
    try:
        await to.delete(file.object_key)
    except StoreError:
        log.warning("delete_left_to_worker", file_id=file.file_id)
