"""Batches of small files in one child: no file affects the verdict on another."""

import asyncio
from collections import Counter

import pytest

from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.protocol import Completed, JobLimits, NoWorker, RunResult
from tests.sandbox.conftest import OpenSandbox, RunJob
from tests.sandbox.processes import pid_in, wait_until_running


async def run_together(sandbox: ZygoteSandbox, run: RunJob, *jobs: str) -> list[RunResult]:
    return list(await asyncio.gather(*(run(sandbox, job) for job in jobs)))


async def test_concurrent_files_share_a_child_up_to_files_per_worker(open_sandbox: OpenSandbox, run: RunJob) -> None:
    results = await run_together(await open_sandbox(), run, *["describe file"] * 4)
    assert len({pid_in(result) for result in results}) == 1
    results = await run_together(await open_sandbox(files_per_worker=2), run, *["describe file"] * 8)
    assert max(Counter(pid_in(result) for result in results).values()) == 2


async def test_batch_never_mixes_tenants(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    tenants = ["tnt_1", "tnt_2"] * 4
    results = await asyncio.gather(*(run(sandbox, "describe file", tenant_id=tenant) for tenant in tenants))
    pids = [pid_in(result) for result in results]
    assert not set(pids[::2]) & set(pids[1::2])


CRASHES = ["abort", "exit with status 0", "exit by SystemExit", "raise", "garbage", "close socket"]


@pytest.mark.parametrize("job", [*CRASHES, "large response", "two frames"])
async def test_file_that_crashes_does_not_fail_its_batch(open_sandbox: OpenSandbox, run: RunJob, job: str) -> None:
    sandbox = await open_sandbox()
    jobs = ("describe file", job, "describe file", "describe file")
    first, bad, *others = await run_together(sandbox, run, *jobs)
    assert [isinstance(result, Completed) for result in (first, bad, *others)] == [True, False, True, True]
    assert pid_in(first) not in {pid_in(other) for other in others}


async def test_files_behind_a_slow_file_do_not_wait_for_it(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    jobs = ("sleep", "describe file", "describe file", "describe file")
    slow, *others = [asyncio.create_task(run(sandbox, job)) for job in jobs]
    results: list[RunResult] = await asyncio.gather(*others)
    assert [type(result) for result in results] == [Completed, Completed, Completed]
    assert not slow.done()
    slow.cancel()
    await asyncio.wait([slow])


async def test_slow_file_in_batch_has_its_own_time_limit(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox(limits=JobLimits(wall_seconds=0.5))
    slow, other = await asyncio.gather(run(sandbox, "sleep"), run(sandbox, "describe file"))
    assert isinstance(slow, NoWorker)
    assert isinstance(other, Completed)


@pytest.mark.parametrize("cancelled", [0, 1, 3])
async def test_cancelled_run_does_not_affect_its_batch(open_sandbox: OpenSandbox, run: RunJob, cancelled: int) -> None:
    sandbox = await open_sandbox()
    runs = [asyncio.create_task(run(sandbox, "describe file" if place else "sleep")) for place in range(4)]
    await wait_until_running(sandbox, 1)
    runs[cancelled].cancel()
    others = [task for place, task in enumerate(runs) if place not in {0, cancelled}]
    assert {type(result) for result in await asyncio.gather(*others)} == {Completed}
    runs[0].cancel()
    await asyncio.wait(runs)


async def test_batched_file_that_fails_in_reused_child_is_retried(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    results = await run_together(sandbox, run, *["abort when reused"] * 4)
    assert len({pid_in(result) for result in results}) == 4


async def test_slow_file_completes_after_rest_of_batch_was_moved(open_sandbox: OpenSandbox, run: RunJob) -> None:
    results = await run_together(await open_sandbox(), run, "long nap", *["describe file"] * 3)
    assert [type(result) for result in results] == [Completed] * 4


async def test_run_cancelled_before_its_start_does_not_affect_batch(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    jobs = ("short nap", "describe file", "describe file")
    first, leaving, last = [asyncio.create_task(run(sandbox, job)) for job in jobs]
    await wait_until_running(sandbox, 1)
    leaving.cancel()
    assert [type(result) for result in await asyncio.gather(first, last)] == [Completed, Completed]


async def test_child_is_kept_when_all_its_runs_are_cancelled(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    pid = pid_in(await run(sandbox, "describe file"))
    leaving = asyncio.create_task(run(sandbox, "describe file"))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    assert pid_in(await run(sandbox, "describe file")) == pid
