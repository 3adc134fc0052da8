"""A server whose main thread is sampled: `python -m bench.sampled_server FILE`.

SIGUSR1 restarts the samples, SIGUSR2 writes those so far to FILE as JSON: source file, function and
number. A sample is taken for each two milliseconds of CPU time, of user and kernel; what runs in C counts for the
Python function that called it.
"""

import json
import runpy
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

_SECONDS = 0.002
_LEAVES: Counter[tuple[str, str]] = Counter()


def _sample(_signal: int, frame: FrameType | None) -> None:
    if frame is not None:
        _LEAVES[frame.f_code.co_filename, frame.f_code.co_qualname] += 1


def _run(target: Path) -> None:
    def write(_signal: int, _frame: FrameType | None) -> None:
        found = [[*place, count] for place, count in _LEAVES.most_common()]
        draft = target.with_suffix(".draft")
        draft.write_text(json.dumps(found))
        draft.replace(target)

    signal.signal(signal.SIGUSR1, lambda _signal, _frame: _LEAVES.clear())
    signal.signal(signal.SIGUSR2, write)
    signal.signal(signal.SIGPROF, _sample)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS, _SECONDS)
    sys.argv = ["sluice", "serve"]
    runpy.run_module("sluice.cli", run_name="__main__")


if __name__ == "__main__":
    _run(Path(sys.argv[1]))
