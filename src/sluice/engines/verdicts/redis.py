"""Clean verdicts of all processes that share one Redis or Valkey. It is trusted with their keeping, not with their truth."""

import asyncio
import hmac
import json
import time
from collections.abc import Callable
from typing import Final

from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import RedisError

from sluice.engines.verdicts.protocol import Cleared, VerdictKey
from sluice.kit.health import EngineHealth, EngineState

_FAULTS: Final = (RedisError, OSError, RuntimeError)
"""What asking a Redis that goes away may raise. A RuntimeError is uvloop's word for a connection that was reset a moment ago."""
_MAC: Final = "sha256"
_MAC_BYTES: Final = 32
_DOMAIN: Final = b"sluice clean verdict v1\0"
_REST_SECONDS: Final = 5.0


class RedisVerdicts:
    """Keeps at most `most` verdicts, each for `life_seconds`, in as many fixed places: two that meet in one place push each other out.

    So the room that is taken is bounded without any bookkeeping, also on a server that must not drop keys (a limiter's). `url` is as Redis
    clients write it; raises `ValueError` for others. Each entry is signed with `secret`: whoever can write to the server can make files be
    scanned again, and cannot have any passed. No answer is waited for longer than `seconds`; a server that is away is left alone for 5 s.
    """

    name = "redis"

    def __init__(
        self,
        url: str,
        *,
        secret: bytes,
        most: int = 50_000,
        life_seconds: float = 86_400.0,
        seconds: float = 0.25,
        pool_size: int = 16,
        prefix: str = "sluice:clean:",
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        pool = BlockingConnectionPool.from_url(
            url, max_connections=pool_size, timeout=seconds, socket_timeout=seconds, socket_connect_timeout=seconds, protocol=2
        )
        self._client: Redis = Redis.from_pool(pool)
        self._secret = secret
        self._most = most
        self._life_seconds = max(1, int(life_seconds))
        self._seconds = seconds
        self._prefix = prefix
        self._monotonic = monotonic
        self._away_until = 0.0
        self._fault = ""

    async def find(self, key: VerdictKey) -> Cleared | None:
        """Answer the verdict of this key; see the protocol."""
        if self._is_resting():
            return None
        identity = key.identity
        try:
            async with asyncio.timeout(self._seconds):
                kept = await self._client.get(self._place(identity))
        except _FAULTS as fault:
            self._rest(fault)
            return None
        self._fault = ""
        return self._read(identity, kept) if isinstance(kept, bytes) else None

    async def keep(self, key: VerdictKey, cleared: Cleared) -> None:
        """Keep the verdict; see the protocol."""
        if self._is_resting():
            return
        identity = key.identity
        said = json.dumps([cleared.member, *cleared.flags]).encode()
        try:
            async with asyncio.timeout(self._seconds):
                await self._client.set(self._place(identity), self._sign(identity, said) + said, ex=self._life_seconds)
        except _FAULTS as fault:
            self._rest(fault)

    async def health(self) -> EngineHealth:
        """Ask the server whether it is there. Never raises."""
        limits = {"most_verdicts": self._most}
        try:
            async with asyncio.timeout(self._seconds):
                await self._client.ping()
        except _FAULTS as fault:
            return EngineHealth("verdicts", self.name, EngineState.DEGRADED, detail=_name_of(fault), limits=limits)
        state = EngineState.DEGRADED if self._fault else EngineState.UP
        return EngineHealth("verdicts", self.name, state, detail=self._fault, limits=limits)

    async def aclose(self) -> None:
        """Let go of the connections. A second call is a no-op."""
        await self._client.aclose()
        await self._client.connection_pool.disconnect()

    def _place(self, identity: bytes) -> str:
        return f"{self._prefix}{int.from_bytes(identity[:8], 'big') % self._most}"

    def _sign(self, identity: bytes, said: bytes) -> bytes:
        return hmac.digest(self._secret, _DOMAIN + identity + said, _MAC)

    def _read(self, identity: bytes, kept: bytes) -> Cleared | None:
        """Answer what was kept for this identity; None for what another left in its place, or nobody of ours."""
        mac, said = kept[:_MAC_BYTES], kept[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._sign(identity, said)):
            return None
        member, *flags = json.loads(said)
        return Cleared(member, tuple(flags))

    def _is_resting(self) -> bool:
        return self._monotonic() < self._away_until

    def _rest(self, fault: RedisError | OSError | RuntimeError) -> None:
        self._away_until = self._monotonic() + _REST_SECONDS
        self._fault = _name_of(fault)


def _name_of(fault: RedisError | OSError | RuntimeError) -> str:
    return f"no answer ({type(fault).__name__})"
