"""Endpoints of the quarantine: what is in it, and the decisions of reviewers."""

from datetime import datetime
from typing import Annotated, Final, Literal, Self

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import ConfigDict, Field

from sluice import errors
from sluice.api.documented import BODY, SCOPED, headers_of, responses
from sluice.api.parameters import DIGITS, ByCaller, Caller, Services
from sluice.api.route import GuardedRoute
from sluice.api.routes.downloads import PREVIEW_SIDES, PreviewSize, begun, preview_response
from sluice.api.schemas.envelope import NOT_BLANK, PLAIN_LINES, Envelope, RequestBody, ResponseBody, is_none
from sluice.api_keys.limits import context_of_list
from sluice.audit import AuditAction
from sluice.files import Quarantined
from sluice.files.lifecycle import ReviewOutcome
from sluice.kit.disposition import attachment
from sluice.kit.protected_zip import ProtectedZip
from sluice.uploads.reasons import Reason

router = APIRouter(prefix="/api/v1/quarantine", tags=["Quarantine"], route_class=GuardedRoute)


class ReviewComment(RequestBody):
    """The comment of a reviewer on a decision."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"comment": "False alarm, confirmed with the vendor"}]})

    comment: Annotated[
        str, Field(min_length=1, max_length=1000, description="Why; the audit log shows it."), PLAIN_LINES, NOT_BLANK
    ]


class FirstReview(ResponseBody):
    """The decision of the first of two reviewers."""

    decision: Literal["release", "refuse"]
    reviewed_by: str = Field(description="API key ID or user ID.")
    reviewed_at: datetime


class QuarantinedFile(ResponseBody):
    """A stored file that cannot be downloaded."""

    file_id: str
    context_key: str
    original_filename: str
    content_type: str
    size_bytes: int
    sha256: str
    uploaded_by: str
    report_id: str
    quarantined_at: datetime = Field(description="Since when.")
    reason: str | None = Field(
        description="The code of the check in quarantine mode that the upload failed, `virus_detected` if a later scan "
        "found a threat. Null if its report is no longer kept."
    )
    detail: str | None = Field(description="What that check found. Null if it was a later scan.")
    threat: str | None = Field(description="What a later scan found, null if it was a check of the upload.")
    scanned_with: str | None = Field(description="The engine of the last scan; null if there was none.")
    scanned_at: datetime | None = Field(description="When it was scanned last.")
    rescan_asked: bool = Field(description="Whether a reviewer wants it scanned, and the worker has not done it yet.")
    sanitised_file_id: str | None = Field(
        None,
        exclude_if=is_none,
        description="The stored file that sanitising made of this one, which is never released. Omitted for others.",
    )
    first_review: FirstReview | None = Field(description="What the first of two reviewers decided; null if none has.")

    @classmethod
    def of(cls, file: Quarantined) -> Self:
        """Return the file as it is shown."""
        first = None
        if file.review_decision is not None and file.reviewed_by is not None and file.reviewed_at is not None:
            first = FirstReview(
                decision=file.review_decision, reviewed_by=file.reviewed_by, reviewed_at=file.reviewed_at
            )
        return cls(
            **{name: getattr(file, name) for name in _SAME},
            reason=Reason.VIRUS_DETECTED.value if file.threat is not None else file.reason,
            rescan_asked=file.rescan_at is not None,
            first_review=first,
        )


_SAME = (
    "file_id",
    "context_key",
    "original_filename",
    "content_type",
    "size_bytes",
    "sha256",
    "uploaded_by",
    "report_id",
    "quarantined_at",
    "detail",
    "threat",
    "scanned_with",
    "scanned_at",
    "sanitised_file_id",
)


class Reviewed(ResponseBody):
    """The state of a file after the decision of a reviewer."""

    file_id: str
    outcome: ReviewOutcome = Field(
        description="`awaits_second`: nothing has changed until another person decides the same."
    )


class RescanAsked(ResponseBody):
    """A file in quarantine is scanned again by the worker."""

    file_id: str
    rescan_asked: Literal[True] = True


_PASSWORD: Final = b"infected"  # the usual one for malware samples: it keeps programs from opening the file
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
    after: Annotated[str | None, Query(description="Only files after this file_id.")] = None,
    context: Annotated[str | None, Query(description="Only files of this context_key.")] = None,
    limit: Annotated[int, Query(ge=1, le=500, description="Maximum number of files."), DIGITS] = 100,
) -> Envelope[list[QuarantinedFile]]:
    """List the files in quarantine, the oldest uploads first."""
    unknown = sorted(request.query_params.keys() - _PARAMETERS)
    if unknown:
        raise errors.Invalid(*(f"{name}: unknown parameter" for name in unknown))
    of_context = context_of_list(principal, context)
    found = await services.quarantine.list_some(principal.tenant_id, of_context, after, limit)
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
    return await protected_archive(by, file_id, services)


@router.get(
    "/{file_id}/preview",
    response_class=Response,
    responses={
        200: {
            "description": "The picture.",
            "content": {"image/png": {"schema": {"type": "string", "format": "binary"}}},
        },
        **responses(*SCOPED, errors.NotFound, errors.NoPreview, errors.Invalid),
    },
)
async def preview_quarantined_file(
    *,
    file_id: str,
    by: ByCaller,
    services: Services,
    size: Annotated[PreviewSize, Query(description="Pixels of the longer side at most.")] = "200",
) -> Response:
    """Get a picture of a file in quarantine. It holds nothing of the file but pixels."""
    side = PREVIEW_SIDES[size]
    png = await services.previews.open(by, file_id, side, is_quarantined=True)
    return preview_response(png)


async def protected_archive(by: AuditAction, file_id: str, services: Services) -> StreamingResponse:
    """Return a file in quarantine as an archive with a password; raise `NotFound`, `Invalid`, `ServiceUnavailable`."""
    file, store = await services.files.open_quarantined(by, file_id)
    try:
        archive = ProtectedZip(file.original_filename, file.size_bytes, _PASSWORD)
    except ValueError as fault:
        raise errors.Invalid("file_id: files of 4 GiB and more cannot be downloaded from quarantine") from fault
    chunks = await begun(store.read(file.object_key, expected_size=file.size_bytes), file_id)
    headers = {
        "Content-Length": str(archive.size),
        "Content-Disposition": attachment(f"{file_id}.zip"),
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    return StreamingResponse(archive.read(chunks), media_type="application/zip", headers=headers)


@router.post("/{file_id}/release", responses=responses(*SCOPED, *BODY, *_CONFLICTS, errors.OriginalNotReleased))
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
