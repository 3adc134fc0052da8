"""PostgreSQL announces its end on idle connections, and the closing of the connections is lost on the way.

The driver then raises an internal error. The event loop is that of the service, uvloop.
"""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest
import uvloop
from sqlalchemy import literal, select

from sluice.db.database import Database, DatabaseUnavailable
from sluice.db.postgres import PostgresOptions
from sluice.db.rls import ALL_TENANTS
from sluice.db.statement import Statement
from tests.scanning.waiting import until
from tests.servers.faults import Fault, FaultProxy, fault_proxy
from tests.servers.postgres import Postgres
from tests.servers.threads import in_a_thread

CONNECTIONS = 4
OPTIONS = PostgresOptions(pool_size=CONNECTIONS, connect_seconds=5, statement_seconds=1)
_ONE = Statement(postgres="SELECT 1 AS one", sqlite=["SELECT 1 AS one"])
Query = Callable[[Database], Awaitable[None]]


async def _by_transaction(database: Database) -> None:
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(select(literal(1)))


async def _by_statement(database: Database) -> None:
    await database.fetch(_ONE, {"tenant_id": "ten_1"})


async def _faults_after_announced_end(
    postgres: Postgres, proxy: FaultProxy, query: Query
) -> list[BaseException | None]:
    """Return the error of each of several queries in a row; None: the query was answered."""
    url = postgres.createdb()
    database = Database(url.replace(f":{postgres.port}/", f":{proxy.port}/"), postgres=OPTIONS)
    try:
        await asyncio.gather(*(query(database) for _ in range(CONNECTIONS)))
        answered, open_ones = proxy.answered, proxy.connections
        proxy.fault = Fault.NO_END
        ending = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
        await asyncio.to_thread(postgres.psql, f"{ending} WHERE datname = '{url.rpartition('/')[2]}'")
        assert await asyncio.to_thread(until, lambda: proxy.answered >= answered + open_ones)
        await asyncio.sleep(0)  # lets the event loop read what has arrived
        return [await _fault_of(database, query) for _ in range(2 * CONNECTIONS)]
    finally:
        proxy.fault = Fault.NONE
        await database.aclose()


async def _fault_of(database: Database, query: Query) -> BaseException | None:
    try:
        await query(database)
    except DatabaseUnavailable as fault:
        return fault.__cause__
    return None


@pytest.mark.parametrize("query", [_by_transaction, _by_statement])
def test_a_server_that_announced_its_end_is_unavailable_and_then_reconnected(postgres: Postgres, query: Query) -> None:
    with in_a_thread(fault_proxy(f"http://127.0.0.1:{postgres.port}")) as proxy:
        faults = uvloop.run(_faults_after_announced_end(postgres, proxy, query))
    first = getattr(getattr(faults[0], "orig", None), "__cause__", None) or faults[0]
    assert isinstance(first, asyncpg.InternalClientError), repr(first)
    assert faults[CONNECTIONS:] == [None] * CONNECTIONS
