"""A child that crashes, misbehaves, exceeds a limit or hangs causes a verdict or `NoWorker`, never a pass."""

from collections.abc import Mapping

import pytest

from sluice_inspect.child.protocol import Level
from sluice_inspect.sandbox import channel
from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.protocol import Completed, Crashed, JobLimits, NoWorker, OverLimit
from tests.rows import every_row
from tests.sandbox.conftest import OpenSandbox, RunJob
from tests.sandbox.processes import payload_of, pid_in

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
    "garbage": "replied to another request",
    "huge length": "longer than",
    "oversized frame": "longer than",
    "large response": "a reply of",
    "wrong request number": "replied to another request",
    "invalid JSON": "not JSON",
    "JSON array": "not a JSON object",
    "Infinity": "not JSON",
    "raw surrogate": "not JSON",
    "deeply nested": "not JSON",
    "long number": "not JSON",
    "unknown fields": "no known form",
    "payload not an object": "no known form",
    "two frames": "more than was requested",
    "value that is not JSON": "JSON cannot represent",
    "NaN": "JSON cannot represent",
}


async def assert_crashes(sandbox: ZygoteSandbox, run: RunJob, crashes: Mapping[str, str]) -> None:
    with every_row() as row:
        for job, why in crashes.items():
            result = await run(sandbox, job)
            with row(job):
                assert isinstance(result, Crashed)
                assert why in result.why


@pytest.mark.parametrize("level", EVERY_LEVEL)
@pytest.mark.asvs("1.4.1")
async def test_child_exit_is_reported_as_crash(open_sandbox: OpenSandbox, run: RunJob, level: Level) -> None:
    await assert_crashes(await open_sandbox(level=level, files_per_worker=1), run, EXITS)


async def test_invalid_response_is_reported_as_crash(open_sandbox: OpenSandbox, run: RunJob) -> None:
    await assert_crashes(await open_sandbox(files_per_worker=1), run, INVALID_RESPONSES)


async def test_worker_that_does_not_respond_in_time_gives_no_result_and_is_in_the_health(
    open_sandbox: OpenSandbox, run: RunJob
) -> None:
    sandbox = await open_sandbox(limits=SHORT_WALL_TIME, files_per_worker=1)
    with every_row() as row:
        for job in ("sleep", "spin", "spin ignoring SIGXCPU", "partial frame"):
            result = await run(sandbox, job)
            with row(job):
                assert isinstance(result, NoWorker)
                assert result.why.endswith("the machine is too busy")
    health = await sandbox.health()
    assert (health.state, health.detail.endswith("the machine is too busy")) == ("degraded", True)


@pytest.mark.parametrize("level", EVERY_LEVEL)
async def test_large_allocation_exceeds_its_limit(open_sandbox: OpenSandbox, run: RunJob, level: Level) -> None:
    for job in ("allocate", "exhaust memory and abort"):
        result = await run(await open_sandbox(level=level, limits=JobLimits(memory_bytes=256 * 1024**2)), job)
        assert isinstance(result, OverLimit)
        assert result.limit == "memory", job


async def test_endless_loop_exceeds_its_limit(open_sandbox: OpenSandbox, run: RunJob) -> None:
    result = await run(await open_sandbox(limits=JobLimits(cpu_seconds=1)), "spin")
    assert isinstance(result, OverLimit)
    assert result.limit == "cpu"


async def test_child_that_closes_its_socket_returns_no_worker(open_sandbox: OpenSandbox, run: RunJob) -> None:
    assert isinstance(await run(await open_sandbox(), "close socket"), NoWorker)


async def test_surrogate_in_response_is_replaced(open_sandbox: OpenSandbox, run: RunJob) -> None:
    assert payload_of(await run(await open_sandbox(), "surrogate")) == {"value": "?"}


async def test_second_response_does_not_affect_next_file(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    assert isinstance(await run(sandbox, "respond twice"), Completed | Crashed)
    assert payload_of(await run(sandbox, "describe file"))["bytes"]


@pytest.mark.parametrize("job", ["respond and hang", "abort when reused"])
async def test_file_is_run_in_a_fresh_child_when_the_one_before_hangs_or_crashes(
    open_sandbox: OpenSandbox, run: RunJob, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = await open_sandbox()
    first = pid_in(await run(sandbox, job))
    monkeypatch.setattr(channel, "_READ_SECONDS", 2.0)
    assert pid_in(await run(sandbox, "describe file" if job == "respond and hang" else job)) != first


async def test_file_that_kills_its_child_does_not_affect_next_file(open_sandbox: OpenSandbox, run: RunJob) -> None:
    sandbox = await open_sandbox()
    for _ in range(5):
        assert isinstance(await run(sandbox, "null pointer"), Crashed)
        assert isinstance(await run(sandbox, "describe file"), Completed)
