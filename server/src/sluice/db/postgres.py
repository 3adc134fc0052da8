"""PostgreSQL: connection options, SQLAlchemy's pool, and the driver of the upload path with its idle connections.

TLS, timeouts and a pgbouncer in between are settled here. The unit of work is in `database`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import asyncpg
from sqlalchemy import Connection, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from sluice.db.rls import TENANT_SETTING, TenantConnection, set_config
from sluice.db.statement import BatchStatement, NoConnection, Row, Statement, Values

# The SQLSTATE of a write to a standby (PostgreSQL, appendix A).
READ_ONLY: Final = "25006"
_SCHEMES: Final = frozenset({"postgresql", "postgres", "postgresql+asyncpg"})
_TLS: Final = frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"})
_NO_URL: Final = "expected postgresql://user:password@host/name or sqlite:///path"
# How much later than the server the client itself ends a statement: only where the server does not respond at all.
_GRACE_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 5.0
_IDLE_SWEEP_SECONDS: Final = 30.0
# Every statement of the service is served by an index. PostgreSQL's defaults expect slow disks, and its estimates take
# two conditions on one column for independent: among a million rows it would read a whole table, in several processes,
# for a page of fifty.
_PLANNER: Final = {"random_page_cost": "1.1", "max_parallel_workers_per_gather": "0", "jit": "off"}
# Statements of the pool are of lists, searches and changes, planned each time by their values: a plan for any values
# does not know which partial index serves them, nor how few rows are asked for. Those of the upload path are planned
# once.
_POOL_PLANNER: Final = {"plan_cache_mode": "force_custom_plan"}
# After these a late response may still arrive on the connection; or its server is no longer the primary, or is shutting
# down.
_CONNECTION_LOST: Final = (TimeoutError, asyncpg.ReadOnlySQLTransactionError, asyncpg.InternalClientError)


@dataclass(frozen=True, slots=True)
class PostgresOptions:
    """The number of connections of one process, and its timeouts in seconds. None: no timeout, as migrations may need.

    `wait_seconds` is for a free connection, `connect_seconds` for a new one, `statement_seconds` for one statement,
    `lock_seconds` for a row that another transaction holds. With `pgbouncer` (transaction mode) nothing is kept on a
    connection beyond a transaction: statements are not prepared, and the timeouts are set in each transaction.
    """

    pool_size: int = 10
    wait_seconds: float = 10.0
    connect_seconds: float = 5.0
    statement_seconds: float | None = 15.0
    lock_seconds: float | None = 10.0
    pgbouncer: bool = False


def is_postgres(url: str) -> bool:
    """Return whether the URL names a PostgreSQL.

    Raise `ValueError` if it is malformed, without repeating it: it may hold a password.
    """
    if url.partition(":")[0] not in _SCHEMES:
        return False
    try:
        parts = urlsplit(url)
        query = parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        raise ValueError(_NO_URL) from None
    if not set(query.get("sslmode", ())) <= _TLS:
        raise ValueError(f"expected sslmode to be one of {', '.join(sorted(_TLS))}")
    return True


def postgres_engine(url: str, options: PostgresOptions) -> AsyncEngine:
    """Return SQLAlchemy's pool of connections; none is opened yet.

    asyncpg parses the URL as libpq does: several hosts, `target_session_attrs=read-write` (which finds the primary),
    `sslmode`, `sslrootcert`.
    """
    settings = _settings(options, _PLANNER | _POOL_PLANNER)
    connect = partial(_connect, "postgresql" + url[url.index(":") :], options, {} if options.pgbouncer else settings)
    engine: AsyncEngine = create_async_engine(
        "postgresql+asyncpg://",
        creator=lambda: _adapted(engine, connect, options),
        pool_size=options.pool_size,
        max_overflow=0,
        pool_timeout=options.wait_seconds,
        pool_recycle=1800,
        hide_parameters=True,  # errors are logged, and values hold file names, hashes of keys, sealed secrets
    )
    event.listen(engine.sync_engine, "checkout", _refuse_closed)
    event.listen(engine.sync_engine, "handle_error", _discard_lost_connection)
    if options.pgbouncer and settings:

        def set_all(connection: Connection) -> None:
            connection.exec_driver_sql(_set_all(settings))

        event.listen(engine.sync_engine, "begin", set_all)
    return engine


def _adapted(engine: AsyncEngine, connect: Callable[[], Awaitable[Any]], options: PostgresOptions) -> Any:
    more: dict[str, Any] = {}
    if options.pgbouncer:
        # Unnamed statements, so that none is left behind on a server that the next transaction may not reach.
        more = {"prepared_statement_cache_size": 0, "prepared_statement_name_func": lambda: ""}
    driver: Any = engine.sync_engine.dialect.dbapi
    return driver.connect(async_creator_fn=connect, **more)


async def _connect(dsn: str, options: PostgresOptions, settings: Mapping[str, str]) -> Any:
    try:
        return await asyncpg.connect(
            dsn,
            timeout=options.connect_seconds,
            command_timeout=None if options.statement_seconds is None else options.statement_seconds + _GRACE_SECONDS,
            server_settings={"application_name": "sluice", **settings},
            connection_class=TenantConnection,
            **({"statement_cache_size": 0} if options.pgbouncer else {}),
        )
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as fault:
        reason = (fault.strerror if isinstance(fault, OSError) else str(fault)) or type(fault).__name__
        raise NoConnection(f"{_address(dsn)}: {reason}") from fault


def _address(dsn: str) -> str:
    """Return host, port and database of a URL, without credentials."""
    parts = urlsplit(dsn)
    return parts.netloc.rpartition("@")[2] + parts.path


def _settings(options: PostgresOptions, planner: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a connection; migrations, whose statements may take any time, keep PostgreSQL's own."""
    if options.statement_seconds is None:
        return {}
    seconds = {"statement_timeout": options.statement_seconds, "lock_timeout": options.lock_seconds}
    timeouts = {name: str(max(1, int(each * 1000))) for name, each in seconds.items() if each is not None}
    return {**timeouts, **planner}


