"""`make bench`: measure the rows of docs/performance.md interleaved in one run, as ratios and CPU per upload."""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median, quantiles

from bench import floors, payloads
from bench.cpu import cpu_seconds, resident_bytes
from bench.load import Target, load
from bench.payloads import Payload
from bench.servers import Bench, running


@dataclass(frozen=True)
class Row:
    """One workload."""

    name: str
    make: Callable[[], Payload]
    scan: bool
    connections: int
    uploads: int


@dataclass(frozen=True)
class Sample:
    """One round of one target: total seconds, CPU ms per upload, p50, p99, memory growth in MB.

    `cpu_ms` is of all processes, `own_cpu_ms` of the target's own: without the database, the scanner and the store.
    """

    seconds: float
    cpu_ms: float
    own_cpu_ms: float
    p50_ms: float
    p99_ms: float
    grown_mb: float


@dataclass
class Result:
    """All rounds of one workload."""

    name: str
    bytes_each: int
    uploads: int
    sluice: list[Sample] = field(default_factory=list)
    baseline: list[Sample] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Seconds of the baseline per second of Sluice, the median of the rounds."""
        return median(theirs.seconds / ours.seconds for ours, theirs in zip(self.sluice, self.baseline, strict=True))

    @property
    def cpu(self) -> float:
        """CPU of the baseline per CPU of Sluice, the median of the rounds."""
        return median(theirs.cpu_ms / ours.cpu_ms for ours, theirs in zip(self.sluice, self.baseline, strict=True))

    def ratios(self, name: str) -> tuple[float, float, float]:
        """Return a figure of Sluice per that of the baseline, over the rounds: lower quartile, median, upper."""
        pairs = zip(self.sluice, self.baseline, strict=True)
        found = [getattr(ours, name) / getattr(theirs, name) for ours, theirs in pairs]
        low, middle, high = quantiles(found, n=4, method="inclusive") if len(found) > 1 else found * 3
        return low, middle, high


def rows(*, quick: bool) -> list[Row]:
    """Return the workloads in the order of the table."""
    small, large = (300, 1) if quick else (2000, 4)
    size = 20_000_000 if quick else 100_000_000
    return [
        Row("10 KB PNG, scan on", lambda: payloads.png(10_000), scan=True, connections=16, uploads=small),
        Row("10 KB PNG, scan off", lambda: payloads.png(10_000), scan=False, connections=16, uploads=small),
        Row(
            f"{size // 1_000_000} MB .bin, scan off",
            lambda: payloads.binary(size),
            scan=False,
            connections=1,
            uploads=large,
        ),
        Row(
            f"{size // 1_000_000} MB .zip, scan on",
            lambda: payloads.archive(size),
            scan=True,
            connections=1,
            uploads=large,
        ),
    ]


async def measured(target: Target, row: Row, payload: Payload, shared: tuple[int, ...]) -> Sample:
    """Run one round and return its sample."""
    pids = (*target.pids, *shared)
    memory = _Peak(target.pids[0])
    polling = asyncio.create_task(memory.poll())
    own, cpu, began = cpu_seconds(target.pids), cpu_seconds(pids), time.perf_counter()
    outcome = await load(target, payload, connections=row.connections, uploads=row.uploads)
    seconds, used, own_used = time.perf_counter() - began, cpu_seconds(pids) - cpu, cpu_seconds(target.pids) - own
    polling.cancel()
    with suppress(asyncio.CancelledError):
        await polling
    if outcome.refused:
        raise SystemExit(
            f"{target.name} refused {len(outcome.refused)} of {row.uploads} uploads: {sorted(set(outcome.refused))}"
        )
    each, own_each = used / row.uploads * 1000, own_used / row.uploads * 1000
    return Sample(
        seconds, each, own_each, outcome.quantile(0.5) * 1000, outcome.quantile(0.99) * 1000, memory.grown / 1e6
    )


class _Peak:
    """The growth of a process's resident memory over its first value, polled while a round runs."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._first = resident_bytes(pid)
        self.grown = 0

    async def poll(self) -> None:
        while True:
            self.grown = max(self.grown, resident_bytes(self._pid) - self._first)
            await asyncio.sleep(0.02)


