"""Work that is brought to its end even when nobody waits for it any longer. What the work is, is the stores' matter."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def settled(
    work: Awaitable[T], *, on_cancel: Callable[[], None] | None = None, discard: Callable[[T], None] | None = None
) -> T:
    """Await `work`; when cancelled meanwhile, wait for its end all the same, and only then be cancelled.

    A thread or a request that outlives its caller would read a descriptor that the caller has closed, or write an object that
    the caller has already cleaned up after. `on_cancel` may hasten the end; `discard` gets the result that nobody is there for.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if on_cancel is not None:
            on_cancel()
        await _ended(task)
        if not task.cancelled() and task.exception() is None and discard is not None:
            discard(task.result())
        raise


async def _ended(task: asyncio.Future[T]) -> None:
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):  # asked twice: the work ends no sooner for it
            await asyncio.wait({task})
