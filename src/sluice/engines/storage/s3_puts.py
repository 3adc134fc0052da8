"""How bytes get into a bucket: in one request, in parts, or in parts that wait to be allowed. Everything else that is asked of it stands in `s3`."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final

from obstore.store import S3Store as Client

from sluice.engines.storage.protocol import StoreFault
from sluice.engines.storage.s3_faults import FOREIGN, answer_in, cause_of, fault_of
from sluice.engines.storage.s3_parts import Parts, PartsAhead, read_exactly
from sluice.engines.storage.settled import settled
from sluice.kit.budget import Budget
from sluice.kit.sealed import Sealed

_MIB: Final = 1024 * 1024
_INLINE_BYTES: Final = 256 * 1024  # read at once on the loop: 30 µs, less than a thread takes to begin
_WHOLE_BYTES: Final = 16 * _MIB
_IN_PARTS_BYTES: Final = 32 * _MIB  # one put with parts of 8 MiB, two with parts of 5


class Puts:
    """The puts of one bucket. `open_client` answers the client of its next request, `size` that of an object; both raise `StoreFault`."""

    def __init__(
        self,
        open_client: Callable[[], Awaitable[Client]],
        size: Callable[[str], Awaitable[int | None]],
        *,
        part_bytes: int,
        part_concurrency: int,
    ) -> None:
        self._open = open_client
        self._size = size
        self._part_bytes = part_bytes
        self._part_concurrency = part_concurrency
        self._held_bytes = (1 + part_concurrency) * part_bytes
        # Apart, so that what fits into one request never waits for what takes minutes.
        self._whole, self._in_parts = Budget(_WHOLE_BYTES), Budget(_IN_PARTS_BYTES)

    def takes_ahead(self, size: int) -> bool:
        """Say whether it would go in parts, and those could be held in memory now."""
        return size > self._part_bytes and self._in_parts.has(self._held_bytes)

    async def put(self, key: str, sealed: Sealed, content_type: str, allowed: "asyncio.Future[bool] | None" = None) -> None:
        """Store the bytes under `key`; with `allowed`, in parts, of which an object is made only then. Raises `StoreFault`."""
        mark = os.urandom(8).hex()  # no secret: it tells this put's object from another under the same key
        attributes = {"Content-Type": content_type, "sha256": sealed.sha256.hex(), "sluice-put": mark}
        try:
            if allowed is None and sealed.size <= _INLINE_BYTES:
                await self._send_again(key, read_exactly(sealed.fd, sealed.size, 0), attributes)
            else:
                await self._put_large(key, sealed, attributes, allowed)
        except FOREIGN as error:
            if answer_in(error).is_open:
                with contextlib.suppress(StoreFault):  # the put's own fault says more than that of looking it up
                    if await self._has_arrived(key, sealed.size, mark):
                        return
            raise fault_of(error, "write objects") from cause_of(error)

    async def _put_large(
        self, key: str, sealed: Sealed, attributes: dict[str, str], allowed: "asyncio.Future[bool] | None"
    ) -> None:
        source = _reopened(sealed)
        try:
            if allowed is None and sealed.size <= self._part_bytes:
                await self._put_at_once(key, source, sealed.size, attributes)
            else:
                await self._put_in_parts(key, Parts(source, sealed.size, self._part_bytes), attributes, allowed)
        finally:
            os.close(source)

    async def _put_at_once(self, key: str, source: int, size: int, attributes: dict[str, str]) -> None:
        """Send one request, and once more when the connection broke: that can make no second object, and the mark is the same.

        The library itself repeats only what never reached the store.
        """
        async with self._whole.hold(size):
            body = await settled(asyncio.to_thread(read_exactly, source, size, 0))
            await self._send_again(key, body, attributes)

    async def _send_again(self, key: str, body: bytes, attributes: dict[str, str]) -> None:
        try:
            await self._send(key, body, attributes)
        except FOREIGN as error:
            if not answer_in(error).broken:
                raise
            await self._send(key, body, attributes)

    async def _send(self, key: str, body: bytes, attributes: dict[str, str]) -> None:
        client = await self._open()
        await settled(client.put_async(key, body, attributes=attributes, mode="create", use_multipart=False))

    async def _put_in_parts(
        self, key: str, parts: Parts, attributes: dict[str, str], allowed: "asyncio.Future[bool] | None"
    ) -> None:
        """Send the parts. S3 has no create-only for these here, so the key is looked at first; keys are never reused."""
        client = await self._open()
        if await self._size(key) is not None:
            raise StoreFault("There is an object under this key already.")
        async with AsyncExitStack() as held:
            await held.enter_async_context(self._in_parts.hold(self._held_bytes))
            # Who waits to be allowed has sent all but the last parts: meanwhile others may hold theirs.
            given = parts if allowed is None else PartsAhead(parts, allowed, held.aclose)
            await self._send_parts(client, key, given, attributes)
        if not await self._has_arrived(key, parts.size, attributes["sluice-put"]):
            raise StoreFault("The store holds another object than was sent.")

    async def _send_parts(self, client: Client, key: str, parts: Parts | PartsAhead, attributes: dict[str, str]) -> None:
        sending = client.put_async(
            key,
            parts,
            attributes=attributes,
            use_multipart=True,
            chunk_size=self._part_bytes,
            max_concurrency=self._part_concurrency,
        )
        await settled(sending, on_cancel=parts.stop)

    async def _has_arrived(self, key: str, size: int, mark: str) -> bool:
        """Say whether the object under `key` is the one that this put has sent."""
        client = await self._open()
        try:
            found = await client.get_async(key, options={"head": True})
        except FileNotFoundError:
            return False
        except FOREIGN as error:
            raise fault_of(error, "read objects") from cause_of(error)
        return found.meta["size"] == size and found.attributes.get("sluice-put") == mark


def _reopened(sealed: Sealed) -> int:
    try:
        return sealed.reopen()
    except OSError as error:
        raise StoreFault(f"The received bytes cannot be read: {os.strerror(error.errno or 0)}.") from error
