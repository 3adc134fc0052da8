"""Puts by the XML API: in one request, or in parts (a multipart upload), completed at the end or when allowed."""

import asyncio
import base64
import contextlib
import hashlib
import html
import os
import re
from collections.abc import Mapping
from typing import Final

from sluice.kit.completion import run_to_completion
from sluice.kit.failpoints import failpoint
from sluice.storage.gcs.errors import RequestFailed
from sluice.storage.gcs.hmac_client import HmacClient
from sluice.storage.parts import read_exactly
from sluice.storage.protocol import StoreError
from sluice_inspect.sandbox.fair_queue import ByteBudget
from sluice_inspect.sandbox.sealed import Sealed

MARK: Final = "x-goog-meta-sluice-put"
_MIB: Final = 1024 * 1024
_INLINE_BYTES: Final = 256 * 1024  # read on the event loop: 30 µs, less than a thread takes to start
_SINGLE_BYTES: Final = 16 * _MIB
_IN_PARTS_BYTES: Final = 32 * _MIB
_CONCURRENCY: Final = 2
_UPLOAD_ID: Final = re.compile(rb"<UploadId>([^<]{1,1024})</UploadId>")
ABORTED: Final = frozenset({200, 204, 404})
_NOT_GOOGLE: Final = "The store's response is not one that Google Cloud Storage gives."
_TAKEN: Final = "There is an object under this key already."


class HmacWriter:
    """The puts of one bucket. Objects larger than `part_bytes` are sent in parts of that size, two at a time."""

    def __init__(self, client: HmacClient, part_bytes: int) -> None:
        self._client = client
        self._part_bytes = part_bytes
        self._bytes_per_put = _CONCURRENCY * part_bytes
        # Two budgets, so that a put of one request never waits for uploads that take minutes.
        self._single, self._in_parts = ByteBudget(_SINGLE_BYTES), ByteBudget(_IN_PARTS_BYTES)

    def can_put_speculatively(self, size: int) -> bool:
        """Return whether the object would be sent in parts and there is memory for them now."""
        return size > self._part_bytes and self._in_parts.has(self._bytes_per_put)

    async def put(
        self, key: str, sealed: Sealed, content_type: str, allowed: "asyncio.Future[bool] | None" = None
    ) -> None:
        """Store the bytes under `key`; with `allowed`, complete the upload only once it is True. Raise `StoreError`."""
        mark = os.urandom(8).hex()  # tells this put's object from another one under the same key
        is_text = content_type.isascii() and content_type.isprintable() and content_type.strip()
        headers = {
            "content-type": content_type if is_text else "application/octet-stream",
            "x-goog-meta-sha256": sealed.sha256.hex(),
            MARK: mark,
        }
        try:
            if allowed is None and sealed.size <= _INLINE_BYTES:
                body = read_exactly(sealed.fd, sealed.size, 0)
                await run_to_completion(self._put_at_once(key, body, _md5(body), headers))
            else:
                await self._put_large(key, sealed, headers, allowed)
        except RequestFailed as failure:
            if failure.may_have_succeeded:
                with contextlib.suppress(StoreError, RequestFailed):  # the error of the put says more
                    if await self._has_arrived(key, sealed.size, mark):
                        return
            raise failure.to_store_error("write objects") from None

    async def try_parts(self, key: str) -> None:
        """Begin an upload in parts and abort it. Raise `StoreError` if the service account may not."""
        upload = _Upload(self._client, key, fd=-1, size=0, part_bytes=self._part_bytes)
        try:
            await upload.begin({})
            await upload.abort()
        except RequestFailed as failure:
            raise failure.to_store_error("send objects in parts") from None

    async def _put_large(
        self, key: str, sealed: Sealed, headers: Mapping[str, str], allowed: "asyncio.Future[bool] | None"
    ) -> None:
        try:
            fd = sealed.reopen()
        except OSError as error:
            raise StoreError(f"The received bytes cannot be read: {os.strerror(error.errno or 0)}.") from error
        try:
            if allowed is None and sealed.size <= self._part_bytes:
                async with self._single.hold(sealed.size):
                    body = await run_to_completion(asyncio.to_thread(read_exactly, fd, sealed.size, 0))
                    digest = await run_to_completion(asyncio.to_thread(_md5, body))
                    await run_to_completion(self._put_at_once(key, body, digest, headers))
                return
            upload = _Upload(self._client, key, fd, sealed.size, self._part_bytes)
            stopped = allowed or asyncio.get_running_loop().create_future()

            def stop() -> None:
                upload.is_stopped = True
                if not stopped.done():
                    stopped.set_result(False)

            await run_to_completion(self._put_in_parts(upload, headers, allowed), on_cancel=stop)
        finally:
            os.close(fd)

    async def _put_at_once(self, key: str, body: bytes, digest: str, headers: Mapping[str, str]) -> None:
        sent = {**headers, "content-md5": digest, "x-goog-if-generation-match": "0"}
        response = await self._client.send("PUT", key, headers=sent, body=body, digest=headers["x-goog-meta-sha256"])
        if "etag" not in response.headers:
            raise StoreError(_NOT_GOOGLE)

    async def _put_in_parts(
        self, upload: "_Upload", headers: Mapping[str, str], allowed: "asyncio.Future[bool] | None"
    ) -> None:
        # Google takes no precondition for a multipart upload, which would replace an object. Keys are never reused, so
        # look-ups are enough: before the first byte is sent, and before the object is made.
        await upload.require_free_key()
        await upload.begin(headers)
        try:
            async with self._in_parts.hold(self._bytes_per_put):
                await upload.send_parts()
            await upload.require_wanted(allowed)
            await upload.require_free_key()
            await upload.complete()
        except (StoreError, RequestFailed):
            # A cancellation ends here too: it stops the parts. If the object was made all the same, there is no upload.
            with contextlib.suppress(StoreError, RequestFailed):
                await upload.abort()
            raise
        if not await self._has_arrived(upload.key, upload.size, headers[MARK]):
            raise StoreError("The store holds another object than was sent.")

    async def _has_arrived(self, key: str, size: int, mark: str) -> bool:
        """Return whether the object under `key` is the one that this put sent."""
        found = await self._client.described(key)
        return found is not None and found.get("content-length") == str(size) and found.get(MARK) == mark


