"""File endpoints besides the upload, which streams and has a module of its own."""

from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query, Request, Response

from sluice import errors
from sluice.api.documented import BODY, SCOPED, responses, with_headers
from sluice.api.parameters import (
    DIGITS,
    METADATA,
    WARNS_OF_UNKNOWN,
    ByCaller,
    Caller,
    PageParameters,
    Services,
    add_warning,
)
from sluice.api.route import GuardedRoute
from sluice.api.routes.downloads import PREVIEW_SIDES, PreviewSize
from sluice.api.schemas.envelope import Envelope, PagedEnvelope, pagination_of
from sluice.api.schemas.files import DeletedFile, DownloadUrl, FileItem, FileMetadata, PreviewUrl, RestoredFile
from sluice.api.schemas.holds import FileHold, HoldOut, SetHold
from sluice.api.schemas.jobs import METADATA_NAME, METADATA_VALUE, MOST_PAIRS, SHA256
from sluice.api.schemas.moment import Moment
from sluice.api_keys.limits import require_context
from sluice.errors import Invalid
from sluice.files import FileFilter, FileRecord, Life
from sluice.files.record import FileOrder, FileStatus
from sluice.files.service import MOST_SEARCHED

router = APIRouter(prefix="/api/v1/files", tags=["Files"], route_class=GuardedRoute)


# One parameter represents all of its kind: OpenAPI cannot describe names that clients choose.
_METADATA_PARAMETER: Final[dict[str, Any]] = {
    "name": f"{METADATA}key",
    "in": "query",
    "required": False,
    "schema": {"type": "string", "maxLength": METADATA_VALUE},
    "description": "Only files whose metadata has this value under the name `key`, or any other of at most "
    f"{METADATA_NAME} letters after `{METADATA}`: a text, a whole number, `true` or `false` at the first level.",
}


async def _file_filter(
    *,
    request: Request,
    context: Annotated[str | None, Query(description="Only files of this context_key.")] = None,
    context_key: Annotated[str | None, Query(description="The same as `context`.")] = None,
    uploaded_by: Annotated[str | None, Query(description="Only files of this API key ID or user ID.")] = None,
    filename: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=255,
            description="Only files whose name contains this, in any case of its ASCII letters.",
        ),
    ] = None,
    sha256: Annotated[
        str | None, Query(pattern=SHA256, description="Only files with these bytes: hex digits, as in `checksum`.")
    ] = None,
    content_type: Annotated[
        str | None, Query(min_length=1, max_length=255, description="Only files of this type, such as `image/png`.")
    ] = None,
    created_after: Annotated[Moment | None, Query(description="Only files of this moment or later.")] = None,
    created_before: Annotated[Moment | None, Query(description="Only files before this moment.")] = None,
    min_size: Annotated[
        int | None, Query(ge=0, le=2**40, description="Only files of at least this many bytes."), DIGITS
    ] = None,
    status: Annotated[
        FileStatus | None, Query(description="`stored`: that can be downloaded; `quarantined`: that cannot.")
    ] = None,
) -> FileFilter:
    pairs = []
    for name, value in request.query_params.multi_items():
        key = name.removeprefix(METADATA)
        if name.startswith(METADATA):
            if not 0 < len(key) <= METADATA_NAME:
                raise Invalid(f"{METADATA}: expected a name of 1 to {METADATA_NAME} letters after the dot")
            if len(value) > METADATA_VALUE:
                raise Invalid(f"{METADATA}: expected a value of at most {METADATA_VALUE} letters")
            pairs.append((key, value))
    if len(pairs) > MOST_PAIRS:
        raise Invalid(f"{METADATA}: expected at most {MOST_PAIRS} of them")
    return FileFilter(
        context_key=context if context is not None else context_key,
        uploaded_by=uploaded_by,
        sha256=None if sha256 is None else sha256.removeprefix("sha256:").lower(),
        filename=filename,
        content_type=content_type,
        created_after=created_after,
        created_before=created_before,
        min_size=min_size,
        status=status,
        metadata=tuple(dict.fromkeys(pairs)),
    )


