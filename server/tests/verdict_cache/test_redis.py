"""The verdict cache in Redis: it is shared, Redis may be unavailable, and forged entries do not count."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from sluice.kit.health import EngineState
from sluice.scanner.redis_verdict_cache import RedisVerdictCache, sign_entry
from sluice.scanner.verdict_cache import CleanVerdict, VerdictKey
from tests.rows import each_row
from tests.servers import free_port
from tests.servers.faults import Fault, FaultProxy, fault_proxy
from tests.servers.redis import RedisServer, running_redis

KEY = VerdictKey(sha256(b"x").digest(), "clamd 1.4.6", "27500", "")
OTHER = VerdictKey(sha256(b"y").digest(), "clamd 1.4.6", "27500", "")
SECRET = b"s" * 32


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@asynccontextmanager
async def opened(url: str, *, secret: bytes = SECRET, **options: Any) -> AsyncIterator[RedisVerdictCache]:
    async with aclosing(RedisVerdictCache(url, secret=secret, **options)) as cache:
        yield cache


@asynccontextmanager
async def slot(redis: RedisServer, prefix: str) -> AsyncIterator[tuple[RedisVerdictCache, Redis]]:
    """Yield a cache of one slot, `<prefix>:0`, and a client of its server."""
    async with opened(redis.url, prefix=f"{prefix}:", max_verdicts=1) as cache, Redis.from_url(redis.url) as client:
        yield cache, client


@asynccontextmanager
async def behind_proxy(redis: RedisServer) -> AsyncIterator[tuple[FaultProxy, RedisVerdictCache]]:
    async with (
        fault_proxy(f"http://127.0.0.1:{redis.port}") as proxy,
        opened(f"redis://127.0.0.1:{proxy.port}/0") as cache,
    ):
        yield proxy, cache


async def test_verdict_of_another_client_is_found_unless_it_is_signed_with_another_secret(redis: RedisServer) -> None:
    async with opened(redis.url, prefix="shared:") as one, opened(redis.url, prefix="shared:") as other:
        await one.put(KEY, CleanVerdict(flags=("a",)))
        assert await other.get(KEY) == CleanVerdict(flags=("a",))
        async with opened(redis.url, prefix="shared:", secret=b"t" * 32) as forger:
            await forger.put(KEY, CleanVerdict())
        assert await other.get(KEY) is None


SHAPES = [b"[]", b"{}", b"null", b'"clean"', b"[1, 2]", b'["a"]', b'["a", "b", 3]', b'["a", "b", ["c"]]', b"[[", b""]


@each_row(
    "entry",
    [
        *(b"", b"x", b"x" * 31, b"x" * 32, b"x" * 32 + b"[]", b"\xff" * 100),
        # another release that has the secret may have written these
        *(sign_entry(SECRET, KEY.digest, value) + value for value in SHAPES),
    ],
)
async def test_entry_of_another_shape_or_redis_type_is_a_miss(redis: RedisServer, entry: bytes) -> None:
    async with slot(redis, "shape") as (cache, client):
        await client.set("shape:0", entry)
        assert await cache.get(KEY) is None
        assert (await cache.health()).state is EngineState.UP
        await client.delete("shape:0")
        await client.rpush("shape:0", "x")
        assert await cache.get(KEY) is None


async def test_entry_in_the_slot_of_another_tenant_or_file_is_a_miss_and_expires(redis: RedisServer) -> None:
    async with slot(redis, "moved") as (cache, client):
        own = replace(KEY, tenant_id="ten_1")
        await cache.put(own, CleanVerdict())
        for other in (replace(KEY, tenant_id="ten_2"), KEY, replace(OTHER, tenant_id="ten_1")):
            assert await cache.get(other) is None
        assert await cache.get(own) == CleanVerdict()
        assert 86_000 < await client.ttl("moved:0") <= 86_400


async def test_unreachable_redis_is_a_miss_and_degraded() -> None:
    async with opened(f"redis://127.0.0.1:{free_port()}/0") as cache:
        await cache.put(KEY, CleanVerdict())
        assert await cache.get(KEY) is None
        health = await cache.health()
        assert (health.state, health.detail) == (EngineState.DEGRADED, "no reply (ConnectionError)")


async def test_hanging_redis_delays_only_the_first_lookup(redis: RedisServer) -> None:
    async with behind_proxy(redis) as (proxy, cache):
        proxy.fault = Fault.BLACK_HOLE
        began = time.monotonic()
        assert [await cache.get(KEY) for _ in range(50)] == [None] * 50
        assert time.monotonic() - began < 2
        assert proxy.connections == 1


async def test_restarted_redis_is_used_again(redis: RedisServer, tmp_path: Path) -> None:
    port, now = free_port(), 0.0
    where = f"redis://127.0.0.1:{port}/0"
    cache = RedisVerdictCache(where, secret=SECRET, monotonic=lambda: now, seconds=10.0)
    await cache.put(KEY, CleanVerdict())
    with running_redis(tmp_path, port=port):
        await cache.put(KEY, CleanVerdict())
        assert await cache.get(KEY) is None
        now += 6
        await cache.put(KEY, CleanVerdict())
        assert await cache.get(KEY) == CleanVerdict()
        assert (await cache.health()).state is EngineState.UP
        await cache.aclose()


async def test_cancelled_lookup_does_not_affect_later_lookups(redis: RedisServer) -> None:
    async with behind_proxy(redis) as (_proxy, cache):
        await cache.put(KEY, CleanVerdict(flags=("mine",)))
        for _ in range(20):
            lookup = asyncio.create_task(cache.get(OTHER))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            lookup.cancel()
            await asyncio.gather(lookup, return_exceptions=True)
            assert await cache.get(KEY) == CleanVerdict(flags=("mine",))


@each_row("url", ["", "http://127.0.0.1", "127.0.0.1:6379"])
def test_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="scheme"):
        RedisVerdictCache(url, secret=SECRET)
