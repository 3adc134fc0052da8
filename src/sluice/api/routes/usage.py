"""The endpoints of usage and plan."""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query

from sluice import errors
from sluice.api.documented import SCOPED, responses
from sluice.api.parameters import REFUSES_UNKNOWN, Caller, Day, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.envelope import Envelope
from sluice.api.schemas.usage import PlanOut, UsageOut
from sluice.kit.clock import utc_now
from sluice.usage.record import Grouping

router = APIRouter(prefix="/api/v1", tags=["Usage"], route_class=GuardedRoute)


@router.get("/usage", responses=responses(*SCOPED, errors.Invalid), dependencies=[REFUSES_UNKNOWN])
async def get_usage(
    principal: Caller,
    services: Services,
    first: Annotated[
        Day | None, Query(alias="from", description="The first day, UTC. Default: the first of the month of `to`.")
    ] = None,
    last: Annotated[Day | None, Query(alias="to", description="The last day, UTC. Default: today.")] = None,
    by: Annotated[
        Grouping | None, Query(description="Sums of each day, or of each context, besides the total.")
    ] = None,
) -> Envelope[UsageOut]:
    """Read what was uploaded, rejected and downloaded in a period of at most 366 days."""
    until: date = last or utc_now().date()
    since: date = first or until.replace(day=1)
    total, groups = await services.usage.load(principal.tenant_id, since, until, by)
    return Envelope(message="Usage found", data=UsageOut.of(since, until, total, groups))


@router.get("/plan", responses=responses(*SCOPED, errors.Invalid), dependencies=[REFUSES_UNKNOWN])
async def get_plan(principal: Caller, services: Services) -> Envelope[PlanOut]:
    """Read the tenant's plan, its limits, and what is used of them."""
    return Envelope(message="Plan found", data=PlanOut.of(await services.usage.plan(principal.tenant_id)))
