"""What every rate limiter promises, and that each engine keeps it."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.engines.limiter import Exhausted, Limiter, Taken
from sluice.engines.limiter.memory import MemoryLimiter


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


Make = Callable[[Clock], Limiter]
ENGINES: list[Make] = [MemoryLimiter]
each_engine = pytest.mark.parametrize("make", ENGINES)


@each_engine
async def test_takes_beyond_the_limit_are_refused_until_the_window_has_passed(make: Make) -> None:
    clock = Clock()
    limiter = make(clock)
    first = await limiter.take("k", limit=1, window_seconds=10)
    clock.now += 4
    refused = await limiter.take("k", limit=1, window_seconds=10)
    clock.now += 6
    assert isinstance(first, Taken)
    assert refused == Exhausted(6.0)
    assert isinstance(await limiter.take("k", limit=1, window_seconds=10), Taken)


@each_engine
async def test_as_many_as_the_limit_get_in_at_once_and_no_more(make: Make) -> None:
    limiter = make(Clock())
    answers = await asyncio.gather(*(limiter.take("k", limit=7, window_seconds=1) for _ in range(50)))
    assert sum(isinstance(answer, Taken) for answer in answers) == 7


@each_engine
async def test_a_place_given_back_can_be_taken_again_once(make: Make) -> None:
    limiter = make(Clock())
    taken = await limiter.take("k", limit=1, window_seconds=9)
    assert isinstance(taken, Taken)
    await limiter.give_back(taken, window_seconds=9)
    await limiter.give_back(taken, window_seconds=9)
    assert isinstance(await limiter.take("k", limit=1, window_seconds=9), Taken)
    assert isinstance(await limiter.take("k", limit=1, window_seconds=9), Exhausted)


@each_engine
async def test_keys_do_not_share_a_window(make: Make) -> None:
    limiter = make(Clock())
    await limiter.take("a", limit=1, window_seconds=9)
    assert isinstance(await limiter.take("b", limit=1, window_seconds=9), Taken)


@each_engine
async def test_a_lowered_limit_counts_what_was_taken_before(make: Make) -> None:
    clock = Clock()
    limiter = make(clock)
    for _ in range(3):
        await limiter.take("k", limit=3, window_seconds=10)
        clock.now += 1
    refused = await limiter.take("k", limit=1, window_seconds=10)
    assert refused == Exhausted(9.0)


@each_engine
@given(steps=st.lists(st.floats(0, 5), max_size=60), limit=st.integers(1, 5), window=st.integers(1, 10))
async def test_no_window_ever_holds_more_than_the_limit(make: Make, steps: list[float], limit: int, window: int) -> None:
    clock = Clock()
    limiter = make(clock)
    moments: list[float] = []
    for step in steps:
        clock.now += step
        if isinstance(await limiter.take("k", limit=limit, window_seconds=window), Taken):
            moments.append(clock.now)
    assert all(sum(start <= moment < start + window for moment in moments) <= limit for start in moments)


async def test_the_memory_of_idle_keys_is_bounded() -> None:
    limiter = MemoryLimiter(most_keys=10)
    for number in range(100):
        await limiter.take(str(number), limit=1, window_seconds=1)
    assert len(limiter._takes) == 10
