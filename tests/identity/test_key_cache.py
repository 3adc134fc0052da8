import asyncio
from collections.abc import AsyncIterator

import pytest

from sluice.engines.identity.jose import ALGORITHMS
from sluice.engines.identity.jwks import TrustedKey, read_jwks
from sluice.engines.identity.key_cache import CacheTimes, FetchFailed, KeyCache
from sluice.engines.identity.protocol import IssuerAway
from tests.engines.identity.tokens import ed_key, jwk, jwks

TTL, STALE, PAUSE = 600.0, 3600.0, 30.0


def keys(*names: str) -> tuple[TrustedKey, ...]:
    return read_jwks(jwks(*(jwk(ed_key(name), kid=name) for name in names)), ALGORITHMS)


class Issuer:
    """An issuer and a watch, both in the test's hand. Fetches wait while `held` is set."""

    def __init__(self) -> None:
        self.now = 0.0
        self.keys = keys("one")
        self.away = False
        self.fetches = 0
        self.begun = asyncio.Event()
        self.held: asyncio.Event | None = None
        self.cache = KeyCache(self.fetch, CacheTimes(TTL, STALE, PAUSE), monotonic=lambda: self.now)

    async def fetch(self) -> tuple[TrustedKey, ...]:
        self.fetches += 1
        self.begun.set()
        if self.held is not None:
            await self.held.wait()
        if self.away:
            raise FetchFailed("the issuer is away")
        return self.keys

    async def knows(self, name: str) -> bool:
        return await self.cache.find("EdDSA", name) is not None


@pytest.fixture
async def issuer() -> AsyncIterator[Issuer]:
    issuer = Issuer()
    yield issuer
    await issuer.cache.aclose()


async def settled(issuer: Issuer) -> None:
    """Wait until no fetch is under way."""
    if issuer.cache._running is not None:
        await asyncio.wait([issuer.cache._running], timeout=5)


async def test_keys_are_fetched_once_within_their_time(issuer: Issuer) -> None:
    for moment in (0, 1, 300, TTL - 1):
        issuer.now = moment
        assert await issuer.knows("one")
    assert issuer.fetches == 1


async def test_keys_are_fetched_again_after_their_time(issuer: Issuer) -> None:
    assert await issuer.knows("one")
    issuer.now = TTL
    assert await issuer.knows("one")
    assert issuer.fetches == 2


async def test_a_withdrawn_key_is_believed_no_longer_than_its_time(issuer: Issuer) -> None:
    assert await issuer.knows("one")
    issuer.keys = keys("two")
    issuer.now = TTL - 1
    assert await issuer.knows("one")
    issuer.now = TTL
    assert not await issuer.knows("one")


async def test_a_withdrawn_key_is_not_believed_after_a_long_silence(issuer: Issuer) -> None:
    assert await issuer.knows("one")
    issuer.now, issuer.away = TTL, True
    assert await issuer.knows("one")
    issuer.now, issuer.away, issuer.keys = TTL + 1800, False, keys("two")
    assert not await issuer.knows("one")


async def test_a_new_key_is_found_at_once(issuer: Issuer) -> None:
    assert await issuer.knows("one")
    issuer.now, issuer.keys = 1, keys("one", "two")
    assert await issuer.knows("two")
    assert issuer.fetches == 2


async def test_unknown_keys_lead_to_one_fetch_per_pause(issuer: Issuer) -> None:
    assert await issuer.knows("one")
    for second in range(1, 90):
        issuer.now = second
        assert not await issuer.knows(f"unknown-{second}")
    assert issuer.fetches == 1 + 3


async def test_an_unknown_key_right_after_a_fetch_leads_to_no_other(issuer: Issuer) -> None:
    assert not await issuer.knows("unknown")
    assert issuer.fetches == 1


async def test_a_token_without_key_id_or_of_a_known_key_leads_to_no_fetch(issuer: Issuer) -> None:
    issuer.keys = keys("one", "two")
    assert await issuer.knows("one")
    issuer.now = 1
    assert await issuer.cache.find("EdDSA", None) is None
    assert await issuer.cache.find("RS256", "one") is None
    assert issuer.fetches == 1


async def test_many_that_ask_at_once_share_one_fetch(issuer: Issuer) -> None:
    issuer.held = asyncio.Event()
    asking = [asyncio.create_task(issuer.knows("one")) for _ in range(50)]
    await issuer.begun.wait()
    issuer.held.set()
    assert all(await asyncio.gather(*asking))
    assert issuer.fetches == 1


