"""What is particular to the cache of verdicts in Redis: it is shared, it may be away, and nobody else's word in it counts."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from redis.asyncio import Redis

from sluice.engines.verdicts import Cleared, VerdictKey
from sluice.engines.verdicts.redis import RedisVerdicts
from sluice.kit.health import EngineState
from tests.servers import free_port
from tests.servers.faults import Fault, fault_proxy
from tests.servers.redis import RedisServer, running_redis

KEY = VerdictKey(sha256(b"x").digest(), "clamd 1.4.6", "27500", "")
OTHER = VerdictKey(sha256(b"y").digest(), "clamd 1.4.6", "27500", "")
SECRET = b"s" * 32


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@asynccontextmanager
async def opened(
    url: str, *, secret: bytes = SECRET, prefix: str = "sluice:clean:", most: int = 1000
) -> AsyncIterator[RedisVerdicts]:
    cache = RedisVerdicts(url, secret=secret, prefix=prefix, most=most)
    try:
        yield cache
    finally:
        await cache.aclose()


async def test_what_one_process_keeps_another_finds(redis: RedisServer) -> None:
    async with opened(redis.url, prefix="shared:") as one, opened(redis.url, prefix="shared:") as other:
        await one.keep(KEY, Cleared(flags=("a",)))
        assert await other.find(KEY) == Cleared(flags=("a",))


async def test_an_entry_that_was_not_signed_here_is_a_miss(redis: RedisServer) -> None:
    async with opened(redis.url, prefix="forged:") as cache, opened(redis.url, prefix="forged:", secret=b"t" * 32) as forger:
        await forger.keep(KEY, Cleared())
        assert await cache.find(KEY) is None


@pytest.mark.parametrize("entry", [b"", b"x", b"x" * 31, b"x" * 32, b"x" * 32 + b"[]", b"\xff" * 100])
async def test_an_entry_that_is_none_is_a_miss(redis: RedisServer, entry: bytes) -> None:
    async with opened(redis.url, prefix="garbage:", most=1) as cache, Redis.from_url(redis.url) as client:
        await client.set("garbage:0", entry)
        assert await cache.find(KEY) is None
        assert (await cache.health()).state is EngineState.UP


async def test_an_entry_moved_to_the_place_of_another_file_is_a_miss(redis: RedisServer) -> None:
    async with opened(redis.url, prefix="moved:", most=1) as cache:
        await cache.keep(KEY, Cleared())
        assert await cache.find(OTHER) is None
        assert await cache.find(KEY) == Cleared()


async def test_an_entry_of_another_kind_is_a_miss(redis: RedisServer) -> None:
    async with opened(redis.url, prefix="list:", most=1) as cache, Redis.from_url(redis.url) as client:
        await client.rpush("list:0", "x")
        assert await cache.find(KEY) is None


async def test_every_entry_has_an_end(redis: RedisServer) -> None:
    async with opened(redis.url, prefix="end:", most=1) as cache, Redis.from_url(redis.url) as client:
        await cache.keep(KEY, Cleared())
        assert 86_000 < await client.ttl("end:0") <= 86_400


async def test_a_server_that_is_not_there_is_a_miss_and_told() -> None:
    async with opened(f"redis://127.0.0.1:{free_port()}/0") as cache:
        await cache.keep(KEY, Cleared())
        assert await cache.find(KEY) is None
        health = await cache.health()
        assert (health.state, health.detail) == (EngineState.DEGRADED, "no answer (ConnectionError)")


async def test_a_server_that_hangs_costs_a_moment_once(redis: RedisServer) -> None:
    async with fault_proxy(f"http://127.0.0.1:{redis.port}") as proxy, opened(f"redis://127.0.0.1:{proxy.port}/0") as cache:
        proxy.fault = Fault.BLACK_HOLE
        began = time.monotonic()
        assert [await cache.find(KEY) for _ in range(50)] == [None] * 50
        assert time.monotonic() - began < 2
        assert proxy.connections == 1


async def test_a_server_that_comes_back_is_used_again(redis: RedisServer, tmp_path: Path) -> None:
    port, now = free_port(), 0.0
    cache = RedisVerdicts(f"redis://127.0.0.1:{port}/0", secret=SECRET, monotonic=lambda: now)
    await cache.keep(KEY, Cleared())
    with running_redis(tmp_path, port=port):
        await cache.keep(KEY, Cleared())
        assert await cache.find(KEY) is None
        now += 6
        await cache.keep(KEY, Cleared())
        assert await cache.find(KEY) == Cleared()
        assert (await cache.health()).state is EngineState.UP
        await cache.aclose()


async def test_a_look_that_is_cancelled_spoils_no_later_one(redis: RedisServer) -> None:
    async with fault_proxy(f"http://127.0.0.1:{redis.port}") as proxy, opened(f"redis://127.0.0.1:{proxy.port}/0") as cache:
        await cache.keep(KEY, Cleared(flags=("mine",)))
        for _ in range(20):
            look = asyncio.create_task(cache.find(OTHER))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            look.cancel()
            await asyncio.gather(look, return_exceptions=True)
            assert await cache.find(KEY) == Cleared(flags=("mine",))


@pytest.mark.parametrize("url", ["", "http://127.0.0.1", "127.0.0.1:6379"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="scheme"):
        RedisVerdicts(url, secret=SECRET)
