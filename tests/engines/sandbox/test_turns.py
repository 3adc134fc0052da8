"""Turns alone: order, fairness between tenants, places for small files, waiting and giving up. No process runs here."""

import asyncio

import pytest

from sluice.engines.sandbox.turns import Turn, Turns

_LONG = 30.0


def _large(tenant: str) -> Turn:
    return Turn(tenant, small=False)


def _small(tenant: str) -> Turn:
    return Turn(tenant, small=True)


async def _in_line(turns: Turns, turn: Turn, served: list[str], name: str) -> "asyncio.Task[None]":
    async def wait() -> None:
        assert await turns.take(turn, _LONG)
        served.append(name)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    return task


async def test_a_free_place_is_taken_at_once() -> None:
    turns = Turns(2, 0)
    assert await turns.take(_large("a"), 0)
    assert await turns.take(_large("a"), 0)
    assert not await turns.take(_large("a"), 0)
    assert (turns.running, turns.waiting) == (2, 0)


async def test_those_who_wait_are_served_in_order() -> None:
    turns, served = Turns(1, 0), list[str]()
    await turns.take(_large("a"), _LONG)
    tasks = [await _in_line(turns, _large("b"), served, f"b{n}") for n in range(3)]
    for task in tasks:
        turns.give(_large("a" if task is tasks[0] else "b"))
        await task
    assert served == ["b0", "b1", "b2"]


async def test_a_tenant_with_fewer_runs_under_way_comes_first() -> None:
    turns, served = Turns(2, 0), list[str]()
    await turns.take(_large("busy"), _LONG)
    await turns.take(_large("busy"), _LONG)
    late = [await _in_line(turns, _large("busy"), served, "busy"), await _in_line(turns, _large("calm"), served, "calm")]
    turns.give(_large("busy"))
    await late[1]
    assert served == ["calm"]
    turns.give(_large("busy"))
    await late[0]


async def test_a_small_file_takes_the_place_that_large_ones_may_not() -> None:
    turns = Turns(1, 1)
    await turns.take(_large("a"), _LONG)
    assert not await turns.take(_large("a"), 0)
    assert await turns.take(_small("a"), 0)
    assert not await turns.take(_small("a"), 0)


async def test_a_small_file_that_ends_does_not_let_a_second_large_one_in() -> None:
    turns, served = Turns(1, 1), list[str]()
    await turns.take(_large("a"), _LONG)
    await turns.take(_small("a"), _LONG)
    waiting = await _in_line(turns, _large("b"), served, "b")
    turns.give(_small("a"))
    await asyncio.sleep(0)
    assert served == []
    turns.give(_large("a"))
    await waiting
    assert served == ["b"]


async def test_giving_up_leaves_the_line() -> None:
    turns = Turns(1, 0)
    await turns.take(_large("a"), _LONG)
    assert not await turns.take(_large("b"), 0.01)
    assert turns.waiting == 0
    turns.give(_large("a"))
    assert turns.running == 0


async def test_a_caller_cancelled_in_line_leaves_it() -> None:
    turns, served = Turns(1, 0), list[str]()
    await turns.take(_large("a"), _LONG)
    waiting = await _in_line(turns, _large("b"), served, "b")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert turns.waiting == 0


async def test_a_caller_cancelled_just_as_its_turn_comes_gives_it_back() -> None:
    turns, served = Turns(1, 0), list[str]()
    await turns.take(_large("a"), _LONG)
    waiting = await _in_line(turns, _large("b"), served, "b")
    turns.give(_large("a"))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert turns.running == 0
