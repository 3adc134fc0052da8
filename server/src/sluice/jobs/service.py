"""Operations on jobs: create, read, cancel, download the file of an export. `worker.jobs.bulk` does them."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from sluice.audit import AuditAction
from sluice.audit.repository import append
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.errors import FileHeld, Invalid, JobEnded, NotFound, TooManyJobs, or_not_found
from sluice.files import FileFilter
from sluice.files import repository as file_rows
from sluice.files.links import LinkSigner
from sluice.files.service import MOST_SEARCHED, Files
from sluice.hash_lists import ListedHash
from sluice.jobs import repository
from sluice.jobs.job import BulkKind, Export, ExportFormat, Job, JobKind, JobState, filter_to_json
from sluice.kit.clock import Clock, utc_now
from sluice.kit.ids import made_at, new_id
from sluice.kit.paging import Page, PageRequest
from sluice.kit.text import is_plain
from sluice.storage import ObjectStore
from sluice.tenants import repository as tenant_rows

MOST_ACTIVE: Final = 20


@dataclass(frozen=True, slots=True)
class ExportLink:
    """A link that downloads what an export wrote, for `expires_in_seconds`."""

    export: Export
    url: str
    expires_in_seconds: int


class Jobs:
    """The jobs of all tenants, one tenant at a time."""

    def __init__(
        self, database: Database, files: Files, signer: LinkSigner, store: ObjectStore, clock: Clock = utc_now
    ) -> None:
        """`store` is the platform's, which holds what export jobs write."""
        self._database = database
        self._files = files
        self._signer = signer
        self._store = store
        self._clock = clock

    async def change_ids(self, by: AuditAction, kind: BulkKind, file_ids: Sequence[str]) -> Job:
        """Create a job that changes these files; those that do not exist are skipped. Raise `TooManyJobs`."""
        return await self.create(by, kind, {"file_ids": list(dict.fromkeys(file_ids))}, len(set(file_ids)))

    async def change_found(self, by: AuditAction, kind: BulkKind, wanted: FileFilter, most: int) -> Job:
        """Create a job that changes the files that meet `wanted` now, at most `most`. Raise `TooManyJobs`."""
        wanted = self._until_now(wanted)
        # How many deleted files meet a filter is not known before.
        total = await self.count(by.tenant_id, wanted) if kind == "bulk_delete" else None
        params = {"filter": filter_to_json(wanted), "max_files": most}
        return await self.create(by, kind, params, None if total is None else min(total, most))

    async def export(self, by: AuditAction, wanted: FileFilter, kind: ExportFormat) -> Job:
        """Create a job that writes the metadata of the files that meet `wanted` now. Raise `TooManyJobs`.

        If another server's clock is ahead, files that it stores a moment later may be listed, too; none is left out.
        """
        async with self._database.reading(by.tenant_id) as connection:
            newest = await file_rows.newest_id(connection, by.tenant_id)
        wanted = self._until_now(wanted, newest)
        total = await self.count(by.tenant_id, wanted)
        return await self.create(by, "export", {"filter": filter_to_json(wanted), "format": kind}, total)

    async def quarantine(self, by: AuditAction, entry: ListedHash) -> Job:
        """Create a job that puts the stored files with a denied SHA-256 into quarantine. Raise `TooManyJobs`."""
        total = (await self._files.count_by_sha256(by.tenant_id, [entry.digest])).get(entry.digest, 0)
        return await self.create(by, "bulk_quarantine", asdict(entry), total)

    async def count(self, tenant_id: str, wanted: FileFilter) -> int | None:
        """Return how many files meet `wanted`, None if there are too many to be counted."""
        found = await self._files.search(tenant_id, wanted, "-created_at", PageRequest(1, 1))
        return found.page.total if found.is_complete and found.page.total < MOST_SEARCHED else None

    async def link(self, by: AuditAction, job_id: str, expires_in: int) -> ExportLink:
        """Return a link that downloads what an export wrote, for a limited time. Raise `NotFound`."""
        export, now = (await self.get(by.tenant_id, job_id)).export, self._clock()
        if export is None:
            raise NotFound
        seconds = min(expires_in, int((export.expires_at - now).total_seconds()))
        if seconds <= 0:
            raise NotFound
        async with self._database.transaction(by.tenant_id) as connection:
            await append(connection, by, job_id, now)
        url = self._signer.sign(job_id, expires_at=int(now.timestamp()) + seconds)
        return ExportLink(export, url, seconds)

    async def open_signed(self, job_id: str) -> tuple[Job, Export, ObjectStore]:
        """Return the export of a link whose signature was verified, and where its parts are. Raise `NotFound`."""
        async with self._database.reading(ALL_TENANTS) as connection:
            job = await repository.find_export(connection, job_id)
        export = None if job is None else job.export
        if job is None or export is None or export.expires_at <= self._clock():
            raise NotFound
        return job, export, self._store

    async def get(self, tenant_id: str, job_id: str) -> Job:
        """Return one job; raise `NotFound`."""
        async with self._database.reading(tenant_id) as connection:
            return or_not_found(await repository.find(connection, tenant_id, job_id) if is_plain(job_id) else None)

    async def list_page(
        self, tenant_id: str, state: JobState | None, kind: JobKind | None, request: PageRequest
    ) -> Page[Job]:
        """Return one page of jobs, newest first; raise `Invalid` for a page beyond what is counted."""
        if request.offset >= repository.MOST_LISTED:
            raise Invalid(f"page: expected one of the first {repository.MOST_LISTED} jobs")
        async with self._database.reading(tenant_id) as connection:
            return await repository.list_page(connection, tenant_id, state, kind, request)

    async def cancel(self, by: AuditAction, job_id: str) -> Job:
        """End a job after the step that is under way; what was done stays done. Raise `NotFound` or `JobEnded`."""
        now = self._clock()
        if not is_plain(job_id):
            raise NotFound
        async with self._database.transaction(by.tenant_id) as connection:
            job = await repository.cancel(connection, by.tenant_id, job_id, now)
            if job is None:
                raise NotFound if await repository.find(connection, by.tenant_id, job_id) is None else JobEnded
            await append(connection, by, job_id, now)
        return job

    def _until_now(self, wanted: FileFilter, newest: str | None = None) -> FileFilter:
        """Return the filter without what is stored later, but with a file whose id is `newest`."""
        now = self._clock()
        until = now if newest is None else max(now, made_at(newest) + timedelta(milliseconds=1))
        return replace(wanted, created_before=min(until, wanted.created_before or until))

    async def create(self, by: AuditAction, kind: JobKind, params: Mapping[str, Any], total: int | None = None) -> Job:
        """Create a job of a kind. Raise `TooManyJobs`."""
        now = self._clock()
        job = _new_job(by, kind, params, total, now)
        async with self._database.transaction(by.tenant_id) as connection:
            # Two that come at once may both find room: the limit protects the worker, not to the last job.
            if await repository.count_active(connection, by.tenant_id) >= MOST_ACTIVE:
                raise TooManyJobs
            await repository.add(connection, job)
            await append(connection, by, job.job_id, now)
        return job


