"""The worker's rounds: jobs in turn, again immediately while there is work, otherwise after a pause.

A round begins with one statement that finds which jobs have rows to work on: most rounds find none, and end with it.
Every 25 seconds a complete round runs all jobs, also those that this statement does not find: what was kept long
enough may be kept a little longer.

Each job has an error boundary: an unexpected exception in one is logged, and the others run. Only an unavailable
database ends a round, because every job needs it. Rescans, stale parts and orphan parts run beside the rounds, as tasks
of their own.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import Any, Final, get_args

from sluice.db.database import DatabaseUnavailable
from sluice.db.rls import ALL_TENANTS
from sluice.files import repository
from sluice.files.repository import WorkQueue
from sluice.observe.log import log
from sluice.observe.metrics import (
    RESUMABLE_BYTES,
    RESUMABLE_UPLOADS,
    WORKER_DONE,
    WORKER_DUE,
    WORKER_OLDEST,
    WORKER_ROUND_AT,
    WORKER_ROUNDS,
)
from sluice.observe.stages import swept
from sluice.resumable.repository import count_waiting
from sluice.worker import repository as worker_rows
from sluice.worker.job import JobContext, error_boundary, wait_for_stop
from sluice.worker.jobs.announcements import announce_limits, watch_buckets
from sluice.worker.jobs.expiry import expire_by_retention, expire_test_files, fence_expired_leases
from sluice.worker.jobs.exports import sweep_exports
from sluice.worker.jobs.housekeeping import fold_counts, fold_usage, number_events, sweep_leftovers
from sluice.worker.jobs.incoming import end_resumable_uploads
from sluice.worker.jobs.purge import purge_objects
from sluice.worker.jobs.retention import (
    delete_expired_hashes,
    delete_old_audit_entries,
    delete_old_decisions,
    delete_old_deliveries,
    delete_old_events,
    delete_old_idempotency_keys,
    delete_old_jobs,
    delete_old_sessions,
    delete_old_upload_tokens,
    forget_idle_limits,
)

Job = Callable[[JobContext], Coroutine[Any, Any, int]]
# By name, as the log shows it.
JOBS: Final[Mapping[str, Job]] = MappingProxyType(
    {
        "fence_expired_leases": fence_expired_leases,
        "expire_test_files": expire_test_files,
        "expire_by_retention": expire_by_retention,
        "purge_objects": purge_objects,
        "end_resumable_uploads": end_resumable_uploads,
        "sweep_exports": sweep_exports,
        "sweep_leftovers": sweep_leftovers,
        "forget_idle_limits": forget_idle_limits,
        "delete_old_decisions": delete_old_decisions,
        "delete_old_audit_entries": delete_old_audit_entries,
        "delete_old_upload_tokens": delete_old_upload_tokens,
        "delete_expired_hashes": delete_expired_hashes,
        "delete_old_events": delete_old_events,
        "delete_old_sessions": delete_old_sessions,
        "delete_old_idempotency_keys": delete_old_idempotency_keys,
        "delete_old_jobs": delete_old_jobs,
        "delete_old_deliveries": delete_old_deliveries,
        "fold_counts": fold_counts,
        "fold_usage": fold_usage,
        "announce_limits": announce_limits,
        "watch_buckets": watch_buckets,
        "number_events": number_events,
    }
)
# What other jobs write may be work for these.
_AFTER_OTHERS: Final = frozenset({"announce_limits", "number_events"})
_COMPLETE_SECONDS: Final = 25.0
_BACKLOG_SECONDS: Final = 15.0
# Counting further would cost more than the number is worth.
_BACKLOG_LIMIT: Final = 10_000


async def run(
    context: JobContext, *, pause_seconds: float, stop: asyncio.Event, jobs: Mapping[str, Job] = JOBS
) -> None:
    """Work until `stop` is set; the round in progress is finished.

    A round that did something is followed by a complete one, without a pause.
    """
    measured = {name: swept(name)(job) for name, job in jobs.items()}
    for name in measured:
        WORKER_DONE.labels(name)  # from the start, so that a rate can be computed
    backlog_at, complete_at = 0.0, time.monotonic() + _COMPLETE_SECONDS
    done = 0
    while not stop.is_set():
        is_complete = done > 0 or time.monotonic() >= complete_at
        if is_complete:
            complete_at = time.monotonic() + _COMPLETE_SECONDS
        done, outcome = 0, "done"
        try:
            if time.monotonic() >= backlog_at:
                backlog_at = time.monotonic() + _BACKLOG_SECONDS
                with error_boundary("backlog"):
                    await _measure_backlog(context)
            due = measured if is_complete else await _find_due(context, measured)
            done, failed = await run_round(context, due)
            if failed:
                outcome = "fault"
            else:
                WORKER_ROUND_AT.set_to_current_time()
        except DatabaseUnavailable as fault:
            outcome = "database_away"
            log.warning("worker_waits", fault=str(fault))
        WORKER_ROUNDS.labels(outcome).inc()
        if not done:
            await wait_for_stop(stop, pause_seconds)


async def run_round(context: JobContext, jobs: Mapping[str, Job] = JOBS) -> tuple[int, int]:
    """Run each job once; return how much was done, and how many jobs failed. Raise `DatabaseUnavailable`."""
    total = failed = 0
    for name, job in jobs.items():
        try:
            done = await job(context)
        except DatabaseUnavailable:
            raise
        except Exception:  # noqa: BLE001  (one job that fails must not stop the others)
            log.exception("worker_job_failed", job=name)
            failed += 1
        else:
            WORKER_DONE.labels(name).inc(done)
            total += done
    return total, failed


async def _find_due(context: JobContext, jobs: Mapping[str, Job]) -> Mapping[str, Job]:
    due = frozenset(jobs)  # all, if it cannot be found out
    with error_boundary("find_due"):
        async with context.database.reading(ALL_TENANTS) as connection:
            found = await worker_rows.find_due(connection)
        due = found | _AFTER_OTHERS if found else found
    return {name: job for name, job in jobs.items() if name in due}


async def _measure_backlog(context: JobContext) -> None:
    queues: tuple[WorkQueue, ...] = get_args(WorkQueue)
    async with context.database.reading(ALL_TENANTS) as connection:
        for queue in queues:
            waiting = await repository.load_waiting_times(connection, queue, _BACKLOG_LIMIT)
            WORKER_DUE.labels(queue).set(len(waiting))
            WORKER_OLDEST.labels(queue).set(waiting[0].total_seconds() if waiting else 0.0)
        uploads, size = await count_waiting(connection)
    RESUMABLE_UPLOADS.set(uploads)
    RESUMABLE_BYTES.set(size)
