"""What is particular to the cache of verdicts in memory: how long one is kept, and which goes first."""

from hashlib import sha256

from sluice.engines.verdicts import Cleared, VerdictKey
from sluice.engines.verdicts.memory import MemoryVerdicts


def key(number: int) -> VerdictKey:
    return VerdictKey(sha256(b"%d" % number).digest(), "clamd 1.4.6", "27500", "")


async def test_a_verdict_is_forgotten_when_its_time_is_over_however_often_it_is_used() -> None:
    now = 1000.0
    cache = MemoryVerdicts(life_seconds=10, monotonic=lambda: now)
    await cache.keep(key(1), Cleared())
    now += 9
    assert await cache.find(key(1)) is not None
    now += 1
    assert await cache.find(key(1)) is None


async def test_the_verdict_unused_for_longest_goes_first() -> None:
    cache = MemoryVerdicts(most=2)
    await cache.keep(key(1), Cleared())
    await cache.keep(key(2), Cleared())
    await cache.find(key(1))
    await cache.keep(key(3), Cleared())
    assert [await cache.find(key(number)) is not None for number in (1, 2, 3)] == [True, False, True]
