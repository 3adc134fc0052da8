"""Several processes that take of one key at once, in real time: no window holds more than the limit, and none is held back."""

import json
import secrets
from pathlib import Path

from tests.cli.forked import PARENT
from tests.engines.limiter import hammer
from tests.engines.limiter.conftest import Bench

LIMIT = 7
SECONDS = 3
PROCESSES = 4


def test_processes_together_fill_every_window_and_pass_none(shared: Bench, tmp_path: Path) -> None:
    words = hammer.Hammering(shared.name, shared.address, secrets.token_hex(4), LIMIT, SECONDS)
    together = PARENT.Barrier(PROCESSES)
    out = [tmp_path / str(number) for number in range(PROCESSES)]
    # forked from a process that has loaded everything: four that load it at once take half a minute of a busy machine
    processes = [PARENT.Process(target=hammer.main, args=(words, together, path), daemon=True) for path in out]
    for process in processes:
        process.start()
    for process in processes:
        process.join(2 * hammer.PATIENCE)
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    moments = sorted(moment for path in out for moment in json.loads(path.read_text()))
    # the moment after the last of a full window is a window later: then no window of any beginning holds more than the limit
    assert all(later - earlier >= 1 for earlier, later in zip(moments, moments[LIMIT:], strict=False))
    assert len(moments) >= LIMIT * (SECONDS - 1)
