"""The connection to the database and the unit of work: the only place that commits.

Queries live in the repositories.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import asyncpg
from sqlalchemy import URL, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.pool import QueuePool

from sluice.db.group_commit import GroupCommit
from sluice.db.postgres import READ_ONLY, PostgresDriver, PostgresOptions, is_postgres, postgres_engine
from sluice.db.rls import ALL_TENANTS, ALL_TENANTS_SETTING, NO_TENANT, TENANT_SETTING, RlsScope
from sluice.db.sqlite import SqliteDriver, SqliteWorker, Unit, empty_log, sqlite_engine
from sluice.db.statement import Driver, NoConnection, Row, Statement, Values
from sluice.kit.health import EngineHealth, EngineState

# Less than a monitor waits for a response.
HEALTH_SECONDS: Final = 5.0
_T = TypeVar("_T")
# Work in the background on SQLite, where every upload waits for the end of its transactions.
_PORTION_SECONDS: Final = 0.007  # of a processor, that one takes
_BUSY_FACTOR: Final = 4  # how many times as long it may take by the clock
_FEWEST_ROWS: Final = 25  # of one, also the first
# After a transaction of work in the background comes a pause, in lengths of it, for this time after a write of others.
_PAUSES: Final = 1.0
_POSTGRES_PAUSES: Final = 2.0
_OTHERS_SECONDS: Final = 1.0
_NO_URL: Final = "expected postgresql://user:password@host/name or sqlite:///path"
# Classes of SQLSTATE that mean "unavailable" (PostgreSQL, appendix A): connection exception, transaction rollback,
# insufficient resources, operator intervention, lock not available, read-only transaction (the server was the primary
# when the connection was made).
_UNAVAILABLE_STATES: Final = ("08", "40", "53", "57", "55P03", READ_ONLY)
_UNREACHABLE: Final = (
    OperationalError,
    InterfaceError,
    ConnectionError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    sqlite3.OperationalError,
)
# uvloop raises this as a RuntimeError on a write to a connection that was reset a moment ago.
_RESET: Final = "TCPTransport closed"


class DatabaseUnavailable(Exception):
    """The database is unreachable, or did not complete a statement in time. The fault is not the caller's."""


class DatabaseNotReached(DatabaseUnavailable):
    """No connection could be opened: no statement was sent, so nothing can have changed."""


class Conflict(Exception):
    """A constraint refused a statement: a name is taken, a row is referenced or gone.

    The service that ran it knows which.
    """