def _set_all(settings: Mapping[str, str]) -> str:
    return "SELECT " + ", ".join(set_config(name, value) for name, value in settings.items())


def _refuse_closed(connection: Any, _record: object, _proxy: object) -> None:
    # The driver knows without a round trip that the server has closed a connection.
    if connection.driver_connection.is_closed():
        raise DisconnectionError


def _discard_lost_connection(context: ExceptionContext) -> None:
    # After a timeout a rollback would wait for the same silent server. asyncpg raises `InternalClientError` ("another
    # operation is in progress") on a connection whose server has announced its shutdown; READ_ONLY comes from a server
    # that is no longer the primary.
    fault = context.original_exception
    if isinstance(fault, TimeoutError | asyncpg.InternalClientError) or getattr(fault, "sqlstate", "") == READ_ONLY:
        context.is_disconnect = True


class PostgresDriver:
    """A pool of asyncpg's for the upload path.

    Each unit is one prepared statement that commits by itself: one round trip.

    A unit sees the rows of its tenant. A connection whose last unit was of another tenant is switched first: one
    round trip more.
    """

    def __init__(self, url: str, options: PostgresOptions) -> None:
        """No connection is opened yet."""
        self.size = options.pool_size
        self.requested = 0
        settings = {} if options.pgbouncer else _settings(options, _PLANNER)
        self._open_connection = partial(_connect, "postgresql" + url[url.index(":") :], options, settings)
        self._wait_seconds = options.wait_seconds
        # Behind pgbouncer scope and statement could reach two servers unless a transaction holds them together.
        self._transaction_settings = _settings(options, _PLANNER) if options.pgbouncer else None
        self._connections: IdleConnections | None = None
        self._opening = asyncio.Lock()

    async def fetch(
        self,
        statement: Statement,
        values: Values,
        *,
        writes: bool,  # noqa: ARG002  (see Driver)
    ) -> Row | None:
        """Run the unit's one statement."""
        query = statement.postgres
        found = await self._fetch(query.text, query.bind(values), statement.tenant_of(values))
        return dict(found[0]) if found else None

    async def fetch_batch(
        self, batch: BatchStatement, units: Sequence[Values], *, tenant_id: str | None
    ) -> Sequence[Row]:
        """Run several units as one statement, and return the rows of those that were carried out."""
        return [dict(row) for row in await self._fetch(batch.text, batch.bind(units), tenant_id)]

    async def aclose(self) -> None:
        """Close the pool; connections that a silent server keeps busy are dropped."""
        connections, self._connections = self._connections, None
        if connections is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await connections.aclose()
        except TimeoutError:
            connections.terminate()

    async def _fetch(self, sql: str, parameters: Sequence[Any], tenant_id: str | None) -> Sequence[Any]:
        self.requested += 1
        try:
            connections = self._connections or await self._open_pool()
            try:
                connection = await connections.acquire()
            except TimeoutError as fault:
                raise NoConnection("none is free") from fault
            try:
                found = await self._run(connection, sql, parameters, tenant_id)
            except BaseException as fault:
                if isinstance(fault, _CONNECTION_LOST):
                    connection.terminate()
                await connections.discard(connection)
                raise
            await connections.release(connection)
            return found
        finally:
            self.requested -= 1

    async def _run(self, connection: Any, sql: str, parameters: Sequence[Any], tenant_id: str | None) -> Sequence[Any]:
        rows: Sequence[Any]
        if self._transaction_settings is None:
            if tenant_id is not None:
                await connection.set_tenant(tenant_id)
            rows = await connection.fetch(sql, *parameters)
        else:
            async with connection.transaction():
                await connection.execute(_set_all({**self._transaction_settings, TENANT_SETTING: tenant_id or ""}))
                rows = await connection.fetch(sql, *parameters)
        return rows

    async def _open_pool(self) -> "IdleConnections":
        async with self._opening:
            if self._connections is None:
                pool = await asyncpg.create_pool(
                    min_size=0,
                    max_size=self.size,
                    connect=self._ignore_arguments,
                    connection_class=TenantConnection,
                    init=_read_json,
                    reset=_reset_nothing,
                )
                self._connections = IdleConnections(pool, wait_seconds=self._wait_seconds)
            return self._connections

    async def _ignore_arguments(self, *_arguments: object, **_more: object) -> Any:
        # The pool passes arguments of its own, derived from defaults and the environment.
        return await self._open_connection()


