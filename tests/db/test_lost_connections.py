"""PostgreSQL says on idle connections that it ends, and the end itself gets lost on the way: the driver then speaks of a mistake of ours.

The loop is that of the service, uvloop.
"""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest
import uvloop
from sqlalchemy import literal, select

from sluice.db.database import Database, DatabaseAway
from sluice.db.hot import same
from sluice.db.postgres import PostgresTerms
from sluice.db.whose import EVERYBODY
from tests.scanning.waiting import until
from tests.servers.faults import Fault, FaultProxy, fault_proxy
from tests.servers.postgres import Postgres
from tests.servers.threads import in_a_thread

CONNECTIONS = 4
TERMS = PostgresTerms(pool_size=CONNECTIONS, connect_seconds=5, statement_seconds=1)
_ONE = same(select(literal(1).label("one")))
Ask = Callable[[Database], Awaitable[None]]


async def _by_transaction(database: Database) -> None:
    async with database.transaction(EVERYBODY) as connection:
        await connection.execute(select(literal(1)))


async def _on_the_hot_path(database: Database) -> None:
    await database.fetch(_ONE, {"tenant_id": "ten_1"})


async def _faults_after_its_goodbye(postgres: Postgres, proxy: FaultProxy, ask: Ask) -> list[BaseException | None]:
    """Answer what the driver said to each of many who asked one after the other; None: an answer."""
    url = postgres.createdb()
    database = Database(url.replace(f":{postgres.port}/", f":{proxy.port}/"), postgres=TERMS)
    try:
        await asyncio.gather(*(ask(database) for _ in range(CONNECTIONS)))
        said, open_ones = proxy.answered, proxy.connections
        proxy.fault = Fault.NO_END
        whose = f"datname = '{url.rpartition('/')[2]}'"
        await asyncio.to_thread(postgres.psql, f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE {whose}")
        assert await asyncio.to_thread(until, lambda: proxy.answered >= said + open_ones)
        await asyncio.sleep(0)  # a turn of the loop, in which it reads what has come
        return [await _fault_of(database, ask) for _ in range(2 * CONNECTIONS)]
    finally:
        proxy.fault = Fault.NONE
        await database.aclose()


async def _fault_of(database: Database, ask: Ask) -> BaseException | None:
    try:
        await ask(database)
    except DatabaseAway as fault:
        return fault.__cause__
    return None


@pytest.mark.parametrize("ask", [_by_transaction, _on_the_hot_path])
def test_a_server_that_has_said_that_it_ends_is_away_and_then_asked_anew(postgres: Postgres, ask: Ask) -> None:
    with in_a_thread(fault_proxy(f"http://127.0.0.1:{postgres.port}")) as proxy:
        faults = uvloop.run(_faults_after_its_goodbye(postgres, proxy, ask))
    first = getattr(getattr(faults[0], "orig", None), "__cause__", None) or faults[0]
    assert isinstance(first, asyncpg.InternalClientError), repr(first)
    assert faults[CONNECTIONS:] == [None] * CONNECTIONS