@router.get(
    "",
    responses=with_headers(responses(*SCOPED, errors.Invalid), "Warning"),
    dependencies=[WARNS_OF_UNKNOWN],
    openapi_extra={"parameters": [_METADATA_PARAMETER]},
)
async def list_files(
    *,
    response: Response,
    principal: Caller,
    services: Services,
    request: PageParameters,
    wanted: Annotated[FileFilter, Depends(_file_filter)],
    sort: Annotated[FileOrder, Query(description="`-` in front: the newest, or the largest, first.")] = "-created_at",
) -> PagedEnvelope[FileItem]:
    """List or search the tenant's files, newest first; with a key that is limited to contexts, the files of these.

    By context and uploader alone all files are listed. With any other parameter `total` counts to 10,000. If each
    filter alone has more files than that, only the first 10,000 of the list are compared with the others, and the
    header `Warning` says so.
    """
    allowed = principal.limits.contexts
    if wanted.context_key is not None:
        require_context(principal, wanted.context_key)
    elif len(allowed) == 1:
        wanted = replace(wanted, context_key=allowed[0])
    else:
        wanted = replace(wanted, contexts=allowed)
    found = await services.files.search(principal.tenant_id, wanted, sort, request)
    if not found.is_complete:
        add_warning(
            response,
            f"Only the first {MOST_SEARCHED} files were compared; narrow the search, or continue with created_before",
        )
    items = [FileItem.model_validate(file) for file in found.page.items]
    return PagedEnvelope(message="Files listed", data=items, pagination=pagination_of(found.page))


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


@router.get("/{file_id}/preview", responses=responses(*SCOPED, errors.NotFound, errors.NoPreview, errors.Invalid))
async def get_preview_url(
    *,
    file_id: str,
    by: ByCaller,
    services: Services,
    size: Annotated[PreviewSize, Query(description="Pixels of the longer side at most.")] = "200",
    expires_in: Annotated[int, Query(ge=60, le=3600, description="Seconds for which the URL works."), DIGITS] = 300,
) -> Envelope[PreviewUrl]:
    """Get a pre-signed URL of a picture of the file: its first page, the picture in small, or the names in an archive.

    It is rendered when it is first asked for. There is none of a file in quarantine: reviewers have their own.
    """
    link = await services.previews.link(by, file_id, PREVIEW_SIDES[size], expires_in)
    data = PreviewUrl(
        file_id=link.file.file_id,
        preview_url=link.url,
        size=PREVIEW_SIDES[size],
        expires_in_seconds=link.expires_in_seconds,
    )
    return Envelope(message="Preview URL generated", data=data)


@router.get("/{file_id}/metadata", responses=responses(*SCOPED, errors.NotFound))
async def get_file_metadata(file_id: str, principal: Caller, services: Services) -> Envelope[FileMetadata]:
    """Read the metadata of one file."""
    file = await services.files.get(principal.tenant_id, file_id)
    life = await services.files.life_of(principal.tenant_id, file_id)
    return Envelope(message="File metadata found", data=_metadata(file, life))


@router.delete(
    "/{file_id}", responses=responses(*SCOPED, errors.NotFound, errors.FileHeld, errors.SecondReviewerNeeded)
)
async def delete_file(file_id: str, by: ByCaller, services: Services) -> Envelope[DeletedFile]:
    """Delete a file: hidden at once, its object removed later."""
    await services.files.delete(by, file_id)
    return Envelope(message="File deleted", data=DeletedFile(file_id=file_id))


@router.post("/{file_id}/restore", responses=responses(*SCOPED, errors.NotFound, errors.NoRoomToRestore))
async def restore_file(file_id: str, by: ByCaller, services: Services) -> Envelope[RestoredFile]:
    """Restore a deleted file, until its object is purged. Its bytes count in the quota again."""
    await services.files.restore(by, file_id)
    return Envelope(message="File restored", data=RestoredFile(file_id=file_id))


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
