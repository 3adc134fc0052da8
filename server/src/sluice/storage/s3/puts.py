"""Puts into a bucket: in one request, in parts (multipart upload), or in parts that are completed when allowed."""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final

from obstore.store import S3Store as Client

from sluice.kit.completion import run_to_completion
from sluice.storage.parts import PartReader, SpeculativePartReader, read_exactly
from sluice.storage.protocol import StoreError
from sluice.storage.s3.errors import FOREIGN, parse_failure, safe_cause, to_store_error
from sluice.storage.s3.small_puts import PutOutcome, SmallPuts
from sluice_inspect.sandbox.fair_queue import ByteBudget
from sluice_inspect.sandbox.sealed import Sealed

_MIB: Final = 1024 * 1024
_INLINE_BYTES: Final = 256 * 1024  # read on the event loop: 30 µs, less than a thread takes to start
_SMALL_BYTES: Final = _MIB  # sent by the event loop, which must not be held up by encryption
_SINGLE_BYTES: Final = 16 * _MIB
_IN_PARTS_BYTES: Final = 32 * _MIB  # one put with parts of 8 MiB, two with parts of 5


class S3Writer:
    """The puts of one bucket.

    `open_client` returns the client for a request, `size` the size of an object; both raise `StoreError`. `small` sends
    small objects, or the client does if it is None.
    """

    def __init__(
        self,
        open_client: Callable[[], Awaitable[Client]],
        size: Callable[[str], Awaitable[int | None]],
        small: SmallPuts | None,
        *,
        part_bytes: int,
        part_concurrency: int,
    ) -> None:
        self._open = open_client
        self._size = size
        self._small = small
        self._part_bytes = part_bytes
        self._part_concurrency = part_concurrency
        self._bytes_per_put = (1 + part_concurrency) * part_bytes
        # Two budgets, so that a put of one request never waits for multipart uploads that take minutes.
        self._single, self._in_parts = ByteBudget(_SINGLE_BYTES), ByteBudget(_IN_PARTS_BYTES)

    def can_put_speculatively(self, size: int) -> bool:
        """Return whether the object would be sent in parts and there is memory for them now."""
        return size > self._part_bytes and self._in_parts.has(self._bytes_per_put)

    async def put(
        self, key: str, sealed: Sealed, content_type: str, allowed: "asyncio.Future[bool] | None" = None
    ) -> None:
        """Store the bytes under `key`; with `allowed`, complete the upload only once it is True. Raise `StoreError`."""
        mark = os.urandom(8).hex()  # tells this put's object from another one under the same key
        attributes = {"Content-Type": content_type, "sha256": sealed.sha256.hex(), "sluice-put": mark}
        try:
            if allowed is None and sealed.size <= _INLINE_BYTES:
                await self._put_at_once(key, read_exactly(sealed.fd, sealed.size, 0), attributes)
            else:
                await self._put_large(key, sealed, attributes, allowed)
        except FOREIGN as error:
            if parse_failure(error).may_have_succeeded:
                with contextlib.suppress(StoreError):  # the error of the put says more than that of the look-up
                    if await self._has_arrived(key, sealed.size, mark):
                        return
            raise to_store_error(error, "write objects") from safe_cause(error)

    async def _put_at_once(self, key: str, body: bytes, attributes: dict[str, str]) -> None:
        if self._small is None or len(body) > _SMALL_BYTES:
            await self._send_with_retry(key, body, attributes)
            return
        await self._open()
        outcome = await run_to_completion(self._small.put(key, body, attributes))
        if outcome is PutOutcome.BROKE:
            await self._send(key, body, attributes)
        elif outcome is not PutOutcome.STORED:
            await self._send_with_retry(key, body, attributes)

    async def _put_large(
        self, key: str, sealed: Sealed, attributes: dict[str, str], allowed: "asyncio.Future[bool] | None"
    ) -> None:
        try:
            fd = sealed.reopen()
        except OSError as error:
            raise StoreError(f"The received bytes cannot be read: {os.strerror(error.errno or 0)}.") from error
        try:
            if allowed is None and sealed.size <= self._part_bytes:
                async with self._single.hold(sealed.size):
                    body = await run_to_completion(asyncio.to_thread(read_exactly, fd, sealed.size, 0))
                    await self._put_at_once(key, body, attributes)
            else:
                await self._put_in_parts(key, PartReader(fd, sealed.size, self._part_bytes), attributes, allowed)
        finally:
            os.close(fd)

    async def _send_with_retry(self, key: str, body: bytes, attributes: dict[str, str]) -> None:
        """Send one request, and a second one if the connection broke, which the library does not repeat.

        Both carry the same mark and create the object only if there is none, so there is never a second object.
        """
        try:
            await self._send(key, body, attributes)
        except FOREIGN as error:
            if not parse_failure(error).connection_broke:
                raise
            await self._send(key, body, attributes)

    async def _send(self, key: str, body: bytes, attributes: dict[str, str]) -> None:
        client = await self._open()
        await run_to_completion(client.put_async(key, body, attributes=attributes, mode="create", use_multipart=False))

    async def _put_in_parts(
        self, key: str, parts: PartReader, attributes: dict[str, str], allowed: "asyncio.Future[bool] | None"
    ) -> None:
        client = await self._open()
        # The library cannot complete a multipart upload with `If-None-Match`. Keys are never reused, so a look-up is
        # enough.
        if await self._size(key) is not None:
            raise StoreError("There is an object under this key already.")
        async with AsyncExitStack() as held:
            await held.enter_async_context(self._in_parts.hold(self._bytes_per_put))
            # A put that waits to be allowed has sent all but its last parts: its memory is free for others meanwhile.
            source = parts if allowed is None else SpeculativePartReader(parts, allowed, held.aclose)
            sending = client.put_async(
                key,
                source,
                attributes=attributes,
                use_multipart=True,
                chunk_size=self._part_bytes,
                max_concurrency=self._part_concurrency,
            )
            await run_to_completion(sending, on_cancel=source.stop)
        if not await self._has_arrived(key, parts.size, attributes["sluice-put"]):
            raise StoreError("The store holds another object than was sent.")

    async def _has_arrived(self, key: str, size: int, mark: str) -> bool:
        """Return whether the object under `key` is the one that this put sent."""
        client = await self._open()
        try:
            found = await client.get_async(key, options={"head": True})
        except FileNotFoundError:
            return False
        except FOREIGN as error:
            raise to_store_error(error, "read objects") from safe_cause(error)
        return found.meta["size"] == size and found.attributes.get("sluice-put") == mark
