"""`python -m bench.profile`: where the CPU of a small upload goes, by process, and in the server's thread by layer.

Percentages are of the CPU of all processes and add up to 100. The server's thread is sampled (`sampled_server`), which
divides its CPU between the packages of Sluice and its libraries; what runs in C counts for the function that called it.
"""

import argparse
import asyncio
import json
import os
import platform
import shutil
import signal
import sysconfig
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from bench import payloads
from bench.cpu import cpu_seconds
from bench.load import Target, load
from bench.servers import postmaster, running_scanner
from bench.sluice import running_sluice
from bench.stores import running_store
from tests.servers.clamd import Clamd
from tests.servers.postgres import running_postgres

_STDLIB = Path(sysconfig.get_paths()["stdlib"])
_WRITE_SECONDS = 10.0


@dataclass
class Profiled:
    """A running server, and the CPU seconds and samples that its rounds took."""

    name: str
    target: Target
    samples: Path
    others: dict[str, int]
    seconds: Counter[str] = field(default_factory=Counter)
    found: Counter[tuple[str, str]] = field(default_factory=Counter)

    def run(self, uploads: int, connections: int) -> None:
        """Run one round and add what it took."""
        (pid,) = self.target.pids
        os.kill(pid, signal.SIGUSR1)
        before = self._cpu()
        outcome = asyncio.run(load(self.target, payloads.png(10_000), connections=connections, uploads=uploads))
        after = self._cpu()
        if outcome.refused:
            raise SystemExit(f"{self.name} refused {sorted(set(outcome.refused))}")
        self.samples.unlink(missing_ok=True)
        os.kill(pid, signal.SIGUSR2)
        deadline = time.monotonic() + _WRITE_SECONDS
        while not self.samples.exists():
            if time.monotonic() > deadline:
                raise SystemExit(f"{self.name} wrote no samples")
            time.sleep(0.02)
        self.seconds.update({name: after[name] - before[name] for name in after})
        for file, function, count in json.loads(self.samples.read_text()):
            self.found[file, function] += count

    def layers(self) -> list[tuple[str, float]]:
        """Return the CPU of each process, that of the server by layer, in seconds."""
        parts = Counter[str]()
        for (file, _), count in self.found.items():
            parts[_layer(file)] += count
        whole = sum(parts.values()) or 1
        rows = [(f"server: {name}", self.seconds["server"] * n / whole) for name, n in parts.most_common()]
        return [*rows, *((name, spent) for name, spent in self.seconds.items() if name != "server")]

    def _cpu(self) -> dict[str, float]:
        (pid,) = self.target.pids
        own = _own_seconds(pid)
        return {
            "server": own,
            "zygote and children": cpu_seconds([pid]) - own,
            **{name: cpu_seconds([other]) for name, other in self.others.items()},
        }


def _own_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _layer(file: str) -> str:
    """Return the package of Sluice, the library, or a part of the standard library that a source file belongs to."""
    before, _, after = file.rpartition("/src/sluice")
    if before:
        parts = f"sluice{after}".split("/")
        return "/".join(parts[:2]) if len(parts) > 2 else parts[0]  # noqa: PLR2004  (a package below `sluice`)
    if "site-packages/" in file:
        return file.rpartition("site-packages/")[2].partition("/")[0].removesuffix(".py")
    if file.startswith(str(_STDLIB)):
        name = file.removeprefix(f"{_STDLIB}/").partition("/")[0].removesuffix(".py")
        return name if name in {"asyncio", "json", "contextlib"} else "standard library"
    return "generated code"  # initialisers of dataclasses and of named tuples


def table(all_profiled: list[Profiled], uploads: int) -> str:
    """Return a Markdown table: percent and ms of each layer in each server."""
    names = list(dict.fromkeys(name for each in all_profiled for name, _ in each.layers()))
    lines = [
        "| Layer | " + " | ".join(f"{each.name}, ms | %" for each in all_profiled) + " |",
        "|---|" + "---|---|" * len(all_profiled),
    ]
    rows = [dict(each.layers()) for each in all_profiled]
    wholes = [sum(row.values()) for row in rows]
    names.sort(key=lambda name: -max(row.get(name, 0.0) for row in rows))
    for name in names:
        cells = [
            f"{row.get(name, 0.0) / uploads * 1000:.3f} | {row.get(name, 0.0) / whole * 100:.1f}"
            for row, whole in zip(rows, wholes, strict=True)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines.append("| all | " + " | ".join(f"{whole / uploads * 1000:.3f} | 100.0" for whole in wholes) + " |")
    return "\n".join(lines)


def main() -> None:
    """Profile this checkout, and another in turn with it, and print the table."""
    parser = argparse.ArgumentParser(prog="bench.profile", description=__doc__)
    parser.add_argument("--store", choices=("s3", "local"), default="s3")
    parser.add_argument("--scan", action="store_true", help="with clamd")
    parser.add_argument("--uploads", type=int, default=800, help="of each round (default 800)")
    parser.add_argument("--rounds", type=int, default=3, help="counted ones; one more before them is not")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--against", type=Path, help="another checkout of Sluice, profiled in turn with this one")
    parser.add_argument("--functions", type=int, default=0, help="also print this many functions with the most samples")
    options = parser.parse_args()
    if options.scan and shutil.which("clamd") is None:
        raise SystemExit("clamd is not installed")
    checkouts = {"now": ""} | ({"before": str(options.against.absolute())} if options.against else {})
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sluice-profile-")))
        folder.chmod(0o755)  # PostgreSQL runs as another user
        postgres = stack.enter_context(running_postgres(folder / "postgres"))
        clamd: Clamd | None = stack.enter_context(running_scanner(folder / "clamd")) if options.scan else None
        store = stack.enter_context(running_store(folder, options.store))
        scanner = {"CLAMD": clamd.address, "SCANNER": "clamd"} if clamd else {}
        others = {"PostgreSQL": postmaster(postgres)}
        others |= {"clamd": clamd.pid} if clamd else {}
        others |= {"stub of S3": store.pids[0]} if store.pids else {}
        profiled = []
        for name, checkout in checkouts.items():
            samples = folder / f"{name}.json"
            server = stack.enter_context(
                running_sluice(folder / name, postgres.createdb(), checkout, samples, **scanner, **store.settings)
            )
            profiled.append(Profiled(name, server.context("bench", scan=options.scan), samples, others))
        for number in range(options.rounds + 1):
            for each in profiled:
                if number == 1:
                    each.seconds.clear()
                    each.found.clear()
                each.run(options.uploads, options.connections)
    uploads = options.uploads * options.rounds
    print(f"Python {platform.python_version()}, {sysconfig.get_config_var('CONFIG_ARGS')}\n")
    print(table(profiled, uploads))
    for each in profiled if options.functions else []:
        whole = sum(each.found.values())
        print(f"\n{each.name}: {whole} samples")
        for (file, function), count in each.found.most_common(options.functions):
            print(f"{count / whole * 100:5.1f} %  {_layer(file)}  {Path(file).name}  {function}")


if __name__ == "__main__":
    main()
