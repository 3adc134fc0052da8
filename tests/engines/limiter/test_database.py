"""The limiter in the database: what it leaves there."""

from sqlalchemy import text

from sluice.db.whose import EVERYBODY
from sluice.engines.limiter import ForgetsIdle
from sluice.engines.limiter.database import DatabaseLimiter
from tests.engines.limiter.conftest import Bench


async def test_what_idle_keys_left_is_forgotten_and_what_counts_is_kept(shared: Bench) -> None:
    if not isinstance(shared.limiter, ForgetsIdle):
        return
    await shared.limiter.take("idle", limit=5, window_seconds=10)
    await shared.advance(3601)
    await shared.limiter.take("busy", limit=5, window_seconds=3600)
    await shared.limiter.forget_idle()
    assert isinstance(shared.limiter, DatabaseLimiter)
    async with shared.limiter._database.reading(EVERYBODY) as connection:
        assert (await connection.execute(text("SELECT key FROM rate_takes"))).scalars().all() == ["busy"]
