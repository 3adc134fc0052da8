"""The key cache: when keys are fetched, shared, kept during outages and dropped."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from sluice.identity.jwks import TrustedKey, parse_jwks
from sluice.identity.key_cache import CacheTimes, FetchFailed, KeyCache
from sluice.identity.protocol import IssuerUnavailable
from sluice.identity.tokens import ALGORITHMS
from tests.identity.tokens import ed_key, jwk, jwks

TTL, STALE, PAUSE = 600.0, 3600.0, 30.0


def keys(*names: str) -> tuple[TrustedKey, ...]:
    return parse_jwks(jwks(*(jwk(ed_key(name), kid=name) for name in names)), ALGORITHMS)


class Issuer:
    """A fake issuer with a fake clock. Fetches wait for `gate` when it is set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.keys = keys("one")
        self.is_down = False
        self.fetches = 0
        self.started = asyncio.Event()
        self.gate: asyncio.Event | None = None
        self.cache = KeyCache(self.fetch, CacheTimes(TTL, STALE, PAUSE), monotonic=lambda: self.now)

    async def fetch(self) -> tuple[TrustedKey, ...]:
        self.fetches += 1
        self.started.set()
        if self.gate is not None:
            await self.gate.wait()
        if self.is_down:
            raise FetchFailed("the issuer is unavailable")
        return self.keys

    async def knows(self, name: str) -> bool:
        return await self.cache.find("EdDSA", name) is not None


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    yield issuer
    await issuer.cache.aclose()


async def wait_for_fetch(issuer: Issuer) -> None:
    """Wait until no fetch is running."""
    if issuer.cache._running is not None:
        await asyncio.wait([issuer.cache._running], timeout=5)


async def test_keys_are_fetched_once_within_ttl_and_a_withdrawn_one_is_trusted_until_then(issuer: Issuer) -> None:
    for moment in (0, 1, 300, TTL - 1):
        issuer.now = moment
        assert await issuer.knows("one")
        issuer.keys = keys("two")
    assert issuer.fetches == 1
    issuer.now = TTL
    assert not await issuer.knows("one")
    assert issuer.fetches == 2


async def test_withdrawn_key_is_not_trusted_after_long_outage(issuer: Issuer) -> None:
    assert await issuer.knows("one")
    issuer.now, issuer.is_down = TTL, True
    assert await issuer.knows("one")
    issuer.now, issuer.is_down, issuer.keys = TTL + 1800, False, keys("two")
    assert not await issuer.knows("one")


async def test_known_or_missing_key_id_or_unknown_one_right_after_fetch_causes_no_fetch(issuer: Issuer) -> None:
    issuer.keys = keys("one", "two")
    assert not await issuer.knows("unknown")
    issuer.now = 1
    assert await issuer.knows("one")
    assert await issuer.cache.find("EdDSA", None) is None
    assert await issuer.cache.find("RS256", "one") is None
    assert issuer.fetches == 1


async def test_unknown_keys_cause_one_fetch_per_pause(issuer: Issuer) -> None:
    assert await issuer.knows("one")
    for second in range(1, 90):
        issuer.now = second
        assert not await issuer.knows(f"unknown-{second}")
    assert issuer.fetches == 1 + 3


async def test_concurrent_lookups_of_a_new_key_share_one_fetch(issuer: Issuer) -> None:
    for number, (name, known) in enumerate((("one", keys("one")), ("two", keys("one", "two")))):
        issuer.now, issuer.keys, issuer.gate = number, known, asyncio.Event()
        issuer.started.clear()
        lookups = [asyncio.create_task(issuer.knows(name)) for _ in range(50)]
        await issuer.started.wait()
        issuer.gate.set()
        assert all(await asyncio.gather(*lookups))
        assert issuer.fetches == number + 1


async def test_cancelled_lookup_does_not_cancel_shared_fetch(issuer: Issuer) -> None:
    issuer.gate = asyncio.Event()
    first, second = asyncio.create_task(issuer.knows("one")), asyncio.create_task(issuer.knows("one"))
    await issuer.started.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    issuer.gate.set()
    assert await second


async def test_issuer_that_was_never_reached_is_asked_every_two_seconds(issuer: Issuer) -> None:
    issuer.is_down = True
    for tenth in range(100):
        issuer.now = tenth / 10
        with pytest.raises(IssuerUnavailable, match="the issuer is unavailable"):
            await issuer.knows("one")
    assert issuer.fetches == 5
    issuer.is_down, issuer.now = False, 10
    assert await issuer.knows("one")


async def test_lookup_during_retry_waits_for_it(issuer: Issuer) -> None:
    issuer.is_down = True
    with pytest.raises(IssuerUnavailable):
        await issuer.knows("one")
    issuer.is_down, issuer.now, issuer.gate = False, 2, asyncio.Event()
    issuer.started.clear()
    first = asyncio.create_task(issuer.knows("one"))
    await issuer.started.wait()
    second = asyncio.create_task(issuer.knows("one"))
    await asyncio.sleep(0)  # lets the second lookup start before the first one ends
    issuer.gate.set()
    assert await first
    assert await second


async def test_cached_keys_are_used_during_outage_for_bounded_time(issuer: Issuer) -> None:
    assert await issuer.knows("one")
    issuer.now, issuer.is_down = 1, True
    assert not await issuer.knows("two")
    for moment in (1, TTL, TTL + 1, TTL + STALE - 1):
        issuer.now = moment
        assert await issuer.knows("one")
    issuer.now = TTL + STALE
    with pytest.raises(IssuerUnavailable):
        await issuer.knows("one")


async def test_lookup_does_not_wait_during_known_outage(issuer: Issuer) -> None:
    assert await issuer.knows("one")
    issuer.now, issuer.is_down = TTL, True
    assert await issuer.knows("one")
    issuer.gate, issuer.now = asyncio.Event(), TTL + PAUSE
    async with asyncio.timeout(5):
        assert await issuer.knows("one")
        assert await issuer.knows("one")
    issuer.is_down = False
    issuer.gate.set()
    await wait_for_fetch(issuer)
    assert issuer.cache.failure is None


async def test_unavailable_issuer_is_asked_once_per_pause(issuer: Issuer) -> None:
    assert await issuer.knows("one")
    issuer.is_down = True
    for second in range(90):
        issuer.now = TTL + second
        assert await issuer.knows("one")
        await wait_for_fetch(issuer)
    assert issuer.fetches == 1 + 3


async def test_close_ends_running_fetch_and_can_be_repeated(issuer: Issuer) -> None:
    issuer.gate = asyncio.Event()
    lookup = asyncio.create_task(issuer.knows("one"))
    await issuer.started.wait()
    await issuer.cache.aclose()
    await issuer.cache.aclose()
    with pytest.raises(IssuerUnavailable):
        await lookup
