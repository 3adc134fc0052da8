"""Operations on erasures: create one, read its progress, and get its signed receipt. The worker does them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sluice.audit import AuditAction
from sluice.db.database import Database
from sluice.erasures import repository
from sluice.erasures.subject import ERASED, ErasureSubject
from sluice.errors import ErasureUnderWay, NotFound
from sluice.jobs import Job
from sluice.jobs.service import Jobs
from sluice.kit.clock import iso_z
from sluice.receipts.service import Receipts

FILES_OF_PAGE: Final = 1000
MOST_COUNTED: Final = 2_000
MOST_COMPARED: Final = 20_000  # reports, whose uploaders are in no index
MOST_TOKENS: Final = 1000


@dataclass(frozen=True, slots=True)
class ErasureReceipt:
    """One page of the signed receipt of an erasure, which has `pages`."""

    receipt: str
    page: int
    pages: int


@dataclass(frozen=True, slots=True)
class ErasurePreview:
    """What an erasure would find now: stored files, those of them that a legal hold keeps, and reports.

    The files count to `MOST_COUNTED`. `reports` is None if they are those of the files alone; without `all_reports`
    only the newest `MOST_COMPARED` were compared. Upload tokens of an end user are found as long as they are kept,
    their uploads with them.
    """

    files: int
    held: int
    reports: int | None
    all_reports: bool
    upload_tokens: int


class Erasures:
    """The erasures of all tenants, one tenant at a time."""

    def __init__(self, database: Database, jobs: Jobs, receipts: Receipts) -> None:
        self._database = database
        self._jobs = jobs
        self._receipts = receipts

    async def create(self, by: AuditAction, subject: ErasureSubject) -> Job:
        """Create the job that erases a person. Raise `TooManyJobs`."""
        async with self._database.reading(by.tenant_id) as connection:
            newest = await repository.newest_ids(connection, by.tenant_id)
        return await self._jobs.create(by, "erasure", {**subject.to_json(), "newest": dict(newest)})

    async def preview(self, tenant_id: str, subject: ErasureSubject) -> ErasurePreview:
        """Return what the erasure of a person would find, without changing anything."""
        async with self._database.reading(tenant_id) as connection:
            if subject.kind == "metadata":
                number, held = await repository.count_described(connection, tenant_id, subject.metadata, MOST_COUNTED)
                return ErasurePreview(number, held, None, all_reports=True, upload_tokens=0)
            sources: Sequence[str] = [subject.uploaded_by or ""]
            tokens: Sequence[str] = ()
            if subject.end_user is not None:
                sources = tokens = await repository.list_token_ids(connection, tenant_id, subject.end_user, MOST_TOKENS)
            number, held = await repository.count_files(connection, tenant_id, sources, MOST_COUNTED)
            reports, is_all = await repository.count_decisions(connection, tenant_id, sources, MOST_COMPARED)
        return ErasurePreview(number, held, reports, all_reports=is_all, upload_tokens=len(tokens))

    async def get(self, tenant_id: str, job_id: str) -> Job:
        """Return the job of an erasure; raise `NotFound`."""
        job = await self._jobs.get(tenant_id, job_id)
        if job.kind != "erasure":
            raise NotFound
        return job

    async def receipt(self, tenant_id: str, job_id: str, page: int) -> ErasureReceipt:
        """Return a page of the signed list of what was erased and what a hold kept.

        Raise `NotFound`, or `ErasureUnderWay` until the erasure is done.
        """
        job = await self.get(tenant_id, job_id)
        if job.state != "done" or job.ended_at is None:
            raise ErasureUnderWay
        pages = pages_of(job)
        if page > pages:
            raise NotFound
        async with self._database.reading(tenant_id) as connection:
            offset = (page - 1) * FILES_OF_PAGE
            listed = await repository.load_listed(connection, tenant_id, job_id, offset, FILES_OF_PAGE)
        stated = {
            "erasure_id": job_id,
            "subject": dict(job.params["subject"]),
            "requested_at": iso_z(job.created_at),
            "completed_at": iso_z(job.ended_at),
            "files_erased": job.done,
            "files_held": job.skipped,
            "blanked": dict(job.params["blanked"]),
            "page": page,
            "pages": pages,
            "files": [_file(row) for row in listed],
        }
        return ErasureReceipt(self._receipts.sign("erasure", tenant_id, stated), page, pages)


def pages_of(job: Job) -> int:
    """Return how many pages the receipt of an erasure has."""
    return max(1, -(-(job.done + job.skipped) // FILES_OF_PAGE))


def _file(row: Sequence[Any]) -> dict[str, Any]:
    file_id, sha256, size_bytes, outcome = row
    outcome = ERASED if outcome == ERASED else "held"
    return {"file_id": file_id, "sha256": sha256, "size_bytes": size_bytes, "outcome": outcome}
