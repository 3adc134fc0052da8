"""Compare which XML documents are accepted with what other readers load or expand when they read them.

    python scripts/differential_xml.py [--seconds 1800] [--start 0]

Each case is an odd document, made from its number and read by expat and libxml2 with everything switched on that loads
files and expands entities. What they ask for is noted and never loaded. An address outside of the folder of the
document, or text that multiplies, in a document that is accepted is a finding. The exit status is 1 when there was one.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "inspect"))  # for the tests\' generators

from tests.inspection.formats.xml_documents import READERS, document, is_accepted


def main(arguments: Sequence[str]) -> int:
    """Compare until the time is over and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1800)
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    options = parser.parse_args(arguments)
    counts: Counter[str] = Counter()
    number, end = options.start, time.monotonic() + options.seconds
    while time.monotonic() < end:
        data = document(number)
        passes = is_accepted(data)
        counts["accepted"] += passes
        for name, read in READERS.items():
            harm = read(data).harm()
            counts[f"harmful to {name}"] += bool(harm)
            if harm and passes:
                counts["found"] += 1
                print(f"case {number} {harm} in {name}", flush=True)
        number += 1
    print(f"{number - options.start} cases from {options.start}: {dict(sorted(counts.items()))}")
    return 1 if counts["found"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
