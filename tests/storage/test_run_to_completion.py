"""Work that is brought to its end although its caller was cancelled."""

import asyncio

import pytest

from sluice.engines.storage.settled import settled


class Work:
    """Work that ends when it is told, and says how it stands."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.ended = False
        self.hastened = False
        self.discarded: list[str] = []

    async def run(self) -> str:
        await self.go_on.wait()
        self.ended = True
        return "result"

    async def fail(self) -> str:
        await self.go_on.wait()
        self.ended = True
        raise LookupError

    def hasten(self) -> None:
        self.hastened = True
        self.go_on.set()


async def test_the_result_is_passed_on() -> None:
    work = Work()
    work.go_on.set()
    assert await settled(work.run()) == "result"


async def test_the_error_is_passed_on() -> None:
    work = Work()
    work.go_on.set()
    with pytest.raises(LookupError):
        await settled(work.fail())


async def test_a_cancelled_caller_waits_for_the_end_however_often_it_is_cancelled() -> None:
    work = Work()
    task = asyncio.create_task(settled(work.run(), discard=work.discarded.append))
    for _ in range(3):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    work.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.ended
    assert work.discarded == ["result"]


async def test_a_cancelled_caller_may_hasten_the_end() -> None:
    work = Work()
    task = asyncio.create_task(settled(work.run(), on_cancel=work.hasten))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.hastened


async def test_an_error_that_nobody_waits_for_is_not_complained_of(caplog: pytest.LogCaptureFixture) -> None:
    work = Work()
    task = asyncio.create_task(settled(work.fail(), on_cancel=work.hasten, discard=work.discarded.append))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.ended
    assert work.discarded == []
    assert caplog.records == []
