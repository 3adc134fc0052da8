"""What a small upload costs with SQLite and the local store, and with PostgreSQL and S3, in turns: CPU of all
processes.

Both databases and the local store flush what they commit.
"""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from bench import payloads
from bench.cpu import cpu_seconds
from bench.load import Target, load
from bench.servers import postmaster
from bench.sluice import running_sluice
from bench.stores import running_store
from tests.servers.postgres import running_postgres

_CONNECTIONS, _ROUNDS = 16, 5


def measure(folder: Path, *, uploads: int, checkout: str) -> dict[str, Any]:
    """Return CPU ms of an upload and uploads per second of both, and the median of the ratios of CPU.

    With `checkout`, that of its SQLite and local store, too.
    """
    with (
        running_postgres(folder / "postgres", as_operated=True) as postgres,
        running_store(folder, "s3") as store,
        running_sluice(folder / "server", postgres.createdb(), **store.settings) as server,
        running_sluice(folder / "embedded", f"sqlite:///{folder / 'embedded.db'}") as embedded,
        running_sluice(folder / "before", f"sqlite:///{folder / 'before.db'}", checkout) as before,
    ):
        shared = (postmaster(postgres), *store.pids)
        targets = {"postgresql, s3": (server.context("png"), shared), "sqlite, local": (embedded.context("png"), ())}
        if checkout:
            targets["sqlite, local, before"] = (before.context("png"), ())
        rounds = [
            {name: _round(target, others, uploads) for name, (target, others) in targets.items()}
            for _ in range(_ROUNDS + 1)
        ][1:]
    figures: dict[str, Any] = {
        name: {what: median(each[name][what] for each in rounds) for what in ("cpu_ms", "per_second", "p95_ms")}
        for name in targets
    }
    first = "postgresql, s3"
    figures["ratios"] = {
        name: median(each[name]["cpu_ms"] / each[first]["cpu_ms"] for each in rounds) for name in targets
    }
    for name, row in figures.items():
        print(name, {what: round(value, 2) for what, value in row.items()})
    return figures


def _round(target: Target, others: tuple[int, ...], uploads: int) -> Mapping[str, float]:
    pids = (*target.pids, *others)
    before, began = cpu_seconds(pids), time.perf_counter()
    outcome = asyncio.run(load(target, payloads.png(10_000), connections=_CONNECTIONS, uploads=uploads))
    took, spent = time.perf_counter() - began, cpu_seconds(pids) - before
    if outcome.refused:
        raise SystemExit(f"refused {sorted(set(outcome.refused))}")
    return {
        "cpu_ms": 1000 * spent / uploads,
        "per_second": uploads / took,
        "p95_ms": outcome.quantile(0.95) * 1000,
    }
