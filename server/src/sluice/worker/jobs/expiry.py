"""Files whose time is over: uploads whose lease ran out, files of test keys, files that their context keeps no more.

Their objects become due to be purged.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Final

from sluice.db.rls import ALL_TENANTS
from sluice.db.sql import AnyRow, Connection
from sluice.errors import FileHeld
from sluice.files import lifecycle, repository
from sluice.files.record import RetentionRule
from sluice.kit.failpoints import failpoint
from sluice.observe.log import log
from sluice.worker.job import JobContext, error_boundary

_BATCH: Final = 100
_MAX_FAILED: Final = 1000  # then the next round continues
# Of files by the retention of their context: how many are examined in one query, and how many of these queries are made
# for one context before the others have their turn.
_WINDOW: Final = 500
_WINDOWS: Final = 10
# How long a context is left to the worker that looks it through.
_RETENTION_LEASE: Final = timedelta(minutes=1)
# A context is looked through again after this part of its days, at the latest after an hour.
_PART_OF_DAYS: Final = 100
_LOOK_AGAIN: Final = timedelta(hours=1)


async def fence_expired_leases(context: JobContext) -> int:
    """Fence uploads whose lease is over because a process crashed, and release what they reserved."""

    async def load(failed: Sequence[str]) -> Sequence[AnyRow]:
        async with context.database.reading(ALL_TENANTS) as connection:
            return await repository.expired_leases(connection, _BATCH, failed=failed)

    async def fence(row: AnyRow) -> None:
        async with context.database.transaction(row.tenant_id) as connection:
            if await lifecycle.fence(connection, row.tenant_id, row.file_id):
                log.warning("lease_expired", file_id=row.file_id)
            failpoint("settle.open")
        failpoint("settle.done")

    return await _end_each("fence_expired_leases", load, fence)


async def expire_test_files(context: JobContext) -> int:
    """Delete files that were uploaded with test keys and have reached their age."""

    async def load(failed: Sequence[str]) -> Sequence[AnyRow]:
        async with context.database.reading(ALL_TENANTS) as connection:
            return await repository.expired_test_files(connection, _BATCH, failed=failed)

    async def expire(row: AnyRow) -> None:
        # A hold that came meanwhile is no error, and the file is not listed again.
        with suppress(FileHeld):
            async with context.database.transaction(row.tenant_id) as connection:
                await lifecycle.expire(connection, row.tenant_id, row.file_id)

    return await _end_each("expire_test_files", load, expire)


async def expire_by_retention(context: JobContext) -> int:
    """Delete files that their contexts no longer keep, some thousands of one context; return how many were examined.

    Which files are due is computed from the rule when the context is looked through, so a change of the rule needs no
    change of any file, and takes effect at once.
    """
    async with context.database.transaction(ALL_TENANTS) as connection:
        rule = await repository.claim_retention(connection, _RETENTION_LEASE)
    if rule is None:
        return 0
    if rule.retention_days is None or rule.held_at is not None:  # a change of either lets the worker look again
        async with context.database.transaction(rule.tenant_id) as connection:
            await repository.note_retention(connection, rule, None, None)
        return 1
    after: str | None = rule.retention_after or ""
    deleted = 0
    try:
        for _ in range(_WINDOWS):
            if after is None:
                break
            async with context.database.reading(rule.tenant_id) as connection:
                due = await repository.find_due_files(connection, rule, after, _WINDOW)
            if due.file_ids:
                deleted += await _expire(context, rule, due.file_ids)
            after = due.last
    except lifecycle.RuleChanged:
        return 1
    look_again = min(timedelta(days=rule.retention_days) / _PART_OF_DAYS, _LOOK_AGAIN)
    async with context.database.transaction(rule.tenant_id) as connection:
        pause = timedelta(0) if after is not None else look_again
        await repository.note_retention(connection, rule, after, pause)
    if deleted:
        log.info("retention_over", tenant_id=rule.tenant_id, context_key=rule.context_key, files=deleted)
    return max(1, deleted)


async def _expire(context: JobContext, rule: RetentionRule, file_ids: Sequence[str]) -> int:
    """Delete the files in small transactions; return how many. Raise `RuleChanged`."""
    portions, deleted, start = context.database.portion("expire", _WINDOW), 0, 0

    async def expire(connection: Connection, portion: Sequence[str]) -> int:
        expired = await lifecycle.expire_all(connection, rule, portion, context.purge_after)
        failpoint("retention.open")
        return expired

    while start < len(file_ids):
        portion = file_ids[start : start + portions.rows]
        expired, seconds = await context.database.work(rule.tenant_id, partial(expire, portion=portion))
        portions.took(len(portion), seconds)
        deleted += expired
        start += len(portion)
        failpoint("retention.done")
    return deleted


async def _end_each(
    job: str,
    load: Callable[[Sequence[str]], Awaitable[Sequence[AnyRow]]],
    end: Callable[[AnyRow], Awaitable[None]],
) -> int:
    """End each row of a batch; return how many were ended.

    A row that fails stays due and would be the first of the next batch too. So a batch with failures is followed by
    another without these rows: the rows after them must not wait.
    """
    done, failed = 0, list[str]()
    while len(failed) < _MAX_FAILED:
        failed_before = len(failed)
        for row in await load(failed):
            failed.append(row.file_id)
            with error_boundary(job, file_id=row.file_id):
                await end(row)
                failed.pop()
                done += 1
        if len(failed) == failed_before:
            break
    return done
