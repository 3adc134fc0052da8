"""A child that dies, lies, overruns or falls silent gives a verdict or `Away`, never a pass."""

import pytest

from sluice.engines.sandbox.judge import Budget
from sluice.engines.sandbox.protocol import Away, Died, Level, Overran, Ran
from tests.engines.sandbox.conftest import Opener, Runner

EVERY_LEVEL: list[Level] = ["strict", "seccomp", "limits-only"]
IMPATIENT = Budget(wall_seconds=0.5)


@pytest.mark.parametrize("level", EVERY_LEVEL)
@pytest.mark.parametrize(
    ("job", "why"),
    [
        ("null", "SIGSEGV"),
        ("abort", "SIGABRT"),
        ("exit quietly", "status 0"),
        ("exit by exception", "SystemExit"),
        ("raise", "ValueError: a bug in a parser"),
    ],
)
@pytest.mark.asvs("1.4.1")
async def test_a_child_that_ends_has_died_on_the_file(open_sandbox: Opener, run: Runner, level: Level, job: str, why: str) -> None:
    result = await run(await open_sandbox(level=level), job)
    assert isinstance(result, Died)
    assert why in result.why


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ("garbage", "answered another request"),
        ("huge length", "longer than"),
        ("flood", "longer than"),
        ("large answer", "an answer of"),
        ("other number", "answered another request"),
        ("no JSON", "not JSON"),
        ("array", "not a JSON object"),
        ("infinity", "not JSON"),
        ("raw surrogate", "not JSON"),
        ("nested", "not JSON"),
        ("long number", "not JSON"),
        ("unknown form", "no known form"),
        ("payload no object", "no known form"),
        ("two frames", "more than it was asked"),
        ("not JSON values", "JSON cannot say"),
        ("not a number", "JSON cannot say"),
    ],
)
async def test_an_answer_that_is_none_is_a_death(open_sandbox: Opener, run: Runner, job: str, why: str) -> None:
    result = await run(await open_sandbox(), job)
    assert isinstance(result, Died)
    assert why in result.why


@pytest.mark.parametrize("job", ["sleep", "spin", "spin on", "half a frame"])
async def test_no_whole_answer_in_time_overruns_the_wall_clock(open_sandbox: Opener, run: Runner, job: str) -> None:
    result = await run(await open_sandbox(budget=IMPATIENT), job)
    assert isinstance(result, Overran)
    assert result.limit == "wall"


@pytest.mark.parametrize("level", EVERY_LEVEL)
async def test_an_endless_loop_overruns_the_processor_time(open_sandbox: Opener, run: Runner, level: Level) -> None:
    result = await run(await open_sandbox(level=level, budget=Budget(cpu_seconds=1)), "spin")
    assert isinstance(result, Overran)
    assert result.limit == "cpu"


@pytest.mark.parametrize("level", EVERY_LEVEL)
@pytest.mark.parametrize("job", ["allocate", "map and touch"])
async def test_too_much_memory_overruns_it(open_sandbox: Opener, run: Runner, level: Level, job: str) -> None:
    result = await run(await open_sandbox(level=level, budget=Budget(memory_bytes=256 * 1024**2)), job)
    assert isinstance(result, Overran)
    assert result.limit == "memory"


async def test_a_child_that_hangs_up_is_away(open_sandbox: Opener, run: Runner) -> None:
    assert isinstance(await run(await open_sandbox(), "hang up"), Away)


async def test_a_surrogate_in_an_answer_is_replaced(open_sandbox: Opener, run: Runner) -> None:
    result = await run(await open_sandbox(), "surrogate")
    assert isinstance(result, Ran)
    assert result.payload == {"value": "?"}


async def test_a_second_answer_ends_the_child(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    first = await run(sandbox, "say twice")
    second = await run(sandbox, "truth")
    assert isinstance(first, Ran | Died)
    assert isinstance(second, Ran)
    assert second.payload["bytes"]


async def test_a_child_that_hangs_after_its_answer_costs_the_next_file_nothing(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    hung = await run(sandbox, "answer and hang")
    later = await run(sandbox, "truth")
    assert isinstance(hung, Ran)
    assert isinstance(later, Ran)
    assert later.payload["pid"] != hung.payload["pid"]


async def test_a_death_in_a_used_child_is_tried_again_in_a_fresh_one(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    first = await run(sandbox, "fail when used")
    second = await run(sandbox, "fail when used")
    assert isinstance(first, Ran)
    assert isinstance(second, Ran)
    assert second.payload["pid"] != first.payload["pid"]


async def test_one_file_that_kills_its_child_leaves_the_next_alone(open_sandbox: Opener, run: Runner) -> None:
    sandbox = await open_sandbox()
    for _ in range(5):
        assert isinstance(await run(sandbox, "null"), Died)
        assert isinstance(await run(sandbox, "truth"), Ran)
