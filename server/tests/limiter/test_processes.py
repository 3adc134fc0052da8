"""Several processes that take from one key at once, in real time: every window is filled and none is exceeded."""

import json
import secrets
from pathlib import Path

from tests.cli.forked import PARENT
from tests.limiter import hammer
from tests.limiter.conftest import LimiterHarness

LIMIT = 7
SECONDS = 2
PROCESSES = 4


def test_concurrent_processes_fill_every_window_exactly(shared_harness: LimiterHarness, tmp_path: Path) -> None:
    settings = hammer.HammerSettings(shared_harness.name, shared_harness.address, secrets.token_hex(4), LIMIT, SECONDS)
    barrier = PARENT.Barrier(PROCESSES)
    out = [tmp_path / str(number) for number in range(PROCESSES)]
    # forked from a process that has loaded everything, because loading it four times takes half a minute
    processes = [PARENT.Process(target=hammer.main, args=(settings, barrier, path), daemon=True) for path in out]
    for process in processes:
        process.start()
    for process in processes:
        process.join(2 * hammer.TIMEOUT_SECONDS)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    moments = sorted(moment for path in out for moment in json.loads(path.read_text()))
    # if every take is a window later than the take `LIMIT` before it, no window holds more than the limit
    assert all(later - earlier >= 1 for earlier, later in zip(moments, moments[LIMIT:], strict=False))
    assert len(moments) >= LIMIT * (SECONDS - 1)
