"""The sweeps: each claims what is due, acts, settles, and answers how much it did. All are idempotent. When they run is in `loop`."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from sluice.buckets.service import Buckets
from sluice.buckets.stores import Stores
from sluice.db import counts
from sluice.db.database import Database
from sluice.db.moments import present
from sluice.db.whose import EVERYBODY
from sluice.engines.limiter import ForgetsIdle, Limiter, LimiterAway
from sluice.engines.storage import StoreFault, SweepsLeftovers
from sluice.files import repository as file_rows
from sluice.kit.failpoints import reach
from sluice.observe.log import log
from sluice.observe.metrics import WORKER_PUT_OFF
from sluice.observe.stages import swept
from sluice.trail import repository as trail_rows
from sluice.uploads import repository as upload_rows

_BATCH: Final = 100
_DELTAS: Final = 2000
_TRY_AGAIN: Final = timedelta(minutes=5)
_LEFTOVER_SECONDS: Final = 24 * 3600.0
"""Longer than any upload may take."""


@dataclass(frozen=True, slots=True)
class Background:
    """What the sweeps work with."""

    database: Database
    buckets: Buckets
    stores: Stores
    limiter: Limiter
    keep_decisions: timedelta
    keep_audit: timedelta


@swept("settle_leases")
async def settle_leases(work: Background) -> int:
    """Fence uploads whose lease is over: a crash left them. What they claimed is released, their objects become due to be purged."""
    async with work.database.reading(EVERYBODY) as connection:
        expired = await upload_rows.expired_leases(connection, _BATCH)
    for file_id in expired:
        async with work.database.transaction(EVERYBODY) as connection:
            if await upload_rows.abandon(connection, file_id, at_once=True):
                log.warning("lease_expired", file_id=file_id)
            reach("settle.open")
        reach("settle.done")
    return len(expired)


@swept("expire_test_files")
async def expire_test_files(work: Background) -> int:
    """Delete files that were uploaded with test keys and whose day is over."""
    async with work.database.reading(EVERYBODY) as connection:
        expired = await upload_rows.expired_test_files(connection, _BATCH)
    for row in expired:
        async with work.database.transaction(row.tenant_id) as connection:
            await file_rows.mark_deleted(connection, row.tenant_id, row.file_id, timedelta(0))
    return len(expired)


@swept("purge_objects")
async def purge_objects(work: Background) -> int:
    """Remove the objects of files that are gone or deleted long enough, then their rows.

    A store that is away leaves its rows, which are due again in five minutes; the others are not held up by it.
    """
    async with work.database.transaction(EVERYBODY) as connection:
        due = await upload_rows.claim_purges(connection, _TRY_AGAIN, _BATCH)
    removed: list[str] = []
    if due:
        reach("purge.claimed")
    for row in due:
        bucket = await work.buckets.for_file(row.tenant_id, row.storage_config_id)
        try:
            await work.stores.of(bucket).delete(row.object_key)
        except StoreFault as fault:
            WORKER_PUT_OFF.inc()
            log.warning("purge_put_off", file_id=row.file_id, storage_config_id=row.storage_config_id, fault=str(fault))
        else:
            removed.append(row.file_id)
            reach("purge.removed")
    if removed:
        async with work.database.transaction(EVERYBODY) as connection:
            await upload_rows.forget(connection, removed)
        reach("purge.done")
        log.info("purged", files=len(removed))
    return len(due)


@swept("sweep_leftovers")
async def sweep_leftovers(work: Background) -> int:
    """Remove what crashed uploads left unfinished in the platform's store. Answers 0: it never makes the next round come sooner."""
    if isinstance(work.stores.platform, SweepsLeftovers):
        try:
            await work.stores.platform.sweep(older_than_seconds=_LEFTOVER_SECONDS)
        except StoreFault as fault:
            log.warning("leftovers_put_off", fault=str(fault))
    return 0


@swept("forget_takes")
async def forget_takes(work: Background) -> int:
    """Have the limiter forget what counts in no window any more. Answers 0: it never makes the next round come sooner."""
    if isinstance(work.limiter, ForgetsIdle):
        try:
            await work.limiter.forget_idle()
        except LimiterAway as fault:
            log.warning("takes_put_off", fault=str(fault))
    return 0


@swept("forget_decisions")
async def forget_decisions(work: Background) -> int:
    """Delete decisions older than the log is kept: they hold personal data."""
    async with work.database.transaction(EVERYBODY) as connection:
        return await upload_rows.forget_decisions(connection, await present(connection) - work.keep_decisions, _BATCH)


@swept("forget_audit")
async def forget_audit(work: Background) -> int:
    """Delete entries of the audit trail older than it is kept: they name people."""
    async with work.database.transaction(EVERYBODY) as connection:
        return await trail_rows.forget(connection, await present(connection) - work.keep_audit, _BATCH)


@swept("fold_counts")
async def fold_counts(work: Background) -> int:
    """Fold what came onto lists and left them into the lists' counts. A few wait for the next round: it comes sooner for many only."""
    async with work.database.transaction(EVERYBODY) as connection:
        folded = await counts.fold(connection, _DELTAS)
    return folded if folded == _DELTAS else 0


SWEEPS: Final = (
    settle_leases,
    expire_test_files,
    purge_objects,
    sweep_leftovers,
    forget_takes,
    forget_decisions,
    forget_audit,
    fold_counts,
)
