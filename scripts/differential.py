"""Compare what the archive readers accept with what other readers make of it, and report what leads outside.

    python scripts/differential.py [tar] [zip] [--seconds 1800] [--start 0] [--every 100]

Each case is an archive with odd headers, made from its number. Those that `sluice_inspect` accepts are read by Python's
own library, and one in `--every` of them is listed by the programs that are installed: GNU tar, bsdtar, 7z, BusyBox;
Info-ZIP for ZIP. A name or link outside of the folder is a finding. The exit status is 1 when there was one.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "inspect"))  # for the tests\' generators

from tests.inspection.differential.comparing import PAIRS, Counts, compare
from tests.inspection.differential.readers import installed


def main(arguments: Sequence[str]) -> int:
    """Compare until the time is over and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("formats", metavar="FORMAT", nargs="*", default=sorted(PAIRS), help=", ".join(PAIRS))
    parser.add_argument("--seconds", type=float, default=1800, help="for each format")
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--every", type=int, default=100, help="list one of this many accepted cases by the programs")
    options = parser.parse_args(arguments)
    if unknown := set(options.formats) - set(PAIRS):
        parser.error(f"no format is named {', '.join(sorted(unknown))}")
    return int(sum(_compare(name, options.seconds, options.start, options.every) for name in options.formats) > 0)


def _compare(name: str, seconds: float, start: int, every: int) -> int:
    counts, pair, end = Counts(), PAIRS[name], time.monotonic() + seconds
    missing = pair.programs.keys() - installed(pair.programs)
    print(f"{name}: {seconds:g} s from case {start}; not installed: {', '.join(sorted(missing)) or 'none'}", flush=True)
    shown = 0
    for _ in compare(pair, count(start), counts, every=every):
        for reader, number, outside in counts.found[shown:]:
            print(f"    case {number} leads outside in {reader}: {outside}", flush=True)
        shown = len(counts.found)
        if time.monotonic() > end:
            break
    listed = ", ".join(f"{program} {number}" for program, number in counts.by_program.items())
    print(
        f"{name}: {counts.cases} cases, {counts.accepted} accepted, {shown} lead outside; listed: {listed}", flush=True
    )
    return shown


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
