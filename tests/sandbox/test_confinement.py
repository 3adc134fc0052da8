"""Each wall of the lock by itself: together, one would hide that another does not stand."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sluice.engines.sandbox.judge import Budget
from sluice.engines.sandbox.protocol import Level, Ran
from tests.engines.sandbox.conftest import ROOT, Opener, Runner
from tests.engines.sandbox.processes import of_process

_BEHIND_LANDLOCK = """
import ctypes, errno, json, os, signal, socket, sys
from sluice.engines.sandbox import landlock

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


def test_landlock_alone_closes_the_file_system_and_what_else_the_kernel_knows(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        command = [sys.executable, "-c", _BEHIND_LANDLOCK, str(tmp_path), port]
        out = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=60).stdout
    said = json.loads(out)
    if not said["abi"]:
        pytest.skip("this kernel has no Landlock")
    assert {said[name] for name in ("read", "list", "write", "folder", "exec")} == {"EACCES"}
    assert said["connect"] == ("EACCES" if said["abi"] >= 4 else "done")
    assert said["signal"] == ("EPERM" if said["abi"] >= 6 else "done")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("level", "filtered"), [("strict", "2"), ("seccomp", "2"), ("limits-only", "0")])
async def test_the_kernel_confirms_the_lock(open_sandbox: Opener, run: Runner, level: Level, filtered: str) -> None:
    result = await run(await open_sandbox(level=level), "truth")
    assert isinstance(result, Ran)
    lines = of_process(result.payload["pid"], "status").splitlines()
    status = {name: value.strip() for name, _colon, value in (line.partition(":") for line in lines)}
    assert (status["NoNewPrivs"], status["Seccomp"], status["Threads"]) == ("1", filtered, "1")
    assert {int(status[f"Cap{which}"], 16) for which in ("Inh", "Prm", "Eff", "Amb")} == {0}


async def test_the_kernel_confirms_the_limits(open_sandbox: Opener, run: Runner) -> None:
    result = await run(await open_sandbox(budget=Budget(memory_bytes=512 * 1024**2, cpu_seconds=7)), "truth")
    assert isinstance(result, Ran)
    lines = of_process(result.payload["pid"], "limits").splitlines()[1:]
    hard = {line[:26].strip(): line[47:68].strip() for line in lines}
    soft = {line[:26].strip(): line[26:47].strip() for line in lines}
    assert {hard[name] for name in ("Max file size", "Max core file size", "Max processes", "Max locked memory")} == {"0"}
    assert hard["Max open files"] == "64"
    assert 512 * 1024**2 < int(hard["Max address space"]) < 1024**3
    assert soft["Max cpu time"] == "8"


async def test_a_child_goes_before_the_server_when_the_machine_has_no_memory(open_sandbox: Opener, run: Runner) -> None:
    result = await run(await open_sandbox(), "truth")
    assert isinstance(result, Ran)
    own = int(of_process(os.getpid(), "oom_score_adj"))
    assert int(of_process(result.payload["pid"], "oom_score_adj")) == 1000 > own
