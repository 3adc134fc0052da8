"""Retention: records that were kept long enough. The decision log and the audit log hold personal data."""

from datetime import timedelta
from typing import Final

from sluice.audit import repository as audit_rows
from sluice.db.rls import ALL_TENANTS
from sluice.db.sql import load_now
from sluice.decisions import repository as decision_rows
from sluice.events import repository as event_rows
from sluice.hash_lists import repository as hash_rows
from sluice.idempotency_keys import repository as key_rows
from sluice.jobs import repository as job_rows
from sluice.limiter import ForgetsIdle, LimiterUnavailable
from sluice.observe.log import log
from sluice.sessions import repository as session_rows
from sluice.upload_tokens import repository as token_rows
from sluice.webhooks import repository as webhook_rows
from sluice.worker.job import JobContext

_BATCH: Final = 100
_KEEP_EVENTS: Final = timedelta(days=30)


async def delete_old_decisions(context: JobContext) -> int:
    """Delete decisions that are older than the log is kept, and reviews of groups of them."""
    async with context.database.transaction(ALL_TENANTS) as connection:
        before = await load_now(connection) - context.keep_decisions
        await decision_rows.delete_old_marks(connection, before, _BATCH)
        return await decision_rows.delete_expired(connection, before, _BATCH)


async def delete_old_audit_entries(context: JobContext) -> int:
    """Delete entries of the audit log that are older than it is kept."""
    async with context.database.transaction(ALL_TENANTS) as connection:
        return await audit_rows.forget(connection, await load_now(connection) - context.keep_audit, _BATCH)


async def delete_old_upload_tokens(context: JobContext) -> int:
    """Delete upload tokens that expired longer ago than decisions are kept."""
    async with context.database.transaction(ALL_TENANTS) as connection:
        before = await load_now(connection) - context.keep_decisions
        return await token_rows.delete_expired(connection, before, _BATCH)


async def delete_expired_hashes(context: JobContext) -> int:
    """Delete entries of hash lists whose time has passed."""
    async with context.database.transaction(ALL_TENANTS) as connection:
        return await hash_rows.delete_expired(connection, _BATCH)


async def delete_old_events(context: JobContext) -> int:
    """Delete events that are older than the feed reaches back."""
    async with context.database.transaction(ALL_TENANTS) as connection:
        return await event_rows.delete_old(connection, await load_now(connection) - _KEEP_EVENTS, _BATCH)


async def delete_old_sessions(context: JobContext) -> int:
    """Delete sessions of the console, and links to it, that are over."""
    async with context.database.transaction(ALL_TENANTS) as connection:
        return await session_rows.delete_expired(connection, await load_now(connection), _BATCH)


async def delete_old_idempotency_keys(context: JobContext) -> int:
    """Delete idempotency keys that were kept long enough."""
    async with context.database.transaction(ALL_TENANTS) as connection:
        return await key_rows.delete_expired(connection, await load_now(connection), _BATCH)


async def delete_old_deliveries(context: JobContext) -> int:
    """Delete deliveries to webhook endpoints that are older than the feed reaches back."""
    async with context.database.transaction(ALL_TENANTS) as connection:
        before = await load_now(connection) - _KEEP_EVENTS
        return await webhook_rows.delete_old_deliveries(connection, before, _BATCH)


async def delete_old_jobs(context: JobContext) -> int:
    """Delete jobs that have ended and are older than the feed reaches back."""
    async with context.database.transaction(ALL_TENANTS) as connection:
        return await job_rows.delete_old(connection, await load_now(connection) - _KEEP_EVENTS, _BATCH)


async def forget_idle_limits(context: JobContext) -> int:
    """Delete what the limiter holds of windows that have ended.

    Return 0: it never makes the next round start sooner.
    """
    if isinstance(context.limiter, ForgetsIdle):
        try:
            await context.limiter.forget_idle()
        except LimiterUnavailable as fault:
            log.warning("takes_put_off", fault=str(fault))
    return 0
