"""Several processes that take of one key at once, in real time: no window holds more than the limit, and none is held back."""

import json
import secrets
import subprocess
import sys
from pathlib import Path

from tests.engines.limiter.conftest import Bench

ROOT = Path(__file__).parents[3]
LIMIT = 7
SECONDS = 3
PROCESSES = 4


def test_processes_together_fill_every_window_and_pass_none(shared: Bench) -> None:
    words = [shared.name, shared.address, secrets.token_hex(4), str(LIMIT), str(SECONDS)]
    command = [sys.executable, "-m", "tests.engines.limiter.hammer", *words]
    processes = [subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) for _ in range(PROCESSES)]
    answers = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0] * PROCESSES
    moments = sorted(moment for answer in answers for moment in json.loads(answer))
    # the moment after the last of a full window is a window later: then no window of any beginning holds more than the limit
    assert all(later - earlier >= 1 for earlier, later in zip(moments, moments[LIMIT:], strict=False))
    assert len(moments) >= LIMIT * (SECONDS - 1)
