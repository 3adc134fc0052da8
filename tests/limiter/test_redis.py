"""The Redis limiter and its server: what it leaves there, and what callers see while the server is away, slow, or lost an answer."""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import uvloop
from redis.asyncio import Redis

from sluice.engines.limiter import LimiterAway, Taken
from sluice.engines.limiter.redis import RedisLimiter
from sluice.kit.health import EngineState
from tests.servers.faults import Fault, FaultProxy, fault_proxy
from tests.servers.redis import RedisServer, running_redis
from tests.servers.threads import in_a_thread

SECONDS = 0.5


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[FaultProxy]:
    async with fault_proxy(f"http://127.0.0.1:{redis_server.port}") as standing:
        yield standing


@pytest.fixture
async def limiter(proxy: FaultProxy) -> AsyncIterator[RedisLimiter]:
    made = RedisLimiter(f"redis://127.0.0.1:{proxy.port}/0", seconds=SECONDS)
    yield made
    await made.aclose()


async def take(limiter: RedisLimiter, key: str = "k") -> bool:
    return isinstance(await limiter.take(key, limit=10_000, window_seconds=3600), Taken)


async def test_a_window_that_nobody_asks_for_is_forgotten_by_the_server(redis_server: RedisServer) -> None:
    limiter, client, key = RedisLimiter(redis_server.url), Redis.from_url(redis_server.url), secrets.token_hex(4)
    await limiter.take(key, limit=3, window_seconds=700)
    assert 600_000 < await client.pttl(f"sluice:rate:{key}") <= 700_001
    await client.aclose()
    await limiter.aclose()


async def test_limits_outlive_the_process_that_counted(redis_server: RedisServer) -> None:
    key = secrets.token_hex(4)
    for _ in range(2):
        limiter = RedisLimiter(redis_server.url)
        await limiter.take(key, limit=2, window_seconds=60)
        await limiter.aclose()
    limiter = RedisLimiter(redis_server.url)
    assert not isinstance(await limiter.take(key, limit=2, window_seconds=60), Taken)
    await limiter.aclose()


@pytest.mark.parametrize("fault", [Fault.BLACK_HOLE, Fault.RESET, Fault.LOST_ANSWER])
async def test_a_faulty_server_is_told_in_bounded_time_and_used_again_when_it_is_well(
    limiter: RedisLimiter, proxy: FaultProxy, fault: Fault
) -> None:
    assert await take(limiter)
    proxy.fault = fault
    began = time.monotonic()
    with pytest.raises(LimiterAway):
        await take(limiter)
    assert (await limiter.health()).state is EngineState.DOWN
    assert time.monotonic() - began < 8 * SECONDS
    proxy.fault = Fault.NONE
    assert await take(limiter)
    assert (await limiter.health()).state is EngineState.UP


def test_a_server_that_resets_its_connections_under_load_is_away_whatever_the_loop_calls_it(redis_server: RedisServer) -> None:
    """uvloop, the loop of the service, says RuntimeError to who writes to a connection that was reset a moment ago."""
    causes: Counter[str] = Counter()

    async def ask_on(limiter: RedisLimiter, until: float) -> None:
        while "RuntimeError" not in causes and time.monotonic() < until:
            try:
                await take(limiter)
            except LimiterAway as fault:
                causes[type(fault.__cause__).__name__] += 1

    async def reset_on(losing: FaultProxy, until: float) -> None:
        while "RuntimeError" not in causes and time.monotonic() < until:
            losing.fault = Fault.DOWN if losing.fault is Fault.NONE else Fault.NONE
            await asyncio.sleep(0.05)

    async def asked(losing: FaultProxy) -> None:
        limiter, until = RedisLimiter(f"redis://127.0.0.1:{losing.port}/0", seconds=SECONDS), time.monotonic() + 60
        await asyncio.gather(reset_on(losing, until), *(ask_on(limiter, until) for _ in range(12)))
        await limiter.aclose()

    with in_a_thread(fault_proxy(f"http://127.0.0.1:{redis_server.port}")) as losing:
        uvloop.run(asked(losing))
    assert causes["RuntimeError"] > 0, causes


async def test_giving_back_to_a_server_that_is_away_is_no_fault(limiter: RedisLimiter, proxy: FaultProxy) -> None:
    taken = await limiter.take("k", limit=10_000, window_seconds=60)
    assert isinstance(taken, Taken)
    proxy.fault = Fault.RESET
    await limiter.give_back(taken, window_seconds=60)


async def test_a_take_whose_answer_got_lost_once_holds_one_place(
    limiter: RedisLimiter, proxy: FaultProxy, redis_server: RedisServer
) -> None:
    key = secrets.token_hex(4)
    assert await take(limiter, "other")  # the connection stands and the script is known
    proxy.fault, proxy.faulty = Fault.LOST_ANSWER, proxy.connections
    assert await take(limiter, key)
    async with Redis.from_url(redis_server.url) as client:
        assert await client.zcard(f"sluice:rate:{key}") == 1


async def test_a_server_that_was_restarted_is_used_again_at_once(tmp_path: Path) -> None:
    with ExitStack() as first:
        server = first.enter_context(running_redis(tmp_path / "a"))
        limiter = RedisLimiter(server.url, seconds=SECONDS)
        assert await take(limiter)
        first.close()
        with pytest.raises(LimiterAway):
            await take(limiter)
        with running_redis(tmp_path / "b", port=server.port):
            assert await take(limiter)
            await limiter.aclose()


async def test_a_server_that_may_drop_windows_is_degraded(tmp_path: Path) -> None:
    options = ("--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru")
    with running_redis(tmp_path, options=options) as server:
        limiter = RedisLimiter(server.url)
        health = await limiter.health()
        assert (health.state, "noeviction" in health.detail) == (EngineState.DEGRADED, True)
        await limiter.aclose()


def test_an_address_of_no_redis_is_refused() -> None:
    with pytest.raises(ValueError, match="redis://"):
        RedisLimiter("http://127.0.0.1")
