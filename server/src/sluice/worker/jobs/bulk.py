"""Jobs that requests asked for: a step claims the job that waits longest, does a bounded part, and notes how far.

What is changed and the progress are one transaction, so a crash loses and repeats nothing. Deletions and restorations
find the files of a step first, without a transaction for writing, and change them in small ones, since uploads wait for
each. A step that fails is tried again under a new claim, and the job fails after `_MOST_FAILURES` of them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from sluice.db.database import Database, Portion
from sluice.db.rls import ALL_TENANTS
from sluice.db.sql import Connection
from sluice.files import lifecycle, search
from sluice.files import repository as file_rows
from sluice.hash_lists import ListedHash
from sluice.jobs import Job, JobKind, repository
from sluice.jobs.job import filter_from_json
from sluice.kit.clock import Clock
from sluice.kit.failpoints import failpoint
from sluice.observe.log import log
from sluice.storage import ObjectStore, StoreError
from sluice.tenants import repository as tenant_rows
from sluice.worker.job import Step, error_boundary, repeat, run_until
from sluice.worker.jobs import exports
from sluice.worker.jobs.denied import quarantine_denied
from sluice.worker.jobs.erasures import LOG_POSITION, LOOKED_AT, Erasing

_LEASE: Final = timedelta(seconds=60)
_FILES: Final = 100  # of a transaction: uploads into their contexts wait for its end
_FIRST_FILES: Final = 25  # of the first step: a job shows soon that it works, and a small one does not delay others
_STEP_SECONDS: Final = 0.5  # of a step on files: then another job may have its turn
_COMPARED: Final = 1000
_MOST_FAILURES: Final = 10
_ROWS: Final = 500
_WAIT_FOR_PURGE: Final = timedelta(seconds=2)
_LOG_IN_USE: Final = Step(0, 0, LOG_POSITION, pause=timedelta(seconds=1))
_MOST_SHOWN: Final = 100  # files that were left as they were, with the reason


class BulkJobs:
    """Does the jobs of all tenants, a step of each in turn."""

    def __init__(
        self,
        database: Database,
        store: ObjectStore,
        *,
        purge_after: timedelta,
        two_persons: bool,
        pause_seconds: float,
        clock: Clock,
    ) -> None:
        """`store` is the platform's, into which exports are written."""
        self._database = database
        self._store = store
        self._purge_after = purge_after
        self._two_persons = two_persons
        self._pause_seconds = pause_seconds
        self._clock = clock
        self._erasing = Erasing(clock)
        self._steps: Mapping[JobKind, Callable[[Connection, Job], Awaitable[Step]]] = MappingProxyType(
            {
                "bulk_quarantine": self._quarantine_files,
                "erasure": self._erase,
                "tenant_delete": self._delete_tenant,
            }
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; the job of a step in progress is due again when its lease ends."""
        await run_until(stop, repeat("bulk_jobs", self.one_step, stop=stop, pause_seconds=lambda: self._pause_seconds))

    async def one_step(self) -> int:
        """Do a step of the job that is due for the longest time; return 0 if none is."""
        job = await self._claim()
        if job is None:
            return 0
        with error_boundary("bulk_jobs", job_id=job.job_id, tenant_id=job.tenant_id), suppress(_Overtaken):
            if job.kind == "export":
                await self._export_files(job)
            elif job.kind in {"bulk_delete", "bulk_restore"}:
                await self._change_files(job)
            else:
                await self._work_on(job)
        return 1

    async def _work_on(self, job: Job) -> None:
        """Do parts of a job, each in a transaction of its own, until others may have their turn."""
        end = time.monotonic() + _STEP_SECONDS
        while True:
            # Before the transaction, since the log of a database is not emptied within one.
            waits = job.position == LOG_POSITION and not await self._database.empty_log()
            do = partial(self._do_part, job=job, waits=waits, end=end)
            (step, job, goes_on), seconds = await self._database.work(job.tenant_id, do)
            portion = self._portion_of(job)
            portion.took(portion.rows if job.kind == "erasure" else step.done + step.skipped, seconds)
            failpoint("job.step")
            if not goes_on:
                return

    async def _do_part(self, connection: Connection, *, job: Job, waits: bool, end: float) -> tuple[Step, Job, bool]:
        step = _LOG_IN_USE if waits else await self._steps[job.kind](connection, job)
        goes_on = step.position not in {None, LOG_POSITION} and not step.pause and time.monotonic() < end
        noted = await self._note(connection, job, step, _refused_result(job, step), keeps_claim=goes_on)
        return step, noted, goes_on

    def _portion_of(self, job: Job) -> Portion:
        return self._database.portion(job.kind, LOOKED_AT if job.kind == "erasure" else _FILES)

    async def _erase(self, connection: Connection, job: Job) -> Step:
        return await self._erasing.step(connection, job, self._portion_of(job).rows)

    async def _note(
        self,
        connection: Connection,
        job: Job,
        step: Step,
        result: Mapping[str, Any] | None,
        *,
        keeps_claim: bool = False,
    ) -> Job:
        """Write the progress, and return the job with it; the claim on it ends, unless this worker keeps it."""
        progress: dict[str, Any] = {
            "done": job.done + step.done,
            "skipped": job.skipped + step.skipped,
            "result": result,
        }
        if step.params is not None:
            progress["params"] = step.params
        if step.position is not None:
            progress["position"] = step.position
        ended: dict[str, Any] = {"state": "done", "ended_at": self._clock()} if step.position is None else {}
        if step.position is None:
            again_after = exports.KEPT if job.kind == "export" else None
        else:
            again_after = _LEASE if keeps_claim else step.pause
        if not await repository.note(connection, job, {**progress, **ended, "failures": 0}, again_after):
            raise _Overtaken
        failpoint("job.open")
        return replace(job, **progress)

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
                sweep_after = repository.SWEEP_AFTER if job.kind == "export" else None
                await repository.note(connection, job, values, sweep_after)
                log.error("job_failed", job_id=job.job_id, tenant_id=job.tenant_id)
                return None
        return job

    async def _change_files(self, job: Job) -> None:
        """Delete or restore the next files that the job names or that meet its filter."""
        file_ids, position = await self._next_files(job)
        portions, end, start = self._portion_of(job), time.monotonic() + _STEP_SECONDS, 0
        is_over = False
        while not is_over:
            portion = file_ids[start : start + portions.rows]
            start += len(portion)
            is_last = start >= len(file_ids)
            is_over = is_last or time.monotonic() > end
            after = position if is_last else _position_after(job, portion)
            change = partial(self._change_portion, job=job, file_ids=portion, position=after, keeps_claim=not is_over)
            job, seconds = await self._database.work(job.tenant_id, change)
            portions.took(len(portion), seconds)
            failpoint("job.step")

    async def _change_portion(
        self, connection: Connection, *, job: Job, file_ids: Sequence[str], position: str | None, keeps_claim: bool
    ) -> Job:
        if job.kind == "bulk_delete":
            by = job.by("file.deleted")
            done, left = await lifecycle.delete_all(
                connection, by, file_ids, self._clock(), self._purge_after, two_persons=self._two_persons
            )
        else:
            done, left = await lifecycle.restore_all(connection, job.by("file.restored"), file_ids, self._clock())
        step = Step(done, len(left), position, refused=left)
        return await self._note(connection, job, step, _refused_result(job, step), keeps_claim=keeps_claim)

    async def _next_files(self, job: Job) -> tuple[Sequence[str], str | None]:
        """Return the next files to change, and the position after them, None at the end."""
        most = _COMPARED if job.position else _FIRST_FILES
        if "file_ids" in job.params:
            begin = int(job.position or 0)
            asked = job.params["file_ids"]
            end = begin + most
            return asked[begin:end], str(end) if end < len(asked) else None
        left = job.params["max_files"] - job.done
        wanted = filter_from_json(job.params["filter"])
        walk = search.walk if job.kind == "bulk_delete" else search.walk_deleted
        async with self._database.reading(job.tenant_id) as connection:
            found, position = await walk(connection, job.tenant_id, wanted, job.position, _COMPARED)
        file_ids = found[: min(most, left)]
        if len(file_ids) == left:
            return file_ids, None
        return file_ids, file_ids[-1] if len(file_ids) < len(found) else position

    async def _export_files(self, job: Job) -> None:
        try:
            part = await exports.write_part(self._database, self._store, job)
        except StoreError as fault:  # the job is due again when its lease ends
            log.warning("export_put_off", job_id=job.job_id, tenant_id=job.tenant_id, fault=str(fault))
            return
        result: dict[str, Any] = {"parts": [*(job.result or {}).get("parts", ())]}
        if part.key is not None:
            result["parts"].append((part.key, part.size))
        if part.position is None:
            result["expires_at"] = (self._clock() + exports.KEPT).isoformat()
        try:
            async with self._database.transaction(job.tenant_id) as connection:
                await self._note(connection, job, Step(part.files, 0, part.position), result)
        except _Overtaken:
            if part.key is not None:
                with suppress(StoreError):  # then `sweep_exports` deletes it
                    await self._store.delete(part.key)
            raise
        failpoint("job.step")

    async def _quarantine_files(self, connection: Connection, job: Job) -> Step:
        """Put the next files with a denied SHA-256 into quarantine."""
        entry, by, now = ListedHash(**job.params), job.by("file.quarantined"), self._clock()
        most = self._portion_of(job).rows
        found = await file_rows.find_by_sha256(connection, job.tenant_id, entry.digest, most)
        done = [await quarantine_denied(connection, by, file, entry, now) for file in found]
        return Step(sum(done), len(done) - sum(done), "files" if len(found) == most else None)

    async def _delete_tenant(self, connection: Connection, job: Job) -> Step:
        """Delete the tenant's files, wait until their objects are purged, and then delete everything else it has.

        It waits for the end of legal holds, too.
        """
        tenant_id = job.tenant_id
        file_ids = await file_rows.find_free(connection, tenant_id, self._portion_of(job).rows)
        if file_ids:
            by = job.by("file.deleted")
            done, refused = await lifecycle.delete_all(connection, by, file_ids, self._clock(), timedelta(0))
            return Step(done, len(refused), "files", refused=refused)
        await file_rows.purge_at_once(connection, tenant_id)
        await tenant_rows.end_resumable_uploads(connection, tenant_id)
        has_exports = await repository.expire_exports(connection, tenant_id)
        if has_exports or await tenant_rows.has_objects(connection, tenant_id):
            return Step(0, 0, "objects", pause=_WAIT_FOR_PURGE)
        await tenant_rows.empty_keys(connection, tenant_id)
        deleted = await tenant_rows.delete_things(connection, tenant_id, _ROWS)
        return Step(0, 0, "rows" if deleted else None)


def _position_after(job: Job, portion: Sequence[str]) -> str:
    """Return the position of the job after `portion`: a number of files that were named, or the id of a file."""
    return str(int(job.position or 0) + len(portion)) if "file_ids" in job.params else portion[-1]


def _refused_result(job: Job, step: Step) -> Mapping[str, Any] | None:
    refused = [*job.refused, *step.refused.items()][:_MOST_SHOWN]
    return {"refused": refused} if refused else None


class _Overtaken(Exception):
    """The job was cancelled during the step, or another worker has claimed it: nothing of the step is kept."""
