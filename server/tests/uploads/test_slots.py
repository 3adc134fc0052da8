"""`UploadSlots`: the slots of one tenant, and how slow uploads shrink the share of a busy one."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from sluice.errors import TooManyRequests
from sluice.uploads import slots as limits
from sluice.uploads.slots import NoQuestionFree, UploadSlots


async def test_a_tenant_without_a_free_slot_waits_for_one() -> None:
    slots = UploadSlots(1, wait_seconds=5)
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


async def refused_slot(slots: UploadSlots, tenant: str, **options: str) -> TooManyRequests:
    """Assert that the tenant gets no slot, and return why."""
    with pytest.raises(TooManyRequests) as refused:
        async with slots.hold(tenant, **options):
            pytest.fail("one upload too many")
    return refused.value


async def test_an_upload_token_takes_a_few_slots_of_its_tenant_only() -> None:
    slots = UploadSlots(64, wait_seconds=0.01)
    async with AsyncExitStack() as held:
        for _ in range(8):
            await held.enter_async_context(slots.hold("a", token_id="t"))
        assert (await refused_slot(slots, "a", token_id="t")).limit == 8
        async with slots.hold("a", token_id="another"), slots.hold("a"):
            pass
    async with slots.hold("a", token_id="t"):
        pass


async def test_a_token_leaves_checkers_to_other_senders_of_its_tenant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_INSPECTED_PER_TOKEN", 1)
    slots, inspected = UploadSlots(64, wait_seconds=5), list[str]()

    async def inspect(name: str, token_id: str | None) -> None:
        async with slots.hold_inspection(token_id):
            inspected.append(name)

    async with slots.hold_inspection("t"):
        second = asyncio.create_task(inspect("second", "t"))
        await asyncio.gather(inspect("of another token", "u"), inspect("of a key", None))
        assert not second.done()
    await second
    assert inspected == ["of another token", "of a key", "second"]


async def test_the_wait_for_others_of_a_token_does_not_make_its_tenant_look_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "_INSPECTED_PER_TOKEN", 1)
    tenant = _BusyTenant()

    async def upload() -> None:
        with tenant.slots.learning("context", 1):
            async with tenant.slots.hold_inspection("t"):
                pass

    await upload()
    async with tenant.slots.hold_inspection("t"):
        waiting = asyncio.create_task(upload())
        await asyncio.sleep(0)
        tenant.now += 60
    await waiting
    assert not tenant.slots._durations.are_crowded()


async def test_an_upload_of_a_token_that_is_refused_a_slot_of_its_tenant_leaves_none_behind() -> None:
    slots = UploadSlots(1, wait_seconds=0.01)
    async with slots.hold("a"):
        for _ in range(9):
            await refused_slot(slots, "a", token_id="t")
    async with slots.hold("a", token_id="t"):
        pass


async def test_a_tenant_is_refused_when_its_line_or_wait_is_too_long_and_another_does_not_wait() -> None:
    slots = UploadSlots(2, wait_seconds=60)
    async with AsyncExitStack() as holding, slots.hold("a"), slots.hold("a"):
        waiting = [asyncio.create_task(holding.enter_async_context(slots.hold("a"))) for _ in range(8)]
        await asyncio.sleep(0)
        async with asyncio.timeout(5), slots.hold("b"):
            assert (await refused_slot(slots, "a")).retry_after
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
    slots = UploadSlots(1, wait_seconds=0.01)
    async with slots.hold("a"), slots.hold("b"):
        await refused_slot(slots, "a")
    assert not slots._queue.held


class _BusyTenant:
    """A tenant of forty slots; a test sets how long a small upload takes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slots = UploadSlots(40, wait_seconds=5, monotonic=lambda: self.now)
        self.busy, self.quiet = AsyncExitStack(), AsyncExitStack()

    def take(self, seconds: float, context_id: str = "ctx") -> None:
        with self.slots.learning(context_id, 1000):
            self.now += seconds

    async def until(self, reached: Callable[[], bool]) -> None:
        """Report slow uploads until `reached` returns true; the timeout of the test ends the loop otherwise."""
        while not reached():
            self.take(5e-6)
            await asyncio.sleep(0)


