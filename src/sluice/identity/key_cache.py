"""Keeping an issuer's keys: when they are fetched again, and how long they are used while the issuer is away. Fetching is given."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from sluice.engines.identity.jwks import TrustedKey, pick_key
from sluice.engines.identity.protocol import IssuerAway

_FIRST_RETRY_SECONDS: Final = 2.0

Fetch = Callable[[], Awaitable[tuple[TrustedKey, ...]]]


class FetchFailed(Exception):
    """The keys could not be fetched. `str()` says why, for operators."""


@dataclass(frozen=True, slots=True)
class CacheTimes:
    """All in seconds. Keys are used for `ttl`, and for `stale` more while the issuer is away.

    An unknown key id, or an issuer that is away, leads to at most one fetch per `pause`.
    """

    ttl: float = 600.0
    stale: float = 3600.0
    pause: float = 30.0


DEFAULT_TIMES: Final = CacheTimes()


class KeyCache:
    """An issuer's keys, fetched when needed, by one fetch at a time however many ask.

    A key that the issuer withdrew is not believed longer than `ttl`; only an issuer that does not answer prolongs that.
    """

    def __init__(self, fetch: Fetch, times: CacheTimes = DEFAULT_TIMES, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._times = times
        self._monotonic = monotonic
        self._keys: tuple[TrustedKey, ...] | None = None
        self._fetched_at = self._tried_at = self._missed_at = float("-inf")
        self._running: asyncio.Task[None] | None = None
        self.failure: str | None = None
        """Why the latest fetch failed; None when it did not."""

    async def find(self, algorithm: str, key_id: str | None) -> TrustedKey | None:
        """Answer the key for a token with this header, or None when the issuer has none. Raises `IssuerAway`."""
        asked_at = self._monotonic()
        keys = await self.current()
        if self._fetched_at < asked_at and self._is_unknown(key_id, keys) and self._may_ask_for_unknown():
            await asyncio.wait([self._start()])
            keys = self._usable() or ()
        return pick_key(keys, algorithm, key_id)

    async def current(self) -> tuple[TrustedKey, ...]:
        """Answer the keys to be used now, fetched if need be. Raises `IssuerAway`."""
        if self._age() >= self._times.ttl:
            await self._renew()
        keys = self._usable()
        if keys is None:
            raise IssuerAway(self.failure or "the keys were never fetched")
        return keys

    async def aclose(self) -> None:
        """End a fetch that is under way. A second call is a no-op."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _renew(self) -> None:
        """Fetch again and wait for it; but when the issuer is known to be away, callers must not hang on it one by one."""
        stale = self._usable() is not None
        since_try = self._monotonic() - self._tried_at
        known_away = self.failure is not None and since_try < 2 * self._times.pause
        if known_away and self._running is None and since_try < (self._times.pause if stale else _FIRST_RETRY_SECONDS):
            return
        task = self._start()
        if not (known_away and stale):
            # waiting on the task, not awaiting it: a caller that gives up must not end the fetch for the others
            await asyncio.wait([task])

    @staticmethod
    def _is_unknown(key_id: str | None, keys: tuple[TrustedKey, ...]) -> bool:
        """A known key that does not fit, or a token without a key id, is nothing that a fetch could mend."""
        return key_id is not None and all(key.key_id != key_id for key in keys)

    def _may_ask_for_unknown(self) -> bool:
        """Claim the one fetch per pause that unknown key ids get; whoever comes while it runs joins it."""
        if self._running is not None:
            return True
        now = self._monotonic()
        if now - self._missed_at < self._times.pause:
            return False
        self._missed_at = now
        return True

    def _age(self) -> float:
        return self._monotonic() - self._fetched_at

    def _usable(self) -> tuple[TrustedKey, ...] | None:
        return self._keys if self._age() < self._times.ttl + self._times.stale else None

    def _start(self) -> asyncio.Task[None]:
        if self._running is None:
            self._running = asyncio.create_task(self._fetch_once())
        return self._running

    async def _fetch_once(self) -> None:
        started = self._tried_at = self._monotonic()
        try:
            self._keys = await self._fetch()
            self._fetched_at, self.failure = started, None
        except FetchFailed as error:
            self.failure = str(error)
        finally:
            self._running = None
