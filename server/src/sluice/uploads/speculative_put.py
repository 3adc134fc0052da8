"""A put that may start before the verdict: the bytes travel while the file is scanned, and the object appears only
after `finish`.
"""

import asyncio
from datetime import datetime
from typing import Final

from sluice.buckets.stores import Stores
from sluice.contexts.templates import render
from sluice.errors import ServiceUnavailable
from sluice.kit.ids import new_id
from sluice.storage import ObjectStore, StoreError, SupportsSpeculativePut
from sluice.uploads.values import ContextSnapshot, ObjectLocation, ReceivedFile
from sluice_inspect.sandbox.sealed import Sealed

_LEAST_BYTES: Final = 1024 * 1024  # a smaller object is sent at once, which takes less than its scan


def prepare_put(file: ReceivedFile, snapshot: ContextSnapshot, stores: Stores, at: datetime) -> "SpeculativePut":
    """Return the put of the file under a key that is never used again. Nothing is sent yet.

    Raise `ServiceUnavailable` if the bucket cannot be used.
    """
    file_id, bucket = new_id("file"), snapshot.bucket
    key = render(
        snapshot.context.storage_path_template,
        tenant_id=snapshot.context.tenant_id,
        context_key=snapshot.context.context_key,
        file_id=file_id,
        extension=file.name.extension,
        sha256=file.sealed.sha256.hex(),
        at=at,
    )
    location = ObjectLocation(file_id, key if bucket is None else bucket.key_for(key))
    try:
        return SpeculativePut(location, file.sealed, stores.of(bucket))
    except StoreError as fault:
        raise ServiceUnavailable(fault.part) from fault


class SpeculativePut:
    """The put of one object. `cancel` in any case: it aborts what was started and not finished."""

    def __init__(self, location: ObjectLocation, sealed: Sealed, store: ObjectStore) -> None:
        self.location = location
        self.store = store
        self._sealed = sealed
        self._allowed: asyncio.Future[bool] | None = None
        self._putting: asyncio.Task[None] | None = None

    def start(self, content_type: str) -> None:
        """Start to send the bytes, if the store can abort such a put."""
        if self._sealed.size < _LEAST_BYTES or not isinstance(self.store, SupportsSpeculativePut):
            return
        if not self.store.can_put_speculatively(self._sealed.size):
            return
        loop = asyncio.get_running_loop()
        self._allowed = loop.create_future()
        key = self.location.object_key
        self._putting = loop.create_task(
            self.store.put_speculatively(key, self._sealed, content_type=content_type, allowed=self._allowed)
        )

    async def finish(self, content_type: str) -> None:
        """Store the object; raise `StoreError`. A put that was started and has failed is tried once more."""
        if self._putting is None or self._allowed is None or self._putting.done():
            await self.store.put(self.location.object_key, self._sealed, content_type=content_type)
            return
        self._allowed.set_result(True)
        try:
            await asyncio.shield(self._putting)
        except asyncio.CancelledError:
            self._putting.cancel()
            await asyncio.wait([self._putting])
            raise

    async def cancel(self) -> None:
        """Abort what is under way. A no-op once the object is stored."""
        if self._putting is None or self._allowed is None:
            return
        if not self._allowed.done():
            self._allowed.set_result(False)
        # Cancelled, and not only refused: what is still to be sent, or waits for memory, would take long.
        self._putting.cancel()
        await asyncio.wait([self._putting])
        if not self._putting.cancelled():
            self._putting.exception()  # retrieved, since `finish` has reported it or an aborted put is expected to fail
