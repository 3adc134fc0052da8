"""`make bench`: the rows of performance.md, measured interleaved in one run, as ratios and CPU per upload. `--quick` is for CI."""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median

from bench import floors, payloads
from bench.cpu import cpu_seconds, resident_bytes
from bench.load import Target, load
from bench.payloads import Payload
from bench.servers import Bench, running


@dataclass(frozen=True)
class Row:
    """One kind of work."""

    name: str
    make: Callable[[], Payload]
    scan: bool
    connections: int
    uploads: int


@dataclass(frozen=True)
class Sample:
    """One round of one target: seconds in all, CPU milliseconds per upload of every process, p50 and p99 in ms, grown memory in MB."""

    seconds: float
    cpu_ms: float
    p50_ms: float
    p99_ms: float
    grown_mb: float


@dataclass
class Result:
    """All rounds of one row."""

    name: str
    bytes_each: int
    uploads: int
    sluice: list[Sample] = field(default_factory=list)
    baseline: list[Sample] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Baseline seconds per Sluice second, the median of the rounds."""
        return median(theirs.seconds / ours.seconds for ours, theirs in zip(self.sluice, self.baseline, strict=True))

    @property
    def cpu(self) -> float:
        """Baseline CPU per Sluice CPU, the median of the rounds."""
        return median(theirs.cpu_ms / ours.cpu_ms for ours, theirs in zip(self.sluice, self.baseline, strict=True))


def rows(*, quick: bool) -> list[Row]:
    """Answer the rows, in the order of the table."""
    small, large = (300, 1) if quick else (2000, 4)
    size = 20_000_000 if quick else 100_000_000
    return [
        Row("10 KB PNG, scan on", lambda: payloads.png(10_000), scan=True, connections=16, uploads=small),
        Row("10 KB PNG, scan off", lambda: payloads.png(10_000), scan=False, connections=16, uploads=small),
        Row(f"{size // 1_000_000} MB .bin, scan off", lambda: payloads.binary(size), scan=False, connections=1, uploads=large),
        Row(f"{size // 1_000_000} MB .zip, scan on", lambda: payloads.archive(size), scan=True, connections=1, uploads=large),
    ]


async def measured(target: Target, row: Row, payload: Payload, shared: tuple[int, ...]) -> Sample:
    """Answer one round."""
    pids = (*target.pids, *shared)
    memory = _Peak(target.pids[0])
    watching = asyncio.create_task(memory.watch())
    cpu, began = cpu_seconds(pids), time.perf_counter()
    outcome = await load(target, payload, connections=row.connections, uploads=row.uploads)
    seconds, used = time.perf_counter() - began, cpu_seconds(pids) - cpu
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    if outcome.refused:
        raise SystemExit(f"{target.name} refused {len(outcome.refused)} of {row.uploads} uploads: {sorted(set(outcome.refused))}")
    each = used / row.uploads * 1000
    return Sample(seconds, each, outcome.quantile(0.5) * 1000, outcome.quantile(0.99) * 1000, memory.grown / 1e6)


class _Peak:
    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._first = resident_bytes(pid)
        self.grown = 0

    async def watch(self) -> None:
        while True:
            self.grown = max(self.grown, resident_bytes(self._pid) - self._first)
            await asyncio.sleep(0.02)


async def compare(bench: Bench, wanted: list[Row], rounds: int) -> list[Result]:
    """Answer every row, its rounds taken in turn by Sluice and the baseline after one that is not counted."""
    results = []
    for row in wanted:
        if row.scan not in bench.baseline:
            continue
        payload = row.make()
        result = Result(row.name, len(payload.data), row.uploads)
        pairs = ((bench.sluice[row.scan], result.sluice), (bench.baseline[row.scan], result.baseline))
        for number in range(rounds + 1):
            for target, samples in pairs:
                print(f"\r{row.name}: round {number} of {rounds}, {target.name}   ", end="", file=sys.stderr, flush=True)
                sample = await measured(target, row, payload, bench.shared)
                if number:
                    samples.append(sample)
        print(file=sys.stderr)
        results.append(result)
    return results


def table(results: list[Result]) -> str:
    """Answer the results as a table of Markdown."""
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


def main() -> int:
    """Measure, print the table, and say by the exit code whether Sluice is ahead of the baseline in every row."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small numbers, under a minute: shows regressions, not figures")
    parser.add_argument("--rounds", type=int, default=0, help="counted rounds of each row (default 5, quick 3)")
    parser.add_argument("--store", choices=("s3", "local"), default="s3", help="where both put objects: a stub of S3, or folders")
    parser.add_argument("--only", default="", help="rows whose name holds this text")
    parser.add_argument(
        "--behind", type=float, default=1.0, help="most CPU of a row, baseline = 1, before the command fails (default 1)"
    )
    parser.add_argument("--json", type=Path, help="write every sample there")
    asked = parser.parse_args()
    wanted = [row for row in rows(quick=asked.quick) if asked.only in row.name]
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user
        with running(Path(folder), asked.store) as bench:
            results = asyncio.run(compare(bench, wanted, asked.rounds or (3 if asked.quick else 5)))
            limits = {} if asked.only else floors.measure(bench, Path(folder), quick=asked.quick)
    print(table(results))
    print("\n".join(f"{name}: {figure}" for name, figure in limits.items()))
    if asked.json is not None:
        asked.json.write_text(json.dumps({"rows": [asdict(result) for result in results], "floors": limits}, indent=2))
    behind = [result.name for result in results if 1 / result.cpu > asked.behind]
    if behind:
        print(f"behind the baseline in CPU: {', '.join(behind)}", file=sys.stderr)
    return 1 if behind else 0


if __name__ == "__main__":
    sys.exit(main())
