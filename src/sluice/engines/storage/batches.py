"""Small objects stored together: whatever waits when one batch is written is the next. How files become durable is in `disk`."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from sluice.engines.storage.disk import Fault, Piece
from sluice.engines.storage.protocol import StoreFault
from sluice.engines.storage.settled import settled

_MOST: Final = 64
"""So many at once keep the first of them from waiting long for the last."""

StoreAll = Callable[[Sequence[Piece]], Sequence[Fault | None]]


class Batches:
    """A few threads that store pieces, for one event loop at a time.

    A thread for each piece would spend more on the interpreter's lock, which every call into the kernel gives away and takes back, than
    on the piece; and each would flush its folder for itself. One alone would have the disk wait for it (docs/performance.md).
    """

    def __init__(self, store_all: StoreAll, *, threads: int = 3) -> None:
        self._store_all = store_all
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="local-store-batches")
        self._free = threads
        self._waiting: list[tuple[Piece, asyncio.Future[None]]] = []

    async def put(self, piece: Piece) -> None:
        """Store a piece; raises what stood against it, `StoreFault` after `close`. Cancelled, it still waits for the end first."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((piece, done))
        if self._free:
            self._begin()
        await settled(done)

    def close(self) -> None:
        """Let the threads go, after the work they have. A second call is a no-op."""
        self._threads.shutdown()

    def _begin(self) -> None:
        batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
        try:
            work = asyncio.get_running_loop().run_in_executor(self._threads, self._store_all, [piece for piece, _ in batch])
        except RuntimeError:  # what a pool says that was shut down
            for _, done in batch:
                done.set_exception(StoreFault("The object store is closed."))
            return
        self._free -= 1
        work.add_done_callback(lambda work: self._end(work, [done for _, done in batch]))

    def _end(self, work: "asyncio.Future[Sequence[Fault | None]]", batch: Sequence["asyncio.Future[None]"]) -> None:
        self._free += 1
        if self._waiting:
            self._begin()
        unforeseen = work.exception()
        faults = [unforeseen] * len(batch) if unforeseen is not None else work.result()
        for done, fault in zip(batch, faults, strict=True):
            if fault is None:
                done.set_result(None)
            else:
                done.set_exception(fault)
