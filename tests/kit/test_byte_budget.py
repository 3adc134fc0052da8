"""`ByteBudget`: the budget is never exceeded, requests are served in order, and a cancelled wait leaks nothing."""

import asyncio
import random

from sluice.kit.fair_queue import ByteBudget


async def test_the_held_bytes_never_exceed_the_budget() -> None:
    budget, chance, held, most = ByteBudget(10), random.Random(3), [0], [0]

    async def use(part: int) -> None:
        async with budget.hold(part):
            held[0] += part
            most[0] = max(most[0], held[0])
            await asyncio.sleep(0)
            held[0] -= part

    tasks = [asyncio.create_task(use(chance.randint(1, 10))) for _ in range(200)]
    for number in range(12):
        await asyncio.sleep(0)
        if number % 2:
            tasks[chance.randrange(len(tasks))].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert 0 < most[0] <= 10
    async with asyncio.timeout(5), budget.hold(10):
        assert held == [0]


async def test_a_request_above_the_budget_takes_the_full_budget() -> None:
    budget = ByteBudget(10)
    async with asyncio.timeout(5), budget.hold(1000):
        pass


async def test_small_requests_do_not_overtake_a_large_one() -> None:
    budget, order = ByteBudget(10), list[int]()

    async def use(part: int) -> None:
        async with budget.hold(part):
            order.append(part)

    async with budget.hold(5):
        tasks = [asyncio.create_task(use(part)) for part in (8, 1, 2)]
        await asyncio.sleep(0)
        assert order == []
    await asyncio.gather(*tasks)
    assert order == [8, 1, 2]


async def test_a_cancelled_wait_lets_the_next_request_in() -> None:
    budget = ByteBudget(10)
    async with budget.hold(5):
        large = asyncio.create_task(_held(budget, 8))
        small = asyncio.create_task(_held(budget, 3))
        await asyncio.sleep(0)
        large.cancel()
        async with asyncio.timeout(5):
            await small


async def _held(budget: ByteBudget, part: int) -> None:
    async with budget.hold(part):
        pass
