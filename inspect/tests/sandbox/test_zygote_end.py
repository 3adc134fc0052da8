"""The end of the zygote or of the server: no file gets a wrong verdict, no process is left running."""

import asyncio
import json
import os
import signal
import sys

import pytest

from sluice_inspect.sandbox import supervisor
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.protocol import Completed, NoWorker
from tests.sandbox.conftest import ROOT, OpenSandbox, RunJob
from tests.sandbox.processes import children_of, wait_for_end, wait_until_running

_SERVER = """
import asyncio, json, os, sys
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.sealed import Sealed

async def serve():
    sandbox = ZygoteSandbox(jobs="tests.sandbox.hostile_jobs", import_path=[sys.argv[1]])
    await sandbox.start()
    sealed = Sealed(os.memfd_create("x"), 0, b"")
    for tenant in "ab":
        await sandbox.run("describe file", sealed, filename="", tenant_id=tenant)
    tasks = [asyncio.create_task(sandbox.run("spin", sealed, filename="", tenant_id=tenant)) for tenant in "ab"]
    while (await sandbox.health()).limits["running"] < 2:
        await asyncio.sleep(0)
    print(json.dumps({"zygote": sandbox._pool.supervisor.pid}), flush=True)
    await asyncio.gather(*tasks)

asyncio.run(serve())
"""


def zygote_of(sandbox: ZygoteSandbox) -> int:
    assert sandbox._pool is not None
    return sandbox._pool.supervisor.pid


async def test_children_end_with_their_zygote_and_a_running_job_returns_no_worker(
    open_sandbox: OpenSandbox, run: RunJob
) -> None:
    sandbox = await open_sandbox()
    running = asyncio.create_task(run(sandbox, "sleep"))
    await wait_until_running(sandbox, 1)
    children = children_of(zygote_of(sandbox))
    os.kill(zygote_of(sandbox), signal.SIGKILL)
    assert isinstance(await running, NoWorker)
    assert children
    for pid in children:
        await asyncio.to_thread(wait_for_end, pid)


async def test_dead_zygote_is_restarted(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    for _ in range(3):
        zygote = zygote_of(sandbox)
        os.kill(zygote, signal.SIGKILL)
        await asyncio.to_thread(wait_for_end, zygote)
        assert isinstance(await run(sandbox, "describe file"), Completed | NoWorker)
        assert isinstance(await run(sandbox, "describe file"), Completed)
    assert (await sandbox.health()).limits["restarts"] == 3


async def test_stopped_zygote_returns_no_worker_and_is_replaced(
    open_sandbox: OpenSandbox, run: RunJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = await open_sandbox(wait_seconds=60)
    os.kill(zygote_of(sandbox), signal.SIGSTOP)
    with monkeypatch.context() as patched:
        patched.setattr(supervisor, "_SPAWN_SECONDS", 0.5)
        assert isinstance(await run(sandbox, "null pointer"), NoWorker)
    assert isinstance(await run(sandbox, "describe file"), Completed)


async def test_hung_zygote_is_replaced(open_sandbox: OpenSandbox, run: RunJob, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = await open_sandbox(wait_seconds=60)
    assert sandbox._pool is not None
    await asyncio.gather(*sandbox._pool._spawn_tasks)  # a child on its way would serve the file
    os.kill(sandbox._pool.supervisor.pid, signal.SIGSTOP)
    for child in list(sandbox._pool._workers):
        sandbox._pool.discard(child)
    with monkeypatch.context() as patched:
        patched.setattr(supervisor, "_SPAWN_SECONDS", 0.5)
        assert isinstance(await run(sandbox, "describe file"), NoWorker)
    assert isinstance(await run(sandbox, "describe file"), Completed)


async def test_zygote_and_children_end_when_server_is_killed() -> None:
    command = [sys.executable, "-c", _SERVER, ROOT]
    server = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    zygote = json.loads(await server.stdout.readline())["zygote"]
    family = [zygote, *children_of(zygote)]
    server.kill()
    await server.communicate()
    assert len(family) >= 3
    for pid in family:
        await asyncio.to_thread(wait_for_end, pid)
