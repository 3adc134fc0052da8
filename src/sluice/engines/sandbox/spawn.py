"""The fallback for systems without seccomp or without a safe fork: a fresh Python for every file, held by limits only. Slow and plain."""

import asyncio
import functools
import os
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from sluice.engines.sandbox.judge import Budget, judge, took_its_hands_off
from sluice.engines.sandbox.launch import DEFAULT_JOBS
from sluice.engines.sandbox.link import Answered, Gone, Link, Task
from sluice.engines.sandbox.nursery import NoChild
from sluice.engines.sandbox.program import Ending, Program
from sluice.engines.sandbox.protocol import Away, Job, Level, RunResult, SandboxBroken
from sluice.engines.sandbox.selftest import self_test
from sluice.engines.sandbox.tray import Tray
from sluice.engines.sandbox.turns import Turn, Turns
from sluice.kit.health import EngineHealth, EngineState
from sluice.kit.sealed import Sealed

_MODULE: Final = "sluice.engines.sandbox.child"
_START_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Child:
    link: Link
    program: Program


class SpawnSandbox:
    """Implements `Sandbox` with a process per file: nothing outlives a file, so no child is ever reused."""

    level: Level = "limits-only"

    def __init__(
        self,
        *,
        workers: int | None = None,
        budget: Budget | None = None,
        wait_seconds: float = 60.0,
        jobs: str = DEFAULT_JOBS,
        import_path: Sequence[str] = (),
    ) -> None:
        """Set up; the arguments are those of `ZygoteSandbox`."""
        self._workers = workers or max(2, os.cpu_count() or 2)
        self._budget = budget or Budget()
        self._wait_seconds = wait_seconds
        self._jobs = jobs
        self._import_path = tuple(import_path)
        self._turns = Turns(self._workers, 0)
        self._runs: set[asyncio.Task[RunResult]] = set()
        self._closed = False

    async def start(self) -> None:
        """Test every format in one child. Raises `SandboxBroken`."""
        ours, theirs = socket.socketpair()
        try:
            maker = self._program("samples", theirs)
        except OSError as fault:
            ours.close()
            raise SandboxBroken(f"no process can be started: {fault}") from fault
        finally:
            theirs.close()
        try:
            async with self._child() as child:
                await self_test(ours, functools.partial(self._ask, child), at_once=1)
        except NoChild as fault:
            raise SandboxBroken(str(fault)) from fault
        finally:
            ours.close()
            maker.kill()
            await maker.ended()

    async def run(self, job: Job, sealed: Sealed, *, filename: str, tenant_id: str, tray: Tray | None = None) -> RunResult:
        """Run one job in a process of its own; see `Sandbox.run`."""
        turn = Turn(tenant_id, small=True)
        if not await self._turns.take(turn, self._wait_seconds):
            return Away(f"no child was free for {self._wait_seconds:.0f} s")
        try:
            return await self._in_a_task(job, sealed, filename, tray)
        finally:
            self._turns.give(turn)

    async def health(self) -> EngineHealth:
        """Answer that it works, and how little it holds."""
        return EngineHealth(
            kind="sandbox",
            name="spawn",
            state=EngineState.DOWN if self._closed else EngineState.DEGRADED,
            detail="closed" if self._closed else "children are held by limits only: no seccomp, no Landlock",
            limits={
                "level": self.level,
                "workers": self._workers,
                "running": self._turns.running,
                "waiting": self._turns.waiting,
                "memory_bytes": self._budget.memory_bytes,
            },
        )

    async def aclose(self) -> None:
        """End every child and wait until they are gone. A second call is a no-op."""
        self._closed = True
        while self._runs:
            for run in self._runs:
                run.cancel()
            await asyncio.wait(self._runs)

    async def _in_a_task(self, job: Job, sealed: Sealed, filename: str, tray: Tray | None) -> RunResult:
        """Run where `aclose` can stop it without cancelling the caller, who is answered `Away` then."""
        if self._closed:
            return Away("the sandbox is closed")
        task = asyncio.get_running_loop().create_task(self._examine(job, sealed, filename, tray))
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        return Away("the sandbox is closing") if task.cancelled() else task.result()

    async def _examine(self, job: Job, sealed: Sealed, filename: str, tray: Tray | None) -> RunResult:
        try:
            async with self._child() as child:
                return await self._ask(child, job, sealed, filename, tray)
        except (NoChild, OSError) as fault:
            return Away(str(fault))

    @asynccontextmanager
    async def _child(self) -> AsyncIterator[_Child]:
        """Answer a child that has said hello; it is gone when the block is left. Raises `NoChild`."""
        ours, theirs = socket.socketpair()
        link = Link(ours)
        try:
            with theirs:
                program = self._program("worker", theirs)
        except OSError as fault:
            link.close()
            raise NoChild(f"no process can be started: {fault}") from fault
        try:
            said = await link.hello(_START_SECONDS)
            if not isinstance(said, Answered) or said.body.get("level") != self.level:
                raise NoChild(f"a new child was not ready: {program.last_words()}")
            yield _Child(link, program)
        finally:
            link.close()
            program.kill()
            await program.ended()

    async def _ask(self, child: _Child, job: Job, sealed: Sealed, filename: str, tray: Tray | None = None) -> RunResult:
        cpu_seconds = self._budget.cpu_for(sealed.size, job)
        began = time.perf_counter()
        fd = sealed.reopen()
        try:
            fds = (fd,) if tray is None else (fd, tray.fd)
            wall_seconds = self._budget.wall_for(sealed.size, job)
            reply = await child.link.ask(Task(job, filename, fds, cpu_seconds, wall_seconds))
        finally:
            os.close(fd)
        reply = took_its_hands_off(reply, tray)
        ms = (time.perf_counter() - began) * 1000
        ending: Ending | None = None
        if isinstance(reply, Gone):
            child.program.kill()
            ending = await child.program.ended()
        return judge(reply, ending, memory_bytes=self._budget.memory_bytes, ms=ms)

    def _program(self, role: str, sock: socket.socket) -> Program:
        arguments = {"role": role, "jobs": self._jobs, "memory_bytes": self._budget.memory_bytes}
        return Program(_MODULE, arguments, sock, import_path=self._import_path)
