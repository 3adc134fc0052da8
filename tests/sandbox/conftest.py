"""What the sandbox tests share: engines that are closed at the end, sealed bytes, and a run of any job by its name."""

import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Protocol, cast

import pytest

from sluice.engines.sandbox.judge import Budget
from sluice.engines.sandbox.launch import Launched
from sluice.engines.sandbox.protocol import Job, Level, RunResult, Sandbox
from sluice.engines.sandbox.zygote import ZygoteSandbox
from sluice.kit.sealed import Sealed

HOSTILE = "tests.engines.sandbox.hostile_jobs"
ROOT = str(Path(__file__).parents[3])


class Opener(Protocol):
    def __call__(
        self,
        *,
        level: Level = "strict",
        workers: int = 2,
        files_per_worker: int = 100,
        wait_seconds: float = 30.0,
        idle_seconds: float = 60.0,
        budget: Budget | None = None,
        jobs: str = HOSTILE,
        launched: Launched | None = None,
    ) -> Awaitable[ZygoteSandbox]: ...


Runner = Callable[..., Coroutine[None, None, RunResult]]
Sealer = Callable[[bytes], Sealed]


@pytest.fixture
async def open_sandbox() -> AsyncIterator[Opener]:
    """Start sandboxes of the hostile jobs; they are closed when the test ends."""
    started: list[ZygoteSandbox] = []

    async def opener(
        *,
        level: Level = "strict",
        workers: int = 2,
        files_per_worker: int = 100,
        wait_seconds: float = 30.0,
        idle_seconds: float = 60.0,
        budget: Budget | None = None,
        jobs: str = HOSTILE,
        launched: Launched | None = None,
    ) -> ZygoteSandbox:
        sandbox = ZygoteSandbox(
            workers=workers,
            level=level,
            files_per_worker=files_per_worker,
            budget=budget,
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
def seal() -> Iterator[Sealer]:
    """Make sealed bytes; their descriptors are closed when the test ends."""
    fds: list[int] = []

    def make(content: bytes) -> Sealed:
        fds.append(os.memfd_create("sealed"))
        os.write(fds[-1], content)
        return Sealed(fds[-1], len(content), hashlib.sha256(content).digest())

    yield make
    for fd in fds:
        os.close(fd)


@pytest.fixture
def run(seal: Sealer) -> Runner:
    """Run any job of a jobs module, by default on a few bytes of one tenant."""
    few_bytes = seal(b"some bytes of a stranger")

    async def runner(
        sandbox: Sandbox, job: str, *, filename: str = "a.bin", tenant_id: str = "tnt_1", sealed: Sealed | None = None
    ) -> RunResult:
        return await sandbox.run(cast("Job", job), sealed or few_bytes, filename=filename, tenant_id=tenant_id)

    return runner
