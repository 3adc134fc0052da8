"""The sandbox engine on Linux: confined workers, forked from a zygote that has loaded every parser.

A start is quick: the zygote takes orders, and shows how firmly a worker can be confined. The parsers are loaded and
tested after it; a file that comes earlier waits for that.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Final, Literal

from sluice_inspect.child.protocol import Level
from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.ocr.languages import installed_languages
from sluice_inspect.sandbox.dispatch import Dispatcher, FileJob, Scheduler
from sluice_inspect.sandbox.launch import DEFAULT_JOBS, EarlyZygote, connect_zygote, launch_zygote, private_file
from sluice_inspect.sandbox.pool import WorkerPool
from sluice_inspect.sandbox.protocol import (
    Completed,
    Crashed,
    FewFiles,
    Job,
    JobLimits,
    NoWorker,
    OperatorRules,
    RunResult,
    SandboxBroken,
    SandboxHealth,
    is_attempt,
)
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.supervisor import Supervisor, WorkerUnavailable

_State = Literal["up", "degraded", "down"]
LEVELS: Final[tuple[Level, ...]] = ("strict", "seccomp", "limits-only")  # the strictest first

_WORKERS_PER_SLOT: Final = 4  # idle workers are kept for their tenants
# Pauses between restarts of a zygote that keeps exiting; they are reset once one has lived for `_SETTLED_SECONDS`.
_FIRST_PAUSE: Final = 0.25
_LONGEST_PAUSE: Final = 10.0
_SETTLED_SECONDS: Final = 60.0
_RETEST_SECONDS: Final = 5.0

_SELF_TEST_TENANT: Final = "self-test"
_SAMPLE_HEADER_MAX: Final = 64 * 1024
_SAMPLES_SECONDS: Final = 60.0
# Seconds for which health is degraded after a file for which a worker got too little processor time.
_BUSY_SECONDS: Final = 300.0
_EVERY_FORMAT: Final = "every format"
_CHECKING: Final[frozenset[Job]] = frozenset(  # the jobs that make the operator's checks
    {"check", "check_legible", "check_and_scan", "check_legible_and_scan"}
)
_SAMPLES_LOST: Final = json.dumps({"format": _EVERY_FORMAT, "failed": "their maker ended"}).encode()


@dataclass(slots=True)
class _SharedRun:
    """A run that several callers wait for."""

    task: asyncio.Task[RunResult]
    callers: int = 0


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
        limits: JobLimits | None = None,
        wait_seconds: float = 60.0,
        idle_seconds: float = 60.0,
        jobs: str = DEFAULT_JOBS,
        import_path: Sequence[str] = (),
        checks: Sequence[str] = (),
        launched: EarlyZygote | None = None,
        on_fault: Callable[[str, float], None] = lambda _why, _seconds: None,
    ) -> None:
        """Set up; nothing runs before `begin`.

        `workers` files are processed at once (default: one per core, at least two), and for every two of them one more
        file of up to 1 MiB. `level` `auto` takes the strictest level that works here, never below `least`; a named
        level is required. A file waits at most `wait_seconds` for a worker. `jobs` names the module of the jobs,
        searched on `import_path` too. `checks` are the operator's own that are made of each file. `launched` is a
        zygote that was launched earlier with the same `jobs` and memory limit, or the socket of one that several
        processes share. `on_fault` is called with what a failed self-test found, and after how many seconds the next
        one begins.
        """
        self._slots = workers or max(2, os.cpu_count() or 2)
        self._candidates = LEVELS[: LEVELS.index(least) + 1] if level == "auto" else (level,)
        self._files_per_worker = files_per_worker
        self._limits = limits or JobLimits()
        self._idle_seconds = idle_seconds
        self._jobs = jobs
        self._import_path = tuple(import_path)
        self._checks = tuple(checks)
        small_slots = max(1, self._slots // 2)
        self._max_workers = max(self._slots * _WORKERS_PER_SLOT, self._slots + small_slots)
        self._scheduler = Scheduler(self._slots, small_slots)
        self._wait_seconds = wait_seconds
        self._dispatcher = self._new_dispatcher(self._current_pool)
        self._launched = launched
        self._on_fault = on_fault
        self._pool: WorkerPool | None = None
        self._supervisors: list[Supervisor] = []  # all whose processes may still exist; the current one is the last
        self._is_up = asyncio.Event()
        self._closed = False
        self._is_tested = False
        self._most_samples: int | None = None
        self._only: FewFiles | None = None  # the files that formats were loaded for; None if all formats are
        self._rules: OperatorRules | None = None
        self._rules_fault = ""  # why the zygote could not load them
        self._loading_rules = asyncio.Lock()
        self._shared: dict[FileJob, _SharedRun] = {}  # scans in progress
        self._fault = ""  # what the self-test found wrong
        self._keeping: asyncio.Task[None] | None = None
        self._restarts = 0
        self._started_at = 0.0
        self._pause = 0.0

    async def begin(self) -> None:
        """Start the zygote and find the level. Raise `SandboxBroken`, with nothing left running."""
        try:
            await self._find_level(await self._start_zygote())
        except BaseException:
            await self.aclose()
            raise

    def prepare(self) -> None:
        """Have every format loaded and tested in the background, and again whenever the zygote has exited.

        If a format fails, all runs and the health say so until a later try succeeds: a machine may be short of memory.
        """
        if self._keeping is None and self._pool is None and not self._closed:
            self._keeping = asyncio.get_running_loop().create_task(self._keep_up())

    async def start(self, *, every_format: bool = True, only: FewFiles | None = None) -> None:
        """Begin, load every format and test all, or the first, or load what `only` these files need.

        Raise `SandboxBroken`, with nothing left running.
        """
        self._most_samples = None if every_format else 1
        self._only = only
        await self.begin()
        try:
            await self._load(self._supervisors[-1])
        except BaseException:
            await self.aclose()
            raise

    async def use_rules(self, rules: OperatorRules) -> str:
        """Apply the operator's rules from now on; see `Sandbox.use_rules`."""
        unused = rules
        async with self._loading_rules:
            try:
                fault = "" if self._pool is None else await self._load_rules(self._pool, rules)
                if not fault:
                    if self._rules is not None:
                        unused = self._rules
                    self._rules, self._rules_fault = rules, ""
            except SandboxBroken as error:
                fault = str(error)  # the next zygote gets the rules from before
            finally:
                if unused is not self._rules:
                    os.close(unused.fd)
        return fault

    async def _load_rules(self, pool: WorkerPool, rules: OperatorRules) -> str:
        """Load rules into the zygote of a pool, whose workers do without them. Return what is wrong, or nothing.

        Raise `SandboxBroken` if the zygote ends meanwhile.
        """
        fault = await pool.supervisor.load_rules(rules)
        if not fault:
            pool.renew()
        return fault

    async def run(
        self,
        job: Job,
        sealed: Sealed,
        *,
        filename: str,
        tenant_id: str,
        buffer: SharedBuffer | None = None,
        ocr: Sequence[str] = (),
    ) -> RunResult:
        """Run one job; see `Sandbox.run`. Scans of the same bytes at the same time are one if there are rules."""
        file_job = FileJob(job, sealed, filename, tenant_id, buffer, tuple(ocr))
        if job != "scan" or self._rules is None:
            return await self._run(file_job)
        shared = self._shared.get(file_job)
        if shared is None:
            shared = self._shared[file_job] = _SharedRun(asyncio.create_task(self._run(file_job)))
        shared.callers += 1
        try:
            return await asyncio.shield(shared.task)
        finally:
            shared.callers -= 1
            if not shared.callers:
                self._shared.pop(file_job, None)
                shared.task.cancel()
                await asyncio.wait({shared.task})

    async def _run(self, job: FileJob) -> RunResult:
        only = self._only
        result = await self._dispatcher.run(job)
        if only is not None and not isinstance(result, Completed):
            # A worker that lacks what it needs for a file fails; whatever else failed is tried with all formats, too.
            self._load_rest()
            result = await self._dispatcher.run(job)
        if not self._checks or job.job not in _CHECKING or isinstance(result, NoWorker):
            return result
        if isinstance(result, Completed) and not self._has_every_check(job.job, result.payload):
            return Crashed("the checks of SLUICE_PYTHON_CHECKS were not all made", result.ms, self._checks)
        return replace(result, checks=self._checks)

    def _has_every_check(self, job: Job, payload: Mapping[str, object]) -> bool:
        report = payload.get("check") if is_attempt(job) else payload
        made = report.get("python") if isinstance(report, dict) else None
        return isinstance(made, list) and all(
            isinstance(each, dict) and each.get("check") == name for each, name in zip_longest(made, self._checks)
        )

    async def health(self) -> SandboxHealth:
        """Return the level, the numbers of workers and runs, and how often the zygote was restarted."""
        state: _State = "up"
        detail = ""
        if self._pool is None:
            state, detail = self._state_without_pool()
        elif self.level == "limits-only":
            state, detail = "degraded", "workers are held by limits only: no seccomp, no Landlock"
        elif (at := self._dispatcher.timed_out_at) is not None and time.monotonic() - at < _BUSY_SECONDS:
            state, detail = "degraded", "a worker got too little processor time for a file: the machine is too busy"
        elif self._rules_fault:
            state, detail = "degraded", f"the operator's YARA rules could not be loaded: {self._rules_fault}"
        return SandboxHealth(
            state=state,
            detail=detail,
            limits={
                "level": self.level,
                "workers": self._slots,
                "living": self._pool.size if self._pool else 0,
                "running": self._scheduler.running,
                "waiting": self._scheduler.waiting + self._dispatcher.queued,
                "restarts": self._restarts,
                "memory_bytes": self._limits.memory_bytes,
                "ocr": " ".join(sorted(installed_languages())) or "none",
            },
        )

    async def aclose(self) -> None:
        """End every worker and the zygote, and wait until they are gone. A second call is a no-op."""
        self._closed = True
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        self._is_up.clear()
        launched, self._launched = self._launched, None
        if launched is not None and not isinstance(launched, Path):
            launched.kill()
        if self._pool is not None:
            self._pool.close()
        self._pool = None
        await self._close_supervisors()
        rules, self._rules = self._rules, None
        if rules is not None:
            os.close(rules.fd)

    def _load_rest(self) -> None:
        """Have every format loaded, if only those for a few files are."""
        if self._only is None:
            return
        self._only = None
        pool, self._pool = self._pool, None
        if pool is not None:  # otherwise they are being loaded
            self._is_up.clear()
            pool.close()
            self._keeping = asyncio.get_running_loop().create_task(self._keep_up())

    async def _current_pool(self, deadline: float) -> WorkerPool:
        """Return the pool, waiting for a restart until `deadline`. Raise `WorkerUnavailable`."""
        while (pool := self._pool) is None:
            self.prepare()
            left = deadline - time.monotonic()
            if self._closed or self._fault or left <= 0:
                raise WorkerUnavailable(
                    "the sandbox is closed" if self._closed else self._fault or "the sandbox is being started"
                )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._is_up.wait(), left)
        return pool

    def _state_without_pool(self) -> "tuple[_State, str]":
        if self._closed or self._fault:
            return "down", self._fault or "closed"
        if self._restarts:
            return "down", "the zygote is being started"
        # A file that comes now waits for a second or two, as one does for a free worker.
        return "degraded" if self.level == "limits-only" else "up", "the formats are being loaded and tested"

    async def _start_zygote(self) -> Supervisor:
        launched = self._launched
        try:
            if isinstance(launched, Path):
                launched = connect_zygote(launched)
            else:
                self._launched = None
                launched = launched or launch_zygote(
                    memory_bytes=self._limits.memory_bytes, jobs=self._jobs, import_path=self._import_path
                )
        except OSError as error:
            raise SandboxBroken(f"no process can be started: {error}") from error
        supervisor = await Supervisor.start(launched, self._on_zygote_exit)
        self._supervisors.append(supervisor)
        return supervisor

    async def _find_level(self, supervisor: Supervisor) -> None:
        """Set `level` to the strictest candidate that works here."""
        obstacles: list[str] = []
        for level in self._candidates:
            try:
                await supervisor.try_level(level)
            except WorkerUnavailable as error:
                obstacles.append(f"{level}: {error}")
            else:
                self.level = level
                return
        raise SandboxBroken(f"no level asked for can be reached here ({'; '.join(obstacles)})")

    async def _load(self, supervisor: Supervisor) -> None:
        """Load every format and open the pool. Raise `SandboxBroken`."""
        if (only := self._only) is not None:
            await supervisor.load(test=False, only=only, checks=self._checks)
            if only is self._only:
                self._open(self._new_pool(supervisor))
                return
        needs_test = await supervisor.load(test=not self._is_tested, checks=self._checks)
        pool = self._new_pool(supervisor)
        if needs_test:
            try:
                await self._self_test(pool, supervisor.open_samples(self._most_samples))
            except SandboxBroken as error:
                pool.close()
                supervisor.report_test(str(error))
                raise
            pool.discard_used()
            supervisor.report_test("")
        self._is_tested = True
        async with self._loading_rules:
            if self._rules is not None:
                try:
                    self._rules_fault = await self._load_rules(pool, self._rules)
                except SandboxBroken:
                    pool.close()
                    raise
            self._open(pool)

    def _open(self, pool: WorkerPool) -> None:
        self._pool = pool
        self._started_at = time.monotonic()
        self._is_up.set()

    def _new_dispatcher(self, current_pool: Callable[[float], Awaitable[WorkerPool]]) -> Dispatcher:
        return Dispatcher(
            self._scheduler,
            current_pool,
            limits=self._limits,
            files_per_worker=self._files_per_worker,
            wait_seconds=self._wait_seconds,
        )

    def _new_pool(self, supervisor: Supervisor) -> WorkerPool:
        return WorkerPool(
            supervisor,
            level=self.level,
            max_workers=self._max_workers,
            files_per_worker=self._files_per_worker,
            idle_seconds=self._idle_seconds,
            spares=0 if self._only else 1,
        )

    def _on_zygote_exit(self) -> None:
        """Start another zygote: all workers of this one are gone."""
        self._is_up.clear()
        pool, self._pool = self._pool, None
        if pool is None or self._closed:
            return  # before the zygote had loaded: the waiting `load` raises
        pool.close()
        if time.monotonic() - self._started_at > _SETTLED_SECONDS:
            self._pause = 0.0
        self._keeping = asyncio.get_running_loop().create_task(self._keep_up())

    async def _keep_up(self) -> None:
        """Load and test every format, in another zygote if this one has exited, until that succeeds."""
        while True:
            if not self._supervisors or not self._supervisors[-1].is_alive:
                await self._close_supervisors()
                await asyncio.sleep(self._pause)
                self._pause = min(max(_FIRST_PAUSE, self._pause * 2), _LONGEST_PAUSE)
                self._restarts += 1
            try:
                supervisor = self._supervisors[-1] if self._supervisors else await self._start_zygote()
                await self._load(supervisor)
            except SandboxBroken as error:
                if self._supervisors and self._supervisors[-1].is_alive:
                    self._fault = str(error)
                    self._on_fault(self._fault, _RETEST_SECONDS)
                    self._is_up.set()  # for those who wait
                    await asyncio.sleep(_RETEST_SECONDS)
                    self._is_up.clear()
            else:
                self._fault = ""
                return

    async def _close_supervisors(self) -> None:
        while self._supervisors:
            await self._supervisors[-1].aclose()
            self._supervisors.pop()

    # Self-test: one good file of every format goes through a confined worker, the way a stranger's file does.

    async def _self_test(self, pool: WorkerPool, samples: socket.socket) -> None:
        """Check and scan every sample from `samples`, which is closed, in the pool's workers.

        Raise `SandboxBroken` naming each format that failed.
        """

        async def pool_under_test(_deadline: float) -> WorkerPool:
            return pool

        slots, dispatcher = asyncio.Semaphore(self._slots), self._new_dispatcher(pool_under_test)

        async def test(sample: _Sample) -> str:
            async with slots:
                return await self._test_sample(dispatcher, sample)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(test(sample)) async for sample in _read_samples(samples)]
        if failures := [failure for task in tasks if (failure := task.result())]:
            raise SandboxBroken(f"the self-test failed for {'; '.join(failures)}")

    async def _test_sample(self, dispatcher: Dispatcher, sample: "_Sample") -> str:
        """Return what is wrong, empty if nothing is."""
        if sample.failed:
            return f"{sample.format} (no sample: {sample.failed})"
        with private_file() as file:
            file.write(sample.content)
            file.flush()
            sealed = Sealed(file.fileno(), len(sample.content), hashlib.sha256(sample.content).digest())
            jobs: tuple[Job, Job] = ("check", "scan")
            checked, scanned = [
                await dispatcher.run(FileJob(job, sealed, sample.filename, _SELF_TEST_TENANT, None)) for job in jobs
            ]
        if not isinstance(checked, Completed):
            return f"{sample.format} ({checked})"
        found, outcome = checked.payload.get("format"), checked.payload.get("outcome")
        if (found, outcome) != (sample.format, "ok"):
            return f"{sample.format} (judged {found}, {outcome}: {checked.payload.get('detail')})"
        return "" if isinstance(scanned, Completed) else f"{sample.format} (scan: {scanned})"


@dataclass(frozen=True, slots=True)
class _Sample:
    """One good file of `format`, or why it could not be made."""

    format: str
    filename: str
    content: bytes
    failed: str = ""


async def _read_samples(sock: socket.socket) -> AsyncIterator[_Sample]:
    reader, writer = await asyncio.open_connection(sock=sock, limit=_SAMPLE_HEADER_MAX)
    try:
        async with asyncio.timeout(_SAMPLES_SECONDS):
            while not (header := json.loads(await reader.readline() or _SAMPLES_LOST)).get("end"):
                content = await reader.readexactly(header.get("bytes", 0))
                yield _Sample(header["format"], header.get("filename", ""), content, header.get("failed", ""))
                if header["format"] == _EVERY_FORMAT:
                    return
    except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
        yield _Sample(_EVERY_FORMAT, "", b"", f"{type(error).__name__}: {error}")
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
