"""Stale parts: aborting the multipart uploads that crashes left unfinished in all buckets, about once an hour."""

import asyncio
import random
from datetime import timedelta
from typing import Final

from sluice.buckets import Bucket
from sluice.buckets.service import Buckets
from sluice.buckets.stores import Stores
from sluice.kit.ids import FILE_ID
from sluice.observe.log import log
from sluice.storage import AbortsStaleParts, StoreError
from sluice.worker.job import error_boundary, repeat, run_until

_ROUND: Final = timedelta(hours=1)
_ROUNDS_PER_AGE: Final = 4


class StalePartsSweep:
    """Visits one bucket after the other. One that fails is visited again in the next round.

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
