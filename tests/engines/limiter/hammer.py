"""One process of several that take of one key for some seconds; prints the moments of its takes. Started by `test_processes`."""

import asyncio
import json
import sys
import time

from sluice.db.database import Database
from sluice.engines.limiter import Limiter, Taken
from sluice.engines.limiter.database import DatabaseLimiter
from sluice.engines.limiter.redis import RedisLimiter

TASKS = 4


async def hammer(name: str, address: str, key: str, limit: int, seconds: float) -> list[float]:
    limiter: Limiter = RedisLimiter(address, seconds=5) if name == "redis" else DatabaseLimiter(Database(address))
    moments: list[float] = []
    end = time.monotonic() + seconds

    async def take_on() -> None:
        while time.monotonic() < end:
            answer = await limiter.take(key, limit=limit, window_seconds=1)
            if isinstance(answer, Taken):
                moments.append(answer.at)

    await asyncio.gather(*(take_on() for _ in range(TASKS)))
    return moments


if __name__ == "__main__":
    engine, where, what, most, duration = sys.argv[1:]
    print(json.dumps(asyncio.run(hammer(engine, where, what, int(most), float(duration)))))  # noqa: T201  (its answer)
