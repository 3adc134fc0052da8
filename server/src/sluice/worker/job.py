"""Execution of the worker's jobs: their context, error boundaries around items, repetition until a stop."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from sluice.buckets.service import Buckets
from sluice.buckets.stores import Stores
from sluice.db.database import Database, DatabaseUnavailable
from sluice.limiter import Limiter
from sluice.observe.log import log


@dataclass(frozen=True, slots=True)
class JobContext:
    """The context of the jobs of a round."""

    database: Database
    buckets: Buckets
    stores: Stores
    limiter: Limiter
    keep_decisions: timedelta
    keep_audit: timedelta
    free_uploads_per_month: int
    purge_after: timedelta


@dataclass(frozen=True, slots=True)
class Step:
    """The result of one step of a job on many files: the position of the next, after `pause`; None: the job is done.

    `refused` has files that were left as they were, with the reason; `params` replaces what the job keeps.
    """

    done: int
    skipped: int
    position: str | None
    pause: timedelta = timedelta(0)
    params: Mapping[str, Any] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)


@contextmanager
def error_boundary(job: str, **item: object) -> Iterator[None]:
    """Log an unexpected exception about one item, which stays due, and continue with the next.

    `DatabaseUnavailable` is raised: it concerns all items.
    """
    try:
        yield
    except DatabaseUnavailable:
        raise
    except Exception:  # noqa: BLE001  (one item that cannot be worked on must not stop the others)
        log.exception("worker_job_failed", job=job, **item)


async def repeat(
    job: str, once: Callable[[], Awaitable[int]], *, stop: asyncio.Event, pause_seconds: Callable[[], float]
) -> None:
    """Repeat `once` until `stop` is set: immediately if it returns that it did something, else after a pause.

    An exception is logged and the job continues: what is due is still in the database.
    """
    while not stop.is_set():
        done = 0
        try:
            done = await once()
        except DatabaseUnavailable as fault:
            log.warning("worker_waits", job=job, fault=str(fault))
        except Exception:  # noqa: BLE001  (a defect that one repetition meets must not end the job)
            log.exception("worker_job_failed", job=job)
        if not done:
            await wait_for_stop(stop, pause_seconds())


async def wait_for_stop(stop: asyncio.Event, seconds: float) -> None:
    """Return when `stop` is set, or after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return


async def run_until(stop: asyncio.Event, work: Coroutine[object, object, None]) -> None:
    """Run `work` until `stop` is set, and then cancel it."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
