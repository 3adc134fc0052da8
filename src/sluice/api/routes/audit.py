"""The endpoint of the audit trail. What is noted in it is said in `access.AUDITED_ROUTES`, and by `api.route`."""

from typing import Annotated

from fastapi import APIRouter, Query

from sluice import errors
from sluice.api.documented import SCOPED, responses
from sluice.api.parameters import Caller, PageParameters, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.audit import AuditItem
from sluice.api.schemas.envelope import PagedEnvelope, pagination_of

router = APIRouter(prefix="/api/v1/audit", tags=["Audit trail"], route_class=GuardedRoute)


@router.get("", responses=responses(*SCOPED, errors.Invalid))
async def list_audit_events(
    principal: Caller,
    services: Services,
    request: PageParameters,
    actor: Annotated[str | None, Query(description="Only what this API key ID or user ID did.")] = None,
    action: Annotated[str | None, Query(description="Only this action, such as `api_key.created`.")] = None,
) -> PagedEnvelope[AuditItem]:
    """List who did what to the tenant's things, newest first. Uploads are in the list of files."""
    page = await services.trail.list_page(principal.tenant_id, actor, action, request)
    items = [AuditItem.model_validate(event) for event in page.items]
    return PagedEnvelope(message="Audit trail listed", data=items, pagination=pagination_of(page))
