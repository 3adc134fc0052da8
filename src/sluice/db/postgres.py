"""How the service waits for PostgreSQL: its pool, its timeouts, TLS, and a pgbouncer in between. The unit of work is in `database`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import asyncpg
from sqlalchemy import Connection, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from sluice.db.drivers import NoConnection, PostgresDriver
from sluice.db.whose import TenantConnection, set_config

_SCHEMES: Final = frozenset({"postgresql", "postgres", "postgresql+asyncpg"})
_TLS: Final = frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"})
_GRACE_SECONDS: Final = 1.0
"""How much later than the server the client itself ends a statement: only where the server does not answer at all."""
READ_ONLY: Final = "25006"
"""What PostgreSQL says to who writes to a standby."""
_NO_URL: Final = "expected postgresql://user:password@host/name or sqlite:///path"


@dataclass(frozen=True, slots=True)
class PostgresTerms:
    """How many connections one process keeps, and how long it waits, in seconds; None: without end, as migrations may have to.

    `wait` is for a free connection, `connect` for a new one, `statement` for one statement, `lock` for a row that another
    transaction holds. With `pgbouncer` (transaction mode) nothing is kept on a connection beyond a transaction: statements are not
    prepared ahead, and the timeouts are set anew in each transaction.
    """

    pool_size: int = 10
    wait_seconds: float = 10.0
    connect_seconds: float = 5.0
    statement_seconds: float | None = 15.0
    lock_seconds: float | None = 10.0
    pgbouncer: bool = False


def is_postgres(url: str) -> bool:
    """Say whether the URL names a PostgreSQL; raises `ValueError` when it does and cannot be read. The sentence does not repeat it."""
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


def engine_of(url: str, terms: PostgresTerms) -> AsyncEngine:
    """Answer a pool of connections; none is made yet.

    The driver reads the URL itself, as libpq would: several hosts, `target_session_attrs=read-write` (which finds the primary),
    `sslmode` and `sslrootcert`.
    """
    connect = partial(_connected, "postgresql" + url[url.index(":") :], terms)
    engine: AsyncEngine = create_async_engine(
        "postgresql+asyncpg://",
        creator=lambda: _adapted(engine, connect, terms),
        pool_size=terms.pool_size,
        max_overflow=0,
        pool_timeout=terms.wait_seconds,
        pool_recycle=1800,
        hide_parameters=True,  # their words go to the log: names of files, hashes of keys, sealed secrets
    )
    event.listen(engine.sync_engine, "checkout", _refuse_closed)
    event.listen(engine.sync_engine, "handle_error", _leave_a_lost_server)
    if terms.pgbouncer and _timeouts(terms):
        event.listen(engine.sync_engine, "begin", partial(_set_timeouts, _timeouts(terms)))
    return engine


def driver_of(url: str, terms: PostgresTerms) -> PostgresDriver:
    """Answer a pool for the hot path, as large as the other and on the same terms; none of its connections is made yet."""
    connect = partial(_connected, "postgresql" + url[url.index(":") :], terms)
    # Behind pgbouncer a statement's parts may reach two servers unless a transaction holds them together.
    before = _timeouts(terms) if terms.pgbouncer else None
    return PostgresDriver(connect, size=terms.pool_size, wait_seconds=terms.wait_seconds, before=before)


def _adapted(engine: AsyncEngine, connect: Callable[[], Awaitable[Any]], terms: PostgresTerms) -> Any:
    """Answer SQLAlchemy's view of a new connection. Behind pgbouncer each statement goes under no name, so none is left at a server."""
    more: dict[str, Any] = {}
    if terms.pgbouncer:
        more = {"prepared_statement_cache_size": 0, "prepared_statement_name_func": lambda: ""}
    return engine.sync_engine.dialect.dbapi.connect(async_creator_fn=connect, **more)  # type: ignore[union-attr]  # asyncpg's is there


async def _connected(dsn: str, terms: PostgresTerms) -> Any:
    settings = {"application_name": "sluice"}
    if not terms.pgbouncer:
        settings |= _timeouts(terms)
    try:
        return await asyncpg.connect(
            dsn,
            timeout=terms.connect_seconds,
            command_timeout=None if terms.statement_seconds is None else terms.statement_seconds + _GRACE_SECONDS,
            server_settings=settings,
            connection_class=TenantConnection,
            **({"statement_cache_size": 0} if terms.pgbouncer else {}),
        )
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError) as fault:
        raise NoConnection(type(fault).__name__) from fault


def _timeouts(terms: PostgresTerms) -> dict[str, str]:
    both = {"statement_timeout": terms.statement_seconds, "lock_timeout": terms.lock_seconds}
    return {name: str(max(1, int(seconds * 1000))) for name, seconds in both.items() if seconds is not None}


def _set_timeouts(timeouts: dict[str, str], connection: Connection) -> None:
    connection.exec_driver_sql("SELECT " + ", ".join(set_config(name, milliseconds) for name, milliseconds in timeouts.items()))


def _refuse_closed(connection: Any, _record: object, _proxy: object) -> None:
    """Take no connection out of the pool whose server has hung up meanwhile: the driver knows that without asking it."""
    if connection.driver_connection.is_closed():
        raise DisconnectionError


def _leave_a_lost_server(context: ExceptionContext) -> None:
    """Never use a connection again on which an answer did not come in time: its rollback would wait for the same silence.

    Nor one to a server that is the primary no more, or that has said that it ends: the driver then speaks of another operation in progress.
    """
    fault = context.original_exception
    if isinstance(fault, TimeoutError | asyncpg.InternalClientError) or getattr(fault, "sqlstate", "") == READ_ONLY:
        context.is_disconnect = True
