"""The connection to the database and the unit of work: the only place that commits. Queries live in the repositories."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import asyncpg
from sqlalchemy import URL, event, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import QueuePool

from sluice.db.drivers import Driver, NoConnection, Row, SqliteDriver
from sluice.db.group_commit import GroupCommit, Kind
from sluice.db.hot import Hot
from sluice.db.postgres import READ_ONLY, PostgresTerms, driver_of, engine_of, is_postgres
from sluice.db.whose import EVERYBODY, EVERYBODY_FLAG, NOBODY, TENANT, Whose
from sluice.kit.health import EngineHealth, EngineState

_SQLITE_BUSY_MS: Final = 10_000
HEALTH_SECONDS: Final = 5.0
"""So long a look at the database's health may take: less than a monitor waits."""
# synchronous=FULL: an acknowledged upload survives a power cut, not only a crash of the process.
_PRAGMAS: Final = tuple(
    f"PRAGMA {setting}"
    for setting in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={_SQLITE_BUSY_MS}")
)
_NO_URL: Final = "expected postgresql://user:password@host/name or sqlite:///path"
# PostgreSQL, appendix A: connection exception, transaction rollback, insufficient resources, operator intervention, lock not available,
# read-only transaction: the server was the primary when the connection was made
_AWAY: Final = ("08", "40", "53", "57", "55P03", READ_ONLY)
_UNREACHABLE: Final = (
    OperationalError,
    InterfaceError,
    ConnectionError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    sqlite3.OperationalError,
)


_RESET: Final = "TCPTransport closed"
"""uvloop's words, in a RuntimeError, to who writes to a connection that was reset a moment ago."""


class DatabaseAway(Exception):
    """The database cannot be reached, or cannot answer in time. The fault is not the caller's."""


class DatabaseUnreached(DatabaseAway):
    """Not even a connection could be had: nothing was asked, so nothing can have been changed."""


class Conflict(Exception):
    """A statement was refused by a constraint: a name is taken, a row is pointed at or gone. Which one, the service knows that asked."""


class Database:
    """One database. `transaction()` writes, `reading()` reads; neither may be open while a file's bytes move.

    Each says whose rows it is about: on PostgreSQL it sees no others where the service works in a role of its own (`db.whose`).
    """

    def __init__(self, url: str, *, postgres: PostgresTerms | None = None) -> None:
        """Raises `ValueError` when `url` names no database that the service knows; the sentence does not repeat it: it may hold a password.

        `postgres` says how to wait for one; SQLite has nobody to wait for but its own writer.
        """
        self.is_sqlite = not is_postgres(url)
        terms = postgres or PostgresTerms()
        self.engine = _sqlite(_sqlite_url(url)) if self.is_sqlite else engine_of(url, terms)
        self._dialect = self.engine.dialect
        self._driver: Driver
        self._groups: GroupCommit | None = None
        if self.is_sqlite:
            self._driver = _sqlite_driver(_sqlite_url(url))
        else:
            self._driver = postgres_driver = driver_of(url, terms)
            self._groups = GroupCommit(postgres_driver)
        # SQLite has one writer: waiting here is fair and costs nothing, waiting inside SQLite is a busy loop.
        self._writer: asyncio.Lock | None = asyncio.Lock() if self.is_sqlite else None

    @asynccontextmanager
    async def transaction(self, whose: Whose) -> AsyncIterator[AsyncConnection]:
        """Open a transaction for writing; commits when the block ends, rolls back when it raises. Raises `Conflict`, `DatabaseAway`."""
        if self._writer is None:
            async with _faults_named(), self.engine.begin() as connection:
                await _tell(connection, whose)
                yield connection
            return
        async with self._writer, _faults_named(), self.engine.connect() as connection:
            await connection.execute(text("BEGIN IMMEDIATE"))
            try:
                yield connection
            except BaseException:
                await connection.rollback()
                raise
            await connection.commit()

    @asynccontextmanager
    async def reading(self, whose: Whose) -> AsyncIterator[AsyncConnection]:
        """Open a connection for reading; whatever it changed would be rolled back. Raises `DatabaseAway`."""
        async with _faults_named(), self.engine.connect() as connection:
            if not self.is_sqlite:
                await _tell(connection, whose)
            yield connection

    async def fetch(self, unit: Hot, values: Mapping[str, Any]) -> Row | None:
        """Run a unit of the hot path that only reads, and answer its row. Raises `DatabaseAway`."""
        return await self._run(unit, values, writes=False)

    async def commit(self, unit: Hot, values: Mapping[str, Any]) -> Row | None:
        """Run a unit of the hot path in a transaction of its own and answer its row; None when it changed nothing.

        Raises `Conflict`, `DatabaseAway`.
        """
        return await self._run(unit, values, writes=True)

    async def _run(self, unit: Hot, values: Mapping[str, Any], *, writes: bool) -> Row | None:
        try:
            return await self._answer(unit, values, writes=writes)
        except Exception as fault:
            named = _named(fault)
            if named is fault:
                raise
            raise named from fault

    async def _answer(self, unit: Hot, values: Mapping[str, Any], *, writes: bool) -> Row | None:
        statements, tenant_id, together = unit.on(self._dialect), unit.tenant_of(values), unit.together_on(self._dialect)
        if together is not None and self._groups is not None:
            return await self._groups.commit(Kind(statements, together, tenant_id), values)
        if not writes or self._writer is None:
            return await self._driver.fetch(statements, values, tenant_id=tenant_id, writes=writes)
        async with self._writer:
            return await self._driver.fetch(statements, values, tenant_id=tenant_id, writes=True)

    async def health(self) -> EngineHealth:
        """Ask the server for its version. Never raises."""
        name = "sqlite" if self.is_sqlite else "postgresql"
        pool = self._pool()
        question = "select sqlite_version()" if self.is_sqlite else "show server_version"
        try:
            async with asyncio.timeout(HEALTH_SECONDS), self.reading(NOBODY) as connection:
                version = (await connection.execute(text(question))).scalar_one()
        except DatabaseAway as fault:
            return EngineHealth("database", name, EngineState.DOWN, detail=str(fault), limits=pool)
        except TimeoutError:
            return EngineHealth("database", name, EngineState.DOWN, detail="the database does not answer in time", limits=pool)
        return EngineHealth("database", name, EngineState.UP, version=str(version), limits=pool)

    async def row_security(self) -> bool | None:
        """Answer whether PostgreSQL holds this role to the tenant of each unit of work; None where it cannot. Raises `DatabaseAway`.

        It does not hold who owns the tables, nor a superuser.
        """
        if self.is_sqlite:
            return None
        async with self.reading(NOBODY) as connection:
            return bool((await connection.execute(text("SELECT row_security_active(to_regclass('files'))"))).scalar_one())

    def _pool(self) -> Mapping[str, int]:
        """Answer how many connections are kept and in use: by uploads, and by everything else."""
        pool = self.engine.pool
        kept = {"connections": pool.size(), "running": pool.checkedout()} if isinstance(pool, QueuePool) else {}
        size, asked = self._driver.size, self._driver.asked
        return kept | {"upload_connections": size, "upload_running": min(asked, size), "upload_waiting": max(0, asked - size)}

    async def aclose(self) -> None:
        """Close the pool. A second call is a no-op."""
        await self._driver.aclose()
        await self.engine.dispose()