async def compare(bench: Bench, selected: list[Row], rounds: int) -> list[Result]:
    """Measure every workload; Sluice and the baseline take turns, and the first round of each is not counted."""
    results = []
    for row in selected:
        if row.scan not in bench.baseline:
            continue
        payload = row.make()
        result = Result(row.name, len(payload.data), row.uploads)
        pairs = ((bench.sluice[row.scan], result.sluice), (bench.baseline[row.scan], result.baseline))
        for number in range(rounds + 1):
            for target, samples in pairs:
                print(
                    f"\r{row.name}: round {number} of {rounds}, {target.name}   ", end="", file=sys.stderr, flush=True
                )
                sample = await measured(target, row, payload, bench.shared)
                if number:
                    samples.append(sample)
        print(file=sys.stderr)
        results.append(result)
    return results


def table(results: list[Result]) -> str:
    """Return the results as a Markdown table."""
    lines = [
        "| Work | speed, baseline = 1 | CPU, baseline = 1 | Sluice, CPU ms each | baseline, CPU ms each | p50 / p99 ms | grown MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        ours, theirs = (median(sample.cpu_ms for sample in samples) for samples in (result.sluice, result.baseline))
        p50, p99 = (median(getattr(sample, name) for sample in result.sluice) for name in ("p50_ms", "p99_ms"))
        grown = max(sample.grown_mb for sample in result.sluice)
        lines.append(
            f"| {result.name} | {result.speed:.2f} | {1 / result.cpu:.2f} | {ours:.2f} | {theirs:.2f} | {p50:.0f} / {p99:.0f} | {grown:.0f} |"
        )
    return "\n".join(lines)


def comparison(results: list[Result]) -> str:
    """Return the results of a comparison with another checkout as a Markdown table."""
    lines = [
        "| Work | rounds | server's CPU, before = 1 (quartiles) | ms each | all CPU, before = 1 (quartiles) | ms each |",
        "|---|---|---|---|---|---|",
    ]
    for result in results:
        cells = [result.name, str(len(result.sluice))]
        for name in ("own_cpu_ms", "cpu_ms"):
            low, middle, high = result.ratios(name)
            ours, theirs = (median(getattr(s, name) for s in samples) for samples in (result.sluice, result.baseline))
            cells += [f"{middle:.3f} ({low:.3f} to {high:.3f})", f"{ours:.2f}, before {theirs:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> int:
    """Measure, print the table, and return 1 when Sluice needs more CPU than allowed in a row."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="few uploads, under a minute: finds regressions, gives no figures"
    )
    parser.add_argument("--rounds", type=int, default=0, help="counted rounds of each row (default 5, quick 3)")
    parser.add_argument(
        "--store", choices=("s3", "local"), default="s3", help="where both store objects: an S3 stub, or folders"
    )
    parser.add_argument("--only", default="", help="only rows whose name contains this text")
    parser.add_argument(
        "--behind",
        type=float,
        default=1.0,
        help="highest CPU of a row, baseline = 1, that does not fail the command (default 1)",
    )
    parser.add_argument(
        "--against",
        type=Path,
        help="another checkout of Sluice, such as a git worktree of an earlier commit, to compare with: its server "
        "runs with this interpreter and takes the place of the baseline",
    )
    parser.add_argument("--uploads", type=int, default=0, help="uploads of each round of small files (default 2000)")
    parser.add_argument("--connections", type=int, default=0, help="connections for small files (default 16)")
    parser.add_argument("--json", type=Path, help="write every sample to this file")
    options = parser.parse_args()
    selected = [row for row in rows(quick=options.quick) if options.only in row.name]
    selected = [
        replace(row, uploads=options.uploads or row.uploads, connections=options.connections or row.connections)
        if row.connections > 1
        else row
        for row in selected
    ]
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user
        with running(Path(folder), options.store, options.against) as bench:
            results = asyncio.run(compare(bench, selected, options.rounds or (3 if options.quick else 5)))
            limits = {} if options.only or options.against else floors.measure(bench, Path(folder), quick=options.quick)
    print(table(results) if options.against is None else comparison(results))
    print("\n".join(f"{name}: {figure}" for name, figure in limits.items()))
    if options.json is not None:
        options.json.write_text(
            json.dumps({"rows": [asdict(result) for result in results], "floors": limits}, indent=2)
        )
    behind = [result.name for result in results if 1 / result.cpu > options.behind]
    if behind:
        print(f"behind the baseline in CPU: {', '.join(behind)}", file=sys.stderr)
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(main())
