"""The rate limiter of many processes in one Redis or Valkey, with the clock of that server."""

import secrets
from typing import Any, Final

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import RedisError

from sluice.kit.health import EngineHealth, EngineState
from sluice.limiter.protocol import Exhausted, LimiterUnavailable, Taken
from sluice.observe.log import log

_MICROSECONDS: Final = 1_000_000
# uvloop raises RuntimeError for a connection that was reset a moment ago.
_ERRORS: Final = (RedisError, OSError, RuntimeError)
# A sorted set for each key: a member for each take, its score the time in microseconds by the server's clock (exact in
# a double until the year 2255). The server runs a script atomically, so count and claim are one step. A token that is
# there already is a retry whose first reply was lost: it is counted already. `%.0f`, because Lua rounds large numbers
# otherwise.
_TAKE: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local limit, window = tonumber(ARGV[1]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - window))
local had = redis.call('ZSCORE', KEYS[1], ARGV[3])
local count = redis.call('ZCARD', KEYS[1])
if had then
  return {1, limit - count, tonumber(had)}
end
if count >= limit then
  local first = redis.call('ZRANGE', KEYS[1], count - limit, count - limit, 'WITHSCORES')
  return {0, tonumber(first[2]) + window - now, now}
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[3])
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil(window / 1000) + 1))
return {1, limit - count - 1, now}
"""


class RedisLimiter:
    """An exact sliding window for all processes that use the same server.

    `url` is `redis://`, `rediss://` (TLS) or `unix://`, with password and database number as Redis clients write them;
    raise `ValueError` for others. A reply, and a free connection of the `pool_size` ones, are awaited for `seconds`
    each. A request on a broken connection is repeated once on a new one, so a take ends within four times that.
    """

    def __init__(self, url: str, *, seconds: float = 1.0, pool_size: int = 50, prefix: str = "sluice:rate:") -> None:
        self._prefix = prefix
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=pool_size,
            timeout=seconds,
            socket_timeout=seconds,
            socket_connect_timeout=seconds,
            retry=Retry(NoBackoff(), 1, supported_errors=(NoConnection,)),
            protocol=2,
        )
        self._client: Redis = Redis.from_pool(pool)
        self._take = self._client.register_script(_TAKE)

    async def take(self, key: str, *, limit: int, window_seconds: int) -> Taken | Exhausted:
        """Count and claim; see the protocol."""
        token = secrets.token_hex(8)
        arguments: list[int | str] = [limit, window_seconds * _MICROSECONDS, token]
        try:
            taken, figure, at = await self._take(keys=[self._prefix + key], args=arguments)
        except _ERRORS as error:
            raise LimiterUnavailable(f"Redis does not reply as it should ({type(error).__name__})") from error
        if taken:
            return Taken(key, token, max(0, figure), at / _MICROSECONDS)
        return Exhausted(figure / _MICROSECONDS)

    async def give_back(self, taken: Taken, *, window_seconds: int) -> None:  # noqa: ARG002  (others need the window)
        """Delete the take of this token, if it still counts."""
        try:
            await self._client.zrem(self._prefix + taken.key, taken.token)
        except _ERRORS as error:
            log.warning("place_not_given_back", limiter="redis", fault=type(error).__name__)

    async def health(self) -> EngineHealth:
        """Return the server's state and version, and whether it evicts windows when its memory is full.

        Never raises.
        """
        try:
            info: dict[str, Any] = await self._client.info("server", "memory")
        except _ERRORS as error:
            return EngineHealth("limiter", "redis", EngineState.DOWN, detail=f"no reply ({type(error).__name__})")
        version = str(info.get("valkey_version") or info.get("redis_version", ""))
        evicts = info.get("maxmemory") and info.get("maxmemory_policy") != "noeviction"
        if evicts:
            detail = "the server drops windows when its memory is full: set maxmemory-policy noeviction"
            return EngineHealth("limiter", "redis", EngineState.DEGRADED, version, detail)
        return EngineHealth("limiter", "redis", EngineState.UP, version, "exact across all processes of this server")

    async def aclose(self) -> None:
        """Release the connections. A second call is a no-op."""
        await self._client.aclose()
        await self._client.connection_pool.disconnect()
