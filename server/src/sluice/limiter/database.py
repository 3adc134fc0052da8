"""The rate limiter of many processes in the service's own database, for installations without Redis."""

import secrets
from typing import Final

from sqlalchemy import BigInteger, ColumnElement, cast, delete, extract, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.db.database import Database, DatabaseUnavailable
from sluice.db.rls import NO_TENANT
from sluice.db.schema import rate_takes
from sluice.kit.health import EngineHealth, EngineState
from sluice.limiter.protocol import Exhausted, LimiterUnavailable, Taken
from sluice.observe.log import log

_MICROSECONDS: Final = 1_000_000
_LONGEST_WINDOW_US: Final = 3600 * _MICROSECONDS  # the longest window that the interface allows


class DatabaseLimiter:
    """An exact sliding window for all processes on the same database: a row for each take.

    The takes of one key run one after the other, each in a transaction of four statements. Takes of different keys do
    not wait for each other on PostgreSQL; on SQLite they do, because it has one writer.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, key: str, *, limit: int, window_seconds: int) -> Taken | Exhausted:
        """Count and claim; see the protocol. The database's clock is read while the key is locked."""
        token, window = secrets.token_hex(8), window_seconds * _MICROSECONDS
        try:
            async with self._database.transaction(NO_TENANT) as connection:
                await _lock(connection, key)
                now: int = (await connection.execute(select(_now(connection)))).scalar_one()
                await connection.execute(
                    delete(rate_takes).where(rate_takes.c.key == key, rate_takes.c.taken_us <= now - window)
                )
                counted = select(func.count()).select_from(rate_takes).where(rate_takes.c.key == key)
                count: int = (await connection.execute(counted)).scalar_one()
                if count >= limit:
                    # A lowered limit leaves more takes than fit: the one that makes room is not the first.
                    query = select(rate_takes.c.taken_us).where(rate_takes.c.key == key).order_by(rate_takes.c.taken_us)
                    first: int = (await connection.execute(query.offset(count - limit).limit(1))).scalar_one()
                    return Exhausted((first + window - now) / _MICROSECONDS)
                await connection.execute(insert(rate_takes).values(key=key, token=token, taken_us=now))
        except DatabaseUnavailable as error:
            raise LimiterUnavailable(str(error)) from error
        return Taken(key, token, limit - count - 1, now / _MICROSECONDS)

    async def give_back(self, taken: Taken, *, window_seconds: int) -> None:  # noqa: ARG002  (others need the window)
        """Delete the take of this token, if it still counts."""
        try:
            async with self._database.transaction(NO_TENANT) as connection:
                await connection.execute(
                    delete(rate_takes).where(rate_takes.c.key == taken.key, rate_takes.c.token == taken.token)
                )
        except DatabaseUnavailable as error:
            log.warning("place_not_given_back", limiter="database", fault=str(error))

    async def forget_idle(self) -> None:
        """Delete takes of any key that count in no window any more; see the protocol."""
        try:
            async with self._database.transaction(NO_TENANT) as connection:
                oldest = _now(connection) - _LONGEST_WINDOW_US
                await connection.execute(delete(rate_takes).where(rate_takes.c.taken_us <= oldest))
        except DatabaseUnavailable as error:
            raise LimiterUnavailable(str(error)) from error

    async def health(self) -> EngineHealth:
        """Return the database's state. Never raises."""
        health = await self._database.health()
        detail = health.detail if health.state is EngineState.DOWN else "exact across all processes of this database"
        return EngineHealth("limiter", "database", health.state, health.version, detail)

    async def aclose(self) -> None:
        """Do nothing: the owner of the database closes it."""


async def _lock(connection: AsyncConnection, key: str) -> None:
    """Lock `key` against takes of other transactions until this one ends.

    In SQLite the transaction is the lock: it has one writer.
    """
    if connection.dialect.name == "postgresql":
        await connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"sluice:rate:{key}", 0))))


def _now(connection: AsyncConnection) -> ColumnElement[int]:
    """Return the time of the statement, in microseconds since 1970: PostgreSQL's, or this machine's for SQLite."""
    if connection.dialect.name == "postgresql":
        return cast(extract("epoch", func.clock_timestamp()) * _MICROSECONDS, BigInteger)
    # `julianday` is exact to the millisecond; 2440587.5 is 1970-01-01.
    return cast((func.julianday("now") - 2440587.5) * 86_400_000, BigInteger) * 1000
