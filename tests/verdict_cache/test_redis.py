"""The verdict cache in Redis: it is shared, Redis may be unavailable, and forged entries do not count."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from redis.asyncio import Redis

from sluice.kit.health import EngineState
from sluice.scanner.redis_verdict_cache import RedisVerdictCache, sign_entry
from sluice.scanner.verdict_cache import CleanVerdict, VerdictKey
from tests.rows import each_row
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
    url: str, *, secret: bytes = SECRET, prefix: str = "sluice:clean:", max_verdicts: int = 1000
) -> AsyncIterator[RedisVerdictCache]:
    cache = RedisVerdictCache(url, secret=secret, prefix=prefix, max_verdicts=max_verdicts)
    try:
        yield cache
    finally:
        await cache.aclose()


async def test_verdict_stored_by_one_client_is_found_by_another(redis: RedisServer) -> None:
    async with opened(redis.url, prefix="shared:") as one, opened(redis.url, prefix="shared:") as other:
        await one.put(KEY, CleanVerdict(flags=("a",)))
        assert await other.get(KEY) == CleanVerdict(flags=("a",))


async def test_entry_signed_with_other_secret_is_a_miss(redis: RedisServer) -> None:
    async with (
        opened(redis.url, prefix="forged:") as cache,
        opened(redis.url, prefix="forged:", secret=b"t" * 32) as forger,
    ):
        await forger.put(KEY, CleanVerdict())
        assert await cache.get(KEY) is None


@pytest.mark.parametrize("entry", [b"", b"x", b"x" * 31, b"x" * 32, b"x" * 32 + b"[]", b"\xff" * 100])
async def test_malformed_entry_is_a_miss(redis: RedisServer, entry: bytes) -> None:
    async with opened(redis.url, prefix="garbage:", max_verdicts=1) as cache, Redis.from_url(redis.url) as client:
        await client.set("garbage:0", entry)
        assert await cache.get(KEY) is None
        assert (await cache.health()).state is EngineState.UP


@pytest.mark.parametrize(
    "value",
    [b"[]", b"{}", b"null", b'"clean"', b"[1, 2]", b'["a"]', b'["a", "b", 3]', b'["a", "b", ["c"]]', b"[[", b""],
)
async def test_signed_entry_of_another_shape_is_a_miss(redis: RedisServer, value: bytes) -> None:
    """Another release that has the secret may have written it."""
    async with opened(redis.url, prefix="shape:", max_verdicts=1) as cache, Redis.from_url(redis.url) as client:
        await client.set("shape:0", sign_entry(SECRET, KEY.digest, value) + value)
        assert await cache.get(KEY) is None
        assert (await cache.health()).state is EngineState.UP


async def test_entry_moved_to_another_tenant_is_a_miss(redis: RedisServer) -> None:
    async with opened(redis.url, prefix="tenant:", max_verdicts=1) as cache:
        await cache.put(replace(KEY, tenant_id="ten_1"), CleanVerdict())
        for tenant_id in ("ten_2", ""):
            assert await cache.get(replace(KEY, tenant_id=tenant_id)) is None


async def test_entry_of_another_file_in_same_slot_is_a_miss(redis: RedisServer) -> None:
    async with opened(redis.url, prefix="moved:", max_verdicts=1) as cache:
        await cache.put(KEY, CleanVerdict())
        assert await cache.get(OTHER) is None
        assert await cache.get(KEY) == CleanVerdict()


async def test_entry_of_another_redis_type_is_a_miss(redis: RedisServer) -> None:
    async with opened(redis.url, prefix="list:", max_verdicts=1) as cache, Redis.from_url(redis.url) as client:
        await client.rpush("list:0", "x")
        assert await cache.get(KEY) is None


async def test_every_entry_expires(redis: RedisServer) -> None:
    async with opened(redis.url, prefix="end:", max_verdicts=1) as cache, Redis.from_url(redis.url) as client:
        await cache.put(KEY, CleanVerdict())
        assert 86_000 < await client.ttl("end:0") <= 86_400


async def test_unreachable_redis_is_a_miss_and_degraded() -> None:
    async with opened(f"redis://127.0.0.1:{free_port()}/0") as cache:
        await cache.put(KEY, CleanVerdict())
        assert await cache.get(KEY) is None
        health = await cache.health()
        assert (health.state, health.detail) == (EngineState.DEGRADED, "no answer (ConnectionError)")


async def test_hanging_redis_delays_only_the_first_lookup(redis: RedisServer) -> None:
    async with (
        fault_proxy(f"http://127.0.0.1:{redis.port}") as proxy,
        opened(f"redis://127.0.0.1:{proxy.port}/0") as cache,
    ):
        proxy.fault = Fault.BLACK_HOLE
        began = time.monotonic()
        assert [await cache.get(KEY) for _ in range(50)] == [None] * 50
        assert time.monotonic() - began < 2
        assert proxy.connections == 1


async def test_restarted_redis_is_used_again(redis: RedisServer, tmp_path: Path) -> None:
    port, now = free_port(), 0.0
    cache = RedisVerdictCache(f"redis://127.0.0.1:{port}/0", secret=SECRET, monotonic=lambda: now)
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
    async with (
        fault_proxy(f"http://127.0.0.1:{redis.port}") as proxy,
        opened(f"redis://127.0.0.1:{proxy.port}/0") as cache,
    ):
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
