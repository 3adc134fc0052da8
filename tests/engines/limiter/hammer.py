"""One process of several that take of one key for some seconds; writes down the moments of its takes. Started by `test_processes`."""

import asyncio
import json
import time
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path

from sluice.db.database import Database
from sluice.engines.limiter import Limiter, Taken
from sluice.engines.limiter.database import DatabaseLimiter
from sluice.engines.limiter.redis import RedisLimiter

TASKS = 4


PATIENCE = 60.0


@dataclass(frozen=True)
class Hammering:
    """What one process does: which engine it asks, where, for what key, and for how many seconds."""

    name: str
    address: str
    key: str
    limit: int
    seconds: float


async def hammer(words: Hammering) -> list[float]:
    """Answer the moments of all takes that were granted."""
    limiter: Limiter = (
        RedisLimiter(words.address, seconds=PATIENCE) if words.name == "redis" else DatabaseLimiter(Database(words.address))
    )
    moments: list[float] = []
    end = time.monotonic() + words.seconds

    async def take_on() -> None:
        while time.monotonic() < end:
            answer = await limiter.take(words.key, limit=words.limit, window_seconds=1)
            if isinstance(answer, Taken):
                moments.append(answer.at)

    await asyncio.gather(*(take_on() for _ in range(TASKS)))
    return moments


def main(words: Hammering, together: Barrier, out: Path) -> None:
    """Wait until all are there, then take; the moments go to `out` as JSON."""
    together.wait(PATIENCE)
    out.write_text(json.dumps(asyncio.run(hammer(words))))
