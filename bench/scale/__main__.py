"""`make bench-scale`: one kind of growth per word. Each prints its figures and can write them as JSON."""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.scale import lists, memory, neighbours, soak, start, throughput

_KINDS: dict[str, Callable[[Path, argparse.Namespace], dict[str, Any]]] = {
    "lists": lambda folder, asked: lists.measure(folder, rows=asked.rows, sqlite_rows=asked.sqlite_rows),
    "memory": lambda folder, asked: memory.measure(folder, megabytes=asked.megabytes, at_once=asked.at_once),
    "neighbours": lambda folder, asked: neighbours.measure(folder, uploads=asked.uploads),
    "soak": lambda folder, asked: soak.measure(folder, uploads=asked.uploads, every=asked.every),
    "start": lambda folder, _asked: start.measure(folder),
    "throughput": lambda folder, asked: throughput.measure(folder, plots=asked.plots, store=asked.store),
}


def main() -> int:
    """Measure one kind."""
    parser = argparse.ArgumentParser(prog="bench.scale", description=__doc__)
    parser.add_argument("kind", choices=_KINDS)
    parser.add_argument("--rows", type=int, default=10_000_000, help="lists: files of the large tenant on PostgreSQL")
    parser.add_argument("--sqlite-rows", type=int, default=1_000_000, help="lists: files of the large tenant on SQLite")
    parser.add_argument("--megabytes", type=int, default=500, help="memory: size of each upload")
    parser.add_argument("--at-once", type=int, default=16, help="memory: uploads at once")
    parser.add_argument("--uploads", type=int, default=0, help="neighbours: small uploads of each phase; soak: uploads in all")
    parser.add_argument("--every", type=int, default=10_000, help="soak: uploads between two looks")
    parser.add_argument("--store", choices=("s3", "local"), default="s3", help="throughput: a stub of S3, or folders")
    parser.add_argument("--plots", type=Path, help="throughput: draw two SVG into this folder")
    parser.add_argument("--json", type=Path, help="write the figures there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        Path(folder).chmod(0o755)  # PostgreSQL runs as another user
        figures = _KINDS[asked.kind](Path(folder), asked)
    if asked.json is not None:
        asked.json.write_text(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
