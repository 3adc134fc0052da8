"""What takes the steps of flows: requests, pauses, reads. One kind blocks, the other awaits."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar

import httpx

from sluice_client.core import Call, Core, Flow, Read, Sleep, Step

T = TypeVar("T")


class BlockingSender:
    """Takes steps one after the other in the calling thread."""

    def __init__(self, http: httpx.Client) -> None:
        self._http = http

    def run(self, flow: Flow[T]) -> T:
        """Take all steps of a flow and return its result."""
        try:
            step = next(flow)
            while True:
                step = flow.send(self._take(step))
        except StopIteration as ended:
            result: T = ended.value
            return result
        finally:
            flow.close()

    def iterate(self, core: Core, call: Call[T]) -> Iterator[T]:
        """Return the items of a list; the next page is fetched when the one before is used up."""
        following: Call[T] | None = call
        while following is not None:
            page = self.run(core.page(following))
            yield from page.items
            following = page.following

    def _take(self, step: Step) -> Any:
        if isinstance(step, Sleep):
            return time.sleep(step.seconds)
        if isinstance(step, Read):
            return step.now()
        try:
            return self._http.send(step)
        except httpx.TransportError as fault:
            return fault


class AsyncSender:
    """Takes steps in the running event loop of asyncio."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def run(self, flow: Flow[T]) -> T:
        """Take all steps of a flow and return its result."""
        try:
            step = next(flow)
            while True:
                step = flow.send(await self._take(step))
        except StopIteration as ended:
            result: T = ended.value
            return result
        finally:
            flow.close()

    async def iterate(self, core: Core, call: Call[T]) -> AsyncIterator[T]:
        """Return the items of a list; the next page is fetched when the one before is used up."""
        following: Call[T] | None = call
        while following is not None:
            page = await self.run(core.page(following))
            for item in page.items:
                yield item
            following = page.following

    async def _take(self, step: Step) -> Any:
        if isinstance(step, Sleep):
            return await asyncio.sleep(step.seconds)
        if isinstance(step, Read):
            return await asyncio.to_thread(step.now)
        try:
            return await self._http.send(step)
        except httpx.TransportError as fault:
            return fault
