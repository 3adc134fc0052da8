"""The fallback: the same contract with a process per file, held by limits only."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from sluice.engines.sandbox.judge import Budget
from sluice.engines.sandbox.protocol import Away, Died, Overran, Ran, SandboxBroken
from sluice.engines.sandbox.spawn import SpawnSandbox
from sluice.kit.health import EngineState
from tests.engines.sandbox.conftest import HOSTILE, ROOT, Runner
from tests.engines.sandbox.processes import open_descriptors, until, until_running


@pytest.fixture
async def spawn() -> AsyncIterator[SpawnSandbox]:
    sandbox = SpawnSandbox(workers=2, jobs=HOSTILE, import_path=[ROOT], budget=Budget(wall_seconds=20, cpu_seconds=1))
    await sandbox.start()
    yield sandbox
    await sandbox.aclose()


async def test_a_file_is_worked_on_in_a_process_of_its_own(spawn: SpawnSandbox, run: Runner) -> None:
    first, second = await run(spawn, "truth"), await run(spawn, "truth")
    assert isinstance(first, Ran)
    assert isinstance(second, Ran)
    assert first.payload["pid"] != second.payload["pid"]
    assert first.payload["bytes"] == 24


@pytest.mark.parametrize(
    ("job", "why"), [("null", "SIGSEGV"), ("raise", "ValueError"), ("exit quietly", "status 0"), ("array", "object")]
)
async def test_a_child_that_dies_or_lies_has_died(spawn: SpawnSandbox, run: Runner, job: str, why: str) -> None:
    result = await run(spawn, job)
    assert isinstance(result, Died)
    assert why in result.why


@pytest.mark.parametrize(("job", "limit"), [("allocate", "memory"), ("spin", "cpu")])
async def test_a_child_at_a_limit_overruns(spawn: SpawnSandbox, run: Runner, job: str, limit: str) -> None:
    result = await run(spawn, job)
    assert isinstance(result, Overran)
    assert result.limit == limit


async def test_a_child_that_sleeps_overruns_the_wall_clock(run: Runner) -> None:
    sandbox = SpawnSandbox(jobs=HOSTILE, import_path=[ROOT], budget=Budget(wall_seconds=0.3))
    result = await run(sandbox, "sleep")
    assert isinstance(result, Overran)
    assert result.limit == "wall"


async def test_cancelling_ends_the_child_and_leaves_nothing(spawn: SpawnSandbox, run: Runner) -> None:
    before = open_descriptors()
    running = asyncio.create_task(run(spawn, "sleep"))
    await until(lambda: open_descriptors() != before)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert open_descriptors() == before


async def test_closing_answers_runs_under_way_with_away(spawn: SpawnSandbox, run: Runner) -> None:
    running = asyncio.create_task(run(spawn, "sleep"))
    await until_running(spawn, 1)
    await spawn.aclose()
    assert isinstance(await running, Away)
    assert isinstance(await run(spawn, "truth"), Away)
    assert (await spawn.health()).state is EngineState.DOWN


async def test_it_says_that_it_is_held_by_limits_only(spawn: SpawnSandbox) -> None:
    health = await spawn.health()
    assert (spawn.level, health.state) == ("limits-only", EngineState.DEGRADED)


async def test_a_start_that_cannot_import_its_jobs_says_so() -> None:
    before = open_descriptors()
    with pytest.raises(SandboxBroken, match="no_such_module"):
        await SpawnSandbox(jobs="no_such_module").start()
    assert open_descriptors() == before
