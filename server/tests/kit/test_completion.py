"""`run_to_completion`: work that completes although its caller is cancelled."""

import asyncio

import pytest

from sluice.kit.completion import run_to_completion


class Work:
    """Work that ends when `proceed` is set, and records its progress."""

    def __init__(self) -> None:
        self.proceed = asyncio.Event()
        self.ended = False
        self.was_finished_early = False
        self.discarded: list[str] = []

    async def run(self) -> str:
        await self.proceed.wait()
        self.ended = True
        return "result"

    async def fail(self) -> str:
        await self.proceed.wait()
        self.ended = True
        raise LookupError

    def finish_early(self) -> None:
        self.was_finished_early = True
        self.proceed.set()


async def test_result_is_returned_and_error_is_raised() -> None:
    work = Work()
    work.proceed.set()
    assert await run_to_completion(work.run()) == "result"
    with pytest.raises(LookupError):
        await run_to_completion(work.fail())


async def test_repeatedly_cancelled_caller_waits_for_completion() -> None:
    work = Work()
    task = asyncio.create_task(run_to_completion(work.run(), discard=work.discarded.append))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    work.proceed.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.ended
    assert work.discarded == ["result"]


async def test_cancellation_calls_on_cancel() -> None:
    work = Work()
    task = asyncio.create_task(run_to_completion(work.run(), on_cancel=work.finish_early))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.was_finished_early


async def test_error_after_cancellation_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    work = Work()
    running = run_to_completion(work.fail(), on_cancel=work.finish_early, discard=work.discarded.append)
    task = asyncio.create_task(running)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (work.ended, work.discarded, caplog.records) == (True, [], [])
