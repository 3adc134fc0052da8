"""Measure the CPU time of the metrics of one upload: the same nested calls with and without them, without a server.

python scripts/bench_observe.py [UPLOADS]
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

from starlette.responses import Response

from sluice.observe import metrics
from sluice.observe.stages import staged
from sluice.observe.traces import RequestSpan
from sluice.uploads.slots import UploadSlots

_STAGES: Final = ("authenticate", "receive", "look", "rate", "examine", "scan", "reserve", "store", "record")
_ROUNDS: Final = 7
_RESPONSE: Final = Response(status_code=201)
_ROUTE: Final = "/api/v1/files/upload"
_HEADERS: Final = [(b"host", b"x")] * 8


async def _nothing() -> None:
    """Stand in for the work of a stage."""


def _without_metrics() -> Callable[[], Awaitable[None]]:
    async def upload() -> Response:
        for _ in _STAGES:
            await _nothing()
        return _RESPONSE

    async def request() -> None:
        await upload()

    return request


def _with_metrics() -> Callable[[], Awaitable[None]]:
    stages = [staged(name)(_nothing) for name in _STAGES]

    async def upload() -> Response:
        for stage in stages:
            await stage()
        metrics.UPLOAD_BYTES.inc(10_000)
        return _RESPONSE

    async def request() -> None:
        span, began = RequestSpan("POST", _HEADERS), time.perf_counter()
        metrics.UPLOADS_UNDER_WAY.inc()
        await staged("upload")(upload)()
        metrics.UPLOADS_UNDER_WAY.dec()
        metrics.UPLOADS.labels("store", "stored", "").inc()
        metrics.REQUESTS.labels("POST", _ROUTE, "201").inc()
        metrics.REQUEST_SECONDS.labels("POST", _ROUTE).observe(time.perf_counter() - began)
        span.end(_ROUTE, 201)

    return request


async def _cpu_ms(request: Callable[[], Awaitable[None]], uploads: int) -> float:
    """Return the CPU milliseconds of one request, the median of several rounds."""
    rounds = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        for _ in range(uploads):
            await request()
        rounds.append((time.process_time() - began) * 1000 / uploads)
    return statistics.median(rounds)


async def _slot_ms(uploads: int) -> float:
    slots = UploadSlots(64, 60.0)
    began = time.process_time()
    for _ in range(uploads):
        async with slots.hold("ten_bench"):
            pass
    return (time.process_time() - began) * 1000 / uploads


async def _main(uploads: int) -> None:
    plain, measured = await _cpu_ms(_without_metrics(), uploads), await _cpu_ms(_with_metrics(), uploads)
    began = time.process_time()
    for _ in range(100):
        page = metrics.page(metrics.collect())
    scrape = (time.process_time() - began) * 10
    print(f"metrics of one upload: {measured - plain:.4f} CPU ms ({len(_STAGES)} stages, the upload, the request)")
    print(f"one upload slot, its gauge included: {await _slot_ms(uploads):.4f} CPU ms")
    print(f"one page of metrics: {scrape:.2f} CPU ms, {len(page)} bytes")


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000))
