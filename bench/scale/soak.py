"""A long steady load of small uploads, some of them deleted, with samples of memory, descriptors and tables."""

import asyncio
import time
from pathlib import Path
from typing import Any

from bench import payloads
from bench.cpu import anonymous_bytes, descriptors
from bench.load import load
from bench.sluice import Sluice, running_sluice
from tests.servers.postgres import Postgres, running_postgres

_UPLOADS = 100_000
_CONNECTIONS = 16
_TABLES = ("files", "decisions", "count_deltas", "row_counts", "contexts", "rate_takes")


def measure(folder: Path, *, uploads: int, every: int) -> dict[str, Any]:
    """Return one entry per sample: MB and descriptors of all processes, and rows and size of each table."""
    uploads = uploads or _UPLOADS
    with running_postgres(folder / "postgres") as postgres:
        database = postgres.createdb()
        url = database.replace("+asyncpg", "")
        with running_sluice(folder / "data", url, PURGE_AFTER_DAYS="0", WORKER_SECONDS="1") as sluice:
            samples = [_sample(sluice, postgres, database, 0)]
            target, payload, began = sluice.context("soak"), payloads.png(10_000), time.perf_counter()
            for done in range(every, uploads + 1, every):
                outcome = asyncio.run(load(target, payload, connections=_CONNECTIONS, uploads=every))
                if outcome.refused:
                    raise SystemExit(f"refused: {sorted(set(outcome.refused))}")
                _delete_newest(sluice, every // 10)
                samples.append(_sample(sluice, postgres, database, done))
            return {"looks": samples, "uploads_per_second": uploads / (time.perf_counter() - began)}


def _delete_newest(sluice: Sluice, number: int) -> None:
    for _ in range(number // 100):
        for item in sluice.request("GET", "/files?page_size=100")["data"]:
            sluice.request("DELETE", f"/files/{item['file_id']}")


def _sample(sluice: Sluice, postgres: Postgres, database: str, done: int) -> dict[str, Any]:
    name = database.rpartition("/")[2]
    found: dict[str, Any] = {
        "uploads": done,
        "megabytes": round(anonymous_bytes(sluice.pid) / 1e6, 1),
        "descriptors": descriptors(sluice.pid),
    }
    for table in _TABLES:
        size = postgres.psql(f"SELECT (SELECT count(*) FROM {table}), pg_total_relation_size('{table}')", database=name)  # noqa: S608  (constant names)
        rows, taken = map(int, size.strip().split("|"))
        found[table] = {"rows": rows, "kilobytes": taken // 1024}
    print(found, flush=True)
    return found
