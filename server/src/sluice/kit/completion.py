"""Work that a cancellation does not interrupt."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def run_to_completion(
    work: Awaitable[T], *, on_cancel: Callable[[], None] | None = None, discard: Callable[[T], None] | None = None
) -> T:
    """Await `work`; when cancelled meanwhile, wait for its end all the same, and only then raise `CancelledError`.

    `on_cancel` may hasten the end; `discard` gets the result that no caller receives any more.
    """
    # A thread or a request that outlives its caller would read a descriptor that the caller has closed, or write an
    # object that the caller has already cleaned up after.
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):  # a second cancellation does not end the work any sooner
                await asyncio.wait({task})
        if not task.cancelled() and task.exception() is None and discard is not None:
            discard(task.result())
        raise
