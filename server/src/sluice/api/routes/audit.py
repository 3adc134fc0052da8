"""The endpoint of the audit log. `access.AUDITED_ROUTES` lists what is in it."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from sluice import errors
from sluice.api.documented import SCOPED, responses
from sluice.api.parameters import REFUSES_UNKNOWN, Caller, PageParameters, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.envelope import PagedEnvelope, ResponseBody, is_none, pagination_of

router = APIRouter(prefix="/api/v1/audit", tags=["Audit trail"], route_class=GuardedRoute)


class AuditItem(ResponseBody):
    """One entry of the audit trail."""

    event_id: str = Field(description="Identifier of the entry; later entries sort after earlier ones.")
    action: str = Field(description="What was done, as `<noun>.<verb>`.", examples=["api_key.created"])
    target: str | None = Field(description="The id that it was done to, null where a refused request named none.")
    actor_id: str = Field(description="API key ID or user ID.")
    actor_name: str = Field(description="Name of that key or user, as it was then.")
    via: Literal["api_key", "jwt", "command", "console", "worker"] = Field(
        description="How the actor came in; `worker`: the service did it by itself."
    )
    outcome: Literal["done", "refused"] = Field(description="Whether it was done, or refused for want of a scope.")
    error: str | None = Field(description="Code of the refusal, null when it was done.")
    request_id: str | None = Field(description="`Request-Id` of the request.")
    created_at: datetime = Field(description="When.")
    reason: str | None = Field(
        None, exclude_if=is_none, description="Why, in the words of the actor: of holds and reviews."
    )


@router.get("", responses=responses(*SCOPED, errors.Invalid), dependencies=[REFUSES_UNKNOWN])
async def list_audit_events(
    principal: Caller,
    services: Services,
    request: PageParameters,
    actor: Annotated[str | None, Query(description="Only what this API key ID or user ID did.")] = None,
    action: Annotated[str | None, Query(description="Only this action, such as `api_key.created`.")] = None,
) -> PagedEnvelope[AuditItem]:
    """List who did what to the tenant's things, newest first. Uploads are in the list of files."""
    page = await services.audit.list_page(principal.tenant_id, actor, action, request)
    items = [AuditItem.model_validate(event) for event in page.items]
    return PagedEnvelope(message="Audit trail listed", data=items, pagination=pagination_of(page))
