"""The scheduler without processes: order, fairness between tenants, slots for small files, timeouts."""

import asyncio

import pytest

from sluice_inspect.sandbox.dispatch import Run, RunSlot, Scheduler
from tests.rows import each_row

_LONG_TIMEOUT = 30.0


def _large(tenant: str) -> RunSlot:
    return RunSlot(tenant, small=False)


def _small(tenant: str) -> RunSlot:
    return RunSlot(tenant, small=True)


async def _take(scheduler: Scheduler, slot: RunSlot) -> Run:
    run = await scheduler.acquire(slot, _LONG_TIMEOUT)
    assert run is not None
    return run


async def _enqueue(scheduler: Scheduler, slot: RunSlot, served: list[str], name: str) -> "asyncio.Task[Run]":
    async def wait() -> Run:
        run = await _take(scheduler, slot)
        served.append(name)
        return run

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
    run = await _take(scheduler, _large("a"))
    tasks = [await _enqueue(scheduler, _large("b"), served, f"b{n}") for n in range(3)]
    for task in tasks:
        scheduler.release(run)
        run = await task
    assert served == ["b0", "b1", "b2"]


async def test_tenant_with_fewer_running_jobs_is_served_first() -> None:
    scheduler, served = Scheduler(2, 0), list[str]()
    runs = [await _take(scheduler, _large("busy")) for _ in range(2)]
    waiting = [await _enqueue(scheduler, _large(tenant), served, tenant) for tenant in ("busy", "calm")]
    scheduler.release(runs[0])
    await waiting[1]
    assert served == ["calm"]
    scheduler.release(runs[1])
    await waiting[0]


async def test_reserved_slot_is_taken_by_small_files_only() -> None:
    scheduler, served = Scheduler(1, 1), list[str]()
    large = await _take(scheduler, _large("a"))
    assert not await scheduler.acquire(_large("a"), 0)
    small = await _take(scheduler, _small("a"))
    assert not await scheduler.acquire(_small("a"), 0)
    waiting = await _enqueue(scheduler, _large("b"), served, "b")
    scheduler.release(small)
    await asyncio.sleep(0)
    assert served == []
    scheduler.release(large)
    await waiting
    assert served == ["b"]


async def test_timed_out_run_leaves_the_queue() -> None:
    scheduler = Scheduler(1, 0)
    run = await _take(scheduler, _large("a"))
    assert not await scheduler.acquire(_large("b"), 0.01)
    assert scheduler.waiting == 0
    scheduler.release(run)
    assert scheduler.running == 0


@each_row("granted", [False, True])
async def test_cancelled_run_leaves_the_queue_or_releases_its_slot(*, granted: bool) -> None:
    scheduler, served = Scheduler(1, 0), list[str]()
    run = await _take(scheduler, _large("a"))
    waiting = await _enqueue(scheduler, _large("b"), served, "b")
    if granted:
        scheduler.release(run)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert (scheduler.waiting, scheduler.running) == (0, 0 if granted else 1)


async def test_long_run_leaves_its_slot_to_another_and_to_no_more_than_there_are_slots() -> None:
    scheduler = Scheduler(1, 0, long_seconds=0.01)
    first = await _take(scheduler, _large("slow"))
    second = await _take(scheduler, _large("other"))
    assert first.is_long
    assert not await scheduler.acquire(_large("other"), 0.1)
    scheduler.release(first)
    assert not second.is_long
    assert not await scheduler.acquire(_large("other"), 0.1), "it has a slot to its end"
    scheduler.release(second)
    assert await scheduler.acquire(_large("slow"), 0)
    assert scheduler.running == 1
