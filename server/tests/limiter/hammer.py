"""A process that takes from one key for some seconds and writes the moments of its takes. Run by `test_processes`."""

import asyncio
import json
import time
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from pathlib import Path

from sluice.db.database import Database
from sluice.limiter import Limiter, Taken
from sluice.limiter.database import DatabaseLimiter
from sluice.limiter.redis import RedisLimiter

TASKS = 4
TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class HammerSettings:
    """What one process does: which limiter it uses, at which address, for which key, and how long."""

    name: str
    address: str
    key: str
    limit: int
    seconds: float


async def hammer(settings: HammerSettings) -> list[float]:
    """Return the moments of all takes that were granted."""
    limiter: Limiter
    if settings.name == "redis":
        limiter = RedisLimiter(settings.address, seconds=TIMEOUT_SECONDS)
    else:
        limiter = DatabaseLimiter(Database(settings.address))
    moments: list[float] = []
    end = time.monotonic() + settings.seconds

    async def keep_taking() -> None:
        while time.monotonic() < end:
            result = await limiter.take(settings.key, limit=settings.limit, window_seconds=1)
            if isinstance(result, Taken):
                moments.append(result.at)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(keep_taking() for _ in range(TASKS)))
    return moments


def main(settings: HammerSettings, barrier: Barrier, out: Path) -> None:
    """Wait until all processes are ready, then take. Write the moments to `out` as JSON."""
    barrier.wait(TIMEOUT_SECONDS)
    out.write_text(json.dumps(asyncio.run(hammer(settings))))
