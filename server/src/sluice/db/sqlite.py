"""SQLite, the embedded database: its engine, its driver for the upload path, and its online backup."""

import asyncio
import os
import sqlite3
import stat
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, cast

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


class SqliteDriver:
    """Two connections, each on its own thread: readers never wait for a writer's flush to disk."""

    size = 2

    def __init__(self, url: URL) -> None:
        self.requested = 0
        path = url.database or ":memory:"
        self._reader = _SqliteThread(path)
        self._writer = _SqliteThread(path)

    async def fetch(self, statement: Statement, values: Values, *, writes: bool) -> Row | None:
        """Run the whole unit in one hop to the thread.

        If the caller is cancelled, the unit still completes or is undone as a whole.
        """
        statement.tenant_of(values)  # SQLite has no scopes; a unit without its tenant is refused all the same
        thread = self._writer if writes else self._reader
        self.requested += 1
        try:
            return await thread.run(statement, sqlite_values(values), writes=writes)
        finally:
            self.requested -= 1

    async def aclose(self) -> None:
        """Close both connections."""
        await self._reader.aclose()
        await self._writer.aclose()


class _SqliteThread:
    def __init__(self, path: str) -> None:
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite")

    async def run(self, statement: Statement, values: Values, *, writes: bool) -> Row | None:
        work = self._write if writes else self._read
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, statement, values)

    async def aclose(self) -> None:
        if self._connection is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
            self._connection = None
        self._thread.shutdown(wait=False)

    def _read(self, statement: Statement, values: Values) -> Row | None:
        connection = self._opened()
        columns: Sequence[str] = ()
        found: Sequence[Any] | None = None
        for sql in statement.sqlite:
            cursor = connection.execute(sql, values)
            found = cursor.fetchone()
            if found is None:
                return None
            columns = [column[0] for column in cursor.description]
        return None if found is None else statement.sqlite_row(columns, found)

    def _write(self, statement: Statement, values: Values) -> Row | None:
        connection = self._opened()
        connection.execute("BEGIN IMMEDIATE")
        try:
            row = self._read(statement, values)
            if row is not None:
                failpoint("unit.open")
                connection.commit()
        finally:
            # Also after a commit that failed: the next unit on this connection must not find a transaction open.
            if connection.in_transaction:
                connection.rollback()
        return row

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            _claim_file(self._path)
            # A connection is used by one thread; only closing may come from another.
            self._connection = sqlite3.connect(
                self._path, isolation_level=None, timeout=_BUSY_MS / 1000, check_same_thread=False
            )
            for pragma in _PRAGMAS:
                self._connection.execute(pragma)
        return self._connection


_T = TypeVar("_T")
Unit = Callable[[AsyncConnection], Awaitable[_T]]
"""What is done in one transaction."""


@dataclass(frozen=True, slots=True)
class Done(Generic[_T]):
    """The result of a unit, how long its transaction was open, and whether another process delayed its begin.

    `cpu_seconds` are those of its thread.
    """

    result: _T
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

    async def run(self, unit: Unit[_T]) -> Done[_T]:
        """Run the unit in one transaction. If the caller is cancelled, it still completes or is undone as a whole."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, copy_context().run, self._run, unit)

    async def aclose(self) -> None:
        """Close the connection. A second call is a no-op."""
        with suppress(RuntimeError):  # the thread has ended
            await asyncio.get_running_loop().run_in_executor(self._thread, self._engine.dispose)
        self._thread.shutdown(wait=False)

    def _run(self, unit: Unit[_T]) -> Done[_T]:
        asked = time.monotonic()
        with self._engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            began, cpu_began = time.monotonic(), time.thread_time()
            try:
                result = _complete(unit(cast("AsyncConnection", _AtOnce(connection))))
            except BaseException:
                connection.rollback()
                raise
            connection.commit()
            cpu_seconds = time.thread_time() - cpu_began
            return Done(result, time.monotonic() - began, cpu_seconds, began - asked > _AT_ONCE_SECONDS)


class _AtOnce:
    """The part of an asynchronous connection that units use, on one whose statements are done when they return."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.dialect = connection.dialect

    async def execute(
        self, statement: Executable, parameters: _CoreAnyExecuteParams | None = None
    ) -> CursorResult[Any]:
        return self._connection.execute(statement, parameters)


def _complete(work: Awaitable[_T]) -> _T:
    """Return the result of work that has nothing to wait for."""
    steps = work.__await__()
    try:
        next(steps)
    except StopIteration as end:
        result: _T = end.value
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
