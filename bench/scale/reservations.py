"""Reservations a second: of one context, whose row each of them locks, and of many, by several servers.

A server is a connection pool with its group commit, all in this process. PostgreSQL flushes each commit to the disk.
"""

import asyncio
import itertools
import os
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select

from sluice.db.database import Database
from sluice.db.migrate import upgrade
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import contexts
from sluice.uploads import repository
from tests.servers.postgres import running_postgres
from tests.uploads.rows import pending, prepare

_LEASE = timedelta(hours=1)
_AT_ONCE = 64  # uploads of one server
_SECONDS = 4.0
_MANY = 16


def measure(folder: Path) -> dict[str, Any]:
    """Return the reservations a second of each arrangement."""
    figures: dict[str, Any] = {"load_before": os.getloadavg()[0]}
    with running_postgres(folder / "postgres", as_operated=True) as postgres:
        for servers, many in itertools.product((1, 2, 4), (False, True)):
            rate, milliseconds = asyncio.run(_rate(postgres.createdb(), servers, _MANY if many else 1))
            name = f"{servers} servers, {_MANY if many else 1} contexts"
            figures[name] = {"per_second": rate, "median_ms": milliseconds}
            print(f"{name}: {rate:.0f} reservations a second, each {milliseconds:.1f} ms")
    figures["load_after"] = os.getloadavg()[0]
    print(f"load of the machine: {figures['load_before']:.1f} before, {figures['load_after']:.1f} after")
    return figures


async def _rate(url: str, servers: int, count: int) -> tuple[float, float]:
    """Return how many reservations succeed a second, and the median time of one in milliseconds."""
    async with AsyncExitStack() as stack:
        databases = [Database(url) for _ in range(servers)]
        for database in databases:
            stack.push_async_callback(database.aclose)
        names = await _prepared(databases[0], count)
        numbers, taken = itertools.count(), list[float]()
        until = time.perf_counter() + _SECONDS

        async def upload(database: Database, context_id: str) -> None:
            while (began := time.perf_counter()) < until:
                file = replace(pending(next(numbers), _LEASE), context_id=context_id)
                if not await repository.reserve(database, file, None):
                    raise RuntimeError("a reservation failed")
                taken.append(time.perf_counter() - began)

        each = itertools.product(databases, range(_AT_ONCE))
        await asyncio.gather(*(upload(database, names[number % count]) for database, number in each))
    return len(taken) / _SECONDS, sorted(taken)[len(taken) // 2] * 1000


async def _prepared(database: Database, count: int) -> Sequence[str]:
    """Return the ids of `count` contexts of one tenant."""
    await upgrade(database)
    await prepare(database)
    async with database.transaction(ALL_TENANTS) as connection:
        first = dict((await connection.execute(select(contexts))).mappings().one())
        others = [{**first, "context_id": f"ctx_{one}", "context_key": f"papers-{one}"} for one in range(2, count + 1)]
        if others:
            await connection.execute(insert(contexts), others)
    return ["ctx_1", *(other["context_id"] for other in others)]
