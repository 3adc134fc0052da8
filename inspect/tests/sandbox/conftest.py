"""Fixtures of the sandbox tests: sandboxes that are closed at the end, sealed bytes, and runs of any job by name."""

import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from sluice_inspect.sandbox.engine import ZygoteSandbox
from sluice_inspect.sandbox.protocol import Job, RunResult, Sandbox
from sluice_inspect.sandbox.sealed import Sealed

HOSTILE_JOBS = "tests.sandbox.hostile_jobs"
ROOT = str(Path(__file__).parents[2])


OpenSandbox = Callable[..., Awaitable[ZygoteSandbox]]


RunJob = Callable[..., Coroutine[None, None, RunResult]]
Seal = Callable[[bytes], Sealed]


@pytest.fixture
async def open_sandbox() -> AsyncIterator[OpenSandbox]:
    """Start sandboxes that run the hostile jobs; close them when the test ends."""
    async with AsyncExitStack() as started:

        async def opener(**options: Any) -> ZygoteSandbox:
            usual: dict[str, Any] = {"level": "strict", "workers": 2, "wait_seconds": 30.0, "jobs": HOSTILE_JOBS}
            sandbox = ZygoteSandbox(import_path=[ROOT], **(usual | options))
            started.push_async_callback(sandbox.aclose)
            await sandbox.start()
            return sandbox

        yield opener


@pytest.fixture
def seal() -> Iterator[Seal]:
    """Make sealed bytes; close their descriptors when the test ends."""
    fds: list[int] = []

    def make(content: bytes) -> Sealed:
        fds.append(os.memfd_create("sealed"))
        os.write(fds[-1], content)
        return Sealed(fds[-1], len(content), hashlib.sha256(content).digest())

    yield make
    for fd in fds:
        os.close(fd)


@pytest.fixture
def run(seal: Seal) -> RunJob:
    """Run a job by name, by default on a few bytes of one tenant."""
    few_bytes = seal(b"some bytes of a stranger")

    async def runner(
        sandbox: Sandbox, job: str, *, filename: str = "a.bin", tenant_id: str = "tnt_1", sealed: Sealed | None = None
    ) -> RunResult:
        return await sandbox.run(cast("Job", job), sealed or few_bytes, filename=filename, tenant_id=tenant_id)

    return runner