@pytest.fixture
async def busy_tenant() -> AsyncIterator[_BusyTenant]:
    """Forty uploads of the tenant `busy` and one of `quiet`."""
    one = _BusyTenant()
    async with one.busy, one.quiet:
        await one.quiet.enter_async_context(one.slots.hold("quiet"))
        for _ in range(40):
            await one.busy.enter_async_context(one.slots.hold("busy"))
        one.take(1e-6)
        yield one


async def test_during_slow_uploads_one_busy_tenant_waits_behind_itself(busy_tenant: _BusyTenant) -> None:
    await busy_tenant.until(lambda: busy_tenant.slots.share < 40)
    one_more = asyncio.create_task(busy_tenant.busy.enter_async_context(busy_tenant.slots.hold("busy")))
    async with busy_tenant.slots.hold("quiet"):
        assert not one_more.done()
    one_more.cancel()
    await asyncio.wait([one_more])


async def test_a_waiting_upload_continues_when_the_other_tenants_finish(busy_tenant: _BusyTenant) -> None:
    await busy_tenant.until(lambda: busy_tenant.slots.share < 40)
    await busy_tenant.busy.aclose()
    more = (busy_tenant.busy.enter_async_context(busy_tenant.slots.hold("busy")) for _ in range(40))
    waiting = [asyncio.create_task(one) for one in more]
    await asyncio.sleep(0)
    assert 0 < sum(task.done() for task in waiting) < 40
    await busy_tenant.quiet.aclose()
    await asyncio.gather(*waiting)


async def test_the_share_shrinks_to_two_slots_per_core_and_grows_when_uploads_are_fast(
    busy_tenant: _BusyTenant,
) -> None:
    minimum = 2 * (os.cpu_count() or 2)
    await busy_tenant.until(lambda: busy_tenant.slots.share <= minimum)
    assert busy_tenant.slots.share == minimum
    while busy_tenant.slots.share <= minimum:
        busy_tenant.take(1e-6)
        await asyncio.sleep(0)


async def test_a_tenant_alone_is_limited_only_by_its_own_slots() -> None:
    busy_tenant = _BusyTenant()
    async with AsyncExitStack() as alone:
        busy_tenant.take(1e-6)
        for _ in range(39):
            await alone.enter_async_context(busy_tenant.slots.hold("busy"))
        await busy_tenant.until(lambda: busy_tenant.slots.share < 20)
        async with asyncio.timeout(1), busy_tenant.slots.hold("busy"):
            pass


async def test_cancellation_at_the_moment_of_a_grant_leaks_no_slot() -> None:
    slots = UploadSlots(1, wait_seconds=5)
    async with AsyncExitStack() as holding:
        await holding.enter_async_context(slots.hold("a"))
        waiting = [asyncio.create_task(holding.enter_async_context(slots.hold("a"))) for _ in range(2)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await holding.aclose()
        await asyncio.wait(waiting)
    assert [task.cancelled() for task in waiting] == [True, True]
    assert not slots._queue.held


async def test_slow_uploads_into_another_context_do_not_shrink_the_share(busy_tenant: _BusyTenant) -> None:
    for _ in range(200):
        busy_tenant.take(1e-3, "another")
        await asyncio.sleep(0.001)
    assert busy_tenant.slots.share == 40


async def test_questions_of_one_tenant_delay_no_other_and_those_without_a_place_in_time_are_refused() -> None:
    slots = UploadSlots(64, wait_seconds=0.01)
    async with AsyncExitStack() as held:
        for _ in range(16):
            await held.enter_async_context(slots.hold_question("a"))
        with pytest.raises(NoQuestionFree):
            async with slots.hold_question("a"):
                pytest.fail("one question too many")
        async with slots.hold_question("b"):
            pass
    async with slots.hold_question("a"):
        pass
