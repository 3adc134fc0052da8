"""The endpoints of jobs, and those that begin one."""

from typing import Annotated

from fastapi import APIRouter, Query

from sluice import errors
from sluice.api.documented import BODY, SCOPED, responses
from sluice.api.parameters import DIGITS, REFUSES_UNKNOWN, ByCaller, Caller, PageParameters, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.envelope import Envelope, PagedEnvelope, pagination_of
from sluice.api.schemas.jobs import ChosenFiles, ExportDownload, ExportRequest, JobCancelled, JobOut
from sluice.api_keys.limits import require_context
from sluice.audit import AuditAction
from sluice.files import FileFilter
from sluice.jobs import BulkKind, JobKind, JobState

router = APIRouter(prefix="/api/v1", tags=["Jobs"], route_class=GuardedRoute)


@router.post("/files/bulk-delete", status_code=201, responses=responses(*SCOPED, *BODY, errors.TooManyJobs))
async def bulk_delete_files(body: ChosenFiles, by: ByCaller, services: Services) -> Envelope[JobOut]:
    """Begin a job that deletes many files: by their ids, or those that meet a filter at this moment.

    Each file is deleted as `DELETE /api/v1/files/{file_id}` deletes it, with its event and its entry in the audit log.
    """
    return await _change_many(body, by, services, "bulk_delete")


@router.post("/files/bulk-restore", status_code=201, responses=responses(*SCOPED, *BODY, errors.TooManyJobs))
async def bulk_restore_files(body: ChosenFiles, by: ByCaller, services: Services) -> Envelope[JobOut]:
    """Begin a job that restores many deleted files: by their ids, or those that meet a filter.

    Each file is restored as `POST /api/v1/files/{file_id}/restore` restores it, if its context has room for it.
    """
    return await _change_many(body, by, services, "bulk_restore")


async def _change_many(body: ChosenFiles, by: AuditAction, services: Services, kind: BulkKind) -> Envelope[JobOut]:
    require_context(by.principal, None if body.filter is None else body.filter.context)
    if body.file_ids is not None:
        job = await services.jobs.change_ids(by, kind, body.file_ids)
    else:
        assert body.filter is not None  # noqa: S101  (the schema requires one of the two)
        job = await services.jobs.change_found(by, kind, body.filter.to_filter(), body.max_files or 0)
    return Envelope(message="Job created", data=JobOut.of(job))


@router.post("/files/export", status_code=201, responses=responses(*SCOPED, *BODY, errors.TooManyJobs))
async def export_files(body: ExportRequest, by: ByCaller, services: Services) -> Envelope[JobOut]:
    """Begin a job that writes the metadata of many files, to be downloaded for 24 hours after its end."""
    require_context(by.principal, None if body.filter is None else body.filter.context)
    wanted = FileFilter() if body.filter is None else body.filter.to_filter()
    return Envelope(message="Job created", data=JobOut.of(await services.jobs.export(by, wanted, body.format)))


@router.get("/jobs", responses=responses(*SCOPED, errors.Invalid), dependencies=[REFUSES_UNKNOWN])
async def list_jobs(
    principal: Caller,
    services: Services,
    request: PageParameters,
    status: Annotated[JobState | None, Query(description="Only jobs in this state.")] = None,
    kind: Annotated[JobKind | None, Query(description="Only jobs of this kind.")] = None,
) -> PagedEnvelope[JobOut]:
    """List the tenant's jobs of the last 30 days, newest first. `total` counts to 10,000."""
    page = await services.jobs.list_page(principal.tenant_id, status, kind, request)
    return PagedEnvelope(
        message="Jobs listed", data=[JobOut.of(job) for job in page.items], pagination=pagination_of(page)
    )


@router.get("/jobs/{job_id}", responses=responses(*SCOPED, errors.NotFound))
async def get_job(job_id: str, principal: Caller, services: Services) -> Envelope[JobOut]:
    """Read one job: how far it is, or how it ended."""
    return Envelope(message="Job found", data=JobOut.of(await services.jobs.get(principal.tenant_id, job_id)))


@router.get("/jobs/{job_id}/download", responses=responses(*SCOPED, errors.NotFound, errors.Invalid))
async def get_export_url(
    job_id: str,
    by: ByCaller,
    services: Services,
    expires_in: Annotated[int, Query(ge=60, le=3600, description="Seconds for which the URL works."), DIGITS] = 300,
) -> Envelope[ExportDownload]:
    """Get a pre-signed URL that downloads what an export wrote, for a limited time. 404 until the job is done."""
    link = await services.jobs.link(by, job_id, expires_in)
    data = ExportDownload(
        job_id=job_id,
        download_url=link.url,
        expires_in_seconds=link.expires_in_seconds,
        format=link.export.format,
        size_bytes=link.export.size_bytes,
    )
    return Envelope(message="Download URL generated", data=data)


@router.post("/jobs/{job_id}/cancel", responses=responses(*SCOPED, errors.NotFound, errors.JobEnded))
async def cancel_job(job_id: str, by: ByCaller, services: Services) -> Envelope[JobCancelled]:
    """Cancel a job that has not ended. What it has done stays done."""
    job = await services.jobs.cancel(by, job_id)
    return Envelope(message="Job cancelled", data=JobCancelled(job_id=job_id, done=job.done))
