"""A long steady load of small uploads, a part of them deleted and purged, and a look at what must not grow: memory, descriptors, tables."""

import asyncio
import time
from pathlib import Path
from typing import Any

from tests.servers.postgres import Postgres, running_postgres

from bench import payloads
from bench.cpu import anonymous_bytes, descriptors
from bench.load import load
from bench.sluice import Sluice, running_sluice

_UPLOADS = 100_000
_CONNECTIONS = 16
_WATCHED = ("files", "decisions", "count_deltas", "row_counts", "contexts", "rate_takes")


def measure(folder: Path, *, uploads: int, every: int) -> dict[str, Any]:
    """Answer a line for each look: MB and descriptors of the server and all below it, and bytes per live row of each table."""
    uploads = uploads or _UPLOADS
    with running_postgres(folder / "postgres") as postgres:
        database = postgres.createdb()
        url = database.replace("+asyncpg", "")
        with running_sluice(folder / "data", url, PURGE_AFTER_DAYS="0", WORKER_SECONDS="1") as sluice:
            looks = [_look(sluice, postgres, database, 0)]
            target, payload, began = sluice.context("soak"), payloads.png(10_000), time.perf_counter()
            for done in range(every, uploads + 1, every):
                outcome = asyncio.run(load(target, payload, connections=_CONNECTIONS, uploads=every))
                if outcome.refused:
                    raise SystemExit(f"refused: {sorted(set(outcome.refused))}")
                _delete_newest(sluice, every // 10)
                looks.append(_look(sluice, postgres, database, done))
            return {"looks": looks, "uploads_per_second": uploads / (time.perf_counter() - began)}


def _delete_newest(sluice: Sluice, number: int) -> None:
    for _ in range(number // 100):
        for item in sluice.ask("GET", "/files?page_size=100")["data"]:
            sluice.ask("DELETE", f"/files/{item['file_id']}")


def _look(sluice: Sluice, postgres: Postgres, database: str, done: int) -> dict[str, Any]:
    name = database.rpartition("/")[2]
    found: dict[str, Any] = {
        "uploads": done,
        "megabytes": round(anonymous_bytes(sluice.pid) / 1e6, 1),
        "descriptors": descriptors(sluice.pid),
    }
    for table in _WATCHED:
        size = postgres.psql(f"SELECT (SELECT count(*) FROM {table}), pg_total_relation_size('{table}')", database=name)  # noqa: S608  (ours)
        rows, taken = map(int, size.strip().split("|"))
        found[table] = {"rows": rows, "kilobytes": taken // 1024}
    print(found, flush=True)
    return found
