"""SQLite, the embedded database: its engine, its driver for the upload path, and its online backup."""

import asyncio
import os
import sqlite3
import stat
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar, cast

from sqlalchemy import URL, Connection, CursorResult, Engine, Executable, create_engine, event, text
from sqlalchemy.engine.interfaces import _CoreAnyExecuteParams
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from sluice.db.statement import Row, Statement, Values, sqlite_values
from sluice.kit.failpoints import failpoint
from sluice.kit.secret_files import OTHERS, OWNER_ONLY

_BUSY_MS: Final = 10_000
_LOG_BUSY_MS: Final = 500
_AT_ONCE_SECONDS: Final = 0.001  # a transaction that begins later had to wait for another process
# synchronous=FULL: an acknowledged upload survives a power cut, not only a crash of the process.
_PRAGMAS: Final = tuple(
    f"PRAGMA {setting}"
    for setting in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
        "secure_delete=ON",  # what was deleted or erased is overwritten; the default of some builds, not of all
        f"busy_timeout={_BUSY_MS}",
    )
)
_PAGES_PER_STEP: Final = 1000  # writers proceed between two steps of a backup
_UNITS_PER_TRANSACTION: Final = 64
P = ParamSpec("P")
T = TypeVar("T")


def sqlite_engine(url: URL) -> AsyncEngine:
    """Return SQLAlchemy's pool of connections; none is opened yet."""
    engine = create_async_engine(url, connect_args=_CONNECT_ARGS, pool_size=5, hide_parameters=True)
    _prepare_connections(engine.sync_engine, url)
    return engine


def _prepare_connections(engine: Engine, url: URL) -> None:
    @event.listens_for(engine, "do_connect")
    def claim(*_connect: object) -> None:
        _claim_file(url.database)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        cursor = connection.cursor()
        for pragma in _PRAGMAS:
            cursor.execute(pragma)
        cursor.close()


class PooledConnection(sqlite3.Connection):
    """A connection that ends its transaction when it is closed.

    SQLite keeps a connection with open cursors until they are collected, and with it the lock of its transaction. The
    pool closes one like that when a caller is cancelled in the middle of a statement.
    """

    def close(self) -> None:
        """Roll back an open transaction and close. A second call is a no-op."""
        with suppress(sqlite3.ProgrammingError):  # closed before: the pool may close a connection twice
            if self.in_transaction:
                self.rollback()
        super().close()


# Errors are logged, and values hold file names, hashes of keys, sealed secrets: engines hide parameters.
_CONNECT_ARGS: Final = {"isolation_level": None, "timeout": _BUSY_MS / 1000, "factory": PooledConnection}


@dataclass(frozen=True, slots=True)
class _Write:
    """A statement that waits for the writer, and the future of its row."""

    statement: Statement
    values: Values
    result: "asyncio.Future[Row | None]"


class SqliteDriver:
    """Two connections, each on its own thread: readers never wait for a writer's flush to disk.

    Units that wait for the writer share its next transaction, each within a savepoint: one flush makes all of them
    durable.
    """

    size = 2

    def __init__(self, url: URL, writer: asyncio.Lock) -> None:
        """`writer` is held while this connection writes; other connections write under it, too."""
        self.requested = 0
        path = url.database or ":memory:"
        self._reader = _SqliteThread(path)
        self._writer = _SqliteThread(path)
        self._lock = writer
        self._waiting: list[_Write] = []
        self._writing: asyncio.Task[None] | None = None

    async def fetch(self, statement: Statement, values: Values, *, writes: bool) -> Row | None:
        """Run the whole unit in one hop to a thread.

        If the caller is cancelled, the unit is not begun, or still completes or is undone as a whole.
        """
        statement.tenant_of(values)  # SQLite has no scopes; a unit without its tenant is refused all the same
        bound = sqlite_values(values)
        self.requested += 1
        try:
            if not writes:
                return await self._reader.run(_fetch_row, statement, bound)
            unit = _Write(statement, bound, asyncio.get_running_loop().create_future())
            self._waiting.append(unit)
            if self._writing is None:
                self._writing = asyncio.get_running_loop().create_task(self._write_waiting())
            return await unit.result
        finally:
            self.requested -= 1

    async def aclose(self) -> None:
        """Close both connections."""
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self._reader.aclose()
        await self._writer.aclose()

    async def _write_waiting(self) -> None:
        """Carry out what waits, a transaction at a time, until nothing does."""
        try:
            while self._waiting:
                async with self._lock:
                    taken, self._waiting = (
                        self._waiting[:_UNITS_PER_TRANSACTION],
                        self._waiting[_UNITS_PER_TRANSACTION:],
                    )
                    units = [unit for unit in taken if not unit.result.done()]  # the callers of others were cancelled
                    outcomes = await self._written(units) if units else ()
                for unit, outcome in zip(units, outcomes, strict=True):
                    if unit.result.done():
                        continue
                    if isinstance(outcome, Exception):
                        unit.result.set_exception(outcome)
                    else:
                        unit.result.set_result(outcome)
        finally:
            self._writing = None

    async def _written(self, units: Sequence[_Write]) -> "Sequence[Row | Exception | None]":
        try:
            return await self._writer.run(_write_all, units)
        except Exception as fault:  # noqa: BLE001  (each caller raises it)
            return [fault] * len(units)


