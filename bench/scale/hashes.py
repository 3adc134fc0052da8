"""The time of a lookup among millions of entries of hash lists, their size on disk, and the speed of an import."""

import asyncio
import hashlib
import json
import random
import re
import resource
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import func, insert, select, text

from sluice.access import operator
from sluice.audit import AuditAction
from sluice.db.database import Database
from sluice.db.migrate import upgrade
from sluice.db.rls import ALL_TENANTS
from sluice.db.schema import hash_entries, hash_entry_counts, tenants
from sluice.hash_lists import repository
from sluice.hash_lists.service import HashLists
from sluice.uploads import sql_postgres
from tests.servers.postgres import Postgres, running_postgres

_TENANT, _WITHOUT = "ten_1", "ten_2"
_LOOKUPS, _EXPLAINED, _MEMBERS, _IMPORTED = 2000, 200, 1000, 100_000
_BATCH = 10_000
_FILLED = 250_000
_FILL = """
INSERT INTO hash_entries (tenant_id, digest, list, reason, added_by_id, added_by_name, created_at)
SELECT 'ten_1', sha256(number::text::bytea), 'deny', 'a feed of yesterday', 'key_01kg8p3w6hf4ys0k2m7vqd9c5x', 'feed',
       now()
  FROM generate_series({first}, {last}) AS number
"""
_OF_HASH_LISTS = re.compile(r"\(SELECT string_agg.*?AS hash_algorithms,", re.DOTALL)


def measure(folder: Path, *, rows: int) -> dict[str, Any]:
    """Return the figures of both databases with `rows` entries of one tenant."""
    with running_postgres(folder / "postgres") as postgres:
        url = postgres.createdb()
        figures: dict[str, Any] = {"rows": rows, "postgresql": asyncio.run(_on_postgres(url, postgres, rows))}
    figures["sqlite"] = asyncio.run(_on_sqlite(folder / "sluice.db", rows))
    for name in ("postgresql", "sqlite"):
        for figure, value in figures[name].items():
            print(f"{name:11} {figure:45} {value:>12,.4g}", flush=True)
    return figures


async def _on_postgres(url: str, postgres: Postgres, rows: int) -> dict[str, float]:
    async with aclosing(Database(url)) as database:
        await _prepare(database)
        for first in range(1, rows + 1, _FILLED):  # each statement has a minute
            last = min(rows, first + _FILLED - 1)
            postgres.psql(_FILL.format(first=first, last=last), database=url.rpartition("/")[2])
        postgres.psql("VACUUM ANALYZE hash_entries", database=url.rpartition("/")[2])
        await _count(database, rows)
        figures = await _figures(database, rows)
        figures["statement, µs as PostgreSQL states it"] = await _stated(database, repository.LISTED_SQL, rows)
        figures["snapshot of a tenant without entries, µs"] = await _stated(database, sql_postgres.SNAPSHOT, rows)
        before = _OF_HASH_LISTS.sub("", sql_postgres.SNAPSHOT)
        figures["the same without its column for hash lists, µs"] = await _stated(database, before, rows)
        async with database.reading(ALL_TENANTS) as connection:
            sizes = "SELECT pg_relation_size('hash_entries'), pg_indexes_size('hash_entries')"
            table, indexes = (await connection.execute(text(sizes))).one()
        return figures | {"table, MB": table / 1e6, "indexes, MB": indexes / 1e6}


async def _on_sqlite(path: Path, rows: int) -> dict[str, float]:
    async with aclosing(Database(f"sqlite:///{path}")) as database:
        await _prepare(database)
        for start in range(1, rows + 1, _BATCH):
            async with database.transaction(ALL_TENANTS) as connection:
                await connection.execute(insert(hash_entries), list(_rows(start, min(start + _BATCH, rows + 1))))
        await _count(database, rows)
        figures = await _figures(database, rows)
        return figures | {"database, MB": sum(each.stat().st_size for each in path.parent.glob("sluice.db*")) / 1e6}


def _rows(start: int, end: int) -> Iterator[dict[str, Any]]:
    shared = {"tenant_id": _TENANT, "list": "deny", "reason": "a feed of yesterday", "created_at": datetime.now(UTC)}
    for number in range(start, end):
        yield shared | {"digest": _digest(number), "added_by_id": "key_1", "added_by_name": "feed"}


def _digest(number: int) -> bytes:
    return hashlib.sha256(str(number).encode()).digest()


async def _prepare(database: Database) -> None:
    await upgrade(database)
    for tenant_id in (_TENANT, _WITHOUT):
        row = {"tenant_id": tenant_id, "name": "t", "plan": "free", "status": "active", "created_at": datetime.now(UTC)}
        async with database.transaction(ALL_TENANTS) as connection:
            await connection.execute(insert(tenants).values(row))


async def _count(database: Database, rows: int) -> None:
    row = {"tenant_id": _TENANT, "list": "deny", "algorithm": "sha256", "entries": rows}
    async with database.transaction(ALL_TENANTS) as connection:
        await connection.execute(insert(hash_entry_counts).values(row))


async def _figures(database: Database, rows: int) -> dict[str, float]:
    dice = random.Random(7)

    def asked(number: int) -> list[bytes]:
        return [_digest(dice.randrange(1, 2 * rows)) for _ in range(number)]  # one of two is on the list

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    one = await _times(_LOOKUPS, lambda: repository.find_listed(database, _TENANT, asked(1)))
    many = await _times(20, lambda: repository.find_listed(database, _TENANT, asked(_MEMBERS)))
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before

    async def lines() -> AsyncIterator[bytes]:
        for start in range(0, _IMPORTED, _BATCH):
            yield b"".join(_digest(-number).hex().encode() + b"\n" for number in range(start, start + _BATCH))

    began = time.perf_counter()
    await HashLists(database).import_csv(AuditAction(operator(_TENANT, "bench"), "hash_list.imported"), lines())
    per_second = _IMPORTED / (time.perf_counter() - began)
    async with database.reading(ALL_TENANTS) as connection:
        await connection.execute(select(func.count()).select_from(hash_entry_counts))
    return {
        "round trip, µs": 1e6 * median(one),
        "round trip, µs, 99th percentile": 1e6 * sorted(one)[len(one) * 99 // 100],
        f"round trip for {_MEMBERS} members, ms": 1e3 * median(many),
        "memory that lookups add, MB": grown / 1e3,
        "lines imported per second": per_second,
    }


async def _times(number: int, act: Callable[[], Awaitable[object]]) -> list[float]:
    times = []
    for _ in range(number):
        began = time.perf_counter()
        await act()
        times.append(time.perf_counter() - began)
    return times


async def _stated(database: Database, sql: str, rows: int) -> float:
    """Return the median execution time in microseconds that PostgreSQL states for a statement of the upload path."""
    dice, found = random.Random(11), list[float]()
    for _ in range(_EXPLAINED):
        digest = _digest(dice.randrange(1, 2 * rows)).hex()
        values = {
            ":tenant_id": f"'{_TENANT if 'digests' in sql else _WITHOUT}'",
            ":context_key": "'papers'",
            ":digests::bytea[]": f"ARRAY['\\x{digest}'::bytea]",
        }
        statement = sql
        for name, value in values.items():
            statement = statement.replace(name, value)
        async with database.reading(ALL_TENANTS) as connection:
            plan = await connection.exec_driver_sql(f"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) {statement}")
            said = plan.scalar_one()
        found.append(1e3 * (json.loads(said) if isinstance(said, str) else said)[0]["Execution Time"])
    return float(median(found))
