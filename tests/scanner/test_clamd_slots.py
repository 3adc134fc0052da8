"""Who scans next, and where: bounds, fairness between tenants, room for small files."""

import asyncio
from dataclasses import dataclass

import pytest

from sluice.engines.scanner.clamd_places import Places, Want


@dataclass(eq=False)
class Host:
    name: str
    in_service: bool = True
    slow: bool = False


def small(tenant_id: str = "ten_1", *tried: Host) -> Want[Host]:
    return Want(tenant_id, small=True, tried=frozenset(tried))


def large(tenant_id: str = "ten_1") -> Want[Host]:
    return Want(tenant_id, small=False)


async def settle() -> None:
    """Let every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_scans_are_spread_over_the_hosts() -> None:
    hosts = [Host("a"), Host("b")]
    places = Places(hosts, 2)
    taken = [await places.take(small()) for _ in range(4)]
    assert [taken.count(host) for host in hosts] == [2, 2]
    assert places.running == 4


async def test_no_host_has_more_scans_than_places() -> None:
    places = Places([Host("a")], 2)
    first = await places.take(small())
    await places.take(small())
    waiting = asyncio.create_task(places.take(small()))
    await settle()
    assert (waiting.done(), places.waiting) == (False, 1)
    assert first is not None
    places.give(small(), first)
    assert await waiting is first


async def test_the_tenant_with_the_fewest_scans_comes_first_then_the_earliest() -> None:
    host = Host("a")
    places = Places([host], 2)
    for _ in range(2):
        await places.take(small("flood"))
    order: list[str] = []

    async def take(tenant: str, name: str) -> None:
        assert await places.take(small(tenant)) is host
        order.append(name)

    waiting = [asyncio.create_task(take("flood", f"flood {number}")) for number in range(3)]
    await settle()
    waiting.append(asyncio.create_task(take("other", "other")))
    await settle()
    for tenant in ("flood", "flood", "other", "flood"):
        places.give(small(tenant), host)
        await settle()
    await asyncio.gather(*waiting)
    assert order == ["other", "flood 0", "flood 1", "flood 2"]


async def test_large_files_leave_places_for_small_ones() -> None:
    host = Host("a")
    places = Places([host], 4)
    taken = [await places.take(large()) for _ in range(3)]
    assert taken == [host] * 3
    waiting = asyncio.create_task(places.take(large()))
    await settle()
    assert not waiting.done()
    assert await places.take(small()) is host
    places.give(large(), host)
    assert await waiting is host


async def test_a_host_out_of_service_and_one_that_was_tried_are_not_taken() -> None:
    out, tried, well = Host("out", in_service=False), Host("tried"), Host("well")
    places = Places([out, tried, well], 2)
    assert await places.take(small("ten_1", tried)) is well
    well.in_service = False
    assert await places.take(small("ten_1", tried)) is None


async def test_a_slow_host_is_taken_only_where_there_is_no_other() -> None:
    slow, quick = Host("slow", slow=True), Host("quick")
    places = Places([slow, quick], 1)
    assert await places.take(small()) is quick
    waiting = asyncio.create_task(places.take(small()))
    await settle()
    assert not waiting.done()
    quick.in_service = False
    places.look_again()
    assert await waiting is slow


async def test_who_waits_is_told_when_the_last_host_leaves() -> None:
    host = Host("a")
    places = Places([host], 1)
    await places.take(small())
    waiting = asyncio.create_task(places.take(small()))
    await settle()
    host.in_service = False
    places.look_again()
    assert await waiting is None


@pytest.mark.parametrize("granted", [False, True])
async def test_who_leaves_the_line_takes_no_place_along(granted: bool) -> None:  # noqa: FBT001  (a parameter of the test)
    host = Host("a")
    places = Places([host], 1)
    await places.take(small())
    waiting = asyncio.create_task(places.take(small()))
    await settle()
    if granted:
        places.give(small(), host)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    if not granted:
        places.give(small(), host)
    assert (places.running, places.waiting) == (0, 0)
    assert await places.take(small()) is host
