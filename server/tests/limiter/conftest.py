"""Fixtures of the limiter tests: each limiter on its real server, with a way to make time pass."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis.asyncio import Redis
from sqlalchemy import text

from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from sluice.limiter import Limiter
from sluice.limiter.database import DatabaseLimiter
from sluice.limiter.memory import MemoryLimiter
from sluice.limiter.redis import RedisLimiter
from tests.db.migrated import Migrated
from tests.servers.redis import RedisServer

_TIMEOUT_SECONDS = 30.0
# One script, so that no take sees only some takes of a window made older.
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
class LimiterHarness:
    """A limiter and its time. `advance` makes every take so far older, as passing time does."""

    name: str
    address: str
    limiter: Limiter
    advance: Callable[[float], Awaitable[None]]


@pytest.fixture(params=ENGINES)
async def harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LimiterHarness]:
    """Each limiter in turn: all fulfil the contract."""
    async with _make_harness(request, request.param, tmp_path) as made:
        yield made


@pytest.fixture(params=SHARED)
async def shared_harness(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LimiterHarness]:
    """Each limiter that several processes can share."""
    async with _make_harness(request, request.param, tmp_path) as made:
        yield made


@asynccontextmanager
async def _make_harness(request: pytest.FixtureRequest, name: str, folder: Path) -> AsyncIterator[LimiterHarness]:
    async with AsyncExitStack() as stack:
        if name == "memory":
            yield _on_fake_clock()
        elif name == "redis":
            server: RedisServer = request.getfixturevalue("redis_server")
            yield _on_redis(server, stack)
        else:
            made: Migrated = request.getfixturevalue("migrated")
            url = made.sqlite(folder) if name == "sqlite" else made.postgres(request.getfixturevalue("postgres"))
            database = Database(url)
            stack.push_async_callback(database.aclose)
            yield _on_database(name, url, database)


def _on_fake_clock() -> LimiterHarness:
    """Return the memory limiter, whose clock is fake: takes keep their moments, and the clock moves."""
    now = 1000.0

    async def advance(seconds: float) -> None:
        nonlocal now
        now += seconds

    return LimiterHarness("memory", "", MemoryLimiter(lambda: now), advance)


def _on_redis(server: RedisServer, stack: AsyncExitStack) -> LimiterHarness:
    # Its own windows, so that time passes for no other test, and a long timeout, because the machine may be busy.
    prefix = f"sluice:rate:{secrets.token_hex(8)}:"
    limiter = RedisLimiter(server.url, seconds=_TIMEOUT_SECONDS, prefix=prefix)
    client: Redis = Redis.from_url(server.url)
    stack.push_async_callback(limiter.aclose)
    stack.push_async_callback(client.aclose)
    age = client.register_script(_MAKE_OLDER)

    async def make_older(seconds: float) -> None:
        await age(keys=[key async for key in client.scan_iter(f"{prefix}*")], args=[round(seconds * 1e6)])

    return LimiterHarness("redis", server.url, limiter, make_older)


def _on_database(name: str, url: str, database: Database) -> LimiterHarness:
    async def make_older(seconds: float) -> None:
        older = text("UPDATE rate_takes SET taken_us = taken_us - :by")
        async with database.transaction(ALL_TENANTS) as connection:
            await connection.execute(older, {"by": round(seconds * 1e6)})

    return LimiterHarness(name, url, DatabaseLimiter(database), make_older)
