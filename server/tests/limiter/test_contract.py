"""The contract of rate limiters, on real servers. A new limiter is added to `ENGINES` and must pass this file."""

import asyncio
import secrets
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.kit.health import EngineState
from sluice.limiter import Exhausted, Taken
from sluice.limiter.memory import MemoryLimiter
from tests.limiter.conftest import LimiterHarness

# How much time a test may take while the clock of a server runs
_MAX_TEST_SECONDS = 30.0
# SQLite counts milliseconds, and the clocks of two processes may differ a little
_CLOCK_ERROR = 0.01


@pytest.fixture
def key() -> str:
    return secrets.token_hex(8)


async def test_takes_over_limit_are_refused_until_window_has_passed(harness: LimiterHarness, key: str) -> None:
    began = time.monotonic()
    assert isinstance(await harness.limiter.take(key, limit=1, window_seconds=100), Taken)
    await harness.advance(40)
    refused = await harness.limiter.take(key, limit=1, window_seconds=100)
    elapsed = time.monotonic() - began
    assert isinstance(refused, Exhausted)
    assert 60 - elapsed - _CLOCK_ERROR < refused.retry_after <= 60
    assert isinstance(await harness.limiter.take(f"{key} b", limit=1, window_seconds=100), Taken)  # another key
    await harness.advance(60)
    assert isinstance(await harness.limiter.take(key, limit=1, window_seconds=100), Taken)


async def test_concurrent_takes_never_exceed_limit(harness: LimiterHarness, key: str) -> None:
    results = await asyncio.gather(*(harness.limiter.take(key, limit=7, window_seconds=100) for _ in range(50)))
    taken = [result for result in results if isinstance(result, Taken)]
    assert sorted(result.remaining for result in taken) == list(range(7))
    assert len({result.token for result in taken}) == 7


async def test_returned_take_can_be_taken_again_once(harness: LimiterHarness, key: str) -> None:
    taken = await harness.limiter.take(key, limit=1, window_seconds=100)
    assert isinstance(taken, Taken)
    await harness.limiter.give_back(taken, window_seconds=100)
    await harness.limiter.give_back(taken, window_seconds=100)
    assert isinstance(await harness.limiter.take(key, limit=1, window_seconds=100), Taken)
    assert isinstance(await harness.limiter.take(key, limit=1, window_seconds=100), Exhausted)


async def test_lowered_limit_counts_earlier_takes(harness: LimiterHarness, key: str) -> None:
    for _ in range(3):
        began = time.monotonic()
        await harness.limiter.take(key, limit=3, window_seconds=100)
        await harness.advance(10)
    refused = await harness.limiter.take(key, limit=1, window_seconds=100)
    assert isinstance(refused, Exhausted)
    assert 90 - (time.monotonic() - began) - _CLOCK_ERROR < refused.retry_after <= 90


async def test_refused_take_does_not_extend_the_window(harness: LimiterHarness, key: str) -> None:
    await harness.limiter.take(key, limit=1, window_seconds=100)
    for _ in range(5):
        await harness.advance((100 - _MAX_TEST_SECONDS) / 5)
        assert isinstance(await harness.limiter.take(key, limit=1, window_seconds=100), Exhausted)
    await harness.advance(_MAX_TEST_SECONDS)
    assert isinstance(await harness.limiter.take(key, limit=1, window_seconds=100), Taken)


STEPS = st.lists(st.one_of(st.just(0.0), st.floats(0, 50)), max_size=25)


@given(steps=STEPS, limit=st.integers(1, 5), window=st.integers(10, 100))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_window_never_exceeds_limit_and_never_refuses_early(
    harness: LimiterHarness, steps: list[float], limit: int, window: int
) -> None:
    """The moments are those of the clock of the engine, plus the time that the test advanced."""
    key, passed = secrets.token_hex(8), 0.0
    moments: list[float] = []
    for step in steps:
        await harness.advance(step)
        passed += 0.0 if harness.name == "memory" else step
        result = await harness.limiter.take(key, limit=limit, window_seconds=window)
        if isinstance(result, Taken):
            moments.append(result.at + passed)
        else:
            assert len(moments) >= limit
            assert 0 < result.retry_after <= window
    # a tolerance of a millisecond: the database keeps whole microseconds, SQLite whole milliseconds
    assert all(later - earlier > window - 0.001 for earlier, later in zip(moments, moments[limit:], strict=False))


async def test_retry_after_never_rounds_to_more_than_the_window() -> None:
    limiter = MemoryLimiter(lambda: 16.545302415722542)
    await limiter.take("k", limit=1, window_seconds=29)
    result = await limiter.take("k", limit=1, window_seconds=29)
    assert isinstance(result, Exhausted)
    assert result.retry_after == 29


async def test_working_limiter_reports_up_and_is_closed_twice(harness: LimiterHarness) -> None:
    health = await harness.limiter.health()
    assert (health.kind, health.state) == ("limiter", EngineState.UP)
    for _ in range(2):
        await harness.limiter.aclose()


async def test_memory_of_idle_keys_is_bounded() -> None:
    limiter = MemoryLimiter(max_keys=10)
    for number in range(100):
        await limiter.take(str(number), limit=1, window_seconds=1)
    assert len(limiter._takes) == 10
