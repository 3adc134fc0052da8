"""Turns of one tenant."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from sluice.errors import TooManyRequests
from sluice.uploads.slots import TenantSlots


async def test_a_tenant_beyond_its_slots_waits_until_one_falls_free() -> None:
    slots = TenantSlots(1, wait_seconds=5)
    order: list[str] = []

    async def second() -> None:
        async with slots.hold("a"):
            order.append("second")

    async with slots.hold("a"):
        waiting = asyncio.create_task(second())
        await asyncio.sleep(0)
        order.append("first")
    await waiting
    assert order == ["first", "second"]


async def test_a_wait_that_is_too_long_ends_in_429() -> None:
    slots = TenantSlots(1, wait_seconds=0.01)
    async with slots.hold("a"):
        with pytest.raises(TooManyRequests):
            async with slots.hold("a"):
                pytest.fail("two uploads in one slot")


async def test_another_tenant_does_not_wait() -> None:
    slots = TenantSlots(1, wait_seconds=0.01)
    async with slots.hold("a"), slots.hold("b"):
        pass


class _Crowd:
    """Forty uploads of the tenant `flood` and one of `quiet`, and small uploads that take as long as a test says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slots = TenantSlots(40, wait_seconds=5, monotonic=lambda: self.now)
        self.flood, self.quiet = AsyncExitStack(), AsyncExitStack()

    async def begin(self) -> None:
        await self.quiet.enter_async_context(self.slots.hold("quiet"))
        for _ in range(40):
            await self.flood.enter_async_context(self.slots.hold("flood"))
        self.take(1e-6)

    def take(self, seconds: float) -> None:
        with self.slots.learning("ctx", 1000):
            self.now += seconds

    async def until(self, reached: Callable[[], bool]) -> None:
        """Let the slots look at the time that uploads take until something is so; the test's own time limit ends what never comes."""
        while not reached():
            self.take(5e-6)
            await asyncio.sleep(0)


@pytest.fixture
async def crowd() -> AsyncIterator[_Crowd]:
    crowd = _Crowd()
    await crowd.begin()
    async with crowd.flood, crowd.quiet:
        yield crowd


async def test_while_uploads_take_long_a_flood_waits_in_its_own_line(crowd: _Crowd) -> None:
    await crowd.until(lambda: crowd.slots.share < 40)
    one_more = asyncio.create_task(crowd.flood.enter_async_context(crowd.slots.hold("flood")))
    async with crowd.slots.hold("quiet"):
        assert not one_more.done()
    one_more.cancel()
    await asyncio.wait([one_more])


async def test_who_waits_in_a_flood_goes_on_when_the_others_are_done(crowd: _Crowd) -> None:
    await crowd.until(lambda: crowd.slots.share < 40)
    await crowd.flood.aclose()
    waiting = [asyncio.create_task(crowd.flood.enter_async_context(crowd.slots.hold("flood"))) for _ in range(40)]
    await asyncio.sleep(0)
    assert 0 < sum(task.done() for task in waiting) < 40
    await crowd.quiet.aclose()
    await asyncio.gather(*waiting)


async def test_the_share_is_never_less_than_keeps_every_core_busy(crowd: _Crowd) -> None:
    least = 2 * (os.cpu_count() or 2)
    await crowd.until(lambda: crowd.slots.share <= least)
    assert crowd.slots.share == least


async def test_the_share_grows_again_when_uploads_are_quick(crowd: _Crowd) -> None:
    await crowd.until(lambda: crowd.slots.share < 40)
    shrunk = crowd.slots.share
    while crowd.slots.share <= shrunk:
        crowd.take(1e-6)
        await asyncio.sleep(0)


async def test_a_tenant_alone_is_held_back_by_its_bound_only() -> None:
    crowd = _Crowd()
    async with AsyncExitStack() as alone:
        crowd.take(1e-6)
        for _ in range(39):
            await alone.enter_async_context(crowd.slots.hold("flood"))
        await crowd.until(lambda: crowd.slots.share < 20)
        async with asyncio.timeout(1), crowd.slots.hold("flood"):
            pass


async def test_who_gives_up_at_the_moment_at_which_a_slot_falls_free_has_simply_given_up() -> None:
    slots = TenantSlots(1, wait_seconds=5)
    async with AsyncExitStack() as holding:
        await holding.enter_async_context(slots.hold("a"))
        waiting = [asyncio.create_task(holding.enter_async_context(slots.hold("a"))) for _ in range(2)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await holding.aclose()
        await asyncio.wait(waiting)
    assert [task.cancelled() for task in waiting] == [True, True]
    assert not slots._running


async def test_uploads_into_a_slow_context_are_no_crowd(crowd: _Crowd) -> None:
    for _ in range(200):
        with crowd.slots.learning("another", 1000):
            crowd.now += 1e-3
        await asyncio.sleep(0.001)
    assert crowd.slots.share == 40


async def test_nothing_is_remembered_of_tenants_that_are_done() -> None:
    slots = TenantSlots(2, wait_seconds=1)
    async with slots.hold("a"):
        pass
    assert not slots._running
