"""File context endpoints."""

import time
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request

from sluice import errors
from sluice.access import Principal, Scope
from sluice.api.documented import BODY, READING, SCOPED, responses, with_headers
from sluice.api.parameters import WARNS_OF_UNKNOWN, ByCaller, Caller, PageParameters, Services
from sluice.api.route import GuardedRoute, authorize
from sluice.api.routes.upload import read_example
from sluice.api.schemas.contexts import ContextItem, ContextOut, CreateContext, ExternalCheckOut, UpdateContext
from sluice.api.schemas.envelope import Envelope, PagedEnvelope, pagination_of
from sluice.api.schemas.examples import EXAMPLE_BODY, ExampleAdded, ExamplesOut
from sluice.api.schemas.holds import ContextHold, SetHold
from sluice.api.schemas.replays import ReplayOut, ReplayRequest
from sluice.kit.clock import utc_now
from sluice.kit.read_through_cache import Cached
from sluice.uploads.values import Rules

router = APIRouter(prefix="/api/v1/contexts", tags=["File contexts"], route_class=GuardedRoute)


@router.post("", status_code=201, responses=responses(*SCOPED, *BODY, errors.ContextExists, errors.BucketInactive))
async def create_context(body: CreateContext, by: ByCaller, services: Services) -> Envelope[ContextOut]:
    """Create a context: a named set of rules that files are uploaded into."""
    context = await services.contexts.create(by, body.draft())
    return Envelope(message="Context created", data=ContextOut.of(context))


@router.get(
    "",
    responses=with_headers(responses(*READING, errors.Invalid), "Warning"),
    dependencies=[WARNS_OF_UNKNOWN],
)
async def list_contexts(
    principal: Caller,
    services: Services,
    request: PageParameters,
    status: Annotated[Literal["active", "inactive"] | None, Query(description="Only contexts in this state.")] = None,
) -> PagedEnvelope[ContextItem]:
    """List the tenant's contexts, newest first; with a key that is limited to some, those."""
    page = await services.contexts.list_page(principal.tenant_id, status, request, only=principal.limits.contexts)
    items = [ContextItem.model_validate(context) for context in page.items]
    return PagedEnvelope(message="Contexts listed", data=items, pagination=pagination_of(page))


@router.get("/{context_key}", responses=responses(*READING, errors.NotFound))
async def get_context(context_key: str, principal: Caller, services: Services) -> Envelope[ContextOut]:
    """Read one context."""
    context = await services.contexts.get(principal.tenant_id, context_key)
    shown = ContextOut.of(context, to_admin=principal.allows(Scope.ADMIN))
    return Envelope(message="Context found", data=shown)


@router.patch("/{context_key}", responses=responses(*SCOPED, *BODY, errors.NotFound, errors.BucketInactive))
async def update_context(
    context_key: str, body: UpdateContext, by: ByCaller, services: Services
) -> Envelope[ContextOut]:
    """Change fields of a context; those not sent stay as they are."""
    context = await services.contexts.change(by, context_key, body.changes())
    return Envelope(message="Context updated", data=ContextOut.of(context))


@router.post("/{context_key}/external-checks/{check_name}/rotate-secret", responses=responses(*SCOPED, errors.NotFound))
async def rotate_check_secret(
    context_key: str, check_name: str, by: ByCaller, services: Services
) -> Envelope[ExternalCheckOut]:
    """Give an external check a new secret. For 24 hours questions are signed with the old one too."""
    check = await services.contexts.rotate_check_secret(by, context_key, check_name)
    return Envelope(message="Secret of the external check rotated", data=ExternalCheckOut.model_validate(check))


@router.get("/{context_key}/examples", responses=responses(*SCOPED, errors.NotFound))
async def list_examples(context_key: str, principal: Caller, services: Services) -> Envelope[ExamplesOut]:
    """List the examples of the documents that a context expects, and what they have in common.

    Its policy `document_kind` compares files with them.
    """
    found = await services.examples.list(principal.tenant_id, context_key)
    return Envelope(message="Examples listed", data=ExamplesOut.of(found))


@router.post(
    "/{context_key}/examples",
    status_code=201,
    openapi_extra=EXAMPLE_BODY,
    responses=responses(
        *SCOPED,
        *BODY,
        errors.FileRejected,
        errors.ContextInactive,
        errors.BodyStalled,
        errors.NotFound,
        errors.SpoolBusy,
    ),
)
async def add_example(context_key: str, request: Request, by: ByCaller, services: Services) -> Envelope[ExampleAdded]:
    """Add an example of the documents that a context expects, of at most 30.

    The file is checked as an upload is, and read; its words are kept as numbers, and the file itself is not. What the
    context does not accept, and what has no text, is no example. The rules of the context get a new version.
    """

    async def read_again(since: float) -> Cached[Principal]:
        return await authorize(request, Scope.ADMIN, since=since, again=True)

    draft = await read_example(request, Cached(by.principal, time.monotonic()), read_again, context_key)
    example, found = await services.examples.add(by, context_key, draft)
    return Envelope(message="Example added", data=ExampleAdded.of_added(example, found))


@router.delete("/{context_key}/examples/{example_id}", responses=responses(*SCOPED, errors.NotFound))
async def remove_example(context_key: str, example_id: str, by: ByCaller, services: Services) -> Envelope[ExamplesOut]:
    """Remove an example, and all that was kept of it; show those that are left."""
    found = await services.examples.remove(by, context_key, example_id)
    return Envelope(message="Example removed", data=ExamplesOut.of(found))


@router.put("/{context_key}/hold", responses=responses(*SCOPED, *BODY, errors.NotFound))
async def hold_context(context_key: str, body: SetHold, by: ByCaller, services: Services) -> Envelope[ContextHold]:
    """Put a legal hold on all files of a context, those to come too, or change the reason of its hold."""
    await services.files.hold_context(by, context_key, body.reason)
    return Envelope(message="Context held", data=ContextHold(context_key=context_key, held=True))


@router.delete("/{context_key}/hold", responses=responses(*SCOPED, errors.NotFound))
async def end_context_hold(context_key: str, by: ByCaller, services: Services) -> Envelope[ContextHold]:
    """End the legal hold on a context. Holds of single files stay."""
    await services.files.unhold_context(by, context_key)
    return Envelope(message="Context hold ended", data=ContextHold(context_key=context_key, held=False))


@router.post("/{context_key}/replay", responses=responses(*SCOPED, *BODY, errors.NotFound))
async def replay_change(
    context_key: str, body: ReplayRequest, principal: Caller, services: Services
) -> Envelope[ReplayOut]:
    """Show what a change of the rules would have done to earlier uploads. Nothing is changed.

    Their stored facts are judged again, without their bytes. Plan and quota are judged by what was used of them at the
    time of each upload. At most 200,000 uploads are judged, the newest. A tenant has one replay at a time.
    """
    context = await services.contexts.with_changes(principal.tenant_id, context_key, body.changes.changes())
    now = utc_now()
    since = body.since
    replay, truncated = await services.reports.replay(
        principal.tenant_id, context.context_key, Rules.of(context), since=since, until=now
    )
    return Envelope(
        message="Change replayed; nothing was changed", data=ReplayOut.of(replay, since, truncated=truncated)
    )
