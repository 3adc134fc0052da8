"""Files whose time is over: uploads whose lease ran out, and files of test keys.

Their objects become due to be purged.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from sluice.db.rls import ALL_TENANTS
from sluice.db.sql import AnyRow
from sluice.files import lifecycle, repository
from sluice.kit.failpoints import failpoint
from sluice.observe.log import log
from sluice.worker.job import JobContext, error_boundary

_BATCH: Final = 100
_MAX_FAILED: Final = 1000  # then the next round goes on


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
        async with context.database.transaction(row.tenant_id) as connection:
            await lifecycle.expire(connection, row.tenant_id, row.file_id)

    return await _end_each("expire_test_files", load, expire)


async def _end_each(
    job: str,
    load: Callable[[Sequence[str]], Awaitable[Sequence[AnyRow]]],
    end: Callable[[AnyRow], Awaitable[None]],
) -> int:
    """End each row of a batch; return how many were ended.

    A row that fails stays due and would be the first of the next batch too. So a batch with failures is followed by
    another without these rows: the rows behind them must not wait.
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
