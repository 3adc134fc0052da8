"""Each part of the confinement by itself: together, one part would hide the failure of another."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sluice_inspect.child.protocol import Level
from sluice_inspect.sandbox.protocol import Completed, JobLimits
from tests.sandbox.conftest import ROOT, OpenSandbox, RunJob
from tests.sandbox.processes import read_proc

_UNDER_LANDLOCK = """
import ctypes, errno, json, os, signal, socket, sys
from sluice_inspect.child import landlock

def attempt(action):
    try:
        action()
    except OSError as fault:
        return errno.errorcode[fault.errno]
    return "done"

ctypes.CDLL(None).prctl(38, 1, 0, 0, 0)
landlock.restrict(landlock.open_ruleset())
folder, port = sys.argv[1], int(sys.argv[2])
print(json.dumps({
    "abi": landlock.abi(),
    "read": attempt(lambda: os.open("/etc/passwd", os.O_RDONLY)),
    "list": attempt(lambda: os.listdir(folder)),
    "write": attempt(lambda: os.open(folder + "/new", os.O_WRONLY | os.O_CREAT)),
    "folder": attempt(lambda: os.mkdir(folder + "/new")),
    "exec": attempt(lambda: os.execv("/bin/true", ["true"])),
    "connect": attempt(lambda: socket.create_connection(("127.0.0.1", port))),
    "signal": attempt(lambda: os.kill(os.getppid(), signal.SIGURG)),
}))
"""


def test_landlock_alone_blocks_files_network_and_signals(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        command = [sys.executable, "-c", _UNDER_LANDLOCK, str(tmp_path), port]
        out = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=60).stdout
    outcome = json.loads(out)
    if not outcome["abi"]:
        pytest.skip("this kernel has no Landlock")
    assert {outcome[name] for name in ("read", "list", "write", "folder", "exec")} == {"EACCES"}
    assert outcome["connect"] == ("EACCES" if outcome["abi"] >= 4 else "done")
    assert outcome["signal"] == ("EPERM" if outcome["abi"] >= 6 else "done")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("level", "filtered"), [("strict", "2"), ("seccomp", "2"), ("limits-only", "0")])
async def test_kernel_reports_confinement(open_sandbox: OpenSandbox, run: RunJob, level: Level, filtered: str) -> None:
    result = await run(await open_sandbox(level=level), "describe file")
    assert isinstance(result, Completed)
    lines = read_proc(result.payload["pid"], "status").splitlines()
    status = {name: value.strip() for name, _colon, value in (line.partition(":") for line in lines)}
    assert (status["NoNewPrivs"], status["Seccomp"], status["Threads"]) == ("1", filtered, "1")
    assert {int(status[f"Cap{which}"], 16) for which in ("Inh", "Prm", "Eff", "Amb")} == {0}


async def test_kernel_reports_configured_rlimits(open_sandbox: OpenSandbox, run: RunJob) -> None:
    result = await run(await open_sandbox(limits=JobLimits(memory_bytes=512 * 1024**2, cpu_seconds=7)), "describe file")
    assert isinstance(result, Completed)
    lines = read_proc(result.payload["pid"], "limits").splitlines()[1:]
    hard = {line[:26].strip(): line[47:68].strip() for line in lines}
    soft = {line[:26].strip(): line[26:47].strip() for line in lines}
    assert {hard[f"Max {name}"] for name in ("file size", "core file size", "processes", "locked memory")} == {"0"}
    assert hard["Max open files"] == "64"
    assert 512 * 1024**2 < int(hard["Max address space"]) < 1024**3
    assert soft["Max cpu time"] == "8"


async def test_child_has_higher_oom_score_than_server(open_sandbox: OpenSandbox, run: RunJob) -> None:
    result = await run(await open_sandbox(), "describe file")
    assert isinstance(result, Completed)
    own = int(read_proc(os.getpid(), "oom_score_adj"))
    assert int(read_proc(result.payload["pid"], "oom_score_adj")) == 1000 > own
