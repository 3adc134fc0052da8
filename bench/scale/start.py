"""The time from start until the server is ready, and its memory when idle."""

import time
from pathlib import Path
from statistics import median
from typing import Any

from bench.cpu import anonymous_bytes, cpu_seconds, tree
from bench.sluice import running_sluice

_STARTS = 5
_IDLE_SECONDS = 5.0


def measure(folder: Path) -> dict[str, Any]:
    """Return the median seconds and CPU seconds until ready, and the idle MB and number of all processes."""
    seconds, used, idle, processes = [], [], [], []
    for number in range(_STARTS):
        home = folder / str(number)
        home.mkdir()
        with running_sluice(home / "data", f"sqlite:///{home}/data/sluice.db") as sluice:
            seconds.append(sluice.started)
            used.append(cpu_seconds([sluice.pid]))
            time.sleep(_IDLE_SECONDS)
            idle.append(anonymous_bytes(sluice.pid) / 1e6)
            processes.append(len(tree(sluice.pid)))
    found = {"seconds": median(seconds), "fastest": min(seconds), "cpu_seconds": median(used), "idle_mb": median(idle)}
    print(found | {"processes": median(processes)})
    return found | {"processes": median(processes)}
