"""The read-through cache: how old a value may be, and reads that are shared."""

import asyncio

import pytest

from sluice.kit.read_through_cache import ReadThroughCache


class Source:
    """Values that count their reads, on a clock that tests set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reads = 0
        self.gate: asyncio.Event | None = None
        self.cache: ReadThroughCache[str, int] = ReadThroughCache(self.read, capacity=2, monotonic=lambda: self.now)

    async def read(self, key: str) -> int:
        self.reads += 1
        number = self.reads
        if self.gate is not None:
            await self.gate.wait()
        if key == "missing":
            raise LookupError(key)
        return number


@pytest.fixture
def source() -> Source:
    return Source()


async def test_a_value_is_read_again_only_when_it_is_too_old(source: Source) -> None:
    for source.now in (5.0, 9.0):
        assert (await source.cache.get("a", since=5.0)).value == 1
    source.now = 10.0
    found = await source.cache.get("a", since=5.5)
    assert (found.value, found.read_at) == (2, 10.0)


async def test_expired_values_are_dropped_by_the_next_read(source: Source) -> None:
    source.cache = ReadThroughCache(source.read, lifetime_seconds=10.0, monotonic=lambda: source.now)
    for key in "ab":
        await source.cache.get(key, since=0.0)
    source.now = 11.0
    await source.cache.get("c", since=11.0)
    assert [source.cache.find(key, since=0.0) is None for key in "abc"] == [True, True, False]


async def test_concurrent_callers_share_one_read_that_a_cancelled_one_does_not_end(source: Source) -> None:
    source.gate = asyncio.Event()
    first, *others = (asyncio.create_task(source.cache.get("a", since=0.0)) for _ in range(5))
    await asyncio.sleep(0)
    first.cancel()
    source.gate.set()
    assert {found.value for found in await asyncio.gather(*others)} == {1}


async def test_a_caller_does_not_join_a_read_that_began_too_early(source: Source) -> None:
    source.gate = asyncio.Event()
    early = asyncio.create_task(source.cache.get("a", since=0.0))
    await asyncio.sleep(0)
    source.now = 2.0
    late = asyncio.create_task(source.cache.get("a", since=1.0))
    await asyncio.sleep(0)
    source.gate.set()
    assert ((await early).value, (await late).value) == (1, 2)


async def test_an_early_read_that_ends_late_does_not_replace_a_newer_value(source: Source) -> None:
    slow = source.gate = asyncio.Event()
    early = asyncio.create_task(source.cache.get("a", since=0.0))
    await asyncio.sleep(0)
    source.gate, source.now = None, 2.0
    await source.cache.get("a", since=1.0)
    slow.set()
    await early
    newest = source.cache.find("a", since=0.0)
    assert newest is not None
    assert newest.value == 2


async def test_an_error_in_a_read_is_raised_and_not_cached(source: Source) -> None:
    for _ in range(2):
        with pytest.raises(LookupError):
            await source.cache.get("missing", since=0.0)
    assert source.reads == 2


async def test_a_full_cache_drops_the_value_read_longest_ago(source: Source) -> None:
    for key in ("a", "b", "c"):
        await source.cache.get(key, since=0.0)
    assert source.cache.find("a", since=0.0) is None
    assert source.cache.find("c", since=0.0) is not None
