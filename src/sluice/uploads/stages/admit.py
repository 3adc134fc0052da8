"""Admission: the rate limit's place, the plan's count, the quota's use. Looks at no content and decides nothing."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sluice.access import Principal
from sluice.contexts import Context
from sluice.db.database import Database
from sluice.engines.limiter import Limiter, LimiterAway, Taken
from sluice.errors import NotFound, Unavailable
from sluice.uploads import repository
from sluice.uploads.values import Facts, PlanFact, RateFact


@dataclass(frozen=True, slots=True)
class Admission:
    """The facts so far, and the claimed place in the rate limit, to be given back when the service itself fails."""

    facts: Facts
    taken: Taken | None


async def take_place(facts: Facts, context: Context, limiter: Limiter) -> Admission:
    """Claim a place in the context's rate limit, if it has one; raises `Unavailable` when nobody can tell whether there is one."""
    rate = context.upload_rate_limit
    if rate is None:
        return Admission(facts, None)
    try:
        answer = await limiter.take(context.context_id, limit=rate.max_uploads, window_seconds=rate.window_seconds)
    except LimiterAway as fault:
        raise Unavailable("rate limiter") from fault
    if isinstance(answer, Taken):
        return Admission(replace(facts, rate=RateFact(answer.remaining, None)), answer)
    return Admission(replace(facts, rate=RateFact(0, answer.retry_after)), None)


async def look_at_allowances(
    facts: Facts, principal: Principal, context: Context, database: Database, *, free_limit: int, now: datetime
) -> Facts:
    """Look at the plan's count and the quota's use. Both are claimed later, at once with the file's row; raises `NotFound`."""
    async with database.reading() as connection:
        found = await repository.allowances(connection, principal.tenant_id, context.context_id, month_of(now))
    if found is None:
        raise NotFound
    counts = found.plan == "free" and not principal.is_test
    return replace(
        facts,
        plan=PlanFact(found.uploads or 0, free_limit, seconds_to_next_month(now)) if counts else None,
        quota_used_bytes=found.storage_used_bytes,
    )


def month_of(now: datetime) -> str:
    """Answer the calendar month in UTC, as `2026-01`."""
    return f"{now.astimezone(UTC):%Y-%m}"


def seconds_to_next_month(now: datetime) -> float:
    """Answer the time until the next calendar month in UTC begins."""
    at = now.astimezone(UTC)
    following = datetime(at.year + at.month // 12, at.month % 12 + 1, 1, tzinfo=UTC)
    return (following - at).total_seconds()
