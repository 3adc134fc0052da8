"""The contract of verdict caches, tested with every implementation."""

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from sluice.kit.health import EngineState
from sluice.scanner.redis_verdict_cache import RedisVerdictCache
from sluice.scanner.verdict_cache import CleanVerdict, MemoryVerdictCache, VerdictCache, VerdictKey
from tests.rows import each_row
from tests.servers.redis import RedisServer, running_redis

MAX_VERDICTS = 50
SECRET = b"s" * 32


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(params=["memory", "redis"])
async def cache(request: pytest.FixtureRequest) -> AsyncIterator[VerdictCache]:
    opened: VerdictCache
    if request.param == "memory":
        opened = MemoryVerdictCache(max_verdicts=MAX_VERDICTS)
    else:
        own: dict[str, Any] = {"secret": SECRET, "prefix": f"{request.node.name}:"}
        opened = RedisVerdictCache(request.getfixturevalue("redis").url, max_verdicts=MAX_VERDICTS, **own)
    async with aclosing(opened):
        yield opened


def key(data: bytes = b"x") -> VerdictKey:
    return VerdictKey(sha256(data).digest(), "clamd 1.4.6", "27500", "rules 1")


async def test_last_stored_verdict_is_returned_unchanged(cache: VerdictCache) -> None:
    assert await cache.get(key()) is None
    for verdict in (CleanVerdict("unix:/run/clamd", ("macro.auto-run", "ünïcode"), report="5f"), CleanVerdict()):
        await cache.put(key(), verdict)
        assert [await cache.get(key()) for _ in range(2)] == [verdict, verdict]


OTHERS: list[dict[str, Any]] = [{"sha256": sha256(b"y").digest()}, {"engine": "clamd 1.4.7"}, {"signatures": "27501"}]
OTHERS += [{"conditions": "rules 2"}, {"tenant_id": "ten_1"}, {"engine": "clamd 1.4.62", "signatures": "7500"}]


@each_row("other", OTHERS)
async def test_verdict_is_found_only_by_its_own_key(cache: VerdictCache, other: dict[str, Any]) -> None:
    await cache.put(key(), CleanVerdict())
    assert await cache.get(replace(key(), **other)) is None


async def test_number_of_verdicts_is_bounded(cache: VerdictCache) -> None:
    keys = [key(b"%d" % number) for number in range(5 * MAX_VERDICTS)]
    for one in keys:
        await cache.put(one, CleanVerdict())
    assert 0 < sum([await cache.get(one) is not None for one in keys]) <= MAX_VERDICTS
    assert await cache.get(keys[-1]) is not None


async def test_working_cache_reports_up_and_is_closed_twice(cache: VerdictCache) -> None:
    assert (await cache.health()).state is EngineState.UP
    for _ in range(2):
        await cache.aclose()
