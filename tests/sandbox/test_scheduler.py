"""The scheduler without processes: order, fairness between tenants, slots for small files, timeouts."""

import asyncio

import pytest

from sluice.sandbox.dispatch import RunSlot, Scheduler
from tests.rows import each_row

_LONG_TIMEOUT = 30.0


def _large(tenant: str) -> RunSlot:
    return RunSlot(tenant, small=False)


def _small(tenant: str) -> RunSlot:
    return RunSlot(tenant, small=True)


async def _enqueue(scheduler: Scheduler, slot: RunSlot, served: list[str], name: str) -> "asyncio.Task[None]":
    async def wait() -> None:
        assert await scheduler.acquire(slot, _LONG_TIMEOUT)
        served.append(name)

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    return task


async def test_free_slot_is_taken_at_once() -> None:
    scheduler = Scheduler(2, 0)
    assert await scheduler.acquire(_large("a"), 0)
    assert await scheduler.acquire(_large("a"), 0)
    assert not await scheduler.acquire(_large("a"), 0)
    assert (scheduler.running, scheduler.waiting) == (2, 0)


async def test_waiting_runs_are_served_in_order() -> None:
    scheduler, served = Scheduler(1, 0), list[str]()
    await scheduler.acquire(_large("a"), _LONG_TIMEOUT)
    tasks = [await _enqueue(scheduler, _large("b"), served, f"b{n}") for n in range(3)]
    for task in tasks:
        scheduler.release(_large("a" if task is tasks[0] else "b"))
        await task
    assert served == ["b0", "b1", "b2"]


async def test_tenant_with_fewer_running_jobs_is_served_first() -> None:
    scheduler, served = Scheduler(2, 0), list[str]()
    for _ in range(2):
        await scheduler.acquire(_large("busy"), _LONG_TIMEOUT)
    waiting = [await _enqueue(scheduler, _large(tenant), served, tenant) for tenant in ("busy", "calm")]
    scheduler.release(_large("busy"))
    await waiting[1]
    assert served == ["calm"]
    scheduler.release(_large("busy"))
    await waiting[0]


async def test_reserved_slot_is_taken_by_small_files_only() -> None:
    scheduler, served = Scheduler(1, 1), list[str]()
    await scheduler.acquire(_large("a"), _LONG_TIMEOUT)
    assert not await scheduler.acquire(_large("a"), 0)
    assert await scheduler.acquire(_small("a"), 0)
    assert not await scheduler.acquire(_small("a"), 0)
    waiting = await _enqueue(scheduler, _large("b"), served, "b")
    scheduler.release(_small("a"))
    await asyncio.sleep(0)
    assert served == []
    scheduler.release(_large("a"))
    await waiting
    assert served == ["b"]


async def test_timed_out_run_leaves_the_queue() -> None:
    scheduler = Scheduler(1, 0)
    await scheduler.acquire(_large("a"), _LONG_TIMEOUT)
    assert not await scheduler.acquire(_large("b"), 0.01)
    assert scheduler.waiting == 0
    scheduler.release(_large("a"))
    assert scheduler.running == 0


@each_row("granted", [False, True])
async def test_cancelled_run_leaves_the_queue_or_releases_its_slot(*, granted: bool) -> None:
    scheduler, served = Scheduler(1, 0), list[str]()
    await scheduler.acquire(_large("a"), _LONG_TIMEOUT)
    waiting = await _enqueue(scheduler, _large("b"), served, "b")
    if granted:
        scheduler.release(_large("a"))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (scheduler.waiting, scheduler.running) == (0, 0 if granted else 1)
