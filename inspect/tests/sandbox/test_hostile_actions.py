"""Actions that a locked child may not take, tried in a real one. Crashes are tested in `test_child_failures`."""

import os
import resource

import pytest

from sluice_inspect.child.protocol import Level
from sluice_inspect.sandbox.protocol import Completed
from tests.rows import every_row
from tests.sandbox.conftest import OpenSandbox, RunJob
from tests.sandbox.hostile_jobs import ACTIONS
from tests.sandbox.processes import payload_of

LOCKED: list[Level] = ["strict", "seccomp"]


@pytest.mark.parametrize("level", LOCKED)
@pytest.mark.asvs("15.2.5")
async def test_kernel_refuses_hostile_action(open_sandbox: OpenSandbox, run: RunJob, level: Level) -> None:
    sandbox = await open_sandbox(level=level, files_per_worker=1)  # a fresh child for each action
    with every_row() as row:
        for action in ACTIONS:
            result = await run(sandbox, "action", filename=action)
            with row(action):
                refused = payload_of(result)["refused"]
                assert refused in {"EPERM", "EACCES", "EAGAIN", "can't start new thread"}


async def test_child_keeps_working_after_refused_actions(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    assert all(payload_of(await run(sandbox, "all actions")).values())
    assert isinstance(await run(sandbox, "describe file"), Completed)


@pytest.mark.asvs("13.3.2")
async def test_child_has_only_the_expected_descriptors(open_sandbox: OpenSandbox, run: RunJob) -> None:
    assert len(payload_of(await run(await open_sandbox(), "descriptors"))["open"]) == 5


async def test_environment_is_empty(open_sandbox: OpenSandbox, run: RunJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_MASTER_KEY", "a secret")
    threads = [f"{library}_NUM_THREADS" for library in ("MKL", "OMP", "OPENBLAS")]
    names = payload_of(await run(await open_sandbox(), "environment"))["names"]
    assert names == ["LC_CTYPE", "MALLOC_ARENA_MAX", *threads, "TZ", "VIPS_CONCURRENCY"]


async def test_output_is_discarded(open_sandbox: OpenSandbox, run: RunJob, capfd: pytest.CaptureFixture[str]) -> None:
    result = await run(await open_sandbox(), "print a lot")
    assert isinstance(result, Completed)
    assert capfd.readouterr() == ("", "")


async def test_server_rlimits_are_unchanged(open_sandbox: OpenSandbox, run: RunJob) -> None:
    names = [resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE]
    before = [resource.getrlimit(name) for name in names]
    await run(await open_sandbox(), "describe file")
    assert [resource.getrlimit(name) for name in names] == before
    os.close(os.open("/", os.O_RDONLY))
