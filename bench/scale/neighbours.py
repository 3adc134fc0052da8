"""The latency of small uploads beside four large uploads, or beside another tenant's flood.

Quiet and busy phases take turns.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

from bench import payloads
from bench.load import Target, load
from bench.sluice import running_sluice
from bench.traffic import large_uploads, small_uploads
from tests.servers.postgres import running_postgres

_ROUNDS = 3
_CONNECTIONS = 4
_UPLOADS = 400
_FLOOD = 64


def measure(folder: Path, *, uploads: int) -> dict[str, Any]:
    """Return p50, p95 and p99 in ms of 10 KB PNG over four connections, quiet and busy, and their ratios."""
    uploads = uploads or _UPLOADS
    with running_postgres(folder / "postgres") as postgres:
        url = postgres.createdb().replace("+asyncpg", "")
        with running_sluice(folder / "data", url, UPLOAD_WAIT_SECONDS="600") as sluice:
            target, large = sluice.context("small"), sluice.context("large")
            flood = sluice.context("flood", sluice.new_tenant())
            return {
                "four 100 MB uploads": _phases(
                    target, uploads, lambda: large_uploads(large, connections=4, megabytes=100)
                ),
                "another tenant's flood": _phases(
                    target, uploads, lambda: small_uploads(flood, connections=_FLOOD, size=10_000)
                ),
            }


def _phases(target: Target, uploads: int, busy: Callable[[], AbstractContextManager[None]]) -> dict[str, Any]:
    found: dict[str, list[dict[str, float]]] = {"quiet": [], "busy": []}
    asyncio.run(load(target, payloads.png(10_000), connections=_CONNECTIONS, uploads=100))
    for _ in range(_ROUNDS):
        for name, traffic in (("quiet", nullcontext), ("busy", busy)):
            with traffic():
                outcome = asyncio.run(load(target, payloads.png(10_000), connections=_CONNECTIONS, uploads=uploads))
            if outcome.refused:
                raise SystemExit(f"refused: {sorted(set(outcome.refused))}")
            found[name].append({f"p{share:.0f}": outcome.quantile(share / 100) * 1000 for share in (50.0, 95.0, 99.0)})
            print(f"{name}: {found[name][-1]}", flush=True)
    pairs = list(zip(found["quiet"], found["busy"], strict=True))
    ratios = {name: median(busy[name] / quiet[name] for quiet, busy in pairs) for name in ("p50", "p95", "p99")}
    print(f"busy / quiet, median of {_ROUNDS}: {ratios}", flush=True)
    return {"rounds": found, "ratios": ratios}
