"""Connections kept out of the pool between two units: the same one again, never a dead one, nobody left waiting for one that lies idle."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from sluice.db import spares
from sluice.db.spares import Spares
from tests.servers.postgres import Postgres


@pytest.fixture
async def pool(postgres: Postgres) -> asyncpg.Pool:
    """A pool of two connections."""
    return await asyncpg.create_pool(postgres.createdb().replace("+asyncpg", ""), min_size=0, max_size=2)


@pytest.fixture
async def two(pool: asyncpg.Pool) -> AsyncIterator[Spares]:
    """Two connections, waited for at most a second."""
    kept = Spares(pool, wait_seconds=1.0)
    yield kept
    kept.terminate()


async def unit(kept: Spares, question: str = "SELECT pg_backend_pid()") -> object:
    connection = await kept.take()
    answer = await connection.fetchval(question)
    await kept.keep(connection)
    return answer


async def test_the_next_unit_has_the_connection_of_the_last(two: Spares) -> None:
    assert len({await unit(two) for _ in range(5)}) == 1


async def test_more_units_than_connections_all_have_their_turn(two: Spares) -> None:
    served = await asyncio.gather(*(unit(two, "SELECT pg_backend_pid() FROM pg_sleep(0.01)") for _ in range(20)))
    assert len(set(served)) == 2


async def test_who_waits_for_a_connection_is_told_after_a_while_and_has_the_next_that_is_free(two: Spares) -> None:
    held = [await two.take(), await two.take()]
    with pytest.raises(TimeoutError):
        await two.take()
    waiting = asyncio.create_task(unit(two))
    await asyncio.sleep(0)
    await two.keep(held.pop())
    assert await waiting
    await two.keep(held.pop())


async def test_a_connection_that_the_server_ended_is_not_handed_out(two: Spares) -> None:
    first, second, noticed = await two.take(), await two.take(), asyncio.Event()
    first.add_termination_listener(lambda _connection: noticed.set())
    ended = await first.fetchval("SELECT pg_backend_pid()")
    await two.keep(first)
    await second.execute("SELECT pg_terminate_backend($1)", ended)
    await noticed.wait()
    assert await unit(two) != ended
    await two.keep(second)


async def test_what_nobody_needed_between_two_sweeps_goes_back_to_the_pool(
    two: Spares, pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spares, "_SWEEP_SECONDS", 0.05)
    for connection in [await two.take(), await two.take()]:
        await two.keep(connection)
    assert pool.get_idle_size() == 0
    for connection in [await pool.acquire(timeout=5), await pool.acquire(timeout=5)]:
        await pool.release(connection)


async def test_closing_waits_for_the_unit_under_way(two: Spares, pool: asyncpg.Pool) -> None:
    working = await two.take()
    closing = asyncio.create_task(two.aclose())
    await asyncio.sleep(0)
    assert await working.fetchval("SELECT 1") == 1
    await two.keep(working)
    await closing
    assert pool.get_size() == 0