async def test_many_with_a_new_key_at_once_share_one_fetch_and_all_find_it(issuer: Issuer) -> None:
    assert await issuer.knows("one")
    issuer.now, issuer.keys, issuer.held = 1, keys("one", "two"), asyncio.Event()
    issuer.begun.clear()
    asking = [asyncio.create_task(issuer.knows("two")) for _ in range(50)]
    await issuer.begun.wait()
    issuer.held.set()
    assert all(await asyncio.gather(*asking))
    assert issuer.fetches == 2


async def test_one_that_gives_up_does_not_end_the_fetch_of_the_others(issuer: Issuer) -> None:
    issuer.held = asyncio.Event()
    first, second = asyncio.create_task(issuer.knows("one")), asyncio.create_task(issuer.knows("one"))
    await issuer.begun.wait()
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    issuer.held.set()
    assert await second


async def test_an_issuer_that_was_never_reached_is_away(issuer: Issuer) -> None:
    issuer.away = True
    with pytest.raises(IssuerAway, match="the issuer is away"):
        await issuer.knows("one")


async def test_without_keys_the_issuer_is_asked_every_two_seconds_at_most(issuer: Issuer) -> None:
    issuer.away = True
    for tenth in range(100):
        issuer.now = tenth / 10
        with pytest.raises(IssuerAway):
            await issuer.knows("one")
    assert issuer.fetches == 5


async def test_without_keys_whoever_comes_during_a_retry_waits_for_it(issuer: Issuer) -> None:
    issuer.away = True
    with pytest.raises(IssuerAway):
        await issuer.knows("one")
    issuer.away, issuer.now, issuer.held = False, 2, asyncio.Event()
    issuer.begun.clear()
    first = asyncio.create_task(issuer.knows("one"))
    await issuer.begun.wait()
    second = asyncio.create_task(issuer.knows("one"))
    await asyncio.sleep(0)  # lets the second one ask, before the answer to the first comes
    issuer.held.set()
    assert await first
    assert await second


async def test_an_issuer_that_comes_back_is_believed_within_two_seconds(issuer: Issuer) -> None:
    issuer.away = True
    with pytest.raises(IssuerAway):
        await issuer.knows("one")
    issuer.away, issuer.now = False, 2
    assert await issuer.knows("one")


async def test_kept_keys_are_used_while_the_issuer_is_away_for_a_bounded_time(issuer: Issuer) -> None:
    assert await issuer.knows("one")
    issuer.away = True
    for moment in (TTL, TTL + 1, TTL + STALE - 1):
        issuer.now = moment
        assert await issuer.knows("one")
    issuer.now = TTL + STALE
    with pytest.raises(IssuerAway):
        await issuer.knows("one")


async def test_an_issuer_known_to_be_away_makes_nobody_wait(issuer: Issuer) -> None:
    assert await issuer.knows("one")
    issuer.now, issuer.away = TTL, True
    assert await issuer.knows("one")
    issuer.held, issuer.now = asyncio.Event(), TTL + PAUSE
    async with asyncio.timeout(5):
        assert await issuer.knows("one")
        assert await issuer.knows("one")
    issuer.away = False
    issuer.held.set()
    await settled(issuer)
    assert issuer.cache.failure is None


async def test_an_issuer_that_is_away_is_asked_once_per_pause(issuer: Issuer) -> None:
    assert await issuer.knows("one")
    issuer.away = True
    for second in range(90):
        issuer.now = TTL + second
        assert await issuer.knows("one")
        await settled(issuer)
    assert issuer.fetches == 1 + 3


async def test_an_unknown_key_while_the_issuer_is_away_is_refused_and_the_kept_ones_stay(issuer: Issuer) -> None:
    assert await issuer.knows("one")
    issuer.now, issuer.away = 1, True
    assert not await issuer.knows("two")
    assert await issuer.knows("one")


async def test_closing_ends_a_fetch_under_way_and_may_be_repeated(issuer: Issuer) -> None:
    issuer.held = asyncio.Event()
    asking = asyncio.create_task(issuer.knows("one"))
    await issuer.begun.wait()
    await issuer.cache.aclose()
    await issuer.cache.aclose()
    with pytest.raises(IssuerAway):
        await asking
