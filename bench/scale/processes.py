"""What an upload costs in one process and in two, in turns: processor time of the whole server, and uploads per second.

Before that the same for the first half minute after a start. At the end one of two processes is killed, some times, and
the time is taken until both respond again (goal: 2 s).
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from bench import payloads
from bench.cpu import cpu_seconds, servers
from bench.load import load
from bench.sluice import Sluice, running_sluice
from tests.observe.metrics_page import read_metrics
from tests.servers.postgres import running_postgres

_UPLOADS, _CONNECTIONS, _ROUNDS = 400, 16, 3
_FIRST_SECONDS, _FIRST_UPLOADS = 30.0, 80  # of one load, which is repeated until the time is over
_KILLS, _BACK_SECONDS, _LONGEST = 3, 2.0, 60.0
_TOKEN = "the-token-of-the-benchmark"  # noqa: S105  (of a server on loopback that lives for this run)


def measure(folder: Path) -> dict[str, Any]:
    """Return CPU milliseconds an upload and uploads per second for one process and for two: the best of three rounds,
    those of the first half minute, and the seconds until a killed process is replaced.
    """
    found: dict[str, dict[str, float]] = {name: {"cpu_ms": 1e9, "per_second": 0.0} for name in ("1", "2")}
    payload = payloads.png(10_000)
    with running_postgres(folder / "postgres") as postgres:
        first: dict[str, list[dict[str, float]]] = {name: [] for name in found}
        for turn in range(_ROUNDS):
            for name, figures in first.items():
                figures.append(_first_seconds(folder / f"first-{name}-{turn}", postgres.createdb(), name))
    print(f"first {_FIRST_SECONDS:.0f} s: {first}")
    with (
        running_postgres(folder / "postgres") as postgres,
        running_sluice(folder / "one", postgres.createdb(), PROCESSES="1") as one,
        running_sluice(folder / "two", postgres.createdb(), PROCESSES="2", METRICS_TOKEN=_TOKEN) as two,
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
        _until(two, lambda: _responding(two) == len(servers(two.pid)))
        back = [_seconds_until_back(two) for _ in range(_KILLS)]
    print(found)
    print(f"back after kill -9: {', '.join(f'{seconds:.2f} s' for seconds in back)} (goal {_BACK_SECONDS:.0f} s)")
    return {"processes": found, "first": first, "back_seconds": back}


def _first_seconds(folder: Path, database: str, processes: str) -> dict[str, float]:
    """Return CPU milliseconds an upload and uploads per second of the first half minute after a start."""
    payload = payloads.png(10_000)
    with running_sluice(folder, database, PROCESSES=processes) as server:
        target = server.context("png")
        before, began, uploads = cpu_seconds(target.pids), time.perf_counter(), 0
        while time.perf_counter() - began < _FIRST_SECONDS:
            outcome = asyncio.run(load(target, payload, connections=_CONNECTIONS, uploads=_FIRST_UPLOADS))
            if outcome.refused:
                raise SystemExit(f"refused {sorted(set(outcome.refused))}")
            uploads += _FIRST_UPLOADS
        took, spent = time.perf_counter() - began, cpu_seconds(target.pids) - before
    return {"cpu_ms": 1000 * spent / uploads, "per_second": uploads / took}


def _seconds_until_back(server: Sluice) -> float:
    """Kill one process of a server; return the seconds until another one responds in its place."""
    victim, others = servers(server.pid)[0], set(servers(server.pid))
    began = time.perf_counter()
    os.kill(victim, signal.SIGKILL)
    # A new process has started, and the supervisor counts all of them as answering.
    _until(server, lambda: bool(set(servers(server.pid)) - others) and _responding(server) == len(others))
    return time.perf_counter() - began


def _until(server: Sluice, holds: Callable[[], bool]) -> None:
    deadline = time.perf_counter() + _LONGEST
    while not holds():
        if time.perf_counter() > deadline:
            raise SystemExit(f"the processes of {server.pid} are not back after {_LONGEST:.0f} s")
        time.sleep(0.02)


def _responding(server: Sluice) -> int:
    try:
        page = read_metrics(f"http://127.0.0.1:{server.port}", _TOKEN)
    except httpx.TransportError:  # the connection that the killed process had accepted
        return 0
    return int(page("sluice_processes", state="answering"))
