"""A budget: never more is held than there is, first come first served, and nothing is lost when somebody gives up waiting."""

import asyncio
import random

from sluice.kit.budget import Budget


async def test_never_more_is_held_than_there_is() -> None:
    budget, chance, held, most = Budget(10), random.Random(3), [0], [0]

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


async def test_a_part_larger_than_all_there_is_takes_all() -> None:
    budget = Budget(10)
    async with asyncio.timeout(5), budget.hold(1000):
        pass


async def test_a_large_part_is_not_passed_by_small_ones() -> None:
    budget, order = Budget(10), list[int]()

    async def use(part: int) -> None:
        async with budget.hold(part):
            order.append(part)

    async with budget.hold(5):
        tasks = [asyncio.create_task(use(part)) for part in (8, 1, 2)]
        await asyncio.sleep(0)
        assert order == []
    await asyncio.gather(*tasks)
    assert order == [8, 1, 2]


async def test_who_gives_up_waiting_lets_the_next_in() -> None:
    budget = Budget(10)
    async with budget.hold(5):
        large = asyncio.create_task(_held(budget, 8))
        small = asyncio.create_task(_held(budget, 3))
        await asyncio.sleep(0)
        large.cancel()
        async with asyncio.timeout(5):
            await small


async def _held(budget: Budget, part: int) -> None:
    async with budget.hold(part):
        pass
