"""All queries of the rate limiter in the database. The clock is the database's, read while the key is held; what it means is in `database`."""

from typing import Final

from sqlalchemy import BigInteger, ColumnElement, cast, delete, extract, func, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from sluice.db.schema import rate_takes

_LONGEST_WINDOW_US: Final = 3_600_000_000
"""The longest window that the interface allows."""


async def hold(connection: AsyncConnection, key: str) -> None:
    """Let no other transaction take of `key` until this one ends. SQLite has one writer anyway: the transaction is the lock."""
    if connection.dialect.name == "postgresql":
        await connection.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"sluice:rate:{key}", 0))))


async def count(connection: AsyncConnection, key: str, window_us: int) -> tuple[int, int]:
    """Forget the takes of `key` that no longer count; answer the moment in microseconds, and how many takes are left."""
    now: int = (await connection.execute(select(_now(connection)))).scalar_one()
    await connection.execute(delete(rate_takes).where(rate_takes.c.key == key, rate_takes.c.taken_us <= now - window_us))
    left = select(func.count()).select_from(rate_takes).where(rate_takes.c.key == key)
    return now, (await connection.execute(left)).scalar_one()


async def taken_at(connection: AsyncConnection, key: str, place: int) -> int:
    """Answer the moment in microseconds of the take at `place`, the oldest being 0."""
    query = select(rate_takes.c.taken_us).where(rate_takes.c.key == key).order_by(rate_takes.c.taken_us).offset(place).limit(1)
    moment: int = (await connection.execute(query)).scalar_one()
    return moment


async def add(connection: AsyncConnection, key: str, token: str, now: int) -> None:
    """Write one take."""
    await connection.execute(insert(rate_takes).values(key=key, token=token, taken_us=now))


async def remove(connection: AsyncConnection, key: str, token: str) -> None:
    """Delete one take, if it is still there."""
    await connection.execute(delete(rate_takes).where(rate_takes.c.key == key, rate_takes.c.token == token))


async def forget_idle(connection: AsyncConnection) -> None:
    """Delete takes that count in no window, whatever key they are of."""
    await connection.execute(delete(rate_takes).where(rate_takes.c.taken_us <= _now(connection) - _LONGEST_WINDOW_US))


def _now(connection: AsyncConnection) -> ColumnElement[int]:
    """The moment of the statement in microseconds since 1970: PostgreSQL's clock, or this machine's, which SQLite reads to the millisecond."""
    if connection.dialect.name == "postgresql":
        return cast(extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)
    return cast((func.julianday("now") - 2440587.5) * 86_400_000, BigInteger) * 1000
