"""What every cache of clean verdicts promises, and that each engine keeps it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from hashlib import sha256

import pytest

from sluice.engines.verdicts import Cleared, VerdictCache, VerdictKey
from sluice.engines.verdicts.memory import MemoryVerdicts
from sluice.engines.verdicts.redis import RedisVerdicts
from sluice.kit.health import EngineState
from tests.servers.redis import RedisServer, running_redis

MOST = 50
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
            opened = MemoryVerdicts(most=MOST)
        else:
            opened = RedisVerdicts(request.getfixturevalue("redis").url, secret=SECRET, most=MOST, prefix=f"{request.node.name}:")
        ends.push_async_callback(opened.aclose)
        yield opened


def key(data: bytes = b"x") -> VerdictKey:
    return VerdictKey(sha256(data).digest(), "clamd 1.4.6", "27500", "rules 1")


async def test_what_was_kept_is_found_whole(cache: VerdictCache) -> None:
    cleared = Cleared("unix:/run/clamd", ("macro.auto-run", "ünïcode"))
    await cache.keep(key(), cleared)
    assert [await cache.find(key()) for _ in range(2)] == [cleared, cleared]


async def test_what_was_not_kept_is_not_found(cache: VerdictCache) -> None:
    assert await cache.find(key()) is None


@pytest.mark.parametrize(
    "other",
    [{"sha256": sha256(b"y").digest()}, {"engine": "clamd 1.4.7"}, {"signatures": "27501"}, {"terms": "rules 2"}],
    ids=lambda other: next(iter(other)),
)
async def test_a_verdict_holds_for_its_key_alone(cache: VerdictCache, other: dict[str, bytes | str]) -> None:
    await cache.keep(key(), Cleared())
    assert await cache.find(replace(key(), **other)) is None  # type: ignore[arg-type]  # the fields of each case are right


async def test_parts_of_a_key_do_not_run_into_each_other(cache: VerdictCache) -> None:
    await cache.keep(replace(key(), engine="clamd 1", signatures="27500"), Cleared())
    assert await cache.find(replace(key(), engine="clamd 12", signatures="7500")) is None


async def test_the_last_word_counts(cache: VerdictCache) -> None:
    await cache.keep(key(), Cleared(flags=("a",)))
    await cache.keep(key(), Cleared(flags=("b",)))
    assert await cache.find(key()) == Cleared(flags=("b",))


async def test_no_more_than_the_bound_is_kept(cache: VerdictCache) -> None:
    keys = [key(b"%d" % number) for number in range(5 * MOST)]
    for one in keys:
        await cache.keep(one, Cleared())
    assert 0 < sum([await cache.find(one) is not None for one in keys]) <= MOST
    assert await cache.find(keys[-1]) is not None


async def test_one_that_is_well_says_so(cache: VerdictCache) -> None:
    assert (await cache.health()).state is EngineState.UP


async def test_a_second_close_is_a_no_op(cache: VerdictCache) -> None:
    await cache.aclose()
    await cache.aclose()
