"""Compare what the scan reads with a second reader, on random files, until the time is over.

    python -m fuzzing.readings rtf|mail SECONDS [SEED]

RTF objects are compared with a slow reader of the tests, mails with Python's `email` package. A difference is a part that
the second reader extracts and that is not among those that are scanned. The exit status is 1 when there was any.
"""

import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2] / "inspect"))  # for the tests\' generators

from tests.inspection.threats import mail_readings, rtf_readings

_READERS: Final[dict[str, Callable[[random.Random], str | None]]] = {
    "rtf": rtf_readings.missing,
    "mail": mail_readings.missing,
}


def main(name: str, seconds: float, seed: int) -> int:
    """Compare until the time is over, print the counts, and return the exit status."""
    end, files, found = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        difference = _READERS[name](random.Random(seed + files))  # noqa: S311  (repeatable, no secret)
        files += 1
        if difference is not None:
            found += 1
            print(f"seed {seed + files - 1}: {difference}", flush=True)
    print(f"{name:6} {files} files, {found} differences")
    return 1 if found else 0


if __name__ == "__main__":
    reader, limit, *seeds = sys.argv[1:]
    sys.exit(main(reader, float(limit), int(*seeds)))