def _write_all(connection: sqlite3.Connection, units: Sequence[_Write]) -> "Sequence[Row | Exception | None]":
    """Run the units as one transaction, and return for each its row or its own error. Raise what undid all of them."""
    outcomes: list[Row | Exception | None] = []
    connection.execute("BEGIN IMMEDIATE")
    try:
        for unit in units:
            connection.execute("SAVEPOINT unit")
            outcome: Row | Exception | None
            try:
                outcome = _fetch_row(connection, unit.statement, unit.values)
            except Exception as fault:
                if not connection.in_transaction:  # a full disk, for one, undoes the whole transaction
                    raise
                outcome = fault
            if outcome is None or isinstance(outcome, Exception):
                connection.execute("ROLLBACK TO unit")
            connection.execute("RELEASE unit")
            outcomes.append(outcome)
        if any(isinstance(outcome, Mapping) for outcome in outcomes):
            failpoint("unit.open")
        connection.commit()
    finally:
        # Also after a commit that failed: the next units on this connection must not find a transaction open.
        if connection.in_transaction:
            connection.rollback()
    return outcomes


def _fetch_row(connection: sqlite3.Connection, statement: Statement, values: Values) -> Row | None:
    """Run the statements of a unit, each if the one before it returned a row, and return the row of the last."""
    columns: Sequence[str] = ()
    found: Sequence[Any] | None = None
    for sql in statement.sqlite:
        cursor = connection.execute(sql, values)
        found = cursor.fetchone()
        if found is None:
            return None
        columns = [column[0] for column in cursor.description]
    return None if found is None else statement.sqlite_row(columns, found)


class _SqliteThread:
    """A connection, and the thread that uses it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite")

    async def run(self, work: Callable[Concatenate[sqlite3.Connection, P], T], *arguments: P.args, **_: P.kwargs) -> T:
        """Return what `work` returns, called with the connection and the arguments in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._run, work, *arguments)

    async def aclose(self) -> None:
        if self._connection is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
            self._connection = None
        self._thread.shutdown(wait=False)

    def _run(self, work: Callable[..., T], *arguments: Any) -> T:
        if self._connection is None:
            _claim_file(self._path)
            # A connection is used by one thread; only closing may come from another.
            self._connection = sqlite3.connect(
                self._path, isolation_level=None, timeout=_BUSY_MS / 1000, check_same_thread=False
            )
            for pragma in _PRAGMAS:
                self._connection.execute(pragma)
        return work(self._connection, *arguments)


