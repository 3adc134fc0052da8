"""The pool of child processes: which child serves which tenant, when it is replaced, and what closing leaves."""

import asyncio
import os
from typing import cast

import pytest

from sluice_inspect.sandbox.protocol import Completed, JobLimits, NoWorker
from sluice_inspect.sandbox.sealed import Sealed
from tests.sandbox.conftest import OpenSandbox, RunJob, Seal
from tests.sandbox.processes import (
    children_of,
    is_alive,
    open_descriptors,
    payload_of,
    pid_in,
    wait_for_end,
    wait_until_running,
)


async def test_child_reads_from_start_whatever_the_offset(open_sandbox: OpenSandbox, run: RunJob, seal: Seal) -> None:
    sealed = seal(b"0123456789")
    os.lseek(sealed.fd, 7, os.SEEK_SET)
    payload = payload_of(await run(await open_sandbox(), "describe file", sealed=sealed))
    assert (payload["bytes"], payload["first"]) == (10, b"0123456789".hex())
    assert os.lseek(sealed.fd, 0, os.SEEK_CUR) == 7


async def test_child_is_reused_for_one_tenant_up_to_files_per_worker(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox(files_per_worker=3)
    pids = [pid_in(await run(sandbox, "describe file")) for _ in range(7)]
    assert pids[0] == pids[1] == pids[2] != pids[3] == pids[5] != pids[6]
    sandbox = await open_sandbox(files_per_worker=1)
    assert len({pid_in(await run(sandbox, "describe file")) for _ in range(5)}) == 5


async def test_child_that_grew_or_ended_is_replaced(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    grown = pid_in(await run(sandbox, "grow"))
    killed = pid_in(await run(sandbox, "describe file"))
    assert killed != grown
    os.kill(killed, 9)
    await asyncio.to_thread(wait_for_end, killed)
    assert pid_in(await run(sandbox, "describe file")) != killed
    sandbox = await open_sandbox(idle_seconds=0.05)
    idle = pid_in(await run(sandbox, "describe file"))
    await asyncio.to_thread(wait_for_end, idle)
    assert pid_in(await run(sandbox, "describe file")) != idle


async def test_bounded_children_are_never_shared_between_tenants(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox(workers=2)
    pids_of: dict[str, set[int]] = {}
    for turn in range(120):
        tenant = f"tnt_{turn * 7 % 40}"
        pids_of.setdefault(tenant, set()).add(pid_in(await run(sandbox, "describe file", tenant_id=tenant)))
    pids = [pid for tenant_pids in pids_of.values() for pid in tenant_pids]
    assert len(pids) == len(set(pids))
    assert cast("int", (await sandbox.health()).limits["living"]) <= 9


async def test_child_receives_end_of_any_filename(open_sandbox: OpenSandbox, run: RunJob) -> None:
    result = await run(await open_sandbox(), "name", filename="\ud800é\x00" + "n" * 100_000 + ".pdf")
    assert str(payload_of(result)["name"]).endswith("nnn.pdf")


async def test_cancelled_run_ends_its_child(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    pid = pid_in(await run(sandbox, "describe file"))
    running = asyncio.create_task(run(sandbox, "sleep"))
    await wait_until_running(sandbox, 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.to_thread(wait_for_end, pid)
    assert (await sandbox.health()).limits["running"] == 0
    assert isinstance(await run(sandbox, "describe file"), Completed)


async def test_run_that_waits_too_long_returns_no_worker(open_sandbox: OpenSandbox, run: RunJob, seal: Seal) -> None:
    sandbox = await open_sandbox(workers=1, wait_seconds=0.1, limits=JobLimits(wall_seconds=20))
    large = seal(bytes(2 * 1024**2))
    blocking = asyncio.create_task(run(sandbox, "sleep", sealed=large))
    await asyncio.sleep(0)
    result = await run(sandbox, "describe file", sealed=large)
    blocking.cancel()
    assert isinstance(result, NoWorker)
    assert "no worker was free" in result.why


async def test_small_file_overtakes_large_ones_in_all_slots(open_sandbox: OpenSandbox, run: RunJob, seal: Seal) -> None:
    sandbox = await open_sandbox(workers=1)
    large = seal(bytes(2 * 1024**2))
    blocking = [asyncio.create_task(run(sandbox, "sleep", sealed=large)) for _ in range(3)]
    await asyncio.sleep(0)
    assert isinstance(await run(sandbox, "describe file"), Completed)
    for task in blocking:
        task.cancel()


async def test_many_concurrent_runs_all_complete(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    results = await asyncio.gather(*(run(sandbox, "describe file", tenant_id=f"tnt_{n % 5}") for n in range(200)))
    assert all(isinstance(result, Completed) for result in results)


async def test_ended_children_are_reaped(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    assert sandbox._pool is not None
    zygote = sandbox._pool.supervisor.pid
    for turn in range(30):
        await run(sandbox, "null pointer", tenant_id=f"tnt_{turn}")
    await run(sandbox, "describe file")
    assert len(children_of(zygote)) <= 10


@pytest.mark.asvs("1.4.3")
async def test_close_leaves_no_process_and_no_descriptor(open_sandbox: OpenSandbox, run: RunJob) -> None:
    before = open_descriptors()
    sandbox = await open_sandbox()
    assert sandbox._pool is not None
    zygote = sandbox._pool.supervisor.pid
    for turn in range(12):
        await run(sandbox, "describe file", tenant_id=f"tnt_{turn}")
    await run(sandbox, "null pointer")
    family = [zygote, *children_of(zygote)]
    await sandbox.aclose()
    await sandbox.aclose()
    assert [pid for pid in family if is_alive(pid)] == []
    assert open_descriptors() == before


async def test_close_makes_running_and_later_runs_return_no_worker(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    running = asyncio.create_task(run(sandbox, "sleep"))
    await wait_until_running(sandbox, 1)
    await sandbox.aclose()
    assert isinstance(await running, NoWorker)
    assert isinstance(await run(sandbox, "describe file"), NoWorker)
    assert (await sandbox.health()).state == "down"


async def test_closed_descriptor_returns_no_worker(open_sandbox: OpenSandbox, run: RunJob) -> None:
    result = await run(await open_sandbox(), "describe file", sealed=Sealed(999_999, 10, b""))
    assert isinstance(result, NoWorker)
