"""Endpoints of the quarantine: what is in it, and the decisions of reviewers."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from sluice import errors
from sluice.api.documented import BODY, SCOPED, headers_of, responses
from sluice.api.parameters import DIGITS, ByCaller, Caller, Services
from sluice.api.route import GuardedRoute
from sluice.api.routes.downloads import begun
from sluice.api.schemas.envelope import Envelope
from sluice.api.schemas.quarantine import QuarantinedFile, RescanAsked, ReviewComment, Reviewed
from sluice.api_keys.limits import require_context
from sluice.kit.disposition import attachment
from sluice.kit.protected_zip import ProtectedZip

router = APIRouter(prefix="/api/v1/quarantine", tags=["Quarantine"], route_class=GuardedRoute)

_PASSWORD: Final = b"infected"  # as everybody uses it who passes malware on: it keeps programs from opening the file
_PARAMETERS: Final = frozenset({"after", "context", "limit"})
_MESSAGES: Final = {
    "released": "File released",
    "refused": "File refused",
    "awaits_second": "Decision noted; another person has to decide the same",
}
_CONFLICTS: Final = (errors.NotFound, errors.SecondReviewerNeeded)


@router.get("", responses=responses(*SCOPED, errors.Invalid))
async def list_quarantined_files(
    request: Request,
    principal: Caller,
    services: Services,
    *,
    after: Annotated[str | None, Query(description="Only files behind this file_id.")] = None,
    context: Annotated[str | None, Query(description="Only files of this context_key.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="At most so many files."), DIGITS] = 100,
) -> Envelope[list[QuarantinedFile]]:
    """List the files in quarantine, the oldest uploads first."""
    unknown = sorted(request.query_params.keys() - _PARAMETERS)
    if unknown:
        raise errors.Invalid(*(f"{name}: unknown parameter" for name in unknown))
    require_context(principal, context)
    found = await services.quarantine.list_some(principal.tenant_id, context, after, limit)
    return Envelope(message="Quarantine listed", data=[QuarantinedFile.of(file) for file in found])


@router.get(
    "/{file_id}/download",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "The archive.",
            "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
            "headers": headers_of("Content-Disposition"),
        },
        **responses(*SCOPED, errors.NotFound, errors.Invalid),
    },
)
async def download_quarantined_file(file_id: str, by: ByCaller, services: Services) -> StreamingResponse:
    """Download a file in quarantine, to look at it: always as a ZIP archive with the password `infected`."""
    file, store = await services.files.open_quarantined(by, file_id)
    try:
        archive = ProtectedZip(file.original_filename, file.size_bytes, _PASSWORD)
    except ValueError as fault:
        raise errors.Invalid("file_id: files of 4 GiB and more cannot be downloaded from quarantine") from fault
    chunks = await begun(store.read(file.object_key))
    headers = {
        "Content-Length": str(archive.size),
        "Content-Disposition": attachment(f"{file_id}.zip"),
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    return StreamingResponse(archive.read(chunks), media_type="application/zip", headers=headers)


@router.post("/{file_id}/release", responses=responses(*SCOPED, *BODY, *_CONFLICTS))
async def release_quarantined_file(
    file_id: str, body: ReviewComment, by: ByCaller, services: Services
) -> Envelope[Reviewed]:
    """Release a file from quarantine: it can be downloaded. The threat that was found is ignored in it from now on."""
    outcome = await services.quarantine.review(by, file_id, "release", body.comment)
    return Envelope(message=_MESSAGES[outcome], data=Reviewed(file_id=file_id, outcome=outcome))


@router.post("/{file_id}/refuse", responses=responses(*SCOPED, *BODY, *_CONFLICTS, errors.FileHeld))
async def refuse_quarantined_file(
    file_id: str, body: ReviewComment, by: ByCaller, services: Services
) -> Envelope[Reviewed]:
    """Refuse a file in quarantine: it is deleted. Until it is purged it can be restored, into quarantine."""
    outcome = await services.quarantine.review(by, file_id, "refuse", body.comment)
    return Envelope(message=_MESSAGES[outcome], data=Reviewed(file_id=file_id, outcome=outcome))


@router.post("/{file_id}/rescan", responses=responses(*SCOPED, *BODY, errors.NotFound))
async def rescan_quarantined_file(
    file_id: str, body: ReviewComment, by: ByCaller, services: Services
) -> Envelope[RescanAsked]:
    """Let the worker scan a file in quarantine again. It stays there, whatever the scan finds."""
    await services.quarantine.ask_rescan(by, file_id, body.comment)
    return Envelope(message="File will be scanned", data=RescanAsked(file_id=file_id))
