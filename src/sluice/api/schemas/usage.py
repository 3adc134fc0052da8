"""Bodies of the endpoints of usage and plan."""

from datetime import date, datetime
from typing import Self

from pydantic import Field

from sluice.api.schemas.envelope import ResponseBody
from sluice.tenants import Plan
from sluice.usage import PlanUse, UsageRow
from sluice.usage.record import LimitName


class UsageSums(ResponseBody):
    """What happened in a time."""

    uploads: int = Field(description="Files that were stored, whatever became of them.")
    bytes_stored: int = Field(description="Their sizes together.")
    downloads: int = Field(description="Download URLs that were handed out.")
    rejections: dict[str, int] = Field(description="Uploads that were rejected, by reason code.")


class UsageGroup(UsageSums):
    """What happened on a day or in a context."""

    key: str = Field(description="The day, or the context_key.")


class UsageOut(ResponseBody):
    """What happened in a period, and in its parts."""

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
    resets_at: datetime | None = Field(description="When it begins anew; null: never.")


class PlanOut(ResponseBody):
    """The plan of the tenant."""

    plan: Plan
    limits: list[LimitOut]

    @classmethod
    def of(cls, plan: PlanUse) -> Self:
        """Return the plan as it is shown."""
        return cls(plan=plan.plan, limits=[LimitOut.model_validate(limit) for limit in plan.limits])
