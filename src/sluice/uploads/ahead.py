"""Going ahead: a large object's bytes go to its store while the scanner still looks at them. Whether it appears there is decided in `commit`.

Nothing is there before its row is: the put ends only once it is allowed, and what is not allowed is aborted.
"""

import asyncio

from sluice.engines.storage import ObjectStore, PutsAhead
from sluice.kit.sealed import Sealed
from sluice.uploads.values import Spot


class Ahead:
    """The put of one object, which may have begun before its verdict."""

    def __init__(self, spot: Spot, sealed: Sealed, to: ObjectStore) -> None:
        self.spot = spot
        self.to = to
        self._sealed = sealed
        self._allowed: asyncio.Future[bool] | None = None
        self._putting: asyncio.Task[None] | None = None

    def begin(self, content_type: str) -> None:
        """Let the bytes go, where the store can take some back."""
        if self._putting is not None or not isinstance(self.to, PutsAhead) or not self.to.takes_ahead(self._sealed.size):
            return
        loop = asyncio.get_running_loop()
        self._allowed = loop.create_future()
        going = self.to.put_ahead(self.spot.object_key, self._sealed, content_type=content_type, allowed=self._allowed)
        self._putting = loop.create_task(going)

    async def finish(self, content_type: str) -> None:
        """Have the object be there. Raises `StoreFault`. What went wrong before anybody waited for it is tried again."""
        if self._putting is None or self._allowed is None or self._putting.done():
            await self.to.put(self.spot.object_key, self._sealed, content_type=content_type)
            return
        if not self._allowed.done():
            self._allowed.set_result(True)
        try:
            await asyncio.shield(self._putting)
        except asyncio.CancelledError:
            self._putting.cancel()
            await asyncio.wait([self._putting])
            raise

    async def call_off(self) -> None:
        """Leave nothing under way, whatever became of it. Once the object is there, a no-op."""
        if self._putting is None or self._allowed is None:
            return
        if not self._allowed.done():
            self._allowed.set_result(False)
        # Not to be waited for at length: what is still to be sent, or waits for memory, is left out.
        self._putting.cancel()
        await asyncio.wait([self._putting])
        if not self._putting.cancelled():
            self._putting.exception()  # whoever waited for it knows; a put that was called off has failed, as it should
