"""What every rate limiter promises, and that each engine keeps it, on its real server. A new engine is done when `Bench` has it."""

import asyncio
import secrets
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.engines.limiter import Exhausted, Taken
from sluice.engines.limiter.memory import MemoryLimiter
from sluice.kit.health import EngineState
from tests.engines.limiter.conftest import Bench

# What a server's clock may move on while the test talks to it, for tests that say beforehand how far they go
_SOON = 30.0
# SQLite's clock counts milliseconds, and clocks of two processes need not tick as one
_TICK = 0.01


@pytest.fixture
def key() -> str:
    return secrets.token_hex(8)


async def test_takes_beyond_the_limit_are_refused_until_the_window_has_passed(bench: Bench, key: str) -> None:
    began = time.monotonic()
    first = await bench.limiter.take(key, limit=1, window_seconds=100)
    await bench.advance(40)
    refused = await bench.limiter.take(key, limit=1, window_seconds=100)
    talked = time.monotonic() - began
    await bench.advance(60)
    assert isinstance(first, Taken)
    assert isinstance(refused, Exhausted)
    assert 60 - talked - _TICK < refused.retry_after <= 60
    assert isinstance(await bench.limiter.take(key, limit=1, window_seconds=100), Taken)


async def test_a_place_counts_until_its_window_is_over(bench: Bench, key: str) -> None:
    await bench.limiter.take(key, limit=1, window_seconds=100)
    await bench.advance(100 - _SOON)
    assert isinstance(await bench.limiter.take(key, limit=1, window_seconds=100), Exhausted)


async def test_as_many_as_the_limit_get_in_at_once_and_no_more(bench: Bench, key: str) -> None:
    answers = await asyncio.gather(*(bench.limiter.take(key, limit=7, window_seconds=100) for _ in range(50)))
    taken = [answer for answer in answers if isinstance(answer, Taken)]
    assert sorted(answer.remaining for answer in taken) == list(range(7))
    assert len({answer.token for answer in taken}) == 7


async def test_a_place_given_back_can_be_taken_again_once(bench: Bench, key: str) -> None:
    taken = await bench.limiter.take(key, limit=1, window_seconds=100)
    assert isinstance(taken, Taken)
    await bench.limiter.give_back(taken, window_seconds=100)
    await bench.limiter.give_back(taken, window_seconds=100)
    assert isinstance(await bench.limiter.take(key, limit=1, window_seconds=100), Taken)
    assert isinstance(await bench.limiter.take(key, limit=1, window_seconds=100), Exhausted)


async def test_keys_do_not_share_a_window(bench: Bench, key: str) -> None:
    await bench.limiter.take(key, limit=1, window_seconds=100)
    assert isinstance(await bench.limiter.take(f"{key} b", limit=1, window_seconds=100), Taken)


async def test_a_lowered_limit_counts_what_was_taken_before(bench: Bench, key: str) -> None:
    for _ in range(3):
        began = time.monotonic()
        await bench.limiter.take(key, limit=3, window_seconds=100)
        await bench.advance(10)
    refused = await bench.limiter.take(key, limit=1, window_seconds=100)
    assert isinstance(refused, Exhausted)
    assert 90 - (time.monotonic() - began) - _TICK < refused.retry_after <= 90


async def test_a_refused_take_does_not_push_the_window_ahead(bench: Bench, key: str) -> None:
    await bench.limiter.take(key, limit=1, window_seconds=100)
    for _ in range(5):
        await bench.advance((100 - _SOON) / 5)
        assert isinstance(await bench.limiter.take(key, limit=1, window_seconds=100), Exhausted)
    await bench.advance(_SOON)
    assert isinstance(await bench.limiter.take(key, limit=1, window_seconds=100), Taken)


@given(
    steps=st.lists(st.one_of(st.just(0.0), st.floats(0, 50)), max_size=25),
    limit=st.integers(1, 5),
    window=st.integers(10, 100),
)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_no_window_ever_holds_more_than_the_limit_and_none_refuses_without_need(
    bench: Bench, steps: list[float], limit: int, window: int
) -> None:
    """The moments are those of the engine's own clock, moved on by what the test let pass."""
    key, passed = secrets.token_hex(8), 0.0
    moments: list[float] = []
    for step in steps:
        await bench.advance(step)
        passed += 0.0 if bench.name == "memory" else step
        answer = await bench.limiter.take(key, limit=limit, window_seconds=window)
        if isinstance(answer, Taken):
            moments.append(answer.at + passed)
        else:
            assert len(moments) >= limit
            assert 0 < answer.retry_after <= window
    # half a millisecond: the database keeps whole microseconds, SQLite's clock whole milliseconds
    assert all(later - earlier > window - 0.001 for earlier, later in zip(moments, moments[limit:], strict=False))


async def test_a_limiter_that_answers_is_up(bench: Bench) -> None:
    health = await bench.limiter.health()
    assert (health.kind, health.state) == ("limiter", EngineState.UP)


async def test_closing_twice_is_closing_once(bench: Bench) -> None:
    await bench.limiter.aclose()
    await bench.limiter.aclose()


async def test_the_memory_of_idle_keys_is_bounded() -> None:
    limiter = MemoryLimiter(most_keys=10)
    for number in range(100):
        await limiter.take(str(number), limit=1, window_seconds=1)
    assert len(limiter._takes) == 10
