"""Housekeeping that no row asks for: what crashes left unfinished in all stores, event numbers, counts, usage."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Final

from sluice.buckets import Bucket
from sluice.buckets.service import Buckets
from sluice.buckets.stores import Stores
from sluice.db import counts
from sluice.db.rls import ALL_TENANTS
from sluice.events.service import number_all
from sluice.kit.ids import FILE_ID
from sluice.observe.log import log
from sluice.storage import AbortsStaleParts, StoreError, SweepsLeftovers
from sluice.usage import repository as usage_rows
from sluice.worker.job import JobContext, error_boundary, repeat, run_until

_DELTAS: Final = 2000
_LEFTOVER_SECONDS: Final = 24 * 3600.0  # longer than any upload may take
# Between two visits of all buckets to abort stale parts.
_ROUND: Final = timedelta(hours=1)
_ROUNDS_PER_AGE: Final = 4


async def sweep_leftovers(context: JobContext) -> int:
    """Delete what crashed uploads left unfinished in the platform's store.

    Return 0: it never makes the next round start sooner.
    """
    if isinstance(context.stores.platform, SweepsLeftovers):
        try:
            await context.stores.platform.sweep(older_than_seconds=_LEFTOVER_SECONDS)
        except StoreError as fault:
            log.warning("leftovers_put_off", fault=str(fault))
    return 0


async def number_events(context: JobContext) -> int:
    """Assign numbers to events to which no reader of the feed did.

    Return 0: it never makes the next round start sooner.
    """
    await number_all(context.database)
    return 0


async def fold_usage(context: JobContext) -> int:
    """Add what was uploaded, rejected and downloaded to the sums of its day; return as `fold_counts` does."""
    return await _fold(context, "fold_usage", usage_rows.fold)


async def fold_counts(context: JobContext) -> int:
    """Add what came onto lists and left them to the counts of lists.

    Return 0 for a few: only many make the next round start sooner.
    """
    return await _fold(context, "fold_counts", counts.fold)


async def _fold(context: JobContext, kind: str, fold: Callable[..., Awaitable[int]]) -> int:
    portion, total = context.database.portion(kind, _DELTAS), 0
    while total < _DELTAS:
        most = portion.rows
        folded, seconds = await context.database.work(ALL_TENANTS, partial(fold, limit=most))
        portion.took(folded, seconds)
        total += folded
        if folded < most:
            return 0
    return total


class StalePartsSweep:
    """Aborts the multipart uploads that crashes left unfinished, one bucket after the other.

    One that fails is visited again in the next round.
    Only uploads whose key holds the id of a file are aborted: a tenant's bucket may hold others. Several workers do no
    harm.
    """

    def __init__(self, buckets: Buckets, stores: Stores, *, older_than: timedelta) -> None:
        """`older_than` must be longer than any upload takes."""
        self._buckets = buckets
        self._stores = stores
        self._older_than = older_than
        self._pause = min(_ROUND, older_than / _ROUNDS_PER_AGE).total_seconds()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set. The first round starts after a random pause: many processes may start at once."""
        await run_until(stop, self._run_rounds(stop))

    async def one_round(self) -> int:
        """Visit every bucket once; return how many uploads were aborted. Raise `DatabaseUnavailable`."""
        aborted = await self._sweep(None)
        async for bucket in self._buckets.of_all_tenants():
            aborted += await self._sweep(bucket)
        return aborted

    async def _run_rounds(self, stop: asyncio.Event) -> None:
        def pause() -> float:
            return self._pause * random.uniform(0.5, 1)  # noqa: S311  (spreads load, guards no secret)

        async def once() -> int:
            await self.one_round()
            return 0  # however much was found, the next round may wait

        await asyncio.sleep(pause())
        await repeat("stale_parts", once, stop=stop, pause_seconds=pause)

    async def _sweep(self, bucket: Bucket | None) -> int:
        name = "platform" if bucket is None else bucket.config_id
        folder = "" if bucket is None else bucket.key_for("")
        aborted = 0
        with error_boundary("stale_parts", storage_config_id=name):
            try:
                store = self._stores.of(bucket)
                if isinstance(store, AbortsStaleParts):
                    aborted = await store.abort_stale_parts(
                        folder, self._older_than, lambda key: FILE_ID.search(key) is not None
                    )
            except StoreError as fault:
                log.warning("stale_parts_put_off", storage_config_id=name, fault=str(fault))
        if aborted:
            log.info("stale_parts_aborted", storage_config_id=name, uploads=aborted)
        return aborted
