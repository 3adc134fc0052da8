"""File endpoints besides the upload, which streams and has a module of its own."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from sluice import errors
from sluice.api.documented import BODY, SCOPED, responses
from sluice.api.parameters import DIGITS, ByCaller, Caller, PageParameters, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.envelope import Envelope, PagedEnvelope, pagination_of
from sluice.api.schemas.files import DownloadUrl, FileDeleted, FileItem, FileMetadata, FileRestored
from sluice.api.schemas.holds import FileHold, HoldOut, SetHold
from sluice.files import FileRecord, Life

router = APIRouter(prefix="/api/v1/files", tags=["Files"], route_class=GuardedRoute)


@router.get("", responses=responses(*SCOPED, errors.Invalid))
async def list_files(
    *,
    principal: Caller,
    services: Services,
    request: PageParameters,
    context: Annotated[str | None, Query(description="Only files of this context_key.")] = None,
    context_key: Annotated[str | None, Query(description="The same as `context`.")] = None,
    uploaded_by: Annotated[str | None, Query(description="Only files of this API key ID or user ID.")] = None,
) -> PagedEnvelope[FileItem]:
    """List the tenant's files, newest first."""
    wanted = context if context is not None else context_key
    page = await services.files.list_page(principal.tenant_id, wanted, uploaded_by, request)
    items = [FileItem.model_validate(file) for file in page.items]
    return PagedEnvelope(message="Files listed", data=items, pagination=pagination_of(page))


@router.get("/{file_id}", responses=responses(*SCOPED, errors.NotFound, errors.Invalid))
async def get_download_url(
    file_id: str,
    by: ByCaller,
    services: Services,
    expires_in: Annotated[int, Query(ge=60, le=3600, description="Seconds for which the URL works."), DIGITS] = 300,
    disposition: Annotated[
        Literal["attachment", "inline"],
        Query(description="`inline`: a browser shows the file (pictures, recordings, PDF) instead of saving it."),
    ] = "attachment",
) -> Envelope[DownloadUrl]:
    """Get a pre-signed URL that downloads the file for a limited time."""
    link = await services.files.link(by, file_id, expires_in, inline=disposition == "inline")
    data = DownloadUrl(
        file_id=link.file.file_id,
        download_url=link.url,
        expires_in_seconds=link.expires_in_seconds,
        original_filename=link.file.original_filename,
        content_type=link.file.content_type,
    )
    return Envelope(message="Download URL generated", data=data)


@router.get("/{file_id}/metadata", responses=responses(*SCOPED, errors.NotFound))
async def get_file_metadata(file_id: str, principal: Caller, services: Services) -> Envelope[FileMetadata]:
    """Read what is known of one file."""
    file = await services.files.get(principal.tenant_id, file_id)
    life = await services.files.life_of(principal.tenant_id, file_id)
    return Envelope(message="File metadata found", data=_metadata(file, life))


@router.delete("/{file_id}", responses=responses(*SCOPED, errors.NotFound, errors.FileHeld))
async def delete_file(file_id: str, by: ByCaller, services: Services) -> Envelope[FileDeleted]:
    """Delete a file: hidden at once, its object removed later."""
    await services.files.delete(by, file_id)
    return Envelope(message="File deleted", data=FileDeleted(file_id=file_id))


@router.post("/{file_id}/restore", responses=responses(*SCOPED, errors.NotFound, errors.NoRoomToRestore))
async def restore_file(file_id: str, by: ByCaller, services: Services) -> Envelope[FileRestored]:
    """Restore a deleted file, until its object is purged. Its bytes count in the quota again."""
    await services.files.restore(by, file_id)
    return Envelope(message="File restored", data=FileRestored(file_id=file_id))


@router.put("/{file_id}/hold", responses=responses(*SCOPED, *BODY, errors.NotFound))
async def hold_file(file_id: str, body: SetHold, by: ByCaller, services: Services) -> Envelope[FileHold]:
    """Put a legal hold on a file, stored or deleted, or change the reason of its hold: nothing deletes or purges it."""
    await services.files.hold(by, file_id, body.reason)
    return Envelope(message="File held", data=FileHold(file_id=file_id, held=True))


@router.delete("/{file_id}/hold", responses=responses(*SCOPED, errors.NotFound))
async def end_file_hold(file_id: str, by: ByCaller, services: Services) -> Envelope[FileHold]:
    """End the legal hold on a file. A hold on its context stays."""
    await services.files.unhold(by, file_id)
    return Envelope(message="File hold ended", data=FileHold(file_id=file_id, held=False))


def _metadata(file: FileRecord, life: Life) -> FileMetadata:
    return FileMetadata(
        file_id=file.file_id,
        original_filename=file.original_filename,
        content_type=file.content_type,
        size_bytes=file.size_bytes,
        context_key=file.context_key,
        checksum=f"sha256:{file.sha256}",
        metadata=dict(file.metadata),
        download_count=file.download_count,
        last_downloaded_at=file.last_downloaded_at,
        expires_at=life.expires_at,
        hold=None if life.hold is None else HoldOut.model_validate(life.hold),
    )
