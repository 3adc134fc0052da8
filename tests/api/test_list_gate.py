"""`ListGate`: few lists of one tenant are read at once."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from sluice.api.route import ListGate
from sluice.errors import TooManyRequests
from tests.http1.sockets import exchange, statuses
from tests.service import Service


async def test_a_fifth_list_of_a_tenant_waits_and_another_tenant_does_not() -> None:
    gate = ListGate()
    async with AsyncExitStack() as last:
        async with AsyncExitStack() as holding:
            for _ in range(4):
                await holding.enter_async_context(gate.hold("a"))
            fifth = asyncio.create_task(last.enter_async_context(gate.hold("a")))
            async with asyncio.timeout(5), gate.hold("b"):
                assert not fifth.done()
        async with asyncio.timeout(5):
            await fifth


async def test_a_list_that_waits_too_long_is_refused() -> None:
    gate = ListGate(wait_seconds=0.01)
    async with AsyncExitStack() as holding:
        for _ in range(4):
            await holding.enter_async_context(gate.hold("a"))
        with pytest.raises(TooManyRequests):
            await holding.enter_async_context(gate.hold("a"))


def test_lists_that_are_asked_for_one_after_the_other_are_all_answered(sqlite_local: Service) -> None:
    client = sqlite_local.new_client()
    request = f"GET /api/v1/contexts HTTP/1.1\r\nHost: x\r\nAuthorization: {client.authorization}\r\n".encode()
    received = exchange(
        sqlite_local, (request + b"\r\n") * 7 + request + b"Connection: close\r\n\r\n", half_close=False
    )
    assert statuses(received) == [200] * 8
