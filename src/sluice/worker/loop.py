"""The worker's loop: every sweep in turn, again at once while there is work, else after a pause. What a sweep does is in `sweeps`."""

import asyncio
import time

from sluice.db.database import DatabaseAway
from sluice.observe.log import log
from sluice.observe.metrics import WORKER_DONE, WORKER_DUE, WORKER_OLDEST, WORKER_ROUND_AT, WORKER_ROUNDS
from sluice.worker.backlog import QUEUES, waiting
from sluice.worker.sweeps import SWEEPS, Background

_LOOK_SECONDS = 15.0
"""How often the worker looks how much waits for it."""


async def run(work: Background, *, pause_seconds: float, stop: asyncio.Event) -> None:
    """Work until `stop` is set. A fault of one round is logged and the next is tried: the rows are still there."""
    look_at = 0.0
    while not stop.is_set():
        done, outcome = 0, "done"
        try:
            if time.monotonic() >= look_at:
                await _tell_backlog(work)
                look_at = time.monotonic() + _LOOK_SECONDS
            done = await one_round(work)
            WORKER_ROUND_AT.set_to_current_time()
        except DatabaseAway as fault:
            outcome = "database_away"
            log.warning("worker_waits", fault=str(fault))
        except Exception:  # noqa: BLE001  (one row that cannot be worked on must not end the worker)
            outcome = "fault"
            log.exception("worker_fault")
        WORKER_ROUNDS.labels(outcome).inc()
        if not done:
            await _pause(stop, pause_seconds)


async def one_round(work: Background) -> int:
    """Run each sweep once and answer how much was done."""
    total = 0
    for sweep in SWEEPS:
        done = await sweep(work)
        WORKER_DONE.labels(sweep.__name__).inc(done)
        total += done
    return total


async def _tell_backlog(work: Background) -> None:
    for queue in QUEUES:
        found = await waiting(work, queue)
        WORKER_DUE.labels(queue).set(found.rows)
        WORKER_OLDEST.labels(queue).set(found.oldest_seconds)


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
