"""Measure Sluice against the service that a competent developer writes in an afternoon, in one run: `make bench`."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / part) for part in ("inspect", "server")]  # for the tests' servers
