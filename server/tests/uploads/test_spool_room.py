"""`SpoolRoom`: what all uploads may have in spools, and what one tenant may."""

import asyncio

import pytest

from sluice.errors import SpoolBusy
from sluice.uploads.spool import SpoolRoom

TOTAL, SHARE = 400, 100


def busy() -> SpoolRoom:
    return SpoolRoom(TOTAL, 0.01)


async def test_a_tenant_has_its_share_and_all_tenants_have_the_total() -> None:
    room = busy()
    await room.take("a", 60)
    with pytest.raises(SpoolBusy):
        await room.take("a", 60)
    await room.take("a", SHARE - 60)
    for tenant in "bcd":
        await room.take(tenant, SHARE)
    with pytest.raises(SpoolBusy):
        await room.take("e", 1)


async def test_an_upload_waits_for_room_and_takes_none_when_it_is_cancelled() -> None:
    room = SpoolRoom(TOTAL, 5)
    first = await room.take("a", SHARE)
    waiting, cancelled = (asyncio.create_task(room.take("a", SHARE)) for _ in range(2))
    await asyncio.sleep(0)
    assert not waiting.done()
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    room.put_back(first)
    second = await waiting
    assert second.size == SHARE
    room.put_back(second)
    for tenant in "abcd":
        await room.take(tenant, SHARE)


async def test_room_that_turns_out_not_to_be_needed_is_free_at_once() -> None:
    room = busy()
    first = await room.take("a", 10 * SHARE)
    assert first.size == SHARE  # no tenant gets more
    room.shrink(first, 30)
    second = await room.take("a", 70)
    room.put_back(first)
    room.put_back(second)
    await room.take("a", SHARE)
