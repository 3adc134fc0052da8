"""The endpoints of usage and plan."""

from datetime import date, datetime
from typing import Annotated, Self

from fastapi import APIRouter, Query
from pydantic import Field

from sluice import errors
from sluice.api.documented import SCOPED, responses
from sluice.api.parameters import REFUSES_UNKNOWN, Caller, Day, Services
from sluice.api.route import GuardedRoute
from sluice.api.schemas.envelope import Envelope, ResponseBody
from sluice.kit.clock import utc_now
from sluice.tenants import Plan
from sluice.usage import PlanUse, UsageRow
from sluice.usage.record import Grouping, LimitName

router = APIRouter(prefix="/api/v1", tags=["Usage"], route_class=GuardedRoute)


class UsageSums(ResponseBody):
    """The usage of a time."""

    uploads: int = Field(description="Files that were stored, also those deleted later.")
    bytes_stored: int = Field(description="Their sizes together.")
    downloads: int = Field(description="Download URLs that were handed out.")
    rejections: dict[str, int] = Field(description="Uploads that were rejected, by reason code.")


class UsageGroup(UsageSums):
    """The usage of a day or a context."""

    key: str = Field(description="The day, or the context_key.")


class UsageOut(ResponseBody):
    """The usage of a period, and of its parts."""

    first_day: date
    last_day: date
    total: UsageSums
    groups: list[UsageGroup] = Field(description="By day or context as asked for, empty without `by`.")

    @classmethod
    def of(cls, first: date, last: date, total: UsageRow, groups: tuple[UsageRow, ...]) -> Self:
        """Return the usage as it is shown."""
        return cls(
            first_day=first,
            last_day=last,
            total=UsageSums.model_validate(total),
            groups=[UsageGroup.model_validate(group) for group in groups],
        )


class LimitOut(ResponseBody):
    """One limit, and what is used of it."""

    name: LimitName
    used: int
    limit: int | None = Field(description="Null: unlimited.")
    resets_at: datetime | None = Field(description="When the count is reset; null: never.")


class PlanOut(ResponseBody):
    """The plan of the tenant."""

    plan: Plan
    limits: list[LimitOut]

    @classmethod
    def of(cls, plan: PlanUse) -> Self:
        """Return the plan as it is shown."""
        return cls(plan=plan.plan, limits=[LimitOut.model_validate(limit) for limit in plan.limits])


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
