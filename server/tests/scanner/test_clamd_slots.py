"""The slots of clamd: limits, fairness between tenants, slots reserved for small files."""

import asyncio
from dataclasses import dataclass

import pytest

from sluice.scanner.clamd.pool import ClamdSlots, SlotRequest
from tests.rows import each_row


@dataclass(eq=False)
class Host:
    name: str
    in_service: bool = True
    is_slow: bool = False


def small(tenant_id: str = "ten_1", *tried: Host) -> SlotRequest[Host]:
    return SlotRequest(tenant_id, small=True, tried=frozenset(tried))


def large(tenant_id: str = "ten_1") -> SlotRequest[Host]:
    return SlotRequest(tenant_id, small=False)


async def waiting_for(slots: ClamdSlots[Host], request: SlotRequest[Host]) -> "asyncio.Task[Host | None]":
    """Ask for a slot that is not free."""
    waiting = asyncio.create_task(slots.acquire(request))
    await settle()
    assert not waiting.done()
    return waiting


async def settle() -> None:
    """Let every task run that can run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_scans_are_spread_over_hosts_and_none_has_more_than_its_slots() -> None:
    hosts = [Host("a"), Host("b")]
    slots = ClamdSlots(hosts, 2)
    taken = [await slots.acquire(small()) for _ in range(4)]
    assert [taken.count(host) for host in hosts] == [2, 2]
    waiting = await waiting_for(slots, small())
    assert (slots.running, slots.waiting) == (4, 1)
    slots.release(small(), hosts[0])
    assert await waiting is hosts[0]


async def test_tenant_with_fewest_scans_is_served_first() -> None:
    host = Host("a")
    slots = ClamdSlots([host], 2)
    for _ in range(2):
        await slots.acquire(small("flood"))
    order: list[str] = []

    async def take(tenant: str, name: str) -> None:
        assert await slots.acquire(small(tenant)) is host
        order.append(name)

    waiting = [asyncio.create_task(take("flood", f"flood {number}")) for number in range(3)]
    await settle()
    waiting.append(asyncio.create_task(take("other", "other")))
    await settle()
    for tenant in ("flood", "flood", "other", "flood"):
        slots.release(small(tenant), host)
        await settle()
    await asyncio.gather(*waiting)
    assert order == ["other", "flood 0", "flood 1", "flood 2"]


async def test_large_files_leave_slots_for_small_files() -> None:
    host = Host("a")
    slots = ClamdSlots([host], 4)
    taken = [await slots.acquire(large()) for _ in range(3)]
    assert taken == [host] * 3
    waiting = await waiting_for(slots, large())
    assert await slots.acquire(small()) is host
    slots.release(large(), host)
    assert await waiting is host


async def test_unavailable_and_already_tried_hosts_are_skipped() -> None:
    unavailable, tried, healthy = Host("unavailable", in_service=False), Host("tried"), Host("healthy")
    slots = ClamdSlots([unavailable, tried, healthy], 2)
    assert await slots.acquire(small("ten_1", tried)) is healthy
    healthy.in_service = False
    assert await slots.acquire(small("ten_1", tried)) is None


async def test_slow_host_is_used_only_when_no_other_is_available() -> None:
    slow, quick = Host("slow", is_slow=True), Host("quick")
    slots = ClamdSlots([slow, quick], 1)
    assert await slots.acquire(small()) is quick
    waiting = await waiting_for(slots, small())
    quick.in_service = False
    slots.update()
    assert await waiting is slow
    waiting = await waiting_for(slots, small())
    slow.in_service = False
    slots.update()
    assert await waiting is None  # no host is left


@each_row("granted", [False, True])
async def test_cancelled_wait_holds_no_slot(granted: bool) -> None:  # noqa: FBT001  (a parameter of the test)
    host = Host("a")
    slots = ClamdSlots([host], 1)
    await slots.acquire(small())
    waiting = await waiting_for(slots, small())
    if granted:
        slots.release(small(), host)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    if not granted:
        slots.release(small(), host)
    assert (slots.running, slots.waiting) == (0, 0)
    assert await slots.acquire(small()) is host
