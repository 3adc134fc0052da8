"""Puts into a container: in one request, or in blocks whose list is committed at the end, or when that is allowed."""

import asyncio
import base64
import contextlib
import hashlib
import os
import re
import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from sluice.kit.completion import run_to_completion
from sluice.kit.failpoints import failpoint
from sluice.storage.azure.client import AzureClient
from sluice.storage.azure.errors import code_of
from sluice.storage.parts import read_exactly
from sluice.storage.protocol import StoreError
from sluice.storage.transport import NoResponse, Response
from sluice_inspect.sandbox.fair_queue import ByteBudget
from sluice_inspect.sandbox.sealed import Sealed

MARK: Final = "sluice_put"  # names of metadata are identifiers of C#
_MIB: Final = 1024 * 1024
_INLINE_BYTES: Final = 256 * 1024  # read on the event loop: 30 µs, less than a thread takes to start
_SINGLE_BYTES: Final = 16 * _MIB
_IN_BLOCKS_BYTES: Final = 32 * _MIB
_CONCURRENCY: Final = 2
_BLOCK_ID: Final = re.compile(r"sluice-[0-9a-f]{16}-([0-9]{11})-[0-9]{6}", re.ASCII)
_ONLY_NEW: Final = {"if-none-match": "*"}
_CREATED: Final = HTTPStatus.CREATED


class AzureWriter:
    """The puts of one container."""

    def __init__(self, client: AzureClient, *, part_bytes: int) -> None:
        self._client = client
        self._part_bytes = part_bytes
        self._bytes_per_put = _CONCURRENCY * part_bytes
        # Two budgets, so that a put of one request never waits for puts in blocks that take minutes.
        self._single, self._in_blocks = ByteBudget(_SINGLE_BYTES), ByteBudget(_IN_BLOCKS_BYTES)

    def can_put_speculatively(self, size: int) -> bool:
        """Return whether the object would be sent in blocks and there is memory for them now."""
        return size > self._part_bytes and self._in_blocks.has(self._bytes_per_put)

    async def put(
        self, key: str, sealed: Sealed, content_type: str, allowed: "asyncio.Future[bool] | None" = None
    ) -> None:
        """Store the bytes under `key`; with `allowed`, create the object only once it is True. Raise `StoreError`."""
        mark = os.urandom(8).hex()  # tells this put's object from another one under the same key
        headers = {"x-ms-blob-content-type": content_type, **_metadata(sealed, mark)}
        if allowed is None and sealed.size <= _INLINE_BYTES:
            body = read_exactly(sealed.fd, sealed.size, 0)
            await run_to_completion(self._put_at_once(key, body, headers, _digest(body)))
            return
        try:
            fd = sealed.reopen()
        except OSError as error:
            raise StoreError(f"The received bytes cannot be read: {os.strerror(error.errno or 0)}.") from error
        try:
            if allowed is None and sealed.size <= self._part_bytes:
                async with self._single.hold(sealed.size):
                    body, digest = await run_to_completion(asyncio.to_thread(_read, fd, sealed.size, 0))
                    await run_to_completion(self._put_at_once(key, body, headers, digest))
            else:
                blocks = _Blocks(self._client, key, fd, sealed.size, part_bytes=self._part_bytes, mark=mark)
                stopped = asyncio.get_running_loop().create_future() if allowed is None else allowed

                def stop() -> None:
                    blocks.is_stopped = True
                    if not stopped.done():
                        stopped.set_result(False)

                await run_to_completion(self._put_in_blocks(blocks, headers, allowed), on_cancel=stop)
        finally:
            os.close(fd)

    async def _put_at_once(self, key: str, body: bytes, headers: Mapping[str, str], digest: str) -> None:
        sent = {**headers, **_ONLY_NEW, "x-ms-blob-type": "BlockBlob", "content-md5": digest}
        await self._create(key, {}, sent, body, len(body))

    async def _put_in_blocks(
        self, blocks: "_Blocks", headers: Mapping[str, str], allowed: "asyncio.Future[bool] | None"
    ) -> None:
        # Blocks would also be staged beside an object that is there.
        found = await self._client.head(blocks.key)
        if found.status == HTTPStatus.OK:
            raise StoreError("There is an object under this key already.")
        if found.status != HTTPStatus.NOT_FOUND or code_of(found) not in {"BlobNotFound", ""}:
            raise self._client.error(found, "read objects")
        try:
            async with self._in_blocks.hold(self._bytes_per_put):
                await blocks.stage()
            await blocks.require_wanted(allowed)
            listed = _block_list(blocks.names)
            await self._create(blocks.key, {"comp": "blocklist"}, {**headers, **_ONLY_NEW}, listed, blocks.size)
        except StoreError:
            # A cancellation ends here too: it stops the blocks. Whatever the error was, no object refers to the blocks.
            with contextlib.suppress(StoreError):  # they are discarded later: see `discard_stale`
                await discard_blocks(self._client, blocks.key)
            raise

    async def _create(
        self, key: str, query: Mapping[str, str], headers: Mapping[str, str], body: bytes, size: int
    ) -> None:
        """Create the object with one request; a response that was lost, or one to a second try, is looked up."""
        mark = headers[f"x-ms-meta-{MARK}"]
        try:
            response = await self._client.object("PUT", key, query, headers=headers, body=body)
        except NoResponse as error:
            if error.may_have_arrived:
                with contextlib.suppress(StoreError):  # the error of the put says more than that of the look-up
                    if await self._has_arrived(key, size, mark):
                        return
            raise
        if response.status == _CREATED:
            return
        # A second try of the list of blocks finds none of them uncommitted.
        is_second = code_of(response) in {"BlobAlreadyExists", "InvalidBlockList"}
        if is_second or response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            with contextlib.suppress(StoreError):
                if await self._has_arrived(key, size, mark):
                    return
        raise self._client.error(response, "write objects")

    async def _has_arrived(self, key: str, size: int, mark: str) -> bool:
        """Return whether the object under `key` is the one that this put sent."""
        found = await self._client.head(key)
        return (
            found.status == HTTPStatus.OK
            and found.headers.get("content-length") == str(size)
            and found.headers.get(f"x-ms-meta-{MARK}") == mark
        )