Unit = Callable[[AsyncConnection], Awaitable[T]]
"""What is done in one transaction."""


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The result of a unit, how long its transaction was open, and whether another process delayed its begin.

    `cpu_seconds` are those of its thread.
    """

    result: T
    seconds: float
    cpu_seconds: float
    had_to_wait: bool


class SqliteWorker:
    """A connection on a thread of its own, for transactions of many statements.

    The statements of one follow each other at once: none waits until a busy event loop has a turn for it, and uploads
    with it.
    """

    def __init__(self, url: URL) -> None:
        path = url.set(drivername="sqlite")
        self._engine = create_engine(path, connect_args=_CONNECT_ARGS, pool_size=1, hide_parameters=True)
        _prepare_connections(self._engine, path)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite")

    async def run(self, unit: Unit[T]) -> Done[T]:
        """Run the unit in one transaction. If the caller is cancelled, it still completes or is undone as a whole."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, copy_context().run, self._run, unit)

    async def aclose(self) -> None:
        """Close the connection. A second call is a no-op."""
        with suppress(RuntimeError):  # the thread has ended
            await asyncio.get_running_loop().run_in_executor(self._thread, self._engine.dispose)
        self._thread.shutdown(wait=False)

    def _run(self, unit: Unit[T]) -> Done[T]:
        asked = time.monotonic()
        with self._engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            began, cpu_began = time.monotonic(), time.thread_time()
            try:
                result = _complete(unit(cast("AsyncConnection", _SynchronousConnection(connection))))
            except BaseException:
                connection.rollback()
                raise
            connection.commit()
            cpu_seconds = time.thread_time() - cpu_began
            return Done(result, time.monotonic() - began, cpu_seconds, began - asked > _AT_ONCE_SECONDS)


class _SynchronousConnection:
    """The part of an asynchronous connection that units use, on one whose statements are done when they return."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.dialect = connection.dialect

    async def execute(
        self, statement: Executable, parameters: _CoreAnyExecuteParams | None = None
    ) -> CursorResult[Any]:
        return self._connection.execute(statement, parameters)


def _complete(work: Awaitable[T]) -> T:
    """Return the result of work that has nothing to wait for."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    steps.close()
    raise RuntimeError("a unit of work waited for something other than its statements")


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One stored file of the platform's own store, as its row describes it."""

    file_id: str
    key: str
    size_bytes: int
    sha256: str
    content_type: str


async def empty_log(engine: AsyncEngine) -> bool:
    """Move the write-ahead log into the database and cut it to nothing; return False if a reader needs it still.

    Until then it has the pages as they were before a change.
    """
    async with engine.connect() as connection:
        await connection.execute(text(f"PRAGMA busy_timeout={_LOG_BUSY_MS}"))  # writers wait meanwhile
        try:
            is_busy: int = (await connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)"))).one()[0]
        finally:
            await connection.execute(text(f"PRAGMA busy_timeout={_BUSY_MS}"))
    return not is_busy


def take_snapshot(database: Path, target: Path) -> None:
    """Copy the database to `target` with SQLite's online backup, flushed to disk.

    Raise `OSError` or `sqlite3.Error`.
    """
    draft = target.with_name(f"{target.name}.draft")
    draft.unlink(missing_ok=True)
    _claim_file(str(draft))
    with (
        closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(draft)) as copy,
    ):
        source.backup(copy, pages=_PAGES_PER_STEP)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a write-ahead log beside it
    fd = os.open(draft, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
    draft.rename(target)


def _claim_file(path: str | None) -> None:
    """Make the database's file for its owner alone, if it is missing; SQLite would make it for all that the umask lets.

    Its companions get the mode of the file. An existing one, and its companions, lose the rights of others.
    """
    if not path or path == ":memory:":
        return
    # What fails here, SQLite reports when it opens the file.
    with suppress(FileExistsError, OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, OWNER_ONLY))
    for suffix in ("", "-wal", "-shm"):
        with suppress(OSError):
            mode = stat.S_IMODE(os.stat(f"{path}{suffix}").st_mode)  # noqa: PTH116  (one call with a text)
            if mode & OTHERS:
                os.chmod(f"{path}{suffix}", mode & ~OTHERS)  # noqa: PTH101  (the same)


def is_sound(database: Path) -> bool:
    """Return whether SQLite's integrity check passes."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return [row[0] for row in connection.execute("PRAGMA integrity_check")] == ["ok"]
    except sqlite3.Error:
        return False


def stored_objects(database: Path) -> Iterator[StoredObject]:
    """Yield every stored file that is in the platform's own store."""
    query = (
        "SELECT file_id, object_key, size_bytes, sha256, content_type FROM files "
        "WHERE state = 'stored' AND storage_config_id IS NULL ORDER BY file_id"
    )
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        for row in connection.execute(query):
            yield StoredObject(*row)
