"""A cache of an issuer's keys: when they are fetched again, and how long they are used if the issuer is unavailable."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from sluice.identity.jwks import TrustedKey, pick_key
from sluice.identity.protocol import IssuerUnavailable

_FIRST_RETRY_SECONDS: Final = 2.0

Fetch = Callable[[], Awaitable[tuple[TrustedKey, ...]]]


class FetchFailed(Exception):
    """The keys could not be fetched. `str()` says why, for operators."""


@dataclass(frozen=True, slots=True)
class CacheTimes:
    """All in seconds. Keys are used for `ttl`, and for `stale` more while the issuer is unavailable.

    An unknown key id, or an unavailable issuer, leads to at most one fetch per `pause`.
    """

    ttl: float = 600.0
    stale: float = 3600.0
    pause: float = 30.0


DEFAULT_TIMES: Final = CacheTimes()


class KeyCache:
    """An issuer's keys, fetched when needed, with one fetch at a time for all callers.

    A key that the issuer withdrew is trusted for at most `ttl`; only an issuer that does not respond prolongs that.
    """

    def __init__(
        self, fetch: Fetch, times: CacheTimes = DEFAULT_TIMES, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._fetch = fetch
        self._times = times
        self._monotonic = monotonic
        self._keys: tuple[TrustedKey, ...] | None = None
        self._fetched_at = self._tried_at = self._missed_at = float("-inf")
        self._running: asyncio.Task[None] | None = None
        self.failure: str | None = None  # why the latest fetch failed; None when it did not

    async def find(self, algorithm: str, key_id: str | None) -> TrustedKey | None:
        """Return the key for a token with this header, or None when the issuer has none. Raise `IssuerUnavailable`."""
        asked_at = self._monotonic()
        keys = await self.current()
        # Only an unknown key id may be in a newer set: a known key that does not fit, or a token without an id, is not.
        is_unknown = key_id is not None and all(key.key_id != key_id for key in keys)
        if is_unknown and self._fetched_at < asked_at and self._may_fetch_for_unknown():
            await asyncio.wait([self._start()])
            keys = self._usable() or ()
        return pick_key(keys, algorithm, key_id)

    async def current(self) -> tuple[TrustedKey, ...]:
        """Return the keys to use now, fetched if necessary. Raise `IssuerUnavailable`."""
        if self._age() >= self._times.ttl:
            await self._renew()
        keys = self._usable()
        if keys is None:
            raise IssuerUnavailable(self.failure or "the keys were never fetched")
        return keys

    async def aclose(self) -> None:
        """Cancel a running fetch. A second call is a no-op."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])

    async def _renew(self) -> None:
        """Fetch again and wait for it, unless the issuer failed recently: callers must not wait one after the other."""
        has_stale = self._usable() is not None
        since_try = self._monotonic() - self._tried_at
        failed_recently = self.failure is not None and since_try < 2 * self._times.pause
        retry_after = self._times.pause if has_stale else _FIRST_RETRY_SECONDS
        if failed_recently and self._running is None and since_try < retry_after:
            return
        task = self._start()
        if not (failed_recently and has_stale):
            # `wait` instead of `await`: a caller that is cancelled must not cancel the fetch for the others.
            await asyncio.wait([task])

    def _may_fetch_for_unknown(self) -> bool:
        """Claim the one fetch per pause that unknown key ids get; callers that come while it runs join it."""
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
