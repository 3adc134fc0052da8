"""Small files whose check reaches its limit do not keep others of their tenant waiting."""

import asyncio

import pytest

from sluice_inspect.sandbox.protocol import Completed, JobLimits, OverLimit
from tests.sandbox.conftest import OpenSandbox, RunJob, Seal
from tests.sandbox.processes import wait_until_running


@pytest.mark.parametrize("size", [100, 100_000])
async def test_other_files_pass_a_file_that_reached_the_limit(
    open_sandbox: OpenSandbox, run: RunJob, seal: Seal, size: int
) -> None:
    sandbox = await open_sandbox(workers=1, limits=JobLimits(cpu_seconds=1.0))
    slow = seal(bytes(size))
    assert isinstance(await run(sandbox, "spin", sealed=slow), OverLimit)
    runs = [asyncio.create_task(run(sandbox, "sleep", sealed=slow)) for _ in range(6)]
    await wait_until_running(sandbox, 1)
    try:
        async with asyncio.timeout(3):
            assert isinstance(await run(sandbox, "describe file"), Completed)
            assert isinstance(await run(sandbox, "describe file", sealed=seal(bytes(size + 1))), Completed)
        assert not any(each.done() for each in runs)
    finally:
        for each in runs:
            each.cancel()
        await asyncio.wait(runs)
