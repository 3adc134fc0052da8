"""The contract of verdict caches, tested with every implementation."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from hashlib import sha256

import pytest

from sluice.kit.health import EngineState
from sluice.scanner.redis_verdict_cache import RedisVerdictCache
from sluice.scanner.verdict_cache import CleanVerdict, MemoryVerdictCache, VerdictCache, VerdictKey
from tests.servers.redis import RedisServer, running_redis

MAX_VERDICTS = 50
SECRET = b"s" * 32


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(params=["memory", "redis"])
async def cache(request: pytest.FixtureRequest) -> AsyncIterator[VerdictCache]:
    async with AsyncExitStack() as ends:
        opened: VerdictCache
        if request.param == "memory":
            opened = MemoryVerdictCache(max_verdicts=MAX_VERDICTS)
        else:
            opened = RedisVerdictCache(
                request.getfixturevalue("redis").url,
                secret=SECRET,
                max_verdicts=MAX_VERDICTS,
                prefix=f"{request.node.name}:",
            )
        ends.push_async_callback(opened.aclose)
        yield opened


def key(data: bytes = b"x") -> VerdictKey:
    return VerdictKey(sha256(data).digest(), "clamd 1.4.6", "27500", "rules 1")


async def test_stored_verdict_is_returned_unchanged(cache: VerdictCache) -> None:
    verdict = CleanVerdict("unix:/run/clamd", ("macro.auto-run", "ünïcode"), report="5f")
    await cache.put(key(), verdict)
    assert [await cache.get(key()) for _ in range(2)] == [verdict, verdict]


async def test_missing_verdict_returns_none(cache: VerdictCache) -> None:
    assert await cache.get(key()) is None


@pytest.mark.parametrize(
    "other",
    [
        {"sha256": sha256(b"y").digest()},
        {"engine": "clamd 1.4.7"},
        {"signatures": "27501"},
        {"conditions": "rules 2"},
        {"tenant_id": "ten_1"},
    ],
    ids=lambda other: next(iter(other)),
)
async def test_verdict_is_found_only_by_its_own_key(cache: VerdictCache, other: dict[str, bytes | str]) -> None:
    await cache.put(key(), CleanVerdict())
    assert await cache.get(replace(key(), **other)) is None  # type: ignore[arg-type]  # types vary by field


async def test_adjacent_key_parts_are_kept_apart(cache: VerdictCache) -> None:
    await cache.put(replace(key(), engine="clamd 1", signatures="27500"), CleanVerdict())
    assert await cache.get(replace(key(), engine="clamd 12", signatures="7500")) is None


async def test_last_stored_verdict_wins(cache: VerdictCache) -> None:
    await cache.put(key(), CleanVerdict(flags=("a",)))
    await cache.put(key(), CleanVerdict(flags=("b",)))
    assert await cache.get(key()) == CleanVerdict(flags=("b",))


async def test_number_of_verdicts_is_bounded(cache: VerdictCache) -> None:
    keys = [key(b"%d" % number) for number in range(5 * MAX_VERDICTS)]
    for one in keys:
        await cache.put(one, CleanVerdict())
    assert 0 < sum([await cache.get(one) is not None for one in keys]) <= MAX_VERDICTS
    assert await cache.get(keys[-1]) is not None


async def test_working_cache_reports_up(cache: VerdictCache) -> None:
    assert (await cache.health()).state is EngineState.UP


async def test_second_close_is_a_no_op(cache: VerdictCache) -> None:
    await cache.aclose()
    await cache.aclose()
