"""The start of the sandbox: the level it reaches, the self-test of every format, and the error when one fails."""

import asyncio
import sys
from pathlib import Path

import pytest
import uvloop

from sluice_inspect.child.protocol import Level
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.protocol import Completed, SandboxBroken
from tests.rows import each_row
from tests.sandbox.conftest import HOSTILE_JOBS, ROOT, OpenSandbox, RunJob
from tests.sandbox.processes import open_descriptors, wait_until

_JOBS = """
import os, threading, time
from tests.sandbox import hostile_jobs

JOBS = dict(hostile_jobs.JOBS)
def preload(): pass
def samples():
    yield "alpha", "good.alpha", lambda: b"a"
    yield "gamma", "good.gamma", lambda: b"c"
"""


def _sandbox(folder: Path, change: str) -> ZygoteSandbox:
    (folder / "jobs_under_test.py").write_text(_JOBS + change)
    return ZygoteSandbox(jobs="jobs_under_test", import_path=[ROOT, str(folder)])


_SECCOMP = "from sluice_inspect.child import seccomp\nseccomp"


@pytest.mark.parametrize("level", ["strict", "seccomp", "limits-only"])
async def test_level_can_be_chosen_by_name(open_sandbox: OpenSandbox, run: RunJob, level: Level) -> None:
    sandbox = await open_sandbox(level=level)
    assert sandbox.level == level
    assert isinstance(await run(sandbox, "describe file"), Completed)
    assert ((await sandbox.health()).state == "degraded") == (level == "limits-only")


async def test_auto_chooses_the_strictest_level() -> None:
    sandbox = ZygoteSandbox(jobs=HOSTILE_JOBS, import_path=[ROOT])
    await sandbox.start()
    health = await sandbox.health()
    await sandbox.aclose()
    assert sandbox.level == "strict"
    assert (health.state, health.limits["level"], health.limits["restarts"]) == ("up", "strict", 0)


async def test_auto_falls_back_to_seccomp_without_landlock(tmp_path: Path) -> None:
    sandbox = _sandbox(tmp_path, "from sluice_inspect.child import landlock\nlandlock.abi = lambda: 0\n")
    await sandbox.start()
    await sandbox.aclose()
    assert sandbox.level == "seccomp"


@each_row(
    ("change", "message"),
    [
        (f"{_SECCOMP}.supported = lambda: False", r"strict: .*seccomp: no seccomp filter"),
        (f"{_SECCOMP}.install = lambda: None", "the lock does not hold"),
        ("JOBS['check'] = lambda fd, name: {'format': 'alpha', 'outcome': 'ok'}", r"gamma \(judged alpha, ok"),
        (
            "JOBS['check'] = lambda fd, name: {'format': name[5:], 'outcome': 'corrupt', 'detail': 'torn'}",
            "alpha.*torn.*gamma.*torn",
        ),
        ("JOBS['check'] = lambda fd, name: open('/etc/hostname') and {}", "alpha.*PermissionError"),
        ("JOBS['scan'] = lambda fd, name: os.abort() if 'gamma' in name else {}", r"for gamma \(scan: .*SIGABRT"),
        ("def samples(): yield 'delta', 'a.delta', lambda: 1 / 0", "delta.*no sample: ZeroDivisionError"),
        ("def samples(): os._exit(1)", r"every format \(no sample: their maker ended"),
        ("def preload(): raise ImportError('no parser at all')", "no parser at all"),
        ("def preload(): os._exit(3)", "ended before it was ready"),
        ("def preload(): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()", "left threads behind"),
        ("raise SystemExit('broken module')", "broken module"),
    ],
)
async def test_failed_start_names_the_cause_and_leaves_nothing_open(tmp_path: Path, change: str, message: str) -> None:
    before = open_descriptors()
    with pytest.raises(SandboxBroken, match=message):
        await _sandbox(tmp_path, change).start()
    assert open_descriptors() == before


async def test_start_tests_the_first_format_only_if_asked_to(tmp_path: Path) -> None:
    sandbox = _sandbox(tmp_path, "JOBS['check'] = lambda fd, name: {'format': 'alpha', 'outcome': 'ok'}")
    await sandbox.start(every_format=False)
    await sandbox.aclose()
    with pytest.raises(SandboxBroken, match=r"for alpha \(judged .* corrupt: None\)$"):
        await _sandbox(tmp_path, "JOBS['check'] = lambda fd, name: {'outcome': 'corrupt'}").start(every_format=False)


async def test_start_can_be_cancelled(tmp_path: Path) -> None:
    before = open_descriptors()
    starting = asyncio.create_task(_sandbox(tmp_path, "def preload(): time.sleep(60)").start())
    await wait_until(lambda: open_descriptors() != before)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert open_descriptors() == before


def test_sandbox_works_on_uvloop() -> None:
    async def serve() -> str:
        sandbox = ZygoteSandbox(jobs=HOSTILE_JOBS, import_path=[ROOT])
        await sandbox.start()
        await sandbox.aclose()
        return sandbox.level

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(serve()) == "strict"


async def test_server_process_loads_no_parser() -> None:
    code = (
        "import sys, sluice_inspect.sandbox.engine\n"
        "parsers = {'PIL', 'lxml', 'pikepdf', 'pypdfium2', 'magic', 'numpy', 'zipfile'}\n"
        "parsers |= {'sluice_inspect.inspection', 'sluice_inspect.threats'}\n"
        "names = ('jobs', 'worker', 'confinement', 'landlock', 'seccomp', 'zygote')\n"
        "child_side = {f'sluice_inspect.child.{name}' for name in names}\n"
        "print(sorted(set(sys.modules) & (parsers | child_side)))"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    out, _err = await process.communicate()
    assert out.decode().strip() == "[]"
