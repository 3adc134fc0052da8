"""Feeds each parser with mutated files and reports what no file may do: an error of its own, a hang, or another verdict on the second run.

    python scripts/fuzz.py [KIND ...] [--seconds 600] [--plain] [--found FOLDER]

Every kind of `sluice.formats.registry` is an entry, fuzzed in a process of its own by atheris (libFuzzer), or by random changes where
there is no atheris for this Python (or with --plain). Kinds that share a parser may share a process and its time: `mp4+mov+m4a` begins with
files of all three. The small corpus is made by the kinds themselves and by the tests' generators.
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

from sluice.formats.registry import KINDS

_ROOT = Path(__file__).parents[1]
_GRACE = 60
"""Seconds that a process may take beyond its time: to load, and to finish its last input."""
_STARTS_MOST = 20


def main(arguments: Sequence[str]) -> int:
    """Fuzz the entries one after the other; answer the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [kind.name for kind in KINDS]
    parser.add_argument(
        "kinds", metavar="KIND", nargs="*", help=f"one of {', '.join(names)}, or several with + between; all when none is given"
    )
    parser.add_argument("--seconds", type=float, default=600, help="for each entry")
    parser.add_argument("--plain", action="store_true", help="random changes, without atheris")
    parser.add_argument("--found", type=Path, default=_ROOT / ".fuzz" / "found", help="folder for inputs that were too much")
    options = parser.parse_args(arguments)
    if unknown := {name for entry in options.kinds for name in entry.split("+")} - set(names):
        parser.error(f"no kind is named {', '.join(sorted(unknown))}")
    options.found.mkdir(parents=True, exist_ok=True)
    plain = options.plain or importlib.util.find_spec("atheris") is None
    print(f"{'random changes' if plain else 'atheris'}, {options.seconds:g} s each")
    outcomes = [_fuzz(name, options.seconds, options.found, plain=plain) for name in options.kinds or names]
    found = sum(len(outcome.found) for outcome in outcomes)
    print(f"{len(outcomes)} entries, {sum(outcome.runs for outcome in outcomes)} runs, {found} found")
    return 1 if found else 0


def _fuzz(name: str, seconds: float, folder: Path, *, plain: bool) -> Outcome:
    """Fuzz one entry until its time is over; a process that dies is one more found, and another goes on."""
    outcome, end = Outcome(), time.monotonic() + seconds
    for start in range(_STARTS_MOST):
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
