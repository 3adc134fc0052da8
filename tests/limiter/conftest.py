"""The limiters as the contract suite has them: the real engine on its real server, and a way to make time pass."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis.asyncio import Redis
from sqlalchemy import text

from sluice.db.database import Database
from sluice.db.whose import EVERYBODY
from sluice.engines.limiter import Limiter
from sluice.engines.limiter.database import DatabaseLimiter
from sluice.engines.limiter.memory import MemoryLimiter
from sluice.engines.limiter.redis import RedisLimiter
from tests.db.migrated import Migrated
from tests.servers.redis import RedisServer

_PATIENCE = 30.0
# One step for the server, so that no take sees some of a window's places older and others not.
_MAKE_OLDER = """
for _, key in ipairs(KEYS) do
  for _, token in ipairs(redis.call('ZRANGE', key, 0, -1)) do
    redis.call('ZINCRBY', key, -ARGV[1], token)
  end
end
"""

SHARED = ("sqlite", "postgresql", "redis")
ENGINES = ("memory", *SHARED)


@dataclass
class Bench:
    """A limiter and its time. `advance` makes every take so far older, which is what time does."""

    name: str
    address: str
    limiter: Limiter
    advance: Callable[[float], Awaitable[None]]


@pytest.fixture(params=ENGINES)
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """Every engine in turn: what holds for one holds for the others."""
    async with _bench(request, request.param, tmp_path) as made:
        yield made


@pytest.fixture(params=SHARED)
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """Every engine that several processes share."""
    async with _bench(request, request.param, tmp_path) as made:
        yield made


@asynccontextmanager
async def _bench(request: pytest.FixtureRequest, name: str, folder: Path) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        if name == "memory":
            yield _on_a_clock()
        elif name == "redis":
            server: RedisServer = request.getfixturevalue("redis_server")
            yield _on_redis(server, stack)
        else:
            made: Migrated = request.getfixturevalue("migrated")
            url = made.sqlite(folder) if name == "sqlite" else made.postgres(request.getfixturevalue("postgres"))
            database = Database(url)
            stack.push_async_callback(database.aclose)
            yield _on_database(name, url, database)


def _on_a_clock() -> Bench:
    """The one engine whose clock can be held still: here takes keep their moments, and the clock moves."""
    now = 1000.0

    async def advance(seconds: float) -> None:
        nonlocal now
        now += seconds

    return Bench("memory", "", MemoryLimiter(lambda: now), advance)


def _on_redis(server: RedisServer, stack: AsyncExitStack) -> Bench:
    # Windows of its own, so that time passes for no other test's; and all the time of a busy machine: what is bounded is tried elsewhere.
    prefix = f"sluice:rate:{secrets.token_hex(8)}:"
    limiter = RedisLimiter(server.url, seconds=_PATIENCE, prefix=prefix)
    client: Redis = Redis.from_url(server.url)
    stack.push_async_callback(limiter.aclose)
    stack.push_async_callback(client.aclose)
    age = client.register_script(_MAKE_OLDER)

    async def make_older(seconds: float) -> None:
        await age(keys=[key async for key in client.scan_iter(f"{prefix}*")], args=[round(seconds * 1e6)])

    return Bench("redis", server.url, limiter, make_older)


def _on_database(name: str, url: str, database: Database) -> Bench:
    async def make_older(seconds: float) -> None:
        async with database.transaction(EVERYBODY) as connection:
            await connection.execute(text("UPDATE rate_takes SET taken_us = taken_us - :by"), {"by": round(seconds * 1e6)})

    return Bench(name, url, DatabaseLimiter(database), make_older)
