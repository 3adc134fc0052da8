"""The verdict cache in memory: how long a verdict is kept, and which one is evicted first."""

from hashlib import sha256

from sluice.scanner.verdict_cache import CleanVerdict, MemoryVerdictCache, VerdictKey


def key(number: int) -> VerdictKey:
    return VerdictKey(sha256(b"%d" % number).digest(), "clamd 1.4.6", "27500", "")


async def test_verdict_expires_even_when_it_is_used() -> None:
    now = 1000.0
    cache = MemoryVerdictCache(life_seconds=10, monotonic=lambda: now)
    await cache.put(key(1), CleanVerdict())
    now += 9
    assert await cache.get(key(1)) is not None
    now += 1
    assert await cache.get(key(1)) is None


async def test_least_recently_used_verdict_is_evicted_first() -> None:
    cache = MemoryVerdictCache(max_verdicts=2)
    await cache.put(key(1), CleanVerdict())
    await cache.put(key(2), CleanVerdict())
    await cache.get(key(1))
    await cache.put(key(3), CleanVerdict())
    assert [await cache.get(key(number)) is not None for number in (1, 2, 3)] == [True, False, True]
