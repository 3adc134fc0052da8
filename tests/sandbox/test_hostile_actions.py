"""What a child may not do, tried for real in a locked one. How it is classified when it dies is tested beside."""

import os
import resource

import pytest

from sluice.engines.sandbox.protocol import Level, Ran
from tests.engines.sandbox.conftest import Opener, Runner
from tests.engines.sandbox.hostile_jobs import ACTIONS

LOCKED: list[Level] = ["strict", "seccomp"]


@pytest.mark.parametrize("level", LOCKED)
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.asvs("15.2.5")
async def test_a_locked_child_is_refused(open_sandbox: Opener, run: Runner, level: Level, action: str) -> None:
    sandbox = await open_sandbox(level=level)
    result = await run(sandbox, "action", filename=action)
    assert isinstance(result, Ran)
    assert result.payload["refused"] in {"EPERM", "EACCES", "EAGAIN", "can't start new thread"}


async def test_a_child_works_on_after_every_refusal(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    refused = await run(sandbox, "all actions")
    assert isinstance(refused, Ran)
    assert all(refused.payload.values())
    assert isinstance(await run(sandbox, "truth"), Ran)


async def test_a_child_sees_nothing_of_the_servers_environment(
    open_sandbox: Opener, run: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_MASTER_KEY", "a secret")
    result = await run(await open_sandbox(), "environment")
    assert isinstance(result, Ran)
    assert result.payload["names"] == [
        "LC_CTYPE", "MALLOC_ARENA_MAX", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TZ", "VIPS_CONCURRENCY",
    ]  # fmt: skip


@pytest.mark.asvs("13.3.2")
async def test_a_child_holds_its_socket_its_file_and_nowhere(open_sandbox: Opener, run: Runner) -> None:
    result = await run(await open_sandbox(), "descriptors")
    assert isinstance(result, Ran)
    opened = result.payload["open"]
    assert isinstance(opened, list)
    assert len(opened) == 5


async def test_what_a_child_prints_goes_nowhere(open_sandbox: Opener, run: Runner, capfd: pytest.CaptureFixture[str]) -> None:
    result = await run(await open_sandbox(), "print much")
    assert isinstance(result, Ran)
    assert capfd.readouterr() == ("", "")


async def test_the_limits_of_the_server_stay_as_they_were(open_sandbox: Opener, run: Runner) -> None:
    names = [resource.RLIMIT_AS, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE]
    before = [resource.getrlimit(name) for name in names]
    await run(await open_sandbox(), "truth")
    assert [resource.getrlimit(name) for name in names] == before
    os.close(os.open("/", os.O_RDONLY))
