"""Throughput of Sluice and the baseline by file size and by concurrency, without scans, drawn as SVG."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench import payloads
from bench.load import Target, load
from bench.payloads import Payload
from bench.plot import line_chart
from bench.servers import running

_SIZES = (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
_BYTES_EACH, _MOST, _LEAST = 60_000_000, 300, 3
_CONCURRENCY = (1, 2, 4, 8, 16, 32, 64)
_UPLOADS = 300
_ROUNDS = 2


def measure(folder: Path, *, plots: Path | None, store: str) -> dict[str, Any]:
    """Return MB/s by size and uploads per second by concurrency, the best of two rounds; draw them into `plots`."""
    with running(folder, store) as bench:
        targets = {target.name: target for target in (bench.sluice[False], bench.baseline[False])}
        by_size: dict[str, list[float]] = {name: [] for name in targets}
        for size in _SIZES:
            payload, uploads = payloads.binary(size), max(_LEAST, min(_MOST, _BYTES_EACH // size))
            for name, rate in _in_turn(targets, payload, 4, uploads).items():
                by_size[name].append(rate * size / 1e6)
        by_concurrency: dict[str, list[float]] = {name: [] for name in targets}
        for connections in _CONCURRENCY:
            for name, rate in _in_turn(targets, payloads.png(10_000), connections, _UPLOADS).items():
                by_concurrency[name].append(rate)
    found = {
        "sizes": _SIZES,
        "megabytes_per_second": by_size,
        "concurrency": _CONCURRENCY,
        "uploads_per_second": by_concurrency,
    }
    print(found)
    if plots is not None:
        sizes = [f"{size / 1_000_000:g} MB" for size in _SIZES]
        _draw(plots / "throughput-by-size.svg", "Throughput by size of file, 4 connections", "MB/s", sizes, by_size)
        along = [str(connections) for connections in _CONCURRENCY]
        _draw(plots / "throughput-by-concurrency.svg", "10 KB PNG by connections", "uploads/s", along, by_concurrency)
    return found


def _in_turn(targets: dict[str, Target], payload: Payload, connections: int, uploads: int) -> dict[str, float]:
    """Return the uploads per second of each target; they take turns."""
    best = dict.fromkeys(targets, 0.0)
    for _ in range(_ROUNDS):
        for name, target in targets.items():
            began = time.perf_counter()
            outcome = asyncio.run(load(target, payload, connections=connections, uploads=uploads))
            if outcome.refused:
                raise SystemExit(f"{name} refused {sorted(set(outcome.refused))}")
            best[name] = max(best[name], uploads / (time.perf_counter() - began))
    return best


def _draw(path: Path, title: str, unit: str, places: Sequence[str], series: dict[str, list[float]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line_chart(title, unit, places, series), encoding="utf-8")
