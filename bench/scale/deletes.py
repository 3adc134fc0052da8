"""The time in which a job deletes many files and the worker purges them, and how long uploads take beside it."""

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import text

from bench import payloads
from bench.load import Target, load
from bench.scale.lists import Filled, PostgresRows, SqliteRows, recount
from bench.sluice import Sluice, running_sluice
from bench.stores import running_store
from sluice.db.database import Database
from sluice.db.rls import ALL_TENANTS
from tests.servers.postgres import running_postgres

_CONNECTIONS = 4
_UPLOADS = 200
_LEFT = "SELECT count(*) FROM files WHERE original_filename LIKE 'report-%'"


def measure(folder: Path, *, rows: int) -> dict[str, Any]:
    """Return the seconds until all files are deleted and purged, and p95 of small uploads alone and beside it."""
    figures = {}
    with running_store(folder, "s3") as store, running_postgres(folder / "postgres") as postgres:
        makers: Mapping[str, Callable[[], Filled]] = {
            "postgresql": lambda: PostgresRows(postgres, postgres.createdb()),
            "sqlite": lambda: SqliteRows(folder / "sqlite" / "sluice.db"),
        }
        for name, make in makers.items():
            database = make()
            settings = {**store.settings, "PURGE_AFTER_DAYS": "0"}
            with running_sluice(folder / name, database.url, **settings) as sluice:
                figures[name] = _measured(sluice, database, rows)
            print(f"{name}: {figures[name]}", flush=True)
    return figures


def _measured(sluice: Sluice, database: Filled, rows: int) -> dict[str, float]:
    target, *_others = [sluice.context(f"c{number}") for number in range(4)]
    database.fill(sluice.tenant_id, rows)
    asyncio.run(recount(database.url, sluice.tenant_id))
    asyncio.run(load(target, payloads.png(10_000), connections=_CONNECTIONS, uploads=_UPLOADS))
    quiet = _p95(target)
    began = time.perf_counter()
    # All files that are there now: those of the uploads beside it are not.
    body = {"filter": {"min_size": 1, "filename": "report-"}, "max_files": 1_000_000}
    job_id = sluice.request("POST", "/files/bulk-delete", body)["data"]["job_id"]
    beside: list[float] = []
    deleted = 0.0
    while True:
        beside.append(_p95(target))
        if not deleted and sluice.request("GET", f"/jobs/{job_id}")["data"]["status"] == "done":
            deleted = time.perf_counter() - began
        if deleted and not asyncio.run(_count(database.url)):
            break
    busy = sorted(beside)[len(beside) // 2]
    return {
        "rows": rows,
        "deleted_s": deleted,
        "purged_s": time.perf_counter() - began,
        "quiet_p95_ms": quiet,
        "beside_p95_ms": busy,
        "ratio": busy / quiet,
    }


def _p95(target: Target) -> float:
    outcome = asyncio.run(load(target, payloads.png(10_000), connections=_CONNECTIONS, uploads=_UPLOADS))
    if outcome.refused:
        raise SystemExit(f"refused: {sorted(set(outcome.refused))}")
    return outcome.quantile(0.95) * 1000


async def _count(url: str) -> int:
    database = Database(url)
    async with database.reading(ALL_TENANTS) as connection:
        found = (await connection.execute(text(_LEFT))).scalar_one()
    await database.aclose()
    return int(found)
