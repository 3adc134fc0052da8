"""Endpoints of the quarantine: what is in it, and the decisions of reviewers."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request

from sluice import errors
from sluice.api.documented import BODY, SCOPED, responses
from sluice.api.parameters import DIGITS, ByCaller, Caller, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.envelope import Envelope
from sluice.api.schemas.quarantine import QuarantinedFile, RescanAsked, ReviewComment, Reviewed

router = APIRouter(prefix="/api/v1/quarantine", tags=["Quarantine"], route_class=GuardedRoute)

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
    found = await services.quarantine.list_some(principal.tenant_id, context, after, limit)
    return Envelope(message="Quarantine listed", data=[QuarantinedFile.of(file) for file in found])


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
