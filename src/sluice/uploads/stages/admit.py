"""Admission: the rate limit's place, the plan's count, the quota's use. Looks at no content and decides nothing."""

from dataclasses import dataclass, replace

from sluice.access import Principal
from sluice.contexts import Context
from sluice.engines.limiter import Limiter, LimiterAway, Taken
from sluice.errors import Unavailable
from sluice.observe.stages import staged
from sluice.uploads.months import seconds_to_next_month
from sluice.uploads.values import Facts, Look, PlanFact, RateFact


@dataclass(frozen=True, slots=True)
class Admission:
    """The facts so far, and the claimed place in the rate limit, to be given back when the service itself fails."""

    facts: Facts
    taken: Taken | None


@staged("rate")
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


def allowances(facts: Facts, principal: Principal, look: Look, *, free_limit: int) -> Facts:
    """Answer the facts with the plan's count and the quota's use as they were seen. Both are claimed later, with the file's row."""
    counts = look.plan == "free" and not principal.is_test
    return replace(
        facts,
        plan=PlanFact(look.plan_uploads, free_limit, seconds_to_next_month(look.present)) if counts else None,
        quota_used_bytes=look.context.storage_used_bytes,
    )
