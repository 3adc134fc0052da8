"""The zygote that several processes share: parsers are loaded when needed, once, and tested once."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice_inspect.sandbox import engine
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.launch import IsolatedProcess, launch_shared_zygote, launch_zygote, open_zygote_socket
from sluice_inspect.sandbox.pool import WorkerPool
from sluice_inspect.sandbox.protocol import Completed, JobLimits, NoWorker, SandboxBroken
from tests.sandbox.conftest import ROOT, RunJob
from tests.sandbox.processes import children_of, read_proc, wait_for_end, wait_until

# Notes each load of the parsers, and each test of them, in a file.
_JOBS = """
import os
from tests.sandbox import hostile_jobs

def note(what):
    with open({notes!r}, "a") as notes:
        notes.write(what + "\\n")

JOBS = dict(hostile_jobs.JOBS)
def preload(): note("load")
def samples():
    note("test")
    yield "alpha", "good.alpha", lambda: b"a"
"""


class _Shared:
    """A shared zygote with jobs of its own, and the sandboxes that connect to it."""

    def __init__(self, folder: Path, change: str = "") -> None:
        self.folder, self.path, self.notes = folder, folder / "zygote", folder / "notes"
        (folder / "jobs_shared.py").write_text(_JOBS.format(notes=str(self.notes)) + change)
        self.listener = open_zygote_socket(self.path)
        self.process = self.launch()

    def launch(self) -> IsolatedProcess:
        limit, path = JobLimits().memory_bytes, [ROOT, str(self.folder)]
        return launch_shared_zygote(self.listener, memory_bytes=limit, jobs="jobs_shared", import_path=path)

    def noted(self) -> list[str]:
        return self.notes.read_text().split() if self.notes.exists() else []


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[_Shared]:
    zygote = _Shared(tmp_path)
    yield zygote
    zygote.process.end()
    zygote.listener.close()


async def test_nothing_is_loaded_before_a_file_comes(shared: _Shared, run: RunJob) -> None:
    sandbox = ZygoteSandbox(launched=shared.path)
    await sandbox.begin()
    assert (sandbox.level, shared.noted(), (await sandbox.health()).state) == ("strict", [], "up")
    assert isinstance(await run(sandbox, "describe file"), Completed)
    assert shared.noted() == ["load", "test"]
    await sandbox.aclose()


async def test_parsers_are_loaded_and_tested_once_for_all_processes(shared: _Shared, run: RunJob) -> None:
    sandboxes = [ZygoteSandbox(launched=shared.path) for _ in range(3)]
    for sandbox in sandboxes:
        await sandbox.begin()
    results = await asyncio.gather(*(run(sandbox, "describe file") for sandbox in sandboxes))
    assert all(isinstance(result, Completed) for result in results)
    assert shared.noted() == ["load", "test"]
    for sandbox in sandboxes:
        await sandbox.aclose()


async def test_only_the_children_of_a_process_that_leaves_are_ended(shared: _Shared, run: RunJob) -> None:
    leaving, staying = (ZygoteSandbox(launched=shared.path) for _ in range(2))
    await staying.start()
    await run(staying, "describe file")
    before = set(children_of(shared.process.pid))
    await leaving.start()
    await run(leaving, "describe file")
    await leaving.aclose()
    await wait_until(lambda: set(children_of(shared.process.pid)) <= before)
    assert isinstance(await run(staying, "describe file"), Completed)
    await staying.aclose()


async def test_another_process_tests_if_the_tester_leaves(shared: _Shared, run: RunJob) -> None:
    leaving, staying = (ZygoteSandbox(launched=shared.path) for _ in range(2))
    await leaving.begin()
    await staying.begin()
    assert await leaving._supervisors[-1].load()
    waiting = asyncio.create_task(run(staying, "describe file"))
    await leaving.aclose()
    assert isinstance(await waiting, Completed)
    assert shared.noted() == ["load", "test"]
    await staying.aclose()


async def test_processes_connect_to_the_next_zygote(shared: _Shared, run: RunJob) -> None:
    sandbox = ZygoteSandbox(launched=shared.path)
    await sandbox.start()
    shared.process.end()
    shared.process = shared.launch()
    assert isinstance(await run(sandbox, "describe file"), Completed | NoWorker)
    assert isinstance(await run(sandbox, "describe file"), Completed)
    await sandbox.aclose()


async def test_a_format_that_fails_in_the_background_is_named_and_takes_no_file(tmp_path: Path, run: RunJob) -> None:
    shared = _Shared(tmp_path, "JOBS['check'] = lambda fd, name: {'format': 'alpha', 'outcome': 'corrupt'}")
    sandboxes = [ZygoteSandbox(launched=shared.path) for _ in range(2)]
    for sandbox in sandboxes:
        await sandbox.begin()
        sandbox.prepare()
    for sandbox in sandboxes:
        result, health = await run(sandbox, "describe file"), await sandbox.health()
        assert isinstance(result, NoWorker)
        assert "the self-test failed for alpha" in result.why
        assert (health.state, "alpha" in health.detail) == ("down", True)
        await sandbox.aclose()
    shared.process.end()
    shared.listener.close()


async def test_failed_formats_are_tested_again(shared: _Shared, run: RunJob, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_RETEST_SECONDS", 0.1)
    self_test = ZygoteSandbox._self_test
    faults = ["the self-test failed for alpha"]

    async def fail_once(self: ZygoteSandbox, pool: WorkerPool, samples: socket.socket) -> None:
        await self_test(self, pool, samples)
        if faults:
            raise SandboxBroken(faults.pop())

    monkeypatch.setattr(ZygoteSandbox, "_self_test", fail_once)
    sandbox = ZygoteSandbox(launched=shared.path)
    await sandbox.begin()
    assert isinstance(await run(sandbox, "describe file"), NoWorker)
    deadline = asyncio.get_running_loop().time() + 30
    while (await sandbox.health()).state != "up":
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.02)
    assert isinstance(await run(sandbox, "describe file"), Completed)
    assert (await sandbox.health()).detail == ""
    await sandbox.aclose()


async def test_the_zygote_of_a_server_maps_no_parser_before_it_is_needed() -> None:
    launched = launch_zygote(memory_bytes=JobLimits().memory_bytes)
    sandbox = ZygoteSandbox(launched=launched)
    await sandbox.begin()
    assert "site-packages" not in read_proc(launched.process.pid, "maps")
    sandbox.prepare()
    await wait_until(lambda: "pikepdf" in read_proc(launched.process.pid, "maps"))
    await sandbox.aclose()
    await asyncio.to_thread(wait_for_end, launched.process.pid)