async def _tell(connection: AsyncConnection, whose: Whose) -> None:
    """Say whose rows a transaction is about. For everybody by `SET`, which is no query yet: what comes may still choose its isolation."""
    if isinstance(whose, str):
        await connection.exec_driver_sql(f"SELECT set_config('{TENANT}', $1, true)", (whose,))
    elif whose is EVERYBODY:
        await connection.exec_driver_sql(f"SET LOCAL {EVERYBODY_FLAG} = 'on'")


@asynccontextmanager
async def _faults_named() -> AsyncIterator[None]:
    """Give the faults of a block their names."""
    try:
        yield
    except Exception as fault:
        named = _named(fault)
        if named is fault:
            raise
        raise named from fault


def _named(fault: Exception) -> Exception:
    """Answer `Conflict` for a broken constraint, `DatabaseAway` for what means "the database is away", and everything else as it is."""
    match fault:
        case IntegrityError():
            return Conflict(str(fault.orig))
        case asyncpg.IntegrityConstraintViolationError() | sqlite3.IntegrityError():
            return Conflict(str(fault))
        case NoConnection() | PoolTimeout():
            return DatabaseUnreached("no connection to the database can be had")
    if isinstance(fault, _UNREACHABLE):
        return DatabaseAway("the database does not answer")
    if isinstance(fault, RuntimeError | asyncpg.PostgresError | DBAPIError) and _tells_of_absence(fault):
        return DatabaseAway("the database could not carry the statement out in time")
    return fault


def _tells_of_absence(fault: Exception) -> bool:
    if isinstance(fault, RuntimeError):
        return _RESET in str(fault)
    if isinstance(fault, DBAPIError):
        return fault.connection_invalidated or str(getattr(fault.orig, "sqlstate", "")).startswith(_AWAY)
    return str(getattr(fault, "sqlstate", "")).startswith(_AWAY)


def _sqlite_url(text: str) -> URL:
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ValueError(_NO_URL) from None
    if url.get_backend_name() != "sqlite":
        raise ValueError(_NO_URL)
    return url.set(drivername="sqlite+aiosqlite")


def _sqlite(url: URL) -> AsyncEngine:
    engine = create_async_engine(
        url,
        connect_args={"isolation_level": None, "timeout": _SQLITE_BUSY_MS / 1000},
        pool_size=5,
        hide_parameters=True,  # their words go to the log: names of files, hashes of keys, sealed secrets
    )

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        for pragma in _PRAGMAS:
            cursor.execute(pragma)
        cursor.close()

    return engine


def _sqlite_driver(url: URL) -> Driver:
    def connect() -> sqlite3.Connection:
        # Each connection belongs to one thread; only its closing may come from another.
        seconds = _SQLITE_BUSY_MS / 1000
        connection = sqlite3.connect(url.database or ":memory:", isolation_level=None, timeout=seconds, check_same_thread=False)
        for pragma in _PRAGMAS:
            connection.execute(pragma)
        return connection

    return SqliteDriver(connect)
