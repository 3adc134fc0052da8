"""Measures what the metrics of one upload cost: the same nest of calls with and without them, in CPU time. No server runs.

python scripts/bench_observe.py [UPLOADS]
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from starlette.responses import Response

from sluice.api.counting import RequestCount, counted_upload
from sluice.observe import metrics
from sluice.observe.stages import staged
from sluice.uploads.slots import TenantSlots

_STAGES: Final = ("authenticate", "receive", "look", "rate", "examine", "scan", "reserve", "store", "record")
_ROUNDS: Final = 7
_ANSWER: Final = Response(status_code=201)


class _Route:
    path_format = "/api/v1/files/upload"


_SCOPE: Final[dict[str, Any]] = {"type": "http", "method": "POST", "headers": [(b"host", b"x")] * 8, "route": _Route()}


async def _nothing() -> None:
    """Stand for the work of a stage."""


def _bare() -> Callable[[], Awaitable[None]]:
    async def upload() -> Response:
        for _ in _STAGES:
            await _nothing()
        return _ANSWER

    async def request() -> None:
        await upload()

    return request


def _watched() -> Callable[[], Awaitable[None]]:
    stages = [staged(name)(_nothing) for name in _STAGES]

    async def upload() -> Response:
        for stage in stages:
            await stage()
        metrics.UPLOAD_BYTES.inc(10_000)
        return _ANSWER

    counted = counted_upload(upload)

    async def request() -> None:
        count = RequestCount(_SCOPE)
        await counted()
        count.status = 201
        count.end()

    return request


async def _cpu_ms(request: Callable[[], Awaitable[None]], uploads: int) -> float:
    """Answer the CPU milliseconds of one request, the median of some rounds."""
    rounds = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        for _ in range(uploads):
            await request()
        rounds.append((time.process_time() - began) * 1000 / uploads)
    return statistics.median(rounds)


async def _slot_ms(uploads: int) -> float:
    slots = TenantSlots(64, 60.0)
    began = time.process_time()
    for _ in range(uploads):
        async with slots.hold("ten_bench"):
            pass
    return (time.process_time() - began) * 1000 / uploads


async def _main(uploads: int) -> None:
    bare, watched = await _cpu_ms(_bare(), uploads), await _cpu_ms(_watched(), uploads)
    began = time.process_time()
    for _ in range(100):
        page = metrics.page()
    scrape = (time.process_time() - began) * 10
    print(f"metrics of one upload: {watched - bare:.4f} CPU ms ({len(_STAGES)} stages, the upload, the request)")
    print(f"a tenant's turn, its gauge included: {await _slot_ms(uploads):.4f} CPU ms")
    print(f"one page of counted numbers: {scrape:.2f} CPU ms, {len(page)} bytes")


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000))
