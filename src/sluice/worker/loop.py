"""The worker's loop: every sweep in turn, again at once while there is work, else after a pause. What a sweep does is in `sweeps`."""

import asyncio

from sluice.db.database import DatabaseAway
from sluice.observe.log import log
from sluice.worker.sweeps import SWEEPS, Background


async def run(work: Background, *, pause_seconds: float, stop: asyncio.Event) -> None:
    """Work until `stop` is set. A fault of one round is logged and the next is tried: the rows are still there."""
    while not stop.is_set():
        done = 0
        try:
            done = await one_round(work)
        except DatabaseAway as fault:
            log.warning("worker_waits", fault=str(fault))
        except Exception:  # noqa: BLE001  (one row that cannot be worked on must not end the worker)
            log.exception("worker_fault")
        if not done:
            await _pause(stop, pause_seconds)


async def one_round(work: Background) -> int:
    """Run each sweep once and answer how much was done."""
    return sum([await sweep(work) for sweep in SWEEPS])


async def _pause(stop: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
