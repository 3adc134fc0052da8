"""The Redis limiter: its keys expire, and callers get errors while Redis is unavailable, slow or loses responses."""

import secrets
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, aclosing, suppress
from pathlib import Path

import pytest
import uvloop
from redis.asyncio import Redis

from sluice.kit.health import EngineState
from sluice.limiter import LimiterUnavailable, Taken
from sluice.limiter.redis import RedisLimiter
from tests.servers.faults import Fault, FaultProxy, fault_proxy
from tests.servers.redis import RedisServer, running_redis

TIMEOUT_SECONDS = 0.5


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[FaultProxy]:
    async with fault_proxy(f"http://127.0.0.1:{redis_server.port}") as running:
        yield running


@pytest.fixture
async def limiter(proxy: FaultProxy) -> AsyncIterator[RedisLimiter]:
    made = RedisLimiter(f"redis://127.0.0.1:{proxy.port}/0", seconds=TIMEOUT_SECONDS)
    yield made
    await made.aclose()


async def take(limiter: RedisLimiter, key: str = "k") -> bool:
    return isinstance(await limiter.take(key, limit=10_000, window_seconds=3600), Taken)


async def test_takes_survive_restart_of_the_client_until_redis_expires_their_window(redis_server: RedisServer) -> None:
    key, taken = secrets.token_hex(4), list[bool]()
    for _ in range(3):
        async with aclosing(RedisLimiter(redis_server.url)) as limiter:
            taken.append(isinstance(await limiter.take(key, limit=2, window_seconds=700), Taken))
    assert taken == [True, True, False]
    async with Redis.from_url(redis_server.url) as client:
        assert 600_000 < await client.pttl(f"sluice:rate:{key}") <= 700_001


@pytest.mark.parametrize("fault", [Fault.BLACK_HOLE, Fault.RESET, Fault.LOST_RESPONSE])
async def test_faulty_redis_is_unavailable_and_recovers(limiter: RedisLimiter, proxy: FaultProxy, fault: Fault) -> None:
    assert await take(limiter)
    proxy.fault = fault
    began = time.monotonic()
    with pytest.raises(LimiterUnavailable):
        await take(limiter)
    assert (await limiter.health()).state is EngineState.DOWN
    assert time.monotonic() - began < 8 * TIMEOUT_SECONDS
    proxy.fault = Fault.NONE
    assert await take(limiter)
    assert (await limiter.health()).state is EngineState.UP


def test_connection_that_was_just_reset_is_unavailable_or_replaced_on_uvloop(redis_server: RedisServer) -> None:
    """uvloop, the loop of the service, raises RuntimeError for a write to such a connection; of Python 3.13 it does not."""

    async def reset_and_take() -> None:
        async with aclosing(RedisLimiter(redis_server.url, seconds=TIMEOUT_SECONDS)) as limiter:
            assert await take(limiter)
            (connection,) = limiter._client.connection_pool._available_connections
            assert connection._writer is not None
            connection._writer.transport.abort()
            with suppress(LimiterUnavailable):
                await take(limiter)
            assert await take(limiter)

    uvloop.run(reset_and_take())


async def test_give_back_to_unreachable_redis_raises_nothing(limiter: RedisLimiter, proxy: FaultProxy) -> None:
    taken = await limiter.take("k", limit=10_000, window_seconds=60)
    assert isinstance(taken, Taken)
    proxy.fault = Fault.RESET
    await limiter.give_back(taken, window_seconds=60)


async def test_take_without_a_reply_counts(limiter: RedisLimiter, proxy: FaultProxy, redis_server: RedisServer) -> None:
    key = secrets.token_hex(4)
    assert await take(limiter, "other")  # the connection is open and the script is loaded
    proxy.fault, proxy.faulty = Fault.LOST_RESPONSE, proxy.connections
    assert await take(limiter, key)
    async with Redis.from_url(redis_server.url) as client:
        assert await client.zcard(f"sluice:rate:{key}") == 1


async def test_restarted_redis_is_used_at_once(tmp_path: Path) -> None:
    with ExitStack() as first:
        server = first.enter_context(running_redis(tmp_path / "a"))
        limiter = RedisLimiter(server.url, seconds=TIMEOUT_SECONDS)
        assert await take(limiter)
        first.close()
        with pytest.raises(LimiterUnavailable):
            await take(limiter)
        with running_redis(tmp_path / "b", port=server.port):
            assert await take(limiter)
            await limiter.aclose()


async def test_redis_that_may_evict_keys_is_degraded(tmp_path: Path) -> None:
    options = ("--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru")
    with running_redis(tmp_path, options=options) as server:
        limiter = RedisLimiter(server.url)
        health = await limiter.health()
        assert (health.state, "noeviction" in health.detail) == (EngineState.DEGRADED, True)
        await limiter.aclose()


def test_non_redis_url_is_refused() -> None:
    with pytest.raises(ValueError, match="redis://"):
        RedisLimiter("http://127.0.0.1")
