"""`FairQueue`: capacity is never exceeded, keys take turns, and no grant is lost or leaked."""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice_inspect.sandbox.fair_queue import FairQueue


class Pool:
    """A capacity that can change; requests are amounts."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.used = 0
        self.most = 0

    def acquire(self, _: object, amount: int) -> int | None:
        if self.used + amount > self.capacity:
            return None
        self.used += amount
        self.most = max(self.most, self.used)
        return amount

    def release(self, _: object, amount: int) -> None:
        self.used -= amount


class Held:
    """One task that holds a grant until `end` is called."""

    def __init__(self, queue: FairQueue[str, Any, Any], key: str, request: Any) -> None:
        self.key = key
        self.request = request
        self._granted = False
        self._end = asyncio.Event()
        self.task = asyncio.create_task(self._run(queue))

    def is_granted(self) -> bool:
        return self._granted

    async def _run(self, queue: FairQueue[str, Any, Any]) -> None:
        async with queue.take(self.key, self.request):
            self._granted = True
            await self._end.wait()

    def end(self) -> None:
        self._end.set()


async def end_all(*held: Held) -> None:
    for each in held:
        each.end()
    await asyncio.gather(*(each.task for each in held))


async def settle() -> None:
    """Run the event loop until every task waits."""
    for _ in range(8):
        await asyncio.sleep(0)


def limited(queue_limit: Callable[[], int]) -> FairQueue[str, None, bool]:
    """Return a queue of equal requests with a common limit."""
    queue: FairQueue[str, None, bool] = FairQueue(lambda _key, _: True if queue.held_total < queue_limit() else None)
    return queue


async def served_in_order(queue: FairQueue[str, None, bool], keys: str) -> str:
    """Queue a request for each letter of `keys` behind a holder, and return the order in which they are served."""
    order: list[str] = []

    async def run(key: str) -> None:
        async with queue.take(key, None):
            order.append(key)
            await asyncio.sleep(0)

    async with queue.take("holder", None):
        tasks = [asyncio.create_task(run(key)) for key in keys]
        await settle()
        assert order == []
        assert queue.waiting == len(keys)
    await asyncio.gather(*tasks)
    return "".join(order)


async def test_keys_take_turns_regardless_of_queue_length() -> None:
    assert await served_in_order(limited(lambda: 1), "aaaaaabbc") == "abcabaaaa"


@given(st.text("abc", min_size=1, max_size=30), st.integers(1, 4))
def test_property_waiting_keys_are_served_equally_often(keys: str, limit: int) -> None:
    async def scenario() -> None:
        queue = limited(lambda: 0 if held_back else limit)
        held_back = True
        tasks = [Held(queue, key, None) for key in keys]
        await settle()
        held_back = False
        queue.refresh()
        served: Counter[str] = Counter()
        left = Counter(keys)
        while left:
            await settle()
            running = [held for held in tasks if held.is_granted()]
            assert len(running) == min(limit, left.total())
            for held in running:
                tasks.remove(held)
                held.end()
                served[held.key] += 1
                left[held.key] -= 1
            left = +left
            waiting = [served[key] for key in left]
            assert not waiting or max(waiting) - min(waiting) <= limit

    asyncio.run(scenario())


async def test_a_key_that_holds_less_is_served_first() -> None:
    limit = 2
    queue = limited(lambda: limit)
    holders = [Held(queue, "busy", None), Held(queue, "busy", None)]
    await settle()
    later = [Held(queue, "busy", None), Held(queue, "idle", None)]
    await settle()
    holders[0].end()
    await settle()
    assert [held.is_granted() for held in later] == [False, True]
    await end_all(*holders, *later)


async def test_within_a_key_requests_are_served_in_order() -> None:
    pool = Pool(10)
    queue: FairQueue[str, int, int] = FairQueue(pool.acquire, pool.release)
    first = Held(queue, "a", 5)
    await settle()
    large, small = Held(queue, "a", 8), Held(queue, "a", 1)
    await settle()
    assert not small.is_granted()
    first.end()
    await settle()
    assert (large.is_granted(), small.is_granted()) == (True, True)
    await end_all(first, large, small)


async def test_with_overtaking_a_request_that_fits_passes_one_that_does_not() -> None:
    pool = Pool(10)
    queue: FairQueue[str, int, int] = FairQueue(pool.acquire, pool.release, overtaking=True)
    first, large, waiting_small = Held(queue, "a", 5), Held(queue, "a", 8), Held(queue, "a", 6)
    await settle()
    new_small = Held(queue, "a", 1)
    await settle()
    assert [large.is_granted(), waiting_small.is_granted(), new_small.is_granted()] == [False, False, True]
    pool.capacity = 12
    queue.refresh()
    await settle()
    assert [large.is_granted(), waiting_small.is_granted()] == [False, True]
    await end_all(first, large, waiting_small, new_small)
    assert pool.used == 0


async def test_cancelling_the_first_request_lets_the_next_one_in() -> None:
    pool = Pool(10)
    queue: FairQueue[str, int, int] = FairQueue(pool.acquire, pool.release)
    first, large, small = Held(queue, "a", 5), Held(queue, "a", 8), Held(queue, "a", 3)
    await settle()
    large.task.cancel()
    await settle()
    assert small.is_granted()
    await end_all(first, small)
    assert pool.used == 0


async def test_a_grant_at_the_moment_of_cancellation_goes_to_the_next_request() -> None:
    queue = limited(lambda: 1)
    first, second, third = (Held(queue, key, None) for key in "abc")
    await settle()
    first.end()
    await asyncio.sleep(0)  # `first` ends and grants to `second`, whose task has not run yet
    assert queue.held == {"b": 1}
    second.task.cancel()
    await settle()
    assert (second.is_granted(), third.is_granted()) == (False, True)
    await end_all(third)
    assert (queue.held_total, queue.waiting) == (0, 0)


async def test_a_request_that_times_out_leaves_the_queue_and_the_timeout_does_not_limit_the_block() -> None:
    limit = 0
    queue = limited(lambda: limit)
    with pytest.raises(TimeoutError):
        async with queue.take("a", None, timeout=0):
            pytest.fail("granted")
    assert (queue.held_total, queue.waiting) == (0, 0)
    limit = 1
    async with queue.take("a", None, timeout=0):
        await settle()


async def test_capacity_that_grows_is_granted_on_refresh() -> None:
    limit = 0
    queue = limited(lambda: limit)
    waiting = [Held(queue, "a", None) for _ in range(3)]
    await settle()
    limit = 2
    queue.refresh()
    await settle()
    assert [held.is_granted() for held in waiting] == [True, True, False]
    limit = 1  # what is held stays held; nothing new is granted
    waiting[0].end()
    await settle()
    assert not waiting[2].is_granted()
    waiting[1].end()
    await settle()
    assert waiting[2].is_granted()
    await end_all(*waiting)


async def test_the_acquired_resource_is_released_again() -> None:
    free = {"clamd-1", "clamd-2"}

    def acquire(_key: str, _: None) -> str | None:
        return free.pop() if free else None

    queue: FairQueue[str, None, str] = FairQueue(acquire, lambda _key, server: free.add(server))
    async with queue.take("a", None) as one, queue.take("b", None) as other:
        assert {one, other} == {"clamd-1", "clamd-2"}
        assert not free
    assert free == {"clamd-1", "clamd-2"}


async def test_an_error_in_acquire_ends_the_wait() -> None:
    gone = False

    def acquire(_key: str, _: None) -> bool | None:
        if gone:
            raise LookupError("no server left")
        return None

    queue: FairQueue[str, None, bool] = FairQueue(acquire)
    waiting = [Held(queue, key, None) for key in "ab"]
    await settle()
    gone = True
    queue.refresh()
    results = await asyncio.gather(*(held.task for held in waiting), return_exceptions=True)
    assert [str(result) for result in results] == ["no server left"] * 2
    with pytest.raises(LookupError):
        async with queue.take("c", None):
            pytest.fail("granted")
    assert (queue.held_total, queue.waiting) == (0, 0)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.sampled_from("abc"), st.integers(1, 6)),
        st.tuples(st.just("end"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("cancel"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("capacity"), st.integers(6, 12), st.just(0)),
        st.tuples(st.just("run"), st.integers(1, 3), st.just(0)),
    ),
    max_size=60,
)


@given(steps=STEPS, overtaking=st.booleans())
def test_property_capacity_holds_and_nothing_is_lost_or_leaked(*, steps: list[Any], overtaking: bool) -> None:
    async def scenario() -> None:
        pool = Pool(10)
        queue: FairQueue[str, int, int] = FairQueue(pool.acquire, pool.release, overtaking=overtaking)
        tasks: list[Held] = []
        for step, value, amount in steps:
            if step == "take":
                tasks.append(Held(queue, value, amount))
            elif step == "capacity":
                pool.capacity = value
                queue.refresh()
            elif step == "run":
                for _ in range(value):
                    await asyncio.sleep(0)
            elif tasks:
                held = tasks[value % len(tasks)]
                held.end() if step == "end" else held.task.cancel()
            assert pool.most <= 12
        await settle()
        check_no_lost_wakeup(tasks, pool, queue, overtaking=overtaking)
        for held in tasks:
            held.end()
        async with asyncio.timeout(5):
            await asyncio.gather(*(held.task for held in tasks), return_exceptions=True)
        assert pool.used == 0
        assert (dict(queue.held), queue.held_total, queue.waiting) == ({}, 0, 0)
        assert not queue._last_served  # a leak of keys shows nowhere else

    asyncio.run(scenario())


def check_no_lost_wakeup(tasks: list[Held], pool: Pool, queue: FairQueue[str, int, int], *, overtaking: bool) -> None:
    """Assert that no request waits that could be granted."""
    waiting = [held for held in tasks if not held.is_granted() and not held.task.done()]
    assert queue.waiting == len(waiting)
    assert pool.used == sum(held.request for held in tasks if held.is_granted() and not held.task.done())
    for key in {held.key for held in waiting}:
        line = [held for held in waiting if held.key == key]
        assert all(pool.used + held.request > pool.capacity for held in (line if overtaking else line[:1]))


async def test_one_of_equal_waiting_requests_is_tried() -> None:
    tried: list[int] = []

    def acquire(_: str, amount: int) -> int | None:
        tried.append(amount)
        return pool.acquire(None, amount)

    pool = Pool(1)
    queue: FairQueue[str, int, int] = FairQueue(acquire, pool.release, overtaking=True)
    first = Held(queue, "a", 1)
    await settle()
    waiting = [Held(queue, "a", amount) for amount in (2, 2, 3, 2, 3)]
    await settle()
    tried.clear()
    queue.refresh()
    assert tried == [2, 3]
    pool.capacity = 100
    first.end()
    await settle()
    assert all(held.is_granted() for held in waiting)
    for held in waiting:
        held.end()
    await settle()
    assert (queue.waiting, queue.held_total, pool.used) == (0, 0, 0)


async def test_counts_every_waiting_request_of_a_key() -> None:
    pool = Pool(1)
    queue = FairQueue[str, int, int](pool.acquire, pool.release)
    holding = Held(queue, "a", 1)
    await settle()
    waiting = [Held(queue, key, 1) for key in ("a", "a", "a", "b")]
    await settle()
    assert [queue.waiting_of(key) for key in "abc"] == [3, 1, 0]
    await end_all(holding, *waiting)
    assert queue.waiting_of("a") == 0
