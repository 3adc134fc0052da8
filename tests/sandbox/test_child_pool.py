"""Which child works for whom, how long it lives, and what is left when all is closed."""

import asyncio
import os
from collections.abc import Callable

import pytest

from sluice.engines.sandbox.judge import Budget
from sluice.engines.sandbox.protocol import Away, Ran
from sluice.kit.health import EngineState
from sluice.kit.sealed import Sealed
from tests.engines.sandbox.conftest import Opener, Runner
from tests.engines.sandbox.processes import children_of, is_alive, open_descriptors, pid_in, until_running, wait_for_end


async def test_a_child_reads_the_bytes_from_their_start_whatever_the_offset_is(
    open_sandbox: Opener, run: Runner, seal: Callable[[bytes], Sealed]
) -> None:
    sealed = seal(b"0123456789")
    os.lseek(sealed.fd, 7, os.SEEK_SET)
    result = await run(await open_sandbox(), "truth", sealed=sealed)
    assert isinstance(result, Ran)
    assert (result.payload["bytes"], result.payload["first"]) == (10, b"0123456789".hex())
    assert os.lseek(sealed.fd, 0, os.SEEK_CUR) == 7


async def test_the_next_file_of_a_tenant_meets_the_same_child(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    assert pid_in(await run(sandbox, "truth")) == pid_in(await run(sandbox, "truth"))


async def test_no_two_tenants_ever_meet_the_same_child(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox(workers=2)
    met: dict[str, set[int]] = {}
    for turn in range(60):
        tenant = f"tnt_{turn * 7 % 20}"
        met.setdefault(tenant, set()).add(pid_in(await run(sandbox, "truth", tenant_id=tenant)))
    pids = [pid for tenant_pids in met.values() for pid in tenant_pids]
    assert len(pids) == len(set(pids))


async def test_the_number_of_children_stays_bounded(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox(workers=2)
    for turn in range(40):
        await run(sandbox, "truth", tenant_id=f"tnt_{turn}")
    living = (await sandbox.health()).limits["living"]
    assert isinstance(living, int)
    assert living <= 9


async def test_a_child_is_replaced_after_its_number_of_files(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox(files_per_worker=3)
    pids = [pid_in(await run(sandbox, "truth")) for _ in range(7)]
    assert pids[0] == pids[2] != pids[3] == pids[5] != pids[6]


async def test_with_one_file_per_child_each_file_has_its_own(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox(files_per_worker=1)
    assert len({pid_in(await run(sandbox, "truth")) for _ in range(5)}) == 5


async def test_a_child_that_swelled_is_replaced(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    swollen = pid_in(await run(sandbox, "swell"))
    assert pid_in(await run(sandbox, "truth")) != swollen


async def test_an_idle_child_ends_by_itself(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox(idle_seconds=0.05)
    pid = pid_in(await run(sandbox, "truth"))
    await asyncio.to_thread(wait_for_end, pid)
    assert pid_in(await run(sandbox, "truth")) != pid


async def test_a_name_of_any_length_and_letters_reaches_the_child_by_its_end(open_sandbox: Opener, run: Runner) -> None:
    result = await run(await open_sandbox(), "name", filename="\ud800é\x00" + "n" * 100_000 + ".pdf")
    assert isinstance(result, Ran)
    assert str(result.payload["name"]).endswith("nnn.pdf")


async def test_cancelling_a_run_ends_its_child_at_once(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    pid = pid_in(await run(sandbox, "truth"))
    running = asyncio.create_task(run(sandbox, "sleep"))
    await until_running(sandbox, 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await asyncio.to_thread(wait_for_end, pid)
    assert (await sandbox.health()).limits["running"] == 0
    assert isinstance(await run(sandbox, "truth"), Ran)


async def test_a_file_that_waits_too_long_is_answered_away(
    open_sandbox: Opener, run: Runner, seal: Callable[[bytes], Sealed]
) -> None:
    sandbox = await open_sandbox(workers=1, wait_seconds=0.1, budget=Budget(wall_seconds=20))
    large = seal(bytes(2 * 1024**2))
    blocking = asyncio.create_task(run(sandbox, "sleep", sealed=large))
    await asyncio.sleep(0)
    result = await run(sandbox, "truth", sealed=large)
    blocking.cancel()
    assert isinstance(result, Away)
    assert "no child was free" in result.why


async def test_a_small_file_overtakes_large_ones_that_fill_every_place(
    open_sandbox: Opener, run: Runner, seal: Callable[[bytes], Sealed]
) -> None:
    sandbox = await open_sandbox(workers=1)
    large = seal(bytes(2 * 1024**2))
    blocking = [asyncio.create_task(run(sandbox, "sleep", sealed=large)) for _ in range(3)]
    await asyncio.sleep(0)
    assert isinstance(await run(sandbox, "truth"), Ran)
    for task in blocking:
        task.cancel()


async def test_many_runs_at_once_are_all_answered(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    results = await asyncio.gather(*(run(sandbox, "truth", tenant_id=f"tnt_{n % 5}") for n in range(200)))
    assert all(isinstance(result, Ran) for result in results)


async def test_an_idle_child_killed_from_outside_is_noticed_and_replaced(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    pid = pid_in(await run(sandbox, "truth"))
    os.kill(pid, 9)
    await asyncio.to_thread(wait_for_end, pid)
    assert pid_in(await run(sandbox, "truth")) != pid


async def test_ended_children_are_reaped(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    assert sandbox._pool is not None
    zygote = sandbox._pool.nursery.pid
    for turn in range(30):
        await run(sandbox, "null", tenant_id=f"tnt_{turn}")
    await run(sandbox, "truth")
    assert len(children_of(zygote)) <= 10


@pytest.mark.asvs("1.4.3")
async def test_closing_leaves_no_process_and_no_descriptor(open_sandbox: Opener, run: Runner) -> None:
    before = open_descriptors()
    sandbox = await open_sandbox()
    assert sandbox._pool is not None
    zygote = sandbox._pool.nursery.pid
    for turn in range(12):
        await run(sandbox, "truth", tenant_id=f"tnt_{turn}")
    await run(sandbox, "null")
    family = [zygote, *children_of(zygote)]
    await sandbox.aclose()
    await sandbox.aclose()
    assert [pid for pid in family if is_alive(pid)] == []
    assert open_descriptors() == before


async def test_a_run_under_way_and_one_after_closing_are_away(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    running = asyncio.create_task(run(sandbox, "sleep"))
    await until_running(sandbox, 1)
    await sandbox.aclose()
    assert isinstance(await running, Away)
    assert isinstance(await run(sandbox, "truth"), Away)
    assert (await sandbox.health()).state is EngineState.DOWN


async def test_a_closed_descriptor_is_our_fault_not_the_files(open_sandbox: Opener, run: Runner) -> None:
    result = await run(await open_sandbox(), "truth", sealed=Sealed(999_999, 10, b""))
    assert isinstance(result, Away)
