"""The verdict cache in Redis or Valkey, shared by all processes.

The server is trusted to keep verdicts, not to invent them.
"""

import asyncio
import hmac
import json
import time
from collections.abc import Callable
from typing import Final

from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

from sluice.kit.health import EngineHealth, EngineState
from sluice.scanner.verdict_cache import CleanVerdict, VerdictKey

# What a call to an unavailable Redis may raise. uvloop raises RuntimeError for a connection that was reset a moment
# ago.
_REDIS_ERRORS: Final = (RedisError, OSError, RuntimeError)
_MAC: Final = "sha256"
_MAC_BYTES: Final = 32
_DOMAIN: Final = b"sluice clean verdict v2\0"
_RETRY_SECONDS: Final = 5.0


class RedisVerdictCache:
    """Keeps at most `max_verdicts` verdicts, each for `life_seconds`, under as many fixed keys.

    Verdicts that share a key replace each other. So the memory used is bounded without any bookkeeping, also on a
    server that must not evict keys (a limiter's). `url` is as Redis clients write it; raise `ValueError` for others.
    Each entry is signed with `secret`: a client that can write to the server can cause files to be scanned again, and
    cannot have any passed. No reply is waited for longer than `seconds`; an unavailable server is left alone for 5 s.
    """

    name = "redis"

    def __init__(
        self,
        url: str,
        *,
        secret: bytes,
        max_verdicts: int = 50_000,
        life_seconds: float = 86_400.0,
        seconds: float = 0.25,
        pool_size: int = 16,
        prefix: str = "sluice:clean:",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=pool_size,
            timeout=seconds,
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            protocol=2,
        )
        self._client: Redis = Redis.from_pool(pool)
        self._secret = secret
        self._max_verdicts = max_verdicts
        self._life_seconds = max(1, int(life_seconds))
        self._seconds = seconds
        self._prefix = prefix
        self._monotonic = monotonic
        self._retry_at = 0.0
        self._last_error = ""

    async def get(self, key: VerdictKey) -> CleanVerdict | None:
        """Return the verdict of this key; see the protocol."""
        if self._monotonic() < self._retry_at:
            return None
        digest = key.digest
        try:
            async with asyncio.timeout(self._seconds):
                entry = await self._client.get(self._redis_key(digest))
        except _REDIS_ERRORS as error:
            self._suspend(error)
            return None
        self._last_error = ""
        if not isinstance(entry, bytes):
            return None
        mac, verdict = entry[:_MAC_BYTES], entry[_MAC_BYTES:]
        # Another digest may share the Redis key, and any client may have written the entry.
        return _parse(verdict) if hmac.compare_digest(mac, sign_entry(self._secret, digest, verdict)) else None

    async def put(self, key: VerdictKey, verdict: CleanVerdict) -> None:
        """Store the verdict; see the protocol."""
        if self._monotonic() < self._retry_at:
            return
        digest = key.digest
        packed = json.dumps([verdict.member, verdict.report, *verdict.flags]).encode()
        entry = sign_entry(self._secret, digest, packed) + packed
        try:
            async with asyncio.timeout(self._seconds):
                await self._client.set(self._redis_key(digest), entry, ex=self._life_seconds)
        except _REDIS_ERRORS as error:
            self._suspend(error)

    async def health(self) -> EngineHealth:
        """Ping the server. Never raises."""
        limits = {"most_verdicts": self._max_verdicts}
        try:
            async with asyncio.timeout(self._seconds):
                await self._client.ping()
        except _REDIS_ERRORS as error:
            return EngineHealth("verdicts", self.name, EngineState.DEGRADED, detail=_describe(error), limits=limits)
        state = EngineState.DEGRADED if self._last_error else EngineState.UP
        return EngineHealth("verdicts", self.name, state, detail=self._last_error, limits=limits)

    async def aclose(self) -> None:
        """Close the connections. A second call is a no-op."""
        await self._client.aclose()
        await self._client.connection_pool.disconnect()

    def _redis_key(self, digest: bytes) -> str:
        return f"{self._prefix}{int.from_bytes(digest[:8], 'big') % self._max_verdicts}"

    def _suspend(self, error: RedisError | OSError | RuntimeError) -> None:
        self._retry_at = self._monotonic() + _RETRY_SECONDS
        self._last_error = _describe(error)


def sign_entry(secret: bytes, digest: bytes, verdict: bytes) -> bytes:
    """Return the signature with which the entry of a verdict begins. It binds the verdict to the digest of its key."""
    return hmac.digest(secret, _DOMAIN + digest + verdict, _MAC)


def _parse(verdict: bytes) -> CleanVerdict | None:
    """Return the verdict in an entry; None if it has another shape, as another release may have written it."""
    try:
        values = json.loads(verdict)
    except ValueError:
        return None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        return None
    match values:
        case [member, report, *flags]:
            return CleanVerdict(member, tuple(flags), report)
    return None


def _describe(error: RedisError | OSError | RuntimeError) -> str:
    return f"no reply ({type(error).__name__})"