class Portion:
    """How many rows work of one kind changes in a transaction: on SQLite as many as take 7 ms of a processor."""

    def __init__(self, most: int, *, is_fixed: bool) -> None:
        self.rows = most if is_fixed else min(most, _FEWEST_ROWS)
        self._most = most
        self._is_fixed = is_fixed

    def took(self, rows: int, seconds: float) -> None:
        """Note what a transaction with that many rows cost."""
        if self._is_fixed:
            return
        if seconds > _PORTION_SECONDS:
            fewer = int(rows * max(0.5, _PORTION_SECONDS / seconds))
            self.rows = min(self.rows, max(_FEWEST_ROWS, fewer))
        elif rows >= self.rows and seconds < _PORTION_SECONDS * 0.8:
            self.rows = min(self._most, self.rows + max(1, self.rows // 4))


class Database:
    """One database. `transaction()` writes, `reading()` reads; neither may be open while a file's bytes move.

    Each takes its row-level-security scope: on PostgreSQL it sees no other rows if the service works in a role of its
    own (`db.rls`).
    """

    def __init__(self, url: str, *, postgres: PostgresOptions | None = None) -> None:
        """Raise `ValueError` if `url` names no known kind of database, without repeating it: it may hold a password.

        `postgres` holds pool size and timeouts; SQLite waits for nothing but its own writer.
        """
        self.is_sqlite = not is_postgres(url)
        self._driver: Driver
        self._groups: GroupCommit | None = None
        # SQLite has one writer: waiting here is fair and costs nothing, waiting inside SQLite is a busy loop.
        self._writer: asyncio.Lock | None = None
        self._worker: SqliteWorker | None = None
        self._background = asyncio.Lock()
        self._others_wrote_at = 0.0
        self._portions: dict[str, Portion] = {}
        if self.is_sqlite:
            parsed = _sqlite_url(url)
            self.engine = sqlite_engine(parsed)
            self._worker = SqliteWorker(parsed)
            self._writer = asyncio.Lock()
            self._driver = SqliteDriver(parsed, self._writer)
        else:
            options = postgres or PostgresOptions()
            self.engine = postgres_engine(url, options)
            self._driver = driver = PostgresDriver(url, options)
            self._groups = GroupCommit(driver)

    @asynccontextmanager
    async def transaction(self, scope: RlsScope) -> AsyncIterator[AsyncConnection]:
        """Open a transaction for writing; commit when the block ends, roll back when it raises.

        Raise `Conflict`, `DatabaseUnavailable`.
        """
        if self._writer is None:
            async with _translating_errors(), self.engine.begin() as connection:
                await _set_scope(connection, scope)
                yield connection
            return
        async with self._writer, _translating_errors(), self.engine.connect() as connection:
            await connection.execute(text("BEGIN IMMEDIATE"))
            try:
                yield connection
            except BaseException:
                await connection.rollback()
                raise
            await connection.commit()

    async def work(self, scope: RlsScope, unit: Unit[_T]) -> tuple[_T, float]:
        """Run work in the background in a transaction of its own; return its result, and its cost for a `Portion`.

        After it, and while others write, comes a pause, so that uploads have most of the database's time. On SQLite,
        `unit` runs on a thread, so that the lock of the writer is held for its statements alone: it may wait for
        nothing else. If the caller is cancelled, the unit still completes or is undone as a whole.

        Raise `Conflict`, `DatabaseUnavailable`.
        """
        if self._writer is None or self._worker is None:
            began = time.monotonic()
            async with self.transaction(scope) as connection:
                result = await unit(connection)
            now = time.monotonic()
            if now - self._others_wrote_at < _OTHERS_SECONDS:
                await asyncio.sleep((now - began) * _POSTGRES_PAUSES)
            return result, now - began
        async with self._background:
            async with self._writer, _translating_errors():
                done = await self._worker.run(unit)
            now = time.monotonic()
            if done.had_to_wait:
                self._others_wrote_at = now
            if now - self._others_wrote_at < _OTHERS_SECONDS:
                await asyncio.sleep(done.seconds * _PAUSES)
        # Fewer rows make neither a flush to disk shorter nor the wait for a processor that others use.
        return done.result, max(done.cpu_seconds, done.seconds / _BUSY_FACTOR)

    def portion(self, kind: str, most: int) -> Portion:
        """Return how many rows work in the background of that kind changes in one transaction, of at most `most`."""
        return self._portions.setdefault(kind, Portion(most, is_fixed=not self.is_sqlite))

    @asynccontextmanager
    async def reading(self, scope: RlsScope) -> AsyncIterator[AsyncConnection]:
        """Open a connection for reading; changes are rolled back. Raise `DatabaseUnavailable`."""
        async with _translating_errors(), self.engine.connect() as connection:
            if not self.is_sqlite:
                await _set_scope(connection, scope)
            yield connection

    async def fetch(self, statement: Statement, values: Values) -> Row | None:
        """Run a statement of the upload path that only reads, and return its row. Raise `DatabaseUnavailable`."""
        try:
            return await self._driver.fetch(statement, values, writes=False)
        except Exception as fault:
            _raise_translated(fault)
            raise

    async def commit(self, statement: Statement, values: Values) -> Row | None:
        """Run a statement of the upload path in its own transaction; return its row, None if it changed nothing.

        Raise `Conflict`, `DatabaseUnavailable`.
        """
        try:
            self._others_wrote_at = time.monotonic()
            if self._groups is not None and statement.batch is not None:
                return await self._groups.commit(statement, values)
            return await self._driver.fetch(statement, values, writes=True)
        except Exception as fault:
            _raise_translated(fault)
            raise

    async def empty_log(self) -> bool:
        """Remove what was overwritten from SQLite's write-ahead log; return False if that has to be tried again.

        PostgreSQL's log is the operator's. Raise `DatabaseUnavailable`.
        """
        if self._writer is None:
            return True
        async with self._writer, _translating_errors():
            return await empty_log(self.engine)

    async def health(self) -> EngineHealth:
        """Ask the server for its version. Never raise."""
        name = "sqlite" if self.is_sqlite else "postgresql"
        limits = self._pool_limits()
        question = "select sqlite_version()" if self.is_sqlite else "show server_version"
        try:
            async with asyncio.timeout(HEALTH_SECONDS), self.reading(NO_TENANT) as connection:
                version = (await connection.execute(text(question))).scalar_one()
        except DatabaseUnavailable as fault:
            return EngineHealth("database", name, EngineState.DOWN, detail=str(fault), limits=limits)
        except TimeoutError:
            detail = "the database does not respond in time"
            return EngineHealth("database", name, EngineState.DOWN, detail=detail, limits=limits)
        return EngineHealth("database", name, EngineState.UP, version=str(version), limits=limits)

    async def row_security(self) -> bool | None:
        """Return whether PostgreSQL enforces row level security for this role; None on SQLite.

        Raise `DatabaseUnavailable`.

        It does not for the owner of the tables, nor for a superuser.
        """
        if self.is_sqlite:
            return None
        question = text("SELECT row_security_active(to_regclass('files'))")
        async with self.reading(NO_TENANT) as connection:
            return bool((await connection.execute(question)).scalar_one())

    def _pool_limits(self) -> Mapping[str, int]:
        """Return how many connections are open and in use: by the upload path, and by everything else."""
        pool = self.engine.pool
        shared = {"connections": pool.size(), "running": pool.checkedout()} if isinstance(pool, QueuePool) else {}
        size, requested = self._driver.size, self._driver.requested
        return shared | {
            "upload_connections": size,
            "upload_running": min(requested, size),
            "upload_waiting": max(0, requested - size),
        }

    async def aclose(self) -> None:
        """Close the pool. A second call is a no-op."""
        await self._driver.aclose()
        if self._worker is not None:
            await self._worker.aclose()
        await self.engine.dispose()


async def _set_scope(connection: AsyncConnection, scope: RlsScope) -> None:
    if isinstance(scope, str):
        await connection.exec_driver_sql(f"SELECT set_config('{TENANT_SETTING}', $1, true)", (scope,))
    elif scope is ALL_TENANTS:
        # By SET, which is not a query: the transaction may still choose its isolation level.
        await connection.exec_driver_sql(f"SET LOCAL {ALL_TENANTS_SETTING} = 'on'")


@asynccontextmanager
async def _translating_errors() -> AsyncIterator[None]:
    try:
        yield
    except Exception as fault:
        _raise_translated(fault)
        raise


def _raise_translated(fault: Exception) -> None:
    """Raise `Conflict` or `DatabaseUnavailable` if that is what `fault` means; otherwise return."""
    match fault:
        case IntegrityError():
            raise Conflict(str(fault.orig)) from fault
        case asyncpg.IntegrityConstraintViolationError() | sqlite3.IntegrityError():
            raise Conflict(str(fault)) from fault
        case NoConnection():
            raise DatabaseNotReached(f"no connection to the database is available ({fault})") from fault
        case PoolTimeout():
            raise DatabaseNotReached("no connection to the database is available (none is free)") from fault
    if isinstance(fault, _UNREACHABLE):
        raise DatabaseUnavailable("the database does not respond") from fault
    if isinstance(fault, RuntimeError | asyncpg.PostgresError | DBAPIError) and _means_unavailable(fault):
        raise DatabaseUnavailable("the database could not carry the statement out in time") from fault


def _means_unavailable(fault: Exception) -> bool:
    if isinstance(fault, RuntimeError):
        return _RESET in str(fault)
    if isinstance(fault, DBAPIError):
        return fault.connection_invalidated or str(getattr(fault.orig, "sqlstate", "")).startswith(_UNAVAILABLE_STATES)
    return str(getattr(fault, "sqlstate", "")).startswith(_UNAVAILABLE_STATES)


def _sqlite_url(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise ValueError(_NO_URL) from None
    if parsed.get_backend_name() != "sqlite":
        raise ValueError(_NO_URL)
    return parsed.set(drivername="sqlite+aiosqlite")
