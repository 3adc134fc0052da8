"""Dispatch jobs to workers: fair scheduling between tenants, batches of small files, and one retry in a fresh worker.

Small files of one tenant that wait for a worker go to it together. Waking a process costs more than checking a
small file, and a process that checks file after file finds its code in the cache: of four files together each costs
half of what it costs alone (docs/performance.md). A file that arrives while a worker is idle waits for no other.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from sluice_inspect.child.shared_buffer import SharedBuffer
from sluice_inspect.sandbox.channel import Exited, Reply, Submission, TimedOut, Unread
from sluice_inspect.sandbox.fair_queue import FairQueue
from sluice_inspect.sandbox.outcome import ExitStatus, is_reusable, require_sealed, run_result
from sluice_inspect.sandbox.pool import WorkerPool
from sluice_inspect.sandbox.protocol import Crashed, Job, JobLimits, NoWorker, OverLimit, RunResult, is_attempt
from sluice_inspect.sandbox.sealed import Sealed
from sluice_inspect.sandbox.supervisor import Worker, WorkerUnavailable

# Small files may use run slots that large ones may not.
_SMALL_BYTES: Final = 1024**2
# Nearly all runs are shorter; what is made to be slow takes as long as it may.
_LONG_SECONDS: Final = 5.0
# Files of which a job reached its limit of processor time: what is run on them next is slow too.
_SLOW_MOST: Final = 1_000
# Larger files take longer than it takes to wake a worker for each.
_BATCHED_BYTES: Final = 64 * 1024
# Larger batches save little, and make other tenants wait longer.
_BATCH_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class RunSlot:
    """A request for one run. `small` allows it into the slots that are reserved for small files, and not slow ones."""

    tenant_id: str
    small: bool


@dataclass(slots=True, eq=False)
class Run:
    """A run in progress. When it has become long, it no longer takes a slot."""

    tenant_id: str
    small: bool
    is_long: bool = False
    becomes_long: asyncio.TimerHandle | None = None


class Scheduler:
    """Limits the runs in progress, fairly between tenants.

    `slots` runs of any size are in progress at once, and `small_slots` more of small files only, so that they overtake
    large ones. A run that takes longer than `long_seconds` leaves its slot to another, which then shares the processor
    with it; at most `slots` runs do so at once.
    """

    def __init__(self, slots: int, small_slots: int, *, long_seconds: float = _LONG_SECONDS) -> None:
        self._slots = slots
        self._all_slots = slots + small_slots
        self._long_seconds = long_seconds
        self._large = self._long = 0  # runs that take a slot of any size; runs that take none any more
        self._queue: FairQueue[str, RunSlot, Run] = FairQueue(self._occupy, self._free, overtaking=True)

    @property
    def running(self) -> int:
        """Runs in progress."""
        return self._queue.held_total

    @property
    def waiting(self) -> int:
        """Requests that wait for a slot."""
        return self._queue.waiting

    async def acquire(self, slot: RunSlot, seconds: float) -> Run | None:
        """Wait for a slot, at most `seconds`. Return the run, which the caller must `release`; None without a slot."""
        try:
            run = await self._queue.get(slot.tenant_id, slot, timeout=seconds)
        except TimeoutError:
            return None
        run.becomes_long = asyncio.get_running_loop().call_later(self._long_seconds, self._leave_slot, run)
        return run

    def release(self, run: Run) -> None:
        """End a run."""
        if run.becomes_long is not None:
            run.becomes_long.cancel()
        self._queue.put_back(run.tenant_id, run)

    def _occupy(self, tenant_id: str, slot: RunSlot) -> Run | None:
        in_slots = self.running - self._long
        if in_slots >= self._all_slots or not (slot.small or self._large < self._slots):
            return None
        self._large += not slot.small
        return Run(tenant_id, slot.small)

    def _free(self, _tenant_id: str, run: Run) -> None:
        if run.is_long:
            self._long -= 1
        else:
            self._large -= not run.small

    def _leave_slot(self, run: Run) -> None:
        if self._long < self._slots:
            run.is_long = True
            self._long += 1
            self._large -= not run.small
            self._queue.refresh()


@dataclass(frozen=True, slots=True)
class FileJob:
    """One job on one file. With `ocr`, it needs a worker of its own that has the models for these languages."""

    job: Job
    sealed: Sealed
    filename: str
    tenant_id: str
    buffer: SharedBuffer | None
    ocr: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _QueuedJob:
    """A job in its tenant's queue.

    `done` gets its result, and whether to retry it: an earlier file in that worker may be to blame.
    """

    job: FileJob
    deadline: float
    done: "asyncio.Future[tuple[RunResult, bool]]"

    def settle(self, result: RunResult, *, retry: bool = False) -> None:
        """Set the result, unless there is one or the caller has left."""
        if not self.done.done():
            self.done.set_result((result, retry))


@dataclass(eq=False, slots=True)
class _TenantQueue:
    """The small files of one tenant. `is_served` while a task waits for a slot for the jobs that are queued now."""

    tenant_id: str
    jobs: list[_QueuedJob] = field(default_factory=list)
    is_served: bool = False


class Dispatcher:
    """Runs jobs in the workers of the current pool.

    `current_pool` returns it, or raises `WorkerUnavailable` at a monotonic deadline.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        current_pool: Callable[[float], Awaitable[WorkerPool]],
        *,
        limits: JobLimits,
        files_per_worker: int,
        wait_seconds: float,
    ) -> None:
        self._scheduler = scheduler
        self._current_pool = current_pool
        self._limits = limits
        self._files_per_worker = files_per_worker
        self._wait_seconds = wait_seconds
        self._queues: dict[str, _TenantQueue] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._slow: dict[tuple[str, bytes], None] = {}  # tenants and digests, the latest last
        self.timed_out_at: float | None = None  # when, by the monotonic clock, a worker last got too little time

    @property
    def queued(self) -> int:
        """Files behind others in their tenant's queue.

        The first of each served queue counts among the scheduler's `waiting`.
        """
        return sum(max(0, len(queue.jobs) - queue.is_served) for queue in self._queues.values())

    async def run(self, job: FileJob) -> RunResult:
        """Run one job; see `Sandbox.run`.

        A failure in a used worker is retried in a fresh one: an earlier file may be to blame. Small files that are
        known to be slow are run as large ones, so that others do not wait behind them.
        """
        key = (job.tenant_id, job.sealed.sha256)
        is_small = job.sealed.size <= _SMALL_BYTES and key not in self._slow
        result = await self._run(job, is_small=is_small)
        if isinstance(result, OverLimit) and result.limit == "cpu":
            self._slow.pop(key, None)
            self._slow[key] = None
            if len(self._slow) > _SLOW_MOST:
                del self._slow[next(iter(self._slow))]
        return result

    async def _run(self, job: FileJob, *, is_small: bool) -> RunResult:
        retry = False
        if is_small and job.buffer is None and not job.ocr and job.sealed.size <= _BATCHED_BYTES:
            result, retry = await self._enqueue(job)
            if not retry:
                return result
        return await self._run_alone(job, fresh=retry, is_small=is_small)

    # Small files: queued by tenant, run in batches.

    def _enqueue(self, job: FileJob) -> "asyncio.Future[tuple[RunResult, bool]]":
        queue = self._queues.get(job.tenant_id)
        if queue is None:
            queue = self._queues[job.tenant_id] = _TenantQueue(job.tenant_id)
        done: asyncio.Future[tuple[RunResult, bool]] = asyncio.get_running_loop().create_future()
        queue.jobs.append(_QueuedJob(job, time.monotonic() + self._wait_seconds, done))
        if not queue.is_served:
            self._start_serving(queue)
        return done

    def _start_serving(self, queue: _TenantQueue) -> None:
        queue.is_served = True
        task = asyncio.get_running_loop().create_task(self._serve(queue))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, queue: _TenantQueue) -> None:
        slot = RunSlot(queue.tenant_id, small=True)
        run = await self._scheduler.acquire(slot, max(0.0, queue.jobs[0].deadline - time.monotonic()))
        if run is not None:
            try:
                await self._run_batch(queue)
            finally:
                self._scheduler.release(run)
        else:
            queue.is_served = False
            now = time.monotonic()
            for queued in [queued for queued in queue.jobs if queued.deadline <= now]:
                queue.jobs.remove(queued)
                queued.settle(NoWorker(f"no worker was free for {self._wait_seconds:.0f} s"))
            if queue.jobs:
                self._start_serving(queue)
        if not queue.jobs and not queue.is_served and self._queues.get(queue.tenant_id) is queue:
            del self._queues[queue.tenant_id]

    async def _run_batch(self, queue: _TenantQueue) -> None:
        """Run the first jobs of a queue in one worker, and settle each of them."""
        try:
            pool = await self._current_pool(queue.jobs[0].deadline)
            worker = await pool.acquire(queue.tenant_id)
        except Exception as error:  # noqa: BLE001  (whatever it is, the caller must learn of it)
            for queued in self._take(queue, 1):
                queued.settle(NoWorker(str(error)))
            return
        batch = self._take(queue, self._files_per_worker - worker.served)
        if not batch:  # every caller has left
            pool.release(worker)
            return
        reusable = False
        try:
            reusable = await self._collect(pool, worker, batch)
        finally:
            (pool.release if reusable else pool.discard)(worker)
            for queued in batch:
                if not queued.done.done():
                    queued.settle(NoWorker("no worker came to the file"))

    def _take(self, queue: _TenantQueue, most: int) -> list[_QueuedJob]:
        """Take up to `most` jobs off the queue, at least one if any caller still waits, and have the rest served."""
        waiting = [queued for queued in queue.jobs if not queued.done.done()]
        count = max(1, min(most, _BATCH_MAX))
        queue.jobs, queue.is_served = waiting[count:], False
        if queue.jobs:
            self._start_serving(queue)
        return waiting[:count]

    async def _collect(self, pool: WorkerPool, worker: Worker, batch: Sequence[_QueuedJob]) -> bool:
        """Hand the batch over and settle each job with its result; return whether the worker is reusable."""
        started, reusable = time.perf_counter(), True
        try:
            replies = self._submit(worker, [queued.job for queued in batch])
        except OSError:
            return False
        for queued, pending in zip(batch[1:], replies[1:], strict=True):
            pending.add_done_callback(partial(_retry_unread, queued))
        for queued, pending in zip(batch, replies, strict=True):
            queued.done.add_done_callback(partial(_stop_abandoned, worker, pending))
            reply = await pending
            exit_status = None
            if not is_reusable(reply):
                reusable = False
                if isinstance(reply, Exited) and not queued.done.done():
                    exit_status = await pool.supervisor.exit_status(worker)
            now = time.perf_counter()
            result = self._result(pool, reply, exit_status, ms=(now - started) * 1000)
            queued.settle(result, retry=worker.served > 0 and _may_blame_another(queued.job.job, reply, result))
            started = now
            worker.served += 1
        return reusable and not worker.channel.has_withdrawn

    # Large and slow files, files with a shared buffer, and retries: run alone.

    async def _run_alone(self, job: FileJob, *, fresh: bool, is_small: bool) -> RunResult:
        deadline = time.monotonic() + self._wait_seconds
        slot = RunSlot(job.tenant_id, small=is_small)
        run = await self._scheduler.acquire(slot, self._wait_seconds)
        if run is None:
            return NoWorker(f"no worker was free for {self._wait_seconds:.0f} s")
        try:
            result, retry = await self._try(job, deadline, fresh=fresh)
            if retry and not fresh:
                result, _retry = await self._try(job, deadline, fresh=True)
        except (WorkerUnavailable, OSError) as error:
            return NoWorker(str(error))
        finally:
            self._scheduler.release(run)
        return result

    async def _try(self, job: FileJob, deadline: float, *, fresh: bool) -> tuple[RunResult, bool]:
        """Run a job in one worker; return its result, and whether an earlier file may be to blame for it."""
        pool = await self._current_pool(deadline)
        acquiring = pool.spawn_with_ocr(job.tenant_id, job.ocr) if job.ocr else pool.acquire(job.tenant_id, fresh=fresh)
        worker = await acquiring
        was_used = worker.served > 0
        reusable = False
        started = time.perf_counter()
        try:
            (pending,) = self._submit(worker, [job])
            reply = require_sealed(await pending, job.buffer)
            ms = (time.perf_counter() - started) * 1000
            reusable = is_reusable(reply) and not job.ocr
            exit_status = await pool.supervisor.exit_status(worker) if isinstance(reply, Exited) else None
        finally:
            if reusable:
                worker.served += 1
                pool.release(worker)
            else:
                pool.discard(worker)
        result = self._result(pool, reply, exit_status, ms=ms)
        return result, was_used and _may_blame_another(job.job, reply, result)

    def _result(self, pool: WorkerPool, reply: Reply, exit_status: ExitStatus | None, *, ms: float) -> RunResult:
        if isinstance(reply, TimedOut):
            self.timed_out_at = time.monotonic()
        memory_bytes = self._limits.memory_bytes + pool.supervisor.resident_bytes
        return run_result(reply, exit_status, memory_bytes=memory_bytes, ms=ms)

    def _submit(self, worker: Worker, jobs: Sequence[FileJob]) -> "list[asyncio.Future[Reply]]":
        submissions: list[Submission] = []
        files: list[int] = []
        try:
            for job in jobs:
                fd = job.sealed.reopen()
                files.append(fd)
                fds = (fd,) if job.buffer is None else (fd, job.buffer.fd)
                submissions.append(
                    Submission(job.job, job.filename, fds, *self._limits.for_job(job.job, job.sealed.size))
                )
            return worker.channel.submit(submissions)
        finally:
            for fd in files:
                os.close(fd)


def _may_blame_another(job: Job, reply: Reply, result: RunResult) -> bool:
    """Return whether an earlier file in the same worker may have caused this result."""
    if isinstance(reply, Unread):
        return True
    if is_attempt(job):
        return False
    return isinstance(result, Crashed) or (isinstance(result, OverLimit) and result.limit == "memory")


def _retry_unread(queued: _QueuedJob, pending: "asyncio.Future[Reply]") -> None:
    """Have a job retried as soon as it is known that the worker will not come to it, behind another one."""
    if not pending.cancelled() and isinstance(pending.result(), Unread):
        queued.settle(NoWorker("the worker did not come to the file"), retry=True)


def _stop_abandoned(
    worker: Worker, pending: "asyncio.Future[Reply]", done: "asyncio.Future[tuple[RunResult, bool]]"
) -> None:
    """Hang up on a worker that works on a job whose caller has left."""
    if done.cancelled() and not pending.done():
        worker.channel.close()
