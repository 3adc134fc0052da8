"""How much waits for the worker, and how long: a look at the rows that are due. Acting on them is in `sweeps`."""

from dataclasses import dataclass
from typing import Final, get_args

from sluice.db.whose import EVERYBODY
from sluice.uploads import repository
from sluice.uploads.repository import WorkQueue
from sluice.worker.sweeps import Background

QUEUES: Final[tuple[WorkQueue, ...]] = get_args(WorkQueue)
_MOST: Final = 10_000
"""Counting further would cost more than it tells."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Rows of one queue that are due, counted to 10,000, and for how many seconds the oldest has been."""

    rows: int
    oldest_seconds: float


async def waiting(work: Background, queue: WorkQueue) -> Waiting:
    """Answer what waits in `queue`."""
    async with work.database.reading(EVERYBODY) as connection:
        since = await repository.longest_waiting(connection, queue, _MOST)
    return Waiting(len(since), since[0].total_seconds() if since else 0.0)
