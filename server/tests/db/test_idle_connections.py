"""`IdleConnections`: connections kept out of the pool between transactions are reused, and a dead one never is."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from sluice.db import postgres as postgres_module
from sluice.db.postgres import IdleConnections
from tests.servers.postgres import Postgres


@pytest.fixture
async def pool(postgres: Postgres) -> asyncpg.Pool:
    """A pool of two connections."""
    return await asyncpg.create_pool(postgres.createdb().replace("+asyncpg", ""), min_size=0, max_size=2)


@pytest.fixture
async def connections(pool: asyncpg.Pool) -> AsyncIterator[IdleConnections]:
    """Two connections; a wait for one ends after a second."""
    idle = IdleConnections(pool, wait_seconds=1.0)
    yield idle
    idle.terminate()


async def run_transaction(idle: IdleConnections, sql: str = "SELECT pg_backend_pid()") -> object:
    connection = await idle.acquire()
    response = await connection.fetchval(sql)
    await idle.release(connection)
    return response


async def test_transactions_reuse_connections_and_more_than_there_are_are_all_served(
    connections: IdleConnections,
) -> None:
    assert len({await run_transaction(connections) for _ in range(5)}) == 1
    sql = "SELECT pg_backend_pid() FROM pg_sleep(0.01)"
    assert len(set(await asyncio.gather(*(run_transaction(connections, sql) for _ in range(20))))) == 2


async def test_waiting_for_a_connection_times_out_and_a_freed_one_is_reused(connections: IdleConnections) -> None:
    held = [await connections.acquire(), await connections.acquire()]
    with pytest.raises(TimeoutError):
        await connections.acquire()
    waiting = asyncio.create_task(run_transaction(connections))
    await asyncio.sleep(0)
    await connections.release(held.pop())
    assert await waiting
    await connections.release(held.pop())


async def test_a_connection_closed_by_the_server_is_not_reused(connections: IdleConnections) -> None:
    first, second, noticed = await connections.acquire(), await connections.acquire(), asyncio.Event()
    first.add_termination_listener(lambda _connection: noticed.set())
    ended = await first.fetchval("SELECT pg_backend_pid()")
    await connections.release(first)
    await second.execute("SELECT pg_terminate_backend($1)", ended)
    await noticed.wait()
    assert await run_transaction(connections) != ended
    await connections.release(second)


async def test_a_connection_unused_between_two_sweeps_returns_to_the_pool(
    connections: IdleConnections, pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_module, "_IDLE_SWEEP_SECONDS", 0.05)
    for connection in [await connections.acquire(), await connections.acquire()]:
        await connections.release(connection)
    assert pool.get_idle_size() == 0
    for connection in [await pool.acquire(timeout=5), await pool.acquire(timeout=5)]:
        await pool.release(connection)


async def test_closing_waits_for_the_transaction_in_progress(connections: IdleConnections, pool: asyncpg.Pool) -> None:
    working = await connections.acquire()
    closing = asyncio.create_task(connections.aclose())
    await asyncio.sleep(0)
    assert await working.fetchval("SELECT 1") == 1
    await connections.release(working)
    await closing
    assert pool.get_size() == 0
