"""`SpoolRoom`: what all uploads may have in spools, and what one tenant may."""

import asyncio

import pytest

from sluice.errors import SpoolBusy
from sluice.uploads.spool import SpoolRoom

TOTAL, SHARE = 400, 100


def busy() -> SpoolRoom:
    return SpoolRoom(TOTAL, 0.01)


async def test_a_tenant_beyond_its_share_is_refused_after_the_wait() -> None:
    room = busy()
    await room.take("a", 60)
    with pytest.raises(SpoolBusy):
        await room.take("a", 60)
    await room.take("b", 60)


async def test_the_total_bounds_all_tenants() -> None:
    room = busy()
    for tenant in "abcd":
        await room.take(tenant, SHARE)
    with pytest.raises(SpoolBusy):
        await room.take("e", 1)


async def test_an_upload_waits_until_another_gives_its_room_back() -> None:
    room = SpoolRoom(TOTAL, 5)
    first = await room.take("a", SHARE)
    second = asyncio.create_task(room.take("a", SHARE))
    await asyncio.sleep(0)
    assert not second.done()
    room.put_back(first)
    assert (await second).size == SHARE


async def test_room_that_turns_out_not_to_be_needed_is_free_at_once() -> None:
    room = busy()
    first = await room.take("a", SHARE)
    room.shrink(first, 30)
    second = await room.take("a", 70)
    room.put_back(first)
    room.put_back(second)
    await room.take("a", SHARE)


async def test_nobody_gets_more_than_the_share_of_a_tenant() -> None:
    assert (await busy().take("a", 10 * SHARE)).size == SHARE


async def test_a_cancelled_wait_leaves_no_room_taken() -> None:
    room = SpoolRoom(TOTAL, 5)
    first = await room.take("a", SHARE)
    waiting = asyncio.create_task(room.take("a", SHARE))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    room.put_back(first)
    for tenant in "abcd":
        await room.take(tenant, SHARE)
