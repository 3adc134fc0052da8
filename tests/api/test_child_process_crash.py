"""What an upload gets when the child process that checks its file dies: a rejection, never an acceptance."""

import bz2
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

from tests.api.responses import assert_rejected
from tests.deployments import Deployments
from tests.service import Service, running_service

_BUSY_TICKS = 60  # more processor time than starting a child process takes


@cache
def _stream_of_noise() -> bytes:
    """Return what is unpacked in no time; thirty of it, one after the other, take seconds."""
    return bz2.compress(random.Random(1).randbytes(2**20))


def _children(pid: int) -> list[int]:
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


def _cpu_ticks(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(fields[11]) + int(fields[12])


def _busy_child_process(service: Service) -> int:
    """Return the child process that is working; the zygote is the server's child, and the workers are the zygote's."""
    deadline = time.monotonic() + 60

    def workers() -> list[int]:
        return [pid for zygote in _children(service.process.pid) for pid in _children(zygote)]

    idle = {pid: _cpu_ticks(pid) for pid in workers()}
    while time.monotonic() < deadline:
        for pid in workers():
            if _cpu_ticks(pid) - idle.get(pid, 0) >= _BUSY_TICKS:
                return pid
        time.sleep(0.02)  # no event reports that a process has worked, so the test polls
    raise AssertionError("no checker worked")


def test_file_is_unprocessable_when_its_child_process_crashes(deployments: Deployments) -> None:
    with (
        running_service(replace(deployments.fresh("sqlite-local"), own_zygote=True)) as service,
        ThreadPoolExecutor(1) as executor,
    ):
        client = service.new_client()
        context = client.create_context(scan_for_viruses=False, max_file_size_mb=100)
        response = executor.submit(client.upload, "slow.bz2", _stream_of_noise() * 30, context=context)
        os.kill(_busy_child_process(service), signal.SIGBUS)
        assert_rejected(response.result(60), "unprocessable_file")
        assert client.used_bytes(context) == 0
        client.store("quick.bz2", _stream_of_noise(), context=context)