async def _read_json(connection: Any) -> None:
    # JSON columns are returned as values; they are sent as text that is JSON already.
    await connection.set_type_codec("json", schema="pg_catalog", encoder=str, decoder=json.loads)


async def _reset_nothing(connection: Any) -> None:
    """Reset nothing: a unit is one statement that leaves only its tenant behind, and each unit sets its own tenant."""


class IdleConnections:
    """Connections that stay acquired from asyncpg's pool between two units: acquiring costs as much as a statement.

    The most recently used one is handed out first. One that stayed unused for a whole sweep goes back to the pool,
    which closes idle connections in its own time.
    """

    def __init__(self, pool: asyncpg.Pool, *, wait_seconds: float) -> None:
        self._pool = pool
        self._wait_seconds = wait_seconds
        self._idle: list[Any] = []
        self._unused = 0  # how many, from the front of `_idle`, were not acquired since the last sweep
        self._waiting = 0
        self._sweep: asyncio.TimerHandle | None = None
        self._returning: set[asyncio.Task[None]] = set()
        self._closed = False

    async def acquire(self) -> Any:
        """Return a connection for one unit.

        Raise `TimeoutError` if none is free in time, and whatever prevents a new one.
        """
        while self._idle:
            connection = self._idle.pop()
            self._unused = min(self._unused, len(self._idle))
            if not _is_closed(connection):
                return connection
            await self._pool.release(connection)
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=self._wait_seconds)
        finally:
            self._waiting -= 1

    async def release(self, connection: Any) -> None:
        """Take back a connection whose unit succeeded."""
        if self._waiting or self._closed:
            # Those who wait do so in the pool.
            await self._pool.release(connection)
            return
        self._idle.append(connection)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(_IDLE_SWEEP_SECONDS, self._end_sweep)

    async def discard(self, connection: Any) -> None:
        """Give a connection whose unit failed to the pool, which checks it."""
        await self._pool.release(connection)

    async def aclose(self) -> None:
        """Close every connection once its unit has ended."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        idle, self._idle = self._idle, []
        await self._return(idle)
        await self._pool.close()

    def terminate(self) -> None:
        """Drop every connection at once."""
        self._closed = True
        self._pool.terminate()

    def _end_sweep(self) -> None:
        self._sweep = None
        unused, self._idle = self._idle[: self._unused], self._idle[self._unused :]
        self._unused = len(self._idle)
        loop = asyncio.get_running_loop()
        if unused:
            task = loop.create_task(self._return(unused))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)
        if self._idle:
            self._sweep = loop.call_later(_IDLE_SWEEP_SECONDS, self._end_sweep)

    async def _return(self, connections: Sequence[Any]) -> None:
        for connection in connections:
            await self._pool.release(connection)


def _is_closed(connection: Any) -> bool:
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:  # the pool has already taken it back
        return True
