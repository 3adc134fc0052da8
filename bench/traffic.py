"""Background uploads during a measurement, from separate processes so that they do not delay the measuring client."""

import asyncio
import multiprocessing
import random
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from bench import payloads
from bench.load import Target, connected, envelope, exchange, load
from bench.payloads import Payload

_BLOCK = 1 << 20
_FOREVER = 1 << 60
_START_SECONDS = 3.0


async def upload_large(target: Target, megabytes: int) -> int:
    """Upload that many MiB of noise, each time with a new first block, and return the status."""
    noise, number = random.Random(7).randbytes(_BLOCK), f"{time.time_ns():032x}{random.getrandbits(128):032x}".encode()
    head, tail = envelope(target, "large.bin", megabytes * _BLOCK)
    with connected(target.port) as sock:
        blocks = [noise] * (megabytes - 1)
        return await exchange(sock, [head, number, noise[len(number) :], *blocks, tail])


@contextmanager
def large_uploads(target: Target, *, connections: int, megabytes: int) -> Iterator[None]:
    """Keep `connections` large uploads running until the block ends."""
    with _in_background(_large, target, connections, megabytes):
        yield


@contextmanager
def small_uploads(target: Target, *, connections: int, size: int) -> Iterator[None]:
    """Keep `connections` small uploads running until the block ends."""
    with _in_background(_small, target, connections, size):
        yield


async def _large(target: Target, connections: int, megabytes: int) -> None:
    async def repeat() -> None:
        while True:
            status = await upload_large(target, megabytes)
            if status != HTTPStatus.CREATED:
                raise SystemExit(f"a large upload got status {status}")

    await asyncio.gather(*(repeat() for _ in range(connections)))


async def _small(target: Target, connections: int, size: int) -> None:
    payload: Payload = payloads.png(size)
    await load(target, payload, connections=connections, uploads=_FOREVER)


@contextmanager
def _in_background(work: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> Iterator[None]:
    process = multiprocessing.get_context("spawn").Process(target=_run, args=(work, *arguments), daemon=True)
    process.start()
    try:
        time.sleep(_START_SECONDS)
        yield
        if not process.is_alive():
            raise SystemExit("the background uploads ended early")
    finally:
        process.terminate()
        process.join()


def _run(work: Callable[..., Coroutine[Any, Any, None]], *arguments: object) -> None:
    asyncio.run(work(*arguments))