class _Upload:
    """One multipart upload, from its id to the object. Google keeps its parts, and bills them, until it is aborted."""

    def __init__(self, client: HmacClient, key: str, fd: int, size: int, part_bytes: int) -> None:
        self.key = key
        self.size = size
        self.is_stopped = False
        self._client = client
        self._fd = fd
        self._part_bytes = part_bytes
        self._id = ""
        self._tags: dict[int, str] = {}

    async def require_free_key(self) -> None:
        """Raise `StoreError` if there is an object under the key."""
        if await self._client.described(self.key) is not None:
            raise StoreError(_TAKEN)

    async def require_wanted(self, allowed: "asyncio.Future[bool] | None" = None) -> None:
        """Raise `StoreError` if the put was cancelled, or if it is not allowed."""
        if allowed is not None and not await allowed:
            raise StoreError("The upload was not allowed.")
        if self.is_stopped:
            raise StoreError("The upload was cancelled.")

    async def begin(self, headers: Mapping[str, str]) -> None:
        """Begin the upload of an object with these headers."""
        response = await self._client.send("POST", self.key, {"uploads": ""}, headers=headers)
        found = _UPLOAD_ID.search(response.body)
        if found is None:
            raise StoreError(_NOT_GOOGLE)
        self._id = html.unescape(found[1].decode("utf-8", "replace"))

    async def send_parts(self) -> None:
        """Send all parts, some at a time."""
        numbers = iter(range(1, 1 + -(-self.size // self._part_bytes)))

        async def some() -> None:
            for number in numbers:
                await self._send_part(number)

        senders = [asyncio.create_task(some()) for _ in range(_CONCURRENCY)]
        try:
            await asyncio.gather(*senders)
        finally:
            self.is_stopped = self.is_stopped or any(sender.done() and sender.exception() for sender in senders)
            await asyncio.gather(*senders, return_exceptions=True)

    async def complete(self) -> None:
        """Make the object of the parts."""
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{html.escape(tag)}</ETag></Part>"
            for number, tag in sorted(self._tags.items())
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        headers = {"content-type": "application/xml"}
        digest = hashlib.sha256(body).hexdigest()
        await self._client.send("POST", self.key, {"uploadId": self._id}, headers=headers, body=body, digest=digest)

    async def abort(self) -> None:
        """Discard the parts."""
        await self._client.send("DELETE", self.key, {"uploadId": self._id}, expected=ABORTED, repeat=False)

    async def _send_part(self, number: int) -> None:
        await self.require_wanted()
        if number > 1:
            failpoint("parts.read")
        start = (number - 1) * self._part_bytes
        length = min(self._part_bytes, self.size - start)
        body, md5, sha256 = await asyncio.to_thread(_read, self._fd, length, start)
        query = {"partNumber": str(number), "uploadId": self._id}
        response = await self._client.send(
            "PUT", self.key, query, headers={"content-md5": md5}, body=body, digest=sha256
        )
        if "etag" not in response.headers:
            raise StoreError(_NOT_GOOGLE)
        self._tags[number] = response.headers["etag"]


def _read(fd: int, count: int, offset: int) -> tuple[bytes, str, str]:
    body = read_exactly(fd, count, offset)
    return body, _md5(body), hashlib.sha256(body).hexdigest()


def _md5(body: bytes) -> str:
    """Return the digest that Google compares with what it receives."""
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
