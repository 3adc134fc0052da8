"""Usage: the sums of a period, and how much of a tenant's limits is used."""

from datetime import UTC, date, datetime, timedelta
from typing import Final

from sluice.db.database import Database
from sluice.errors import Invalid, NotFound
from sluice.usage import repository
from sluice.usage.record import Backlog, Grouping, Limit, PlanUse, UsageRow

MOST_DAYS: Final = 366


class UsageReader:
    """The usage of all tenants, one tenant at a time. `most` are the limits that are the same for every tenant."""

    def __init__(self, database: Database, *, free_uploads_per_month: int, most_endpoints: int, most_jobs: int) -> None:
        self._database = database
        self._free_uploads_per_month = free_uploads_per_month
        self._most_endpoints = most_endpoints
        self._most_jobs = most_jobs

    async def load(
        self, tenant_id: str, first: date, last: date, by: Grouping | None
    ) -> tuple[UsageRow, tuple[UsageRow, ...]]:
        """Return the sums of the days from `first` to `last`, and those of each group; raise `Invalid`."""
        if last < first:
            raise Invalid("to: expected the same day as from, or a later one")
        if (last - first).days >= MOST_DAYS:
            raise Invalid(f"from: expected at most {MOST_DAYS} days")
        days = (first.isoformat(), last.isoformat())
        async with self._database.reading(tenant_id) as connection:
            groups = () if by is None else await repository.load(connection, tenant_id, *days, by)
            (total,) = await repository.load(connection, tenant_id, *days, None)
        return total, groups

    async def plan(self, tenant_id: str) -> PlanUse:
        """Return the tenant's plan, and what is used of its limits. Raise `NotFound` if there is no such tenant."""
        async with self._database.reading(tenant_id) as connection:
            row = await repository.load_plan(connection, tenant_id)
            if row is None:
                raise NotFound
            is_free, now = row["plan"] == "free", row["now"]
            first = datetime(now.year, now.month, 1, tzinfo=UTC)
            # Only the uploads of a plan with a limit are counted as they are admitted.
            days = (first.date().isoformat(), now.date().isoformat())
            uploads: int = (
                row["uploads_per_month"]
                if is_free
                else (await repository.load(connection, tenant_id, *days, None))[0].uploads
            )
        next_month = (first + timedelta(days=32)).replace(day=1)
        limits = (
            Limit(
                "uploads_per_month",
                uploads,
                self._free_uploads_per_month if is_free else None,
                resets_at=next_month,
            ),
            Limit("storage_bytes", int(row["storage_bytes"]), None),
            Limit("webhook_endpoints", row["webhook_endpoints"], self._most_endpoints),
            Limit("active_jobs", row["active_jobs"], self._most_jobs),
        )
        return PlanUse(row["plan"], limits)

    async def backlog(self, tenant_id: str) -> Backlog:
        """Return what waits for an action in the tenant."""
        async with self._database.reading(tenant_id) as connection:
            return await repository.load_backlog(connection, tenant_id)
