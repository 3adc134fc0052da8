"""The bare drivers under the hot path: asyncpg's pool, and SQLite on two threads. Faults are named in `database`."""

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

import asyncpg

from sluice.db.hot import Compiled, CompiledTogether
from sluice.db.spares import Spares
from sluice.db.whose import TENANT, TenantConnection, set_config
from sluice.kit.failpoints import reach

_CLOSE_SECONDS: Final = 5.0
_NOT_USED_AGAIN: Final = (TimeoutError, asyncpg.ReadOnlySQLTransactionError, asyncpg.InternalClientError)
"""After these a connection's answer may come any time, or never; or its server is the primary no more, or has said that it ends."""

Row = Mapping[str, Any]


class NoConnection(Exception):
    """None could be had: all are in use, nobody answers, the server refuses, or a certificate is not as it should be. Nothing was asked."""


class Driver(Protocol):
    """Runs the compiled statements of one unit of work, in one transaction."""

    @property
    def size(self) -> int:
        """How many units it runs at once; further ones wait."""

    @property
    def asked(self) -> int:
        """How many units are asked for and not answered, those that wait included."""

    async def fetch(
        self, unit: Sequence[Compiled], values: Mapping[str, Any], *, tenant_id: str | None, writes: bool
    ) -> Row | None:
        """Answer the one row of the last statement, or None when one of them answered none: then nothing was changed.

        `tenant_id` is whose rows the unit is about.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection. A second call is a no-op."""
        ...


class PostgresDriver:
    """A pool of asyncpg's. Each unit is one statement, prepared once per connection and committed by itself: one round trip.

    A unit sees the rows of its tenant. A connection that worked for another one before is told first: one round trip more. A unit
    without a tenant leaves a connection as it is; only those that ask a function of the owner's have none (`Hot`).
    """

    def __init__(
        self, connect: Callable[[], Awaitable[Any]], *, size: int, wait_seconds: float, before: Mapping[str, str] | None
    ) -> None:
        """`connect` makes a connection. `before` is what to set anew in each unit's transaction; None: it lasts with the connection."""
        self._connect = connect
        self.size = size
        self._wait_seconds = wait_seconds
        self._before = before
        self.asked = 0
        self._spares: Spares | None = None
        self._opening = asyncio.Lock()

    async def fetch(
        self,
        unit: Sequence[Compiled],
        values: Mapping[str, Any],
        *,
        tenant_id: str | None,
        writes: bool,  # noqa: ARG002  (see Driver)
    ) -> Row | None:
        """Run the unit's one statement."""
        (statement,) = unit
        found = await self._rows(statement.text, statement.bind(values), tenant_id)
        return statement.row(found[0]) if found else None

    async def fetch_together(self, unit: CompiledTogether, values: Sequence[Row], *, tenant_id: str | None) -> Sequence[Row]:
        """Run several units as one statement, and answer the rows of those that were done."""
        return [dict(row) for row in await self._rows(unit.text, unit.bind(values), tenant_id)]

    async def _rows(self, text: str, values: Sequence[Any], tenant_id: str | None) -> Sequence[Any]:
        self.asked += 1
        try:
            return await self._on_a_connection(text, values, tenant_id)
        finally:
            self.asked -= 1

    async def _on_a_connection(self, text: str, values: Sequence[Any], tenant_id: str | None) -> Sequence[Any]:
        spares = self._spares or await self._open()
        try:
            connection = await spares.take()
        except TimeoutError as fault:
            raise NoConnection("none is free") from fault
        try:
            found = await self._run(connection, text, values, tenant_id)
        except BaseException as fault:
            if isinstance(fault, _NOT_USED_AGAIN):
                connection.terminate()
            await spares.give_back(connection)
            raise
        await spares.keep(connection)
        return found

    async def aclose(self) -> None:
        """Close the pool; what a silent server keeps busy is dropped."""
        spares, self._spares = self._spares, None
        if spares is None:
            return
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await spares.aclose()
        except TimeoutError:
            spares.terminate()

    async def _run(self, connection: Any, text: str, values: Sequence[Any], tenant_id: str | None) -> Sequence[Any]:
        rows: Sequence[Any]
        if self._before is None:
            if tenant_id is not None:
                await connection.stand_for(tenant_id)
            rows = await connection.fetch(text, *values)
        else:
            async with connection.transaction():
                await connection.execute(_set_all(self._before, tenant_id))
                rows = await connection.fetch(text, *values)
        return rows

    async def _open(self) -> Spares:
        async with self._opening:
            if self._spares is None:
                pool = await asyncpg.create_pool(
                    min_size=0,
                    max_size=self.size,
                    connect=self._connected,
                    connection_class=TenantConnection,
                    init=_read_json,
                    reset=_nothing_to_reset,
                )
                self._spares = Spares(pool, wait_seconds=self._wait_seconds)
            return self._spares

    async def _connected(self, *_arguments: object, **_more: object) -> Any:
        """Make a connection in our own way, whatever the pool asks for: it would read its own defaults."""
        return await self._connect()


class SqliteDriver:
    """Two connections of the standard library, each on a thread of its own: readers never wait for a writer's flush to disk."""

    size = 2

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self.asked = 0
        self._reader = _SqliteThread(connect)
        self._writer = _SqliteThread(connect)

    async def fetch(
        self,
        unit: Sequence[Compiled],
        values: Mapping[str, Any],
        *,
        tenant_id: str | None,  # noqa: ARG002  (see Driver; SQLite cannot be told)
        writes: bool,
    ) -> Row | None:
        """Run all of the unit in one hop to the thread. What a cancelled caller began is finished, or undone, whole."""
        thread = self._writer if writes else self._reader
        self.asked += 1
        try:
            found = await thread.run([(statement.text, statement.bind(values)) for statement in unit], writes=writes)
        finally:
            self.asked -= 1
        return None if found is None else unit[-1].row(found)

    async def aclose(self) -> None:
        """Close both connections."""
        await self._reader.aclose()
        await self._writer.aclose()


class _SqliteThread:
    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="sqlite")

    async def run(self, statements: Sequence[tuple[str, Sequence[Any]]], *, writes: bool) -> Sequence[Any] | None:
        work = self._write if writes else self._read
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, statements)

    async def aclose(self) -> None:
        if self._connection is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._connection.close)
            self._connection = None
        self._thread.shutdown(wait=False)

    def _read(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> Sequence[Any] | None:
        connection = self._opened()
        found: Sequence[Any] | None = None
        for text, values in statements:
            found = connection.execute(text, values).fetchone()
            if found is None:
                return None
        return found

    def _write(self, statements: Sequence[tuple[str, Sequence[Any]]]) -> Sequence[Any] | None:
        connection = self._opened()
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = self._read(statements)
            if found is not None:
                reach("unit.open")
                connection.commit()
        finally:
            # Also after a commit that failed: the next unit on this connection must find no transaction open.
            if connection.in_transaction:
                connection.rollback()
        return found

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection


async def _read_json(connection: Any) -> None:
    """Answer JSON columns as values; they are sent as text that is JSON already."""
    await connection.set_type_codec("json", schema="pg_catalog", encoder=str, decoder=json.loads)


async def _nothing_to_reset(connection: Any) -> None:
    """A unit is one statement that leaves nothing behind but its tenant, which the next unit sets if it has another."""


def _set_all(settings: Mapping[str, str], tenant_id: str | None) -> str:
    tenant = {TENANT: "" if tenant_id is None else tenant_id}
    return "SELECT " + ", ".join(set_config(name, value) for name, value in (dict(settings) | tenant).items())
