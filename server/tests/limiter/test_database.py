"""The database limiter: it deletes expired takes."""

from sqlalchemy import text

from sluice.db.rls import ALL_TENANTS
from sluice.limiter import ForgetsIdle
from sluice.limiter.database import DatabaseLimiter
from tests.limiter.conftest import LimiterHarness


async def test_forget_idle_deletes_only_expired_takes(shared_harness: LimiterHarness) -> None:
    if not isinstance(shared_harness.limiter, ForgetsIdle):
        return
    await shared_harness.limiter.take("idle", limit=5, window_seconds=10)
    await shared_harness.advance(3601)
    await shared_harness.limiter.take("busy", limit=5, window_seconds=3600)
    await shared_harness.limiter.forget_idle()
    assert isinstance(shared_harness.limiter, DatabaseLimiter)
    async with shared_harness.limiter._database.reading(ALL_TENANTS) as connection:
        assert (await connection.execute(text("SELECT key FROM rate_takes"))).scalars().all() == ["busy"]
