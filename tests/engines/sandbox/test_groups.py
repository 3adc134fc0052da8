"""Small files that go to a child together: what one of them is or does is never held against the others."""

import asyncio

import pytest

from sluice.engines.sandbox.judge import Budget
from sluice.engines.sandbox.protocol import Overran, Ran, RunResult
from tests.engines.sandbox.conftest import Opener, Runner
from tests.engines.sandbox.processes import pid_in, until_running


async def test_files_that_come_together_are_worked_off_by_one_child(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    assert len({pid_in(result) for result in await asyncio.gather(*(run(sandbox, "truth") for _ in range(4)))}) == 1


async def test_no_more_go_together_than_a_child_may_see(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox(files_per_worker=2)
    pids = [pid_in(result) for result in await asyncio.gather(*(run(sandbox, "truth") for _ in range(8)))]
    assert max(pids.count(pid) for pid in pids) == 2


async def test_files_of_two_tenants_never_go_together(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    tenants = ["tnt_1", "tnt_2"] * 4
    results = await asyncio.gather(*(run(sandbox, "truth", tenant_id=tenant) for tenant in tenants))
    met = {tenant: {pid_in(result) for of, result in zip(tenants, results, strict=True) if of == tenant} for tenant in tenants}
    assert not met["tnt_1"] & met["tnt_2"]


@pytest.mark.parametrize(
    "job", ["abort", "exit quietly", "exit by exception", "raise", "garbage", "hang up", "large answer", "two frames"]
)
async def test_a_file_that_brings_its_child_down_takes_no_other_with_it(open_sandbox: Opener, run: Runner, job: str) -> None:
    sandbox = await open_sandbox()
    first, bad, *others = await asyncio.gather(*(run(sandbox, name) for name in ("truth", job, "truth", "truth")))
    assert [isinstance(result, Ran) for result in (first, bad, *others)] == [True, False, True, True]
    assert pid_in(first) not in {pid_in(other) for other in others}


async def test_those_behind_a_slow_file_do_not_wait_for_it(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    slow, *others = [asyncio.create_task(run(sandbox, job)) for job in ("sleep", "truth", "truth", "truth")]
    results: list[RunResult] = await asyncio.gather(*others)
    assert [type(result) for result in results] == [Ran, Ran, Ran]
    assert not slow.done()
    slow.cancel()
    await asyncio.wait([slow])


async def test_a_slow_file_is_held_to_its_own_time(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox(budget=Budget(wall_seconds=0.5))
    slow, other = await asyncio.gather(run(sandbox, "sleep"), run(sandbox, "truth"))
    assert isinstance(slow, Overran)
    assert slow.limit == "wall"
    assert isinstance(other, Ran)


@pytest.mark.parametrize("leaves", [0, 1, 3])
async def test_when_one_caller_leaves_the_others_are_answered(open_sandbox: Opener, run: Runner, leaves: int) -> None:
    sandbox = await open_sandbox()
    runs = [asyncio.create_task(run(sandbox, "truth" if place else "sleep")) for place in range(4)]
    await until_running(sandbox, 1)
    runs[leaves].cancel()
    others = [task for place, task in enumerate(runs) if place not in {0, leaves}]
    assert {type(result) for result in await asyncio.gather(*others)} == {Ran}
    runs[0].cancel()
    await asyncio.wait(runs)


async def test_a_failure_in_a_child_that_others_used_before_is_tried_in_a_fresh_one(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    results = await asyncio.gather(*(run(sandbox, "fail when used") for _ in range(4)))
    assert len({pid_in(result) for result in results}) == 4


async def test_a_slow_file_is_judged_by_its_own_answer_whatever_its_child_says_of_those_taken_back(
    open_sandbox: Opener, run: Runner
) -> None:
    sandbox = await open_sandbox()
    results = await asyncio.gather(*(run(sandbox, job) for job in ("long nap", "truth", "truth", "truth")))
    assert [type(result) for result in results] == [Ran] * 4


async def test_a_caller_who_left_before_the_child_came_to_its_file_takes_nobody_with_it(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    first, leaving, last = [asyncio.create_task(run(sandbox, job)) for job in ("short nap", "truth", "truth")]
    await until_running(sandbox, 1)
    leaving.cancel()
    assert [type(result) for result in await asyncio.gather(first, last)] == [Ran, Ran]


async def test_a_child_is_kept_when_all_who_waited_for_it_have_left(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    pid = pid_in(await run(sandbox, "truth"))
    leaving = asyncio.create_task(run(sandbox, "truth"))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    assert pid_in(await run(sandbox, "truth")) == pid
