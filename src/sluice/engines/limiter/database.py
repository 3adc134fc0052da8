"""The rate limiter of many processes in the service's own database, for those who run no Redis. Its queries are in `repository`."""

import secrets
from typing import Final

from sluice.db.database import Database, DatabaseAway
from sluice.db.whose import NOBODY
from sluice.engines.limiter import repository
from sluice.engines.limiter.protocol import Exhausted, LimiterAway, Taken
from sluice.kit.health import EngineHealth, EngineState
from sluice.observe.log import log

_MICROSECONDS: Final = 1_000_000


class DatabaseLimiter:
    """An exact sliding window for all processes on the same database: a row per take.

    The takes of one key come one after the other, each a transaction of four statements; those of different keys do not wait
    for each other on PostgreSQL, and do on SQLite, which has one writer.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, key: str, *, limit: int, window_seconds: int) -> Taken | Exhausted:
        """Claim one place; see the protocol. The clock is read while the key is held."""
        token, window = secrets.token_hex(8), window_seconds * _MICROSECONDS
        try:
            async with self._database.transaction(NOBODY) as connection:
                await repository.hold(connection, key)
                now, taken = await repository.count(connection, key, window)
                if taken >= limit:
                    first = await repository.taken_at(connection, key, taken - limit)
                    return Exhausted((first + window - now) / _MICROSECONDS)
                await repository.add(connection, key, token, now)
        except DatabaseAway as fault:
            raise LimiterAway(str(fault)) from fault
        return Taken(key, token, limit - taken - 1, now / _MICROSECONDS)

    async def give_back(self, taken: Taken, *, window_seconds: int) -> None:  # noqa: ARG002  (other engines need the window)
        """Free the place of this token, if it still counts."""
        try:
            async with self._database.transaction(NOBODY) as connection:
                await repository.remove(connection, taken.key, taken.token)
        except DatabaseAway as fault:
            log.warning("place_not_given_back", limiter="database", fault=str(fault))

    async def forget_idle(self) -> None:
        """Delete what keys left behind that nobody takes of any more; see the protocol."""
        try:
            async with self._database.transaction(NOBODY) as connection:
                await repository.forget_idle(connection)
        except DatabaseAway as fault:
            raise LimiterAway(str(fault)) from fault

    async def health(self) -> EngineHealth:
        """Answer as the database does. Never raises."""
        health = await self._database.health()
        detail = health.detail if health.state is EngineState.DOWN else "exact across all processes of this database"
        return EngineHealth("limiter", "database", health.state, health.version, detail)

    async def aclose(self) -> None:
        """The database is closed by whoever made it."""
