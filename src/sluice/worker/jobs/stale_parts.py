"""Aborting what crashed uploads left unfinished in buckets, the platform's and tenants', about once an hour. How one is found is the store's."""

import asyncio
import random
from datetime import timedelta
from typing import Final

from sluice.buckets import Bucket
from sluice.buckets.service import Buckets
from sluice.buckets.stores import Stores
from sluice.db.database import DatabaseAway
from sluice.engines.storage import AbortsStaleParts, StoreFault
from sluice.kit.ids import FILE_ID
from sluice.observe.log import log
from sluice.worker.stopping import until

_ROUND: Final = timedelta(hours=1)
_ROUNDS_PER_AGE: Final = 4


class StalePartsSweep:
    """Looks into one bucket after the other. A dead one costs its own timeout and is looked at again in the next round.

    Only uploads under keys with the id of a file are aborted: a tenant's bucket may hold others. Several workers do no harm.
    """

    def __init__(self, buckets: Buckets, stores: Stores, *, older_than: timedelta) -> None:
        """`older_than` must be longer than any upload takes."""
        self._buckets = buckets
        self._stores = stores
        self._older_than = older_than
        self._pause = min(_ROUND, older_than / _ROUNDS_PER_AGE).total_seconds()

    async def run(self, stop: asyncio.Event) -> None:
        """Work until `stop` is set; many processes that start at once do not look at once."""
        await until(stop, self._keep_on())

    async def one_round(self) -> int:
        """Look into every bucket once; answer how many uploads were aborted. Raises `DatabaseAway`."""
        aborted = await self._of(None)
        async for bucket in self._buckets.of_everybody():
            aborted += await self._of(bucket)
        return aborted

    async def _keep_on(self) -> None:
        while True:
            await asyncio.sleep(self._pause * random.uniform(0.5, 1))  # noqa: S311  (spreads load, keeps no secret)
            try:
                await self.one_round()
            except DatabaseAway as fault:
                log.warning("stale_parts_wait", fault=str(fault))
            except Exception:  # noqa: BLE001  (a defect met in one round must not end the sweep)
                log.exception("stale_parts_fault")

    async def _of(self, bucket: Bucket | None) -> int:
        name = "platform" if bucket is None else bucket.config_id
        folder = "" if bucket is None else bucket.key_for("")
        try:
            store = self._stores.of(bucket)
            if not isinstance(store, AbortsStaleParts):
                return 0
            aborted = await store.abort_stale_parts(folder, self._older_than, lambda key: FILE_ID.search(key) is not None)
        except StoreFault as fault:
            log.warning("stale_parts_put_off", storage_config_id=name, fault=str(fault))
            return 0
        if aborted:
            log.info("stale_parts_aborted", storage_config_id=name, uploads=aborted)
        return aborted
