"""Run an asyncio server in a thread with its own event loop, for tests that are not async."""

import asyncio
import queue
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

T = TypeVar("T")
_START_SECONDS = 30


@contextmanager
def in_a_thread(server: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Run `server` until the block ends, and yield what it yields."""
    loop, running, stop = asyncio.new_event_loop(), queue.Queue[T](), asyncio.Event()

    async def serve() -> None:
        async with server as started:
            running.put(started)
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield running.get(timeout=_START_SECONDS)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
