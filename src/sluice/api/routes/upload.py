"""The upload endpoint: a streaming route. Credentials, scope and Content-Length are judged before the first byte of the body is taken."""

import math
from http import HTTPStatus
from typing import Final

from fastapi import APIRouter, Request, Response

from sluice import errors
from sluice.access import Scope
from sluice.api.counting import counted_upload
from sluice.api.documented import SCOPED, responses
from sluice.api.parameters import Caller, Services
from sluice.api.route import GuardedRoute, admitted
from sluice.api.schemas.envelope import Envelope
from sluice.api.schemas.files import UPLOAD_BODY, Uploaded
from sluice.api.services import ApiServices
from sluice.api.upload_form import receive_form, require_acceptable
from sluice.contexts import RateLimit
from sluice.errors import SluiceError
from sluice.uploads.intake import Intake, Refused
from sluice.uploads.pipeline import refusal_of
from sluice.uploads.sight import Uploader
from sluice.uploads.spool import Spool
from sluice.uploads.values import Arrival, RateFact, Stored

_PREFIX: Final = "/api/v1/files"
PATH: Final = f"{_PREFIX}/upload"

_ANSWER: Final = Envelope[Uploaded]

router = APIRouter(prefix=_PREFIX, tags=["Files"], route_class=GuardedRoute)


@router.post(
    "/upload",
    status_code=201,
    response_model=Envelope[Uploaded],
    responses=responses(
        *SCOPED,
        errors.FileRejected,
        errors.LimitExceeded,
        errors.NotFound,
        errors.BodyStalled,
        errors.ContextInactive,
        errors.BucketInactive,
        errors.BodyTooLarge,
        errors.UnsupportedBody,
        errors.Invalid,
        errors.OutcomeUnknown,
        errors.StorageFull,
    ),
    openapi_extra=UPLOAD_BODY,
)
@counted_upload
async def upload_file(request: Request, principal: Caller, services: Services) -> Response:
    """Upload a file into a context. It is checked against the context's rules before it is stored; the first rule it breaks is named."""
    uploader = Uploader(principal, lambda: admitted(request, Scope.UPLOAD))
    try:
        arrival, stored = await _take(request, uploader, services)
    except SluiceError as error:
        # Whoever may not upload any more is told that, and not what is wrong with the upload. A fault of ours tells nothing of that.
        if error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            await uploader.confirm()
        raise
    body = _ANSWER(message="File uploaded", data=Uploaded.model_validate(stored))
    response = Response(body.model_dump_json(), status_code=201, media_type="application/json")
    _say_rate(response, arrival.context.upload_rate_limit, stored.rate)
    return response


async def _take(request: Request, uploader: Uploader, services: ApiServices) -> tuple[Arrival, Stored]:
    boundary = require_acceptable(request)
    desk, pipeline, principal = services.upload_desk, services.pipeline, uploader.principal
    async with desk.slots.hold(principal.tenant_id):
        intake = Intake(
            principal, pipeline.sight, lambda: Spool(desk.spool_memory_bytes, desk.spool_folder, kept_here=desk.kept_here)
        )
        try:
            arrival = await receive_form(request, boundary, intake)
            with desk.slots.learning(arrival.context.context_id, arrival.sealed.size):
                return arrival, await pipeline.run(arrival, uploader)
        except Refused as refused:
            # Broken while it still came in: the pipeline never saw it, but the decision log must.
            await pipeline.log_rejection(refused, await uploader.confirm())
            raise refusal_of(refused.rejection) from refused
        finally:
            intake.close()


def _say_rate(response: Response, rate: RateLimit | None, fact: RateFact | None) -> None:
    """Tell a well-behaved client how much of the context's rate limit is left."""
    if rate is not None and fact is not None:
        response.headers["RateLimit-Limit"] = str(rate.max_uploads)
        response.headers["RateLimit-Remaining"] = str(fact.remaining)
        response.headers["RateLimit-Reset"] = str(math.ceil(fact.retry_after or rate.window_seconds))
