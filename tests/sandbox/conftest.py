"""Fixtures of the sandbox tests: sandboxes that are closed at the end, sealed bytes, and runs of any job by name."""

import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Protocol, cast

import pytest

from sluice.kit.sealed import Sealed
from sluice.sandbox.engine import ZygoteSandbox
from sluice.sandbox.launch import LaunchedZygote
from sluice.sandbox.protocol import Job, JobLimits, RunResult, Sandbox
from sluice_inspect.child.protocol import Level

HOSTILE_JOBS = "tests.sandbox.hostile_jobs"
ROOT = str(Path(__file__).parents[2])


class OpenSandbox(Protocol):
    def __call__(
        self,
        *,
        level: Level = "strict",
        workers: int = 2,
        files_per_worker: int = 100,
        wait_seconds: float = 30.0,
        idle_seconds: float = 60.0,
        limits: JobLimits | None = None,
        jobs: str = HOSTILE_JOBS,
        launched: LaunchedZygote | None = None,
    ) -> Awaitable[ZygoteSandbox]: ...


RunJob = Callable[..., Coroutine[None, None, RunResult]]
Seal = Callable[[bytes], Sealed]


@pytest.fixture
async def open_sandbox() -> AsyncIterator[OpenSandbox]:
    """Start sandboxes that run the hostile jobs; close them when the test ends."""
    started: list[ZygoteSandbox] = []

    async def opener(
        *,
        level: Level = "strict",
        workers: int = 2,
        files_per_worker: int = 100,
        wait_seconds: float = 30.0,
        idle_seconds: float = 60.0,
        limits: JobLimits | None = None,
        jobs: str = HOSTILE_JOBS,
        launched: LaunchedZygote | None = None,
    ) -> ZygoteSandbox:
        sandbox = ZygoteSandbox(
            workers=workers,
            level=level,
            files_per_worker=files_per_worker,
            limits=limits,
            wait_seconds=wait_seconds,
            idle_seconds=idle_seconds,
            jobs=jobs,
            import_path=[ROOT],
            launched=launched,
        )
        started.append(sandbox)
        await sandbox.start()
        return sandbox

    yield opener
    for sandbox in started:
        await sandbox.aclose()


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
