"""File context endpoints."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query

from sluice import errors
from sluice.api.documented import BODY, READING, SCOPED, responses
from sluice.api.parameters import ByCaller, Caller, PageParameters, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.contexts import ContextItem, ContextOut, CreateContext, UpdateContext
from sluice.api.schemas.envelope import Envelope, PagedEnvelope, pagination_of

router = APIRouter(prefix="/api/v1/contexts", tags=["File contexts"], route_class=GuardedRoute)


@router.post("", status_code=201, responses=responses(*SCOPED, *BODY, errors.ContextExists, errors.BucketInactive))
async def create_context(body: CreateContext, by: ByCaller, services: Services) -> Envelope[ContextOut]:
    """Create a context: a named set of rules that files are uploaded into."""
    context = await services.contexts.create(by, body.draft())
    return Envelope(message="Context created", data=ContextOut.model_validate(context))


@router.get("", responses=responses(*READING, errors.Invalid))
async def list_contexts(
    principal: Caller,
    services: Services,
    request: PageParameters,
    status: Annotated[Literal["active", "inactive"] | None, Query(description="Only contexts in this state.")] = None,
) -> PagedEnvelope[ContextItem]:
    """List the tenant's contexts, newest first."""
    page = await services.contexts.list_page(principal.tenant_id, status, request)
    items = [ContextItem.model_validate(context) for context in page.items]
    return PagedEnvelope(message="Contexts listed", data=items, pagination=pagination_of(page))


@router.get("/{context_key}", responses=responses(*READING, errors.NotFound))
async def get_context(context_key: str, principal: Caller, services: Services) -> Envelope[ContextOut]:
    """Read one context."""
    context = await services.contexts.get(principal.tenant_id, context_key)
    return Envelope(message="Context found", data=ContextOut.model_validate(context))


@router.patch("/{context_key}", responses=responses(*SCOPED, *BODY, errors.NotFound, errors.BucketInactive))
async def update_context(context_key: str, body: UpdateContext, by: ByCaller, services: Services) -> Envelope[ContextOut]:
    """Change fields of a context; those not sent stay as they are."""
    context = await services.contexts.change(by, context_key, body.changes())
    return Envelope(message="Context updated", data=ContextOut.model_validate(context))
