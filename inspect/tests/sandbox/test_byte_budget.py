"""`ByteBudget`: the budget is never exceeded, requests are served in order, and a cancelled wait leaks nothing."""

import asyncio
import random

from sluice_inspect.sandbox.fair_queue import ByteBudget


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


async def test_a_cancelled_wait_lets_the_next_request_in() -> None:
    budget = ByteBudget(10)

    async def held(part: int) -> None:
        async with budget.hold(part):
            pass

    async with budget.hold(5):
        large, small = asyncio.create_task(held(8)), asyncio.create_task(held(3))
        await asyncio.sleep(0)
        large.cancel()
        async with asyncio.timeout(5):
            await small
    async with asyncio.timeout(5):
        await held(1000)  # more than the budget takes all of it


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
