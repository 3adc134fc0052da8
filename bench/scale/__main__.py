"""`make bench-scale`: run one scaling measurement. Each prints its figures and can write them as JSON."""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.scale import (
    deletes,
    embedded,
    hashes,
    imports,
    lists,
    memory,
    neighbours,
    processes,
    replay,
    reservations,
    soak,
    start,
    steps,
    throughput,
)

_KINDS: dict[str, Callable[[Path, argparse.Namespace], dict[str, Any]]] = {
    "deletes": lambda folder, options: deletes.measure(folder, rows=options.rows or 100_000, on=_databases(options)),
    "embedded": lambda folder, options: embedded.measure(
        folder, uploads=options.uploads or 400, checkout=options.against
    ),
    "erasures": lambda folder, options: deletes.measure_erasure(
        folder, rows=options.rows or 1_000_000, on=_databases(options)
    ),
    "hashes": lambda folder, options: hashes.measure(folder, rows=options.rows or 10_000_000),
    "imports": lambda folder, options: imports.measure(folder, rows=options.rows or 100_000, at_once=options.at_once),
    "lists": lambda folder, options: lists.measure(
        folder, rows=options.rows or 10_000_000, sqlite_rows=options.sqlite_rows
    ),
    "memory": lambda folder, options: memory.measure(folder, megabytes=options.megabytes, at_once=options.at_once),
    "neighbours": lambda folder, options: neighbours.measure(folder, uploads=options.uploads),
    "processes": lambda folder, _options: processes.measure(folder),
    "replay": lambda folder, options: replay.measure(folder, rows=options.decisions),
    "reservations": lambda folder, _options: reservations.measure(folder),
    "retention": lambda folder, options: deletes.measure(
        folder, rows=options.rows or 100_000, on=_databases(options), by_retention=True
    ),
    "soak": lambda folder, options: soak.measure(folder, uploads=options.uploads, every=options.every),
    "start": lambda folder, _options: start.measure(folder),
    "steps": lambda folder, _options: steps.measure(folder),
    "throughput": lambda folder, options: throughput.measure(folder, plots=options.plots, store=options.store),
}


def _databases(options: argparse.Namespace) -> tuple[str, ...]:
    return ("postgresql", "sqlite") if options.database is None else (options.database,)


def main() -> int:
    """Run the chosen measurement."""
    parser = argparse.ArgumentParser(prog="bench.scale", description=__doc__)
    parser.add_argument("kind", choices=_KINDS)
    parser.add_argument(
        "--rows", type=int, help="files of a tenant (lists: on PostgreSQL); entries of hash lists; objects of an import"
    )
    parser.add_argument("--sqlite-rows", type=int, default=1_000_000, help="lists: files of the large tenant on SQLite")
    parser.add_argument(
        "--database", choices=("postgresql", "sqlite"), help="deletes, erasures, retention: only this one"
    )
    parser.add_argument("--megabytes", type=int, default=500, help="memory: size of each upload")
    parser.add_argument("--at-once", type=int, default=16, help="memory: number of concurrent uploads")
    parser.add_argument(
        "--uploads", type=int, default=0, help="neighbours, embedded: small uploads of each phase; soak: total uploads"
    )
    parser.add_argument("--every", type=int, default=10_000, help="soak: uploads between two samples")
    parser.add_argument("--store", choices=("s3", "local"), default="s3", help="throughput: an S3 stub, or folders")
    parser.add_argument("--decisions", type=int, default=100_000, help="replay: stored decisions that are judged again")
    parser.add_argument(
        "--against", default="", help="embedded: another checkout of Sluice, measured in turn with this one"
    )
    parser.add_argument("--plots", type=Path, help="throughput: draw two SVG files into this folder")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user
        figures = _KINDS[options.kind](Path(folder), options)
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
