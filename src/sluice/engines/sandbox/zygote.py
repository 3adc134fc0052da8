"""The sandbox of production on Linux: children forked from a zygote that has loaded every parser, locked, and reused for one tenant."""

import asyncio
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Literal

from sluice.engines.sandbox.groups import Work
from sluice.engines.sandbox.judge import Budget
from sluice.engines.sandbox.launch import DEFAULT_JOBS, Launched, launch_zygote
from sluice.engines.sandbox.nursery import Child, NoChild, Nursery
from sluice.engines.sandbox.pool import Pool
from sluice.engines.sandbox.protocol import Job, Level, RunResult, SandboxBroken
from sluice.engines.sandbox.runs import Runs
from sluice.engines.sandbox.selftest import self_test
from sluice.engines.sandbox.tray import Tray
from sluice.engines.sandbox.turns import Turns
from sluice.kit.health import EngineHealth, EngineState
from sluice.kit.sealed import Sealed

LEVELS: Final[tuple[Level, ...]] = ("strict", "seccomp", "limits-only")
"""The firmest first."""

_LIVING_PER_WORKER: Final = 4
_SELF_TEST_TENANT: Final = "self-test"
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 10.0
_SETTLED_SECONDS: Final = 60.0


class ZygoteSandbox:
    """Implements `Sandbox` with a zygote. Linux only."""

    level: Level = "limits-only"

    def __init__(
        self,
        *,
        workers: int | None = None,
        level: Level | Literal["auto"] = "auto",
        least: Level = "seccomp",
        files_per_worker: int = 100,
        budget: Budget | None = None,
        wait_seconds: float = 60.0,
        idle_seconds: float = 60.0,
        jobs: str = DEFAULT_JOBS,
        import_path: Sequence[str] = (),
        launched: Launched | None = None,
    ) -> None:
        """Set up; nothing runs before `start`.

        `workers` files are worked on at once (default: one per core, at least two) and one small file (to 1 MiB) more for every two
        of them. `level` `auto` takes the firmest that works here, never below `least`; a level by name is taken or nothing. A file
        waits at most `wait_seconds` for its turn. `jobs` names the module of what children can do, found on `import_path` too.
        `launched` is a zygote that was begun already, with the same figures.
        """
        self._workers = workers or max(2, os.cpu_count() or 2)
        self._candidates = LEVELS[: LEVELS.index(least) + 1] if level == "auto" else (level,)
        self._files_per_worker = files_per_worker
        self._budget = budget or Budget()
        self._idle_seconds = idle_seconds
        self._jobs = jobs
        self._import_path = tuple(import_path)
        small_places = max(1, self._workers // 2)
        self._living = max(self._workers * _LIVING_PER_WORKER, self._workers + small_places)
        self._turns = Turns(self._workers, small_places)
        self._runs = Runs(
            self._turns,
            self._living_pool,
            budget=self._budget,
            files_per_child=files_per_worker,
            wait_seconds=wait_seconds,
        )
        self._launched = launched
        self._pool: Pool | None = None
        self._nurseries: list[Nursery] = []
        """All that are not known to be gone; the living one is the last."""
        self._up = asyncio.Event()
        self._closed = False
        self._restarting: asyncio.Task[None] | None = None
        self._restarts = 0
        self._began = 0.0
        self._pause = 0.0

    async def start(self) -> None:
        """Start the zygote, find the level, test every format. Raises `SandboxBroken`, with nothing left running."""
        try:
            nursery = await self._launch()
            child = await self._firmest(nursery)
            self._adopt(nursery).add(child)
            await self_test(nursery.sample_maker(), self._run_sample, at_once=self._workers)
        except BaseException:
            await self.aclose()
            raise
        if self._pool is not None:
            self._pool.discard_idle()

    async def run(self, job: Job, sealed: Sealed, *, filename: str, tenant_id: str, tray: Tray | None = None) -> RunResult:
        """Run one job; see `Sandbox.run`."""
        return await self._runs.run(Work(job, sealed, filename, tenant_id, tray))

    async def health(self) -> EngineHealth:
        """Answer the level, the children and how often the zygote was started again."""
        state, detail = EngineState.UP, ""
        if self._pool is None:
            state, detail = EngineState.DOWN, "closed" if self._closed else "the zygote is being started"
        elif self.level == "limits-only":
            state, detail = EngineState.DEGRADED, "children are held by limits only: no seccomp, no Landlock"
        return EngineHealth(
            kind="sandbox",
            name="zygote",
            state=state,
            detail=detail,
            limits={
                "level": self.level,
                "workers": self._workers,
                "living": self._pool.living if self._pool else 0,
                "running": self._turns.running,
                "waiting": self._turns.waiting + self._runs.in_line,
                "restarts": self._restarts,
                "memory_bytes": self._budget.memory_bytes,
            },
        )

    async def aclose(self) -> None:
        """End every child and the zygote, and wait until they are gone. A second call is a no-op."""
        self._closed = True
        if self._restarting is not None:
            self._restarting.cancel()
            with suppress(asyncio.CancelledError):
                await self._restarting
        self._up.clear()
        if self._launched is not None:
            self._launched.kill()
        if self._pool is not None:
            self._pool.close()
        self._pool = None
        while self._nurseries:
            await self._nurseries[-1].aclose()
            self._nurseries.pop()

    async def _living_pool(self, deadline: float) -> Pool:
        while (pool := self._pool) is None:
            left = deadline - time.monotonic()
            if self._closed or left <= 0:
                raise NoChild("the sandbox is closed" if self._closed else "the sandbox is being started again")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._up.wait(), left)
        return pool

    async def _launch(self) -> Nursery:
        launched, self._launched = self._launched, None
        try:
            launched = launched or launch_zygote(
                memory_bytes=self._budget.memory_bytes, jobs=self._jobs, import_path=self._import_path
            )
        except OSError as fault:
            raise SandboxBroken(f"no process can be started: {fault}") from fault
        nursery = await Nursery.of(launched, self._on_death)
        self._nurseries.append(nursery)
        return nursery

    async def _firmest(self, nursery: Nursery) -> Child:
        """Answer a first child at the firmest level that works here, and note the level."""
        obstacles: list[str] = []
        for level in self._candidates:
            try:
                child = await nursery.birth(level)
            except NoChild as fault:
                obstacles.append(f"{level}: {fault}")
            else:
                self.level = level
                return child
        raise SandboxBroken(f"no level asked for can be reached here ({'; '.join(obstacles)})")

    def _adopt(self, nursery: Nursery) -> Pool:
        self._pool = Pool(
            nursery,
            level=self.level,
            living=self._living,
            files_per_child=self._files_per_worker,
            idle_seconds=self._idle_seconds,
        )
        self._began = time.monotonic()
        self._up.set()
        return self._pool

    async def _run_sample(self, job: Job, sealed: Sealed, filename: str) -> RunResult:
        return await self.run(job, sealed, filename=filename, tenant_id=_SELF_TEST_TENANT)

    def _on_death(self) -> None:
        """The zygote ended by itself: everything of it is gone; start another, later and later while that keeps failing."""
        self._up.clear()
        pool, self._pool = self._pool, None
        if pool is None or self._closed:
            return
        pool.close()
        if time.monotonic() - self._began > _SETTLED_SECONDS:
            self._pause = 0.0
        self._restarting = asyncio.get_running_loop().create_task(self._restart())

    async def _restart(self) -> None:
        while self._nurseries:
            await self._nurseries[-1].aclose()
            self._nurseries.pop()
        while self._pool is None:
            await asyncio.sleep(self._pause)
            self._pause = min(max(_FIRST_PAUSE, self._pause * 2), _LONGEST_PAUSE)
            self._restarts += 1
            with suppress(SandboxBroken):
                self._adopt(await self._launch())
