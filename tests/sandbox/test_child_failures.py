"""A child that crashes, misbehaves, exceeds a limit or hangs causes a verdict or `NoWorker`, never a pass."""

import pytest

from sluice.sandbox.protocol import Completed, Crashed, JobLimits, NoWorker, OverLimit
from sluice_inspect.child.protocol import Level
from tests.rows import every_row
from tests.sandbox.conftest import OpenSandbox, RunJob

EVERY_LEVEL: list[Level] = ["strict", "seccomp", "limits-only"]
SHORT_WALL_TIME = JobLimits(wall_seconds=0.5)


EXITS = {
    "null pointer": "SIGSEGV",
    "abort": "SIGABRT",
    "exit with status 0": "status 0",
    "exit by SystemExit": "SystemExit",
    "raise": "ValueError: a bug in a parser",
}
INVALID_RESPONSES = {
    "garbage": "answered another request",
    "huge length": "longer than",
    "oversized frame": "longer than",
    "large response": "an answer of",
    "wrong request number": "answered another request",
    "invalid JSON": "not JSON",
    "JSON array": "not a JSON object",
    "Infinity": "not JSON",
    "raw surrogate": "not JSON",
    "deeply nested": "not JSON",
    "long number": "not JSON",
    "unknown fields": "no known form",
    "payload not an object": "no known form",
    "two frames": "more than it was asked",
    "value that is not JSON": "JSON cannot say",
    "NaN": "JSON cannot say",
}


@pytest.mark.parametrize("level", EVERY_LEVEL)
@pytest.mark.asvs("1.4.1")
async def test_child_exit_is_reported_as_crash(open_sandbox: OpenSandbox, run: RunJob, level: Level) -> None:
    sandbox = await open_sandbox(level=level, files_per_worker=1)
    with every_row() as row:
        for job, why in EXITS.items():
            result = await run(sandbox, job)
            with row(job):
                assert isinstance(result, Crashed)
                assert why in result.why


async def test_invalid_response_is_reported_as_crash(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox(files_per_worker=1)
    with every_row() as row:
        for job, why in INVALID_RESPONSES.items():
            result = await run(sandbox, job)
            with row(job):
                assert isinstance(result, Crashed)
                assert why in result.why


async def test_missing_response_exceeds_wall_time_limit(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox(limits=SHORT_WALL_TIME, files_per_worker=1)
    with every_row() as row:
        for job in ("sleep", "spin", "spin ignoring SIGXCPU", "partial frame"):
            result = await run(sandbox, job)
            with row(job):
                assert isinstance(result, OverLimit)
                assert result.limit == "wall"


@pytest.mark.parametrize("level", EVERY_LEVEL)
async def test_endless_loop_exceeds_cpu_limit(open_sandbox: OpenSandbox, run: RunJob, level: Level) -> None:
    result = await run(await open_sandbox(level=level, limits=JobLimits(cpu_seconds=1)), "spin")
    assert isinstance(result, OverLimit)
    assert result.limit == "cpu"


@pytest.mark.parametrize("level", EVERY_LEVEL)
@pytest.mark.parametrize("job", ["allocate", "exhaust memory and abort"])
async def test_large_allocation_exceeds_memory_limit(
    open_sandbox: OpenSandbox, run: RunJob, level: Level, job: str
) -> None:
    result = await run(await open_sandbox(level=level, limits=JobLimits(memory_bytes=256 * 1024**2)), job)
    assert isinstance(result, OverLimit)
    assert result.limit == "memory"


async def test_child_that_closes_its_socket_returns_no_worker(open_sandbox: OpenSandbox, run: RunJob) -> None:
    assert isinstance(await run(await open_sandbox(), "close socket"), NoWorker)


async def test_surrogate_in_response_is_replaced(open_sandbox: OpenSandbox, run: RunJob) -> None:
    result = await run(await open_sandbox(), "surrogate")
    assert isinstance(result, Completed)
    assert result.payload == {"value": "?"}


async def test_second_response_does_not_affect_next_file(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    first = await run(sandbox, "respond twice")
    second = await run(sandbox, "describe file")
    assert isinstance(first, Completed | Crashed)
    assert isinstance(second, Completed)
    assert second.payload["bytes"]


async def test_child_that_hangs_after_its_response_is_replaced(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    hung = await run(sandbox, "respond and hang")
    later = await run(sandbox, "describe file")
    assert isinstance(hung, Completed)
    assert isinstance(later, Completed)
    assert later.payload["pid"] != hung.payload["pid"]


async def test_crash_in_reused_child_is_retried_in_fresh_child(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    first = await run(sandbox, "abort when reused")
    second = await run(sandbox, "abort when reused")
    assert isinstance(first, Completed)
    assert isinstance(second, Completed)
    assert second.payload["pid"] != first.payload["pid"]


async def test_file_that_kills_its_child_does_not_affect_next_file(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    for _ in range(5):
        assert isinstance(await run(sandbox, "null pointer"), Crashed)
        assert isinstance(await run(sandbox, "describe file"), Completed)
