"""The pool of workers: which worker serves which tenant, and how long it lives.

A worker belongs to one tenant from its first file on.
"""

import asyncio
from collections.abc import Sequence

from sluice_inspect.child.protocol import Level
from sluice_inspect.sandbox.supervisor import Supervisor, Worker, WorkerUnavailable


class WorkerPool:
    """At most `max_workers` workers of one supervisor; `spares` that belong to no tenant yet are kept ready.

    Idle workers are kept for their tenant until another tenant needs the place. A worker is recycled after
    `files_per_worker` files, and ended after `idle_seconds` without one.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        *,
        level: Level,
        max_workers: int,
        files_per_worker: int,
        idle_seconds: float,
        spares: int = 1,
    ) -> None:
        self.supervisor = supervisor
        self._level: Level = level
        self._max_workers = max_workers
        self._files_per_worker = files_per_worker
        self._idle_seconds = idle_seconds
        self._spares = spares
        self._workers: set[Worker] = set()
        self._spawning = 0
        self._idle: list[Worker] = []  # the longest idle first
        self._spawn_tasks: set[asyncio.Task[None]] = set()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._generation = 0

    @property
    def size(self) -> int:
        """The number of workers, including those being spawned."""
        return len(self._workers) + self._spawning

    async def acquire(self, tenant_id: str, *, fresh: bool = False) -> Worker:
        """Return a worker that serves `tenant_id` alone, until `release` or `discard`.

        With `fresh`, it has seen no file. Raise `WorkerUnavailable`.
        """
        worker = self._take_idle(None if fresh else tenant_id) or self._take_idle(None) or await self._spawn()
        worker.tenant_id = tenant_id
        self._keep_spare()
        return worker

    async def spawn_with_ocr(self, tenant_id: str, names: Sequence[str]) -> Worker:
        """Return a worker with the models of OCR for one file, until `discard`. Raise `WorkerUnavailable`."""
        worker = await self._spawn(names)
        worker.tenant_id = tenant_id
        return worker

    def release(self, worker: Worker) -> None:
        """Take back a worker that did its work, for its tenant's next file."""
        is_old = worker.served >= self._files_per_worker or worker.generation != self._generation
        if worker not in self._workers or not worker.channel.is_open or is_old:
            self.discard(worker)
            return
        loop = asyncio.get_running_loop()
        worker.idle_since = loop.time()
        self._idle.append(worker)
        if self._idle_timer is None:
            self._idle_timer = loop.call_later(self._idle_seconds, self._end_idle)

    def discard(self, worker: Worker) -> None:
        """End a worker."""
        self._workers.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        self.supervisor.kill(worker)

    def discard_used(self) -> None:
        """End every idle worker that belongs to a tenant."""
        for worker in [worker for worker in self._idle if worker.tenant_id is not None]:
            self.discard(worker)

    def renew(self) -> None:
        """End every worker that was forked before, once it is idle: the zygote has loaded other rules meanwhile."""
        self._generation += 1
        for worker in list(self._idle):
            self.discard(worker)

    def add(self, worker: Worker) -> None:
        """Add a worker that was spawned outside the pool and has seen no file."""
        worker.generation = self._generation
        self._workers.add(worker)
        self._idle.append(worker)

    def close(self) -> None:
        """End every worker; those that wait for one of them get `Exited`."""
        self._closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        for task in self._spawn_tasks:
            task.cancel()
        for worker in list(self._workers):
            self.discard(worker)

    def _take_idle(self, tenant_id: str | None) -> Worker | None:
        """Take the tenant's worker that was used last; end those that died meanwhile."""
        for worker in self._idle[::-1]:
            if not worker.channel.is_open:
                self.discard(worker)
            elif worker.tenant_id == tenant_id:
                self._idle.remove(worker)
                return worker
        return None

    async def _spawn(self, ocr: Sequence[str] = ()) -> Worker:
        """Return a new worker; end the longest idle one for it when the pool is full."""
        if self._closed:
            raise WorkerUnavailable("the sandbox is closing")
        if self.size >= self._max_workers and self._idle:
            self.discard(self._idle[0])
        self._spawning += 1
        try:
            while True:
                generation = self._generation
                worker = await self.supervisor.spawn(self._level, ocr=ocr)
                worker.generation = generation
                if generation == self._generation:
                    break
                self.supervisor.kill(worker)
        finally:
            self._spawning -= 1
        self._workers.add(worker)
        return worker

    def _keep_spare(self) -> None:
        """Spawn a spare worker in the background if there is none."""
        if self._spawn_tasks or self._closed:
            return
        spares = 0
        for worker in self._idle:
            spares += worker.tenant_id is None
        if spares < self._spares:
            task = asyncio.get_running_loop().create_task(self._spawn_spare())
            self._spawn_tasks.add(task)
            task.add_done_callback(self._spawn_tasks.discard)

    async def _spawn_spare(self) -> None:
        try:
            self._idle.append(await self._spawn())
        except WorkerUnavailable:
            return  # the next caller of `acquire` learns why

    def _end_idle(self) -> None:
        self._idle_timer = None
        loop = asyncio.get_running_loop()
        for worker in [worker for worker in self._idle if worker.tenant_id is not None]:
            if worker.idle_since + self._idle_seconds <= loop.time():
                self.discard(worker)
            elif self._idle_timer is None:
                self._idle_timer = loop.call_at(worker.idle_since + self._idle_seconds, self._end_idle)
