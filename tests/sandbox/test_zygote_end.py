"""When the zygote ends, or the server does: nothing is judged wrongly, nothing is left running."""

import asyncio
import json
import os
import signal
import sys

import pytest

from sluice.engines.sandbox import nursery
from sluice.engines.sandbox.protocol import Away, Ran
from tests.engines.sandbox.conftest import ROOT, Opener, Runner
from tests.engines.sandbox.processes import children_of, until_running, wait_for_end

_SERVER = """
import asyncio, json, os, sys
from sluice.engines.sandbox.zygote import ZygoteSandbox
from sluice.kit.sealed import Sealed

async def serve():
    sandbox = ZygoteSandbox(jobs="tests.engines.sandbox.hostile_jobs", import_path=[sys.argv[1]])
    await sandbox.start()
    sealed = Sealed(os.memfd_create("x"), 0, b"")
    for tenant in "ab":
        await sandbox.run("truth", sealed, filename="", tenant_id=tenant)
    work = [asyncio.create_task(sandbox.run("spin", sealed, filename="", tenant_id=tenant)) for tenant in "ab"]
    while (await sandbox.health()).limits["running"] < 2:
        await asyncio.sleep(0)
    print(json.dumps({"zygote": sandbox._pool.nursery.pid}), flush=True)
    await asyncio.gather(*work)

asyncio.run(serve())
"""


async def test_a_run_under_way_is_away_when_the_zygote_ends(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    assert sandbox._pool is not None
    running = asyncio.create_task(run(sandbox, "sleep"))
    await until_running(sandbox, 1)
    os.kill(sandbox._pool.nursery.pid, signal.SIGKILL)
    assert isinstance(await running, Away)


async def test_after_the_end_of_the_zygote_another_serves(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    for _ in range(3):
        assert sandbox._pool is not None
        zygote = sandbox._pool.nursery.pid
        os.kill(zygote, signal.SIGKILL)
        await asyncio.to_thread(wait_for_end, zygote)
        assert isinstance(await run(sandbox, "truth"), Ran | Away)
        assert isinstance(await run(sandbox, "truth"), Ran)
    assert (await sandbox.health()).limits["restarts"] == 3


async def test_the_children_end_with_their_zygote(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    assert sandbox._pool is not None
    await run(sandbox, "truth")
    zygote = sandbox._pool.nursery.pid
    children = children_of(zygote)
    os.kill(zygote, signal.SIGKILL)
    assert children
    for pid in children:
        await asyncio.to_thread(wait_for_end, pid)


async def test_a_stopped_zygote_gives_away_and_is_replaced(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox(wait_seconds=60)
    assert sandbox._pool is not None
    os.kill(sandbox._pool.nursery.pid, signal.SIGSTOP)
    assert isinstance(await run(sandbox, "null"), Away)
    assert isinstance(await run(sandbox, "truth"), Ran)


async def test_a_zygote_that_bears_no_child_is_replaced(open_sandbox: Opener, run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = await open_sandbox(wait_seconds=60)
    assert sandbox._pool is not None
    os.kill(sandbox._pool.nursery.pid, signal.SIGSTOP)
    for child in list(sandbox._pool._living):
        sandbox._pool.discard(child)
    with monkeypatch.context() as hasty:
        hasty.setattr(nursery, "_BIRTH_SECONDS", 0.5)
        assert isinstance(await run(sandbox, "truth"), Away)
    assert isinstance(await run(sandbox, "truth"), Ran)


async def test_zygote_and_children_end_when_the_server_is_killed() -> None:
    server = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _SERVER, ROOT, cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )  # fmt: skip
    assert server.stdout is not None
    zygote = json.loads(await server.stdout.readline())["zygote"]
    family = [zygote, *children_of(zygote)]
    server.kill()
    await server.communicate()
    assert len(family) >= 3
    for pid in family:
        await asyncio.to_thread(wait_for_end, pid)
