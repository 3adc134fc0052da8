"""Places in rate limits: of a context for uploads, of a tenant for dry runs."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sluice.contexts import Context
from sluice.errors import FileRejected, LimitExceeded, ServiceUnavailable, TooManyRequests
from sluice.limiter import Exhausted, Limiter, LimiterUnavailable, Taken
from sluice.observe.stages import staged
from sluice.uploads.values import RateFact


@asynccontextmanager
async def hold_place(limiter: Limiter, context: Context) -> AsyncIterator[RateFact | None]:
    """Hold a place in the context's rate limit. A verdict keeps it; a failure of the service, and a verdict that was
    given before, give it back.
    """
    rate = context.upload_rate_limit
    if rate is None:
        yield None
        return
    place = await _take(limiter, context.context_id, rate.max_uploads, rate.window_seconds)
    if not isinstance(place, Taken):
        yield RateFact(0, place.retry_after)
        return
    try:
        yield RateFact(place.remaining, None)
    except BaseException as fault:
        if isinstance(fault, FileRejected | LimitExceeded) and not fault.is_replayed:
            raise
        await limiter.give_back(place, window_seconds=rate.window_seconds)
        raise


async def take_validation(limiter: Limiter, tenant_id: str, most_per_minute: int) -> None:
    """Count a dry run of a tenant; raise `TooManyRequests` if there were too many in the last minute."""
    key = hashlib.sha256(f"validate:{tenant_id}".encode()).hexdigest()  # the length that every limiter takes
    place = await _take(limiter, key, most_per_minute, 60)
    if not isinstance(place, Taken):
        problem = f"At most {most_per_minute} files a minute can be validated"
        raise TooManyRequests(errors=[problem], retry_after=place.retry_after, limit=most_per_minute)


@staged("rate")
async def _take(limiter: Limiter, key: str, limit: int, window_seconds: int) -> Taken | Exhausted:
    try:
        return await limiter.take(key, limit=limit, window_seconds=window_seconds)
    except LimiterUnavailable as fault:
        raise ServiceUnavailable("rate limiter") from fault
