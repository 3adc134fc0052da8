"""Turns of one tenant."""

import asyncio

import pytest

from sluice.errors import TooManyRequests
from sluice.uploads.slots import TenantSlots


async def test_a_tenant_beyond_its_slots_waits_until_one_falls_free() -> None:
    slots = TenantSlots(1, wait_seconds=5)
    order: list[str] = []

    async def second() -> None:
        async with slots.hold("a"):
            order.append("second")

    async with slots.hold("a"):
        waiting = asyncio.create_task(second())
        await asyncio.sleep(0)
        order.append("first")
    await waiting
    assert order == ["first", "second"]


async def test_a_wait_that_is_too_long_ends_in_429() -> None:
    slots = TenantSlots(1, wait_seconds=0.01)
    async with slots.hold("a"):
        with pytest.raises(TooManyRequests):
            async with slots.hold("a"):
                pytest.fail("two uploads in one slot")


async def test_another_tenant_does_not_wait() -> None:
    slots = TenantSlots(1, wait_seconds=0.01)
    async with slots.hold("a"), slots.hold("b"):
        pass


async def test_nothing_is_remembered_of_tenants_that_are_done() -> None:
    slots = TenantSlots(2, wait_seconds=1)
    async with slots.hold("a"):
        pass
    assert not slots._slots
