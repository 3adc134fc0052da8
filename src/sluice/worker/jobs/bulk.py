"""Jobs that requests asked for: a step claims the job that waits longest, does a bounded part, and notes how far.

What a step changes and its progress are one transaction, so a crash loses and repeats nothing. A step that fails is
tried again under a new claim, and the job fails after `_MOST_FAILURES` of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.db.sql import Connection
from sluice.files import lifecycle, search
from sluice.files import repository as file_rows
from sluice.jobs import Job, JobKind, repository
from sluice.jobs.job import filter_from_json
from sluice.kit.clock import Clock
from sluice.kit.failpoints import failpoint
from sluice.observe.log import log
from sluice.tenants import repository as tenant_rows
from sluice.worker.job import error_boundary, repeat, run_until

_LEASE: Final = timedelta(seconds=60)
# While a step is open, uploads into its contexts wait for their quota.
_FILES: Final = 25
_COMPARED: Final = 500
_MOST_FAILURES: Final = 10
_ROWS: Final = 500
_WAIT_FOR_PURGE: Final = timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did, and where the next begins, after `pause`; None: the job is done."""

    done: int
    skipped: int
    position: str | None
    pause: timedelta = timedelta(0)


class BulkJobs:
    """Does the jobs of all tenants, a step of each in turn."""

    def __init__(self, database: Database, *, purge_after: timedelta, pause_seconds: float, clock: Clock) -> None:
        self._database = database
        self._purge_after = purge_after
        self._pause_seconds = pause_seconds
        self._clock = clock
        self._steps: Mapping[JobKind, Callable[[Connection, Job], Awaitable[Step]]] = MappingProxyType(
            {"bulk_delete": self._delete_files, "tenant_delete": self._delete_tenant}
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; a step in progress is then rolled back, and its job is due when the lease ends."""
        await run_until(stop, repeat("bulk_jobs", self.one_step, stop=stop, pause_seconds=lambda: self._pause_seconds))

    async def one_step(self) -> int:
        """Do a step of the job that is due for the longest time; return 0 if none is."""
        job = await self._claim()
        if job is None:
            return 0
        with error_boundary("bulk_jobs", job_id=job.job_id, tenant_id=job.tenant_id), suppress(_Overtaken):
            async with self._database.transaction(job.tenant_id) as connection:
                step = await self._steps[job.kind](connection, job)
                values: dict[str, Any] = {
                    "done": job.done + step.done,
                    "skipped": job.skipped + step.skipped,
                    "failures": 0,
                }
                if step.position is None:
                    values |= {"state": "done", "ended_at": self._clock()}
                else:
                    values["position"] = step.position
                if not await repository.note(connection, job, values, None if step.position is None else step.pause):
                    raise _Overtaken
                failpoint("job.open")
            failpoint("job.step")
        return 1

    async def _claim(self) -> Job | None:
        async with self._database.transaction(ALL_TENANTS) as connection:
            due = await repository.find_due(connection)
            if due is None:
                return None
            job = await repository.claim(connection, due.tenant_id, due.job_id, _LEASE, self._clock())
            if job is not None and job.failures > _MOST_FAILURES:
                values: dict[str, Any] = {
                    "state": "failed",
                    "ended_at": self._clock(),
                    "error": "The worker failed on it repeatedly.",
                }
                await repository.note(connection, job, values, None)
                log.error("job_failed", job_id=job.job_id, tenant_id=job.tenant_id)
                return None
        return job

    async def _delete_files(self, connection: Connection, job: Job) -> Step:
        if "file_ids" in job.params:
            begin = int(job.position or 0)
            asked = job.params["file_ids"]
            file_ids, end = asked[begin : begin + _FILES], begin + _FILES
            position = str(end) if end < len(asked) else None
        else:
            left = job.params["max_files"] - job.done
            wanted = filter_from_json(job.params["filter"])
            found, position = await search.walk(connection, job.tenant_id, wanted, job.position, _COMPARED)
            file_ids = found[: min(_FILES, left)]
            if len(file_ids) == left:
                position = None
            elif len(file_ids) < len(found):
                position = file_ids[-1]
        by = job.by("file.deleted")
        done = await lifecycle.delete_all(connection, by, file_ids, self._clock(), self._purge_after)
        return Step(done, len(file_ids) - done, position)

    async def _delete_tenant(self, connection: Connection, job: Job) -> Step:
        """Delete the tenant's files, wait until their objects are purged, and then delete everything else it has.

        It waits for the end of legal holds, too.
        """
        tenant_id = job.tenant_id
        file_ids = await file_rows.find_free(connection, tenant_id, _FILES)
        if file_ids:
            by = job.by("file.deleted")
            done = await lifecycle.delete_all(connection, by, file_ids, self._clock(), timedelta(0))
            return Step(done, 0, "files")
        await file_rows.purge_at_once(connection, tenant_id)
        await tenant_rows.end_resumable_uploads(connection, tenant_id)
        if await tenant_rows.has_objects(connection, tenant_id):
            return Step(0, 0, "objects", pause=_WAIT_FOR_PURGE)
        await tenant_rows.empty_keys(connection, tenant_id)
        deleted = await tenant_rows.delete_things(connection, tenant_id, _ROWS)
        return Step(0, 0, "rows" if deleted else None)


class _Overtaken(Exception):
    """The job was cancelled during the step, or another worker has claimed it: nothing of the step is kept."""