class _Blocks:
    """The blocks of one put. Their names have its mark and when it began, so that others can tell how old they are."""

    def __init__(self, client: AzureClient, key: str, fd: int, size: int, *, part_bytes: int, mark: str) -> None:
        self.key = key
        self.size = size
        self.is_stopped = False
        self._client = client
        self._fd = fd
        self._part_bytes = part_bytes
        begun = int(time.time())
        count = -(-size // part_bytes)
        self.names = [_encoded(f"sluice-{mark}-{begun:011d}-{number:06d}") for number in range(count)]

    async def stage(self) -> None:
        """Send all blocks, some at a time. Raise `StoreError`."""
        numbers = iter(range(len(self.names)))

        async def some() -> None:
            for number in numbers:
                await self._stage(number)

        senders = [asyncio.create_task(some()) for _ in range(_CONCURRENCY)]
        try:
            await asyncio.gather(*senders)
        finally:
            self.is_stopped = self.is_stopped or any(sender.done() and sender.exception() for sender in senders)
            await asyncio.gather(*senders, return_exceptions=True)

    async def require_wanted(self, allowed: "asyncio.Future[bool] | None" = None) -> None:
        """Raise `StoreError` if the put was cancelled, or if it is not allowed."""
        if allowed is not None and not await allowed:
            raise StoreError("The upload was not allowed.")
        if self.is_stopped:
            raise StoreError("The upload was cancelled.")

    async def _stage(self, number: int) -> None:
        await self.require_wanted()
        if number:
            failpoint("parts.read")
        start = number * self._part_bytes
        length = min(self._part_bytes, self.size - start)
        body, digest = await asyncio.to_thread(_read, self._fd, length, start)
        query = {"comp": "block", "blockid": self.names[number]}
        response = await self._client.object("PUT", self.key, query, headers={"content-md5": digest}, body=body)
        if response.status != _CREATED:
            raise self._client.error(response, "write objects")


async def discard_blocks(client: AzureClient, key: str) -> bool:
    """Discard the uncommitted blocks under a key without an object; return whether they are gone. Raise `StoreError`.

    There is no request for it, but an object that is made of some blocks discards the others: here an empty one, of
    none, which is deleted at once. An object that is there is left as it is.
    """
    headers = {**_ONLY_NEW, f"x-ms-meta-{MARK}": "discarded"}
    created = await client.object("PUT", key, {"comp": "blocklist"}, headers=headers, body=_block_list([]))
    if created.status != _CREATED:
        return False
    deleted = await client.object("DELETE", key, headers={"if-match": created.headers.get("etag", "*")})
    if deleted.status not in {HTTPStatus.ACCEPTED, HTTPStatus.NOT_FOUND}:
        raise client.error(deleted, "delete objects")
    return True


def are_stale(listed: Response, older_than_seconds: float) -> bool:
    """Return whether a list of blocks has only uncommitted ones, all sent by this service longer ago than that."""
    text = listed.body.decode("utf-8", "replace")
    committed, _, uncommitted = text.partition("<UncommittedBlocks")
    names = _names(uncommitted)
    begun = [_BLOCK_ID.fullmatch(_decoded(name)) for name in names]
    now = time.time()
    return (
        bool(names)
        and not _names(committed)
        and all(found is not None and now - int(found[1]) >= older_than_seconds for found in begun)
    )


def _block_list(names: Sequence[str]) -> bytes:
    listed = "".join(f"<Uncommitted>{name}</Uncommitted>" for name in names)
    return f'<?xml version="1.0" encoding="utf-8"?><BlockList>{listed}</BlockList>'.encode()


def _names(text: str) -> Sequence[str]:
    return re.findall(r"<Name>([^<]*)</Name>", text)


def _metadata(sealed: Sealed, mark: str) -> Mapping[str, str]:
    return {"x-ms-meta-sha256": sealed.sha256.hex(), f"x-ms-meta-{MARK}": mark}


def _read(fd: int, count: int, offset: int) -> tuple[bytes, str]:
    body = read_exactly(fd, count, offset)
    return body, _digest(body)


def _digest(body: bytes) -> str:
    """Return the digest that the store compares with what it receives."""
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


def _encoded(name: str) -> str:
    return base64.b64encode(name.encode()).decode()


def _decoded(name: str) -> str:
    try:
        return base64.b64decode(name, validate=True).decode("ascii")
    except ValueError:
        return ""
