"""Events that no request causes: quotas and plans whose limit comes near, keys that expire soon, buckets that fail.

Each is found by comparing what is with what was announced last, so each crossing has one event, whatever crashes.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from sluice.db.rls import ALL_TENANTS
from sluice.db.sql import AnyRow, load_now
from sluice.errors import NotFound
from sluice.events import outbox
from sluice.events.catalogue import (
    ApiKeyExpiring,
    BucketRecovered,
    BucketUnreachable,
    Event,
    PlanReached,
    PlanWarning,
    QuotaReached,
    QuotaWarning,
)
from sluice.storage import StoreError
from sluice.worker import repository
from sluice.worker.job import JobContext, error_boundary
from sluice.worker.repository import Announcement

_BATCH: Final = 100
_REFUSED_WITHIN: Final = timedelta(days=1)
_EXPIRES_WITHIN: Final = timedelta(days=7)
_FULL: Final = 100
# A bucket is announced when it has failed, or worked again, for this long.
_DEBOUNCE: Final = timedelta(seconds=60)
_CHECK_AGAIN: Final = timedelta(seconds=15)


async def announce_limits(context: JobContext) -> int:
    """Announce quotas and plans that are used to another level than before, and keys that expire within a week.

    Return 0: it never makes the next round start sooner.
    """
    async with context.database.reading(ALL_TENANTS) as connection:
        refused_since = await load_now(connection) - _REFUSED_WITHIN
        quotas = await repository.find_changed_quotas(connection, refused_since, _BATCH)
        plans = await repository.find_changed_plans(connection, context.free_uploads_per_month, _BATCH)
        keys = await repository.find_expiring_keys(connection, _EXPIRES_WITHIN, _BATCH)
    for row in quotas:
        await _announce(
            context, Announcement(row.tenant_id, "quota", row.context_id), row.announced, row.level, _quota_event(row)
        )
    for row in plans:
        limit = context.free_uploads_per_month
        fields = {"month": row.month, "uploads": row.uploads, "limit": limit, "percent": row.level}
        event: Event = PlanReached(**fields) if row.level == _FULL else PlanWarning(**fields)
        await _announce(context, Announcement(row.tenant_id, "plan", row.month), row.announced, row.level, event)
    for row in keys:
        expiring = ApiKeyExpiring(
            api_key_id=row.api_key_id,
            name=row.name,
            key_prefix=row.key_prefix,
            scopes=tuple(row.scopes),
            expires_at=row.expires_at,
        )
        await _announce(context, Announcement(row.tenant_id, "key", row.api_key_id), 0, 1, expiring)
    return 0


async def _announce(context: JobContext, subject: Announcement, before: int, level: int, event: Event) -> None:
    with error_boundary("announce_limits", subject=subject.subject_id, tenant_id=subject.tenant_id):
        async with context.database.transaction(subject.tenant_id) as connection:
            is_first = await repository.announce(connection, subject, before, level)
            # What falls below a level is noted, so that the next crossing is announced again.
            if is_first and level > before:
                await outbox.add(connection, subject.tenant_id, event)


def _quota_event(row: AnyRow) -> Event:
    fields = {
        "context_key": row.context_key,
        "used_bytes": row.storage_used_bytes,
        "quota_bytes": row.quota_bytes or 0,
        "percent": row.level,
    }
    return QuotaReached(**fields) if row.level == _FULL else QuotaWarning(**fields)


async def watch_buckets(context: JobContext) -> int:
    """Try buckets that failed, and announce those that fail or work again for a minute. Return 0, as above."""
    async with context.database.transaction(ALL_TENANTS) as connection:
        failed = await repository.claim_outages(connection, _CHECK_AGAIN, _BATCH)
    for row in failed:
        with error_boundary("watch_buckets", storage_config_id=row.config_id, tenant_id=row.tenant_id):
            works = await _works(context, row)
            async with context.database.transaction(row.tenant_id) as connection:
                now = await load_now(connection)
                values, event = _next_step(row, now, works=works)
                if values is None:
                    is_listed = await repository.end_outage(connection, row.tenant_id, row.config_id)
                else:
                    is_listed = await repository.change_outage(connection, row.tenant_id, row.config_id, dict(values))
                if is_listed and event is not None:
                    await outbox.add(connection, row.tenant_id, event, now)
    return 0


async def _works(context: JobContext, row: AnyRow) -> bool:
    try:
        bucket = await context.buckets.get(row.tenant_id, row.config_id)
        await context.stores.of(bucket).probe()
    except NotFound:
        return True  # deleted a moment ago, and its row with it
    except StoreError:
        return False
    return True


_UNCHANGED: Final[Mapping[str, Any]] = MappingProxyType({"working_since": None})


def _next_step(row: AnyRow, now: datetime, *, works: bool) -> tuple[Mapping[str, datetime | None] | None, Event | None]:
    """Return what is written of a bucket, None if it works for good, and the event of it."""
    fields = {"config_id": row.config_id, "failing_since": row.failing_since}
    if not works:
        if row.announced_at is None and now - row.failing_since >= _DEBOUNCE:
            return {"announced_at": now, "working_since": None}, BucketUnreachable(**fields)
        return _UNCHANGED, None
    if row.announced_at is None:
        return None, None  # it failed for less than a minute
    if row.working_since is None:
        return {"working_since": now}, None
    if now - row.working_since >= _DEBOUNCE:
        return None, BucketRecovered(**fields)
    return {"working_since": row.working_since}, None
