"""Fuzz each parser with mutated files and report undeclared errors, hangs, and verdicts that differ between two runs.

    python scripts/fuzz.py [FORMAT ...] [--seconds 600] [--plain] [--found FOLDER]

Every format of `sluice_inspect.registry` is an entry, fuzzed in a process of its own by atheris (libFuzzer), or by random
changes when atheris is not installed (or with --plain). Formats that share a parser may share a process and its time:
`mp4+mov+m4a` starts with files of all three. The small corpus comes from the formats and from the tests' generators.
The exit status is 1 when anything was found; the inputs are then in FOLDER.
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from fuzzing.outcome import Outcome

from sluice_inspect.registry import FORMATS

_ROOT = Path(__file__).parents[1]
_GRACE = 400
"""Extra seconds for a process to load and to finish its last input, on a machine that is busy."""
_MAX_STARTS = 20


def main(arguments: Sequence[str]) -> int:
    """Fuzz the entries one after the other and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [each.name for each in FORMATS]
    parser.add_argument(
        "formats",
        metavar="FORMAT",
        nargs="*",
        help=f"one of {', '.join(names)}, or several joined by +; all by default",
    )
    parser.add_argument("--seconds", type=float, default=600, help="for each entry")
    parser.add_argument("--plain", action="store_true", help="random changes, without atheris")
    parser.add_argument("--found", type=Path, default=_ROOT / ".fuzz" / "found", help="folder for inputs that failed")
    options = parser.parse_args(arguments)
    if unknown := {name for entry in options.formats for name in entry.split("+")} - set(names):
        parser.error(f"no format is named {', '.join(sorted(unknown))}")
    options.found = options.found.resolve()  # the processes run in another folder
    options.found.mkdir(parents=True, exist_ok=True)
    plain = options.plain or importlib.util.find_spec("atheris") is None
    print(f"{'random changes' if plain else 'atheris'}, {options.seconds:g} s each")
    outcomes = [_fuzz(name, options.seconds, options.found, plain=plain) for name in options.formats or names]
    found = sum(len(outcome.found) for outcome in outcomes)
    print(f"{len(outcomes)} entries, {sum(outcome.runs for outcome in outcomes)} runs, {found} found")
    return 1 if found else 0


def _fuzz(name: str, seconds: float, folder: Path, *, plain: bool) -> Outcome:
    """Fuzz one entry until its time is over. A process that dies counts as a finding and is replaced."""
    outcome, end = Outcome(), time.monotonic() + seconds
    for start in range(_MAX_STARTS):
        left = end - time.monotonic()
        if left < min(1, seconds / 2):
            break
        outcome.add(_run(name, left, folder, start, plain=plain))
    print(f"{name:20} {seconds:6g} s {outcome.runs:9} runs  {len(outcome.found)} found", flush=True)
    for line in outcome.found:
        print(f"       {line}", flush=True)
    return outcome


def _run(name: str, seconds: float, folder: Path, start: int, *, plain: bool) -> Outcome:
    log, how = folder / f"{name}.log", "plain" if plain else "atheris"
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch, log.open("wb") as written:
        report = Path(scratch) / "outcome.json"
        command = [sys.executable, "-m", "fuzzing.entry", name, str(seconds), str(folder), scratch, str(start), how]
        try:
            done = subprocess.run(
                command, cwd=_ROOT / "scripts", stdout=written, stderr=written, check=False, timeout=seconds + _GRACE
            )
        except subprocess.TimeoutExpired:
            return Outcome.read(report).with_found(f"hung: see {log.name}")
        outcome = Outcome.read(report)
    return outcome.with_found(f"died with status {done.returncode}: see {log.name}") if done.returncode else outcome


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
