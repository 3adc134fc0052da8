"""What one upload costs in one process and in two, in turns: processor time of the whole server, and uploads per second."""

import asyncio
import time
from pathlib import Path
from typing import Any

from tests.servers.postgres import running_postgres

from bench import payloads
from bench.cpu import cpu_seconds
from bench.load import load
from bench.sluice import running_sluice

_UPLOADS, _CONNECTIONS, _ROUNDS = 400, 16, 3


def measure(folder: Path) -> dict[str, Any]:
    """Return CPU milliseconds an upload and uploads per second for one process and for two, the best of three rounds."""
    found: dict[str, dict[str, float]] = {name: {"cpu_ms": 1e9, "per_second": 0.0} for name in ("1", "2")}
    payload = payloads.png(10_000)
    with (
        running_postgres(folder / "postgres") as postgres,
        running_sluice(folder / "one", postgres.createdb(), PROCESSES="1") as one,
        running_sluice(folder / "two", postgres.createdb(), PROCESSES="2") as two,
    ):
        targets = {"1": one.context("png"), "2": two.context("png")}
        for _ in range(_ROUNDS):
            for name, target in targets.items():
                before, began = cpu_seconds(target.pids), time.perf_counter()
                outcome = asyncio.run(load(target, payload, connections=_CONNECTIONS, uploads=_UPLOADS))
                took, spent = time.perf_counter() - began, cpu_seconds(target.pids) - before
                if outcome.refused:
                    raise SystemExit(f"refused {sorted(set(outcome.refused))}")
                row = found[name]
                row["cpu_ms"] = min(row["cpu_ms"], 1000 * spent / _UPLOADS)
                row["per_second"] = max(row["per_second"], _UPLOADS / took)
    print(found)
    return {"processes": found}
