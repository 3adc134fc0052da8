"""Ending work that never ends by itself. What the work is, is in its own module."""

import asyncio
from collections.abc import Coroutine


async def until(stop: asyncio.Event, work: Coroutine[object, object, None]) -> None:
    """Run `work` until `stop` is set; what it is at is then cancelled."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