class TenantDeletion:
    """The end of a tenant, which an operator begins and the worker completes."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    async def begin(self, by: AuditAction) -> Job:
        """Refuse all credentials of a tenant for ever, and create the job that deletes all that it has.

        Raise `NotFound`, also if it is deleted already, or `FileHeld` while it has a legal hold.
        """
        now = self._clock()
        job = _new_job(by, "tenant_delete", {}, None, now)
        async with self._database.transaction(by.tenant_id) as connection:
            if await file_rows.has_hold(connection, by.tenant_id):
                raise FileHeld
            if await tenant_rows.change(connection, by.tenant_id, {"status": "deleted"}) is None:
                raise NotFound
            await repository.end_all(connection, by.tenant_id, now)
            await repository.add(connection, job)
            await append(connection, by, by.tenant_id, now)
        return job


def _new_job(by: AuditAction, kind: JobKind, params: Mapping[str, Any], total: int | None, at: datetime) -> Job:
    return Job(
        job_id=new_id("job"),
        tenant_id=by.tenant_id,
        kind=kind,
        state="waiting",
        params=params,
        total=total,
        done=0,
        skipped=0,
        error=None,
        position="",
        generation=0,
        failures=0,
        actor_id=by.principal.actor_id,
        actor_name=by.principal.actor_name,
        via=by.principal.via,
        request_id=by.request_id,
        created_at=at,
        started_at=None,
        ended_at=None,
        result=None,
    )
