"""What an upload is answered when the checker of its file dies: a reason, never a pass. Its levels are in tests/engines."""

import bz2
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from tests.api.answers import rejected
from tests.api.places import Places
from tests.gate import Service, running_service

# Seconds of unpacking: one stream of noise, many times over.
_QUICK = bz2.compress(random.Random(1).randbytes(2**20))
_SLOW = _QUICK * 30

_BUSY_TICKS = 60  # more CPU than a child takes to be born


def _children(pid: int) -> list[int]:
    return [int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


def _cpu_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(fields[11]) + int(fields[12])


def _busy_checker(service: Service) -> int:
    """Answer the checker process that works, once there is one; the zygote is the server's child, the checkers are the zygote's."""
    deadline = time.monotonic() + 60

    def checkers() -> list[int]:
        return [pid for zygote in _children(service.process.pid) for pid in _children(zygote)]

    idle = {pid: _cpu_ticks(pid) for pid in checkers()}
    while time.monotonic() < deadline:
        for pid in checkers():
            if _cpu_ticks(pid) - idle.get(pid, 0) >= _BUSY_TICKS:
                return pid
        time.sleep(0.02)  # nobody tells when a process has worked: all one can do is look again
    raise AssertionError("no checker worked")


def test_a_file_whose_checker_crashes_is_unprocessable_and_the_next_one_passes(places: Places) -> None:
    with running_service(replace(places.fresh("sqlite-local"), bears=True)) as service, ThreadPoolExecutor(1) as client:
        gate = service.new_gate()
        context = gate.context(scan_for_viruses=False, max_file_size_mb=100)
        answer = client.submit(gate.upload, "slow.bz2", _SLOW, context=context)
        os.kill(_busy_checker(service), signal.SIGBUS)
        rejected(answer.result(60), "unprocessable_file")
        assert gate.used(context) == 0
        gate.store("quick.bz2", _QUICK, context=context)
