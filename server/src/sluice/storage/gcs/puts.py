"""Puts into a bucket: in one request, in parts (a resumable upload), or in parts of which the last one waits."""

import asyncio
import base64
import contextlib
import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

from sluice.kit.completion import run_to_completion
from sluice.kit.failpoints import failpoint
from sluice.storage.gcs.client import GcsClient, Response, pause
from sluice.storage.gcs.errors import RequestFailed, no_bucket
from sluice.storage.parts import read_exactly
from sluice.storage.protocol import StoreError
from sluice_inspect.sandbox.fair_queue import ByteBudget
from sluice_inspect.sandbox.sealed import Sealed

_KIB: Final = 1024
_MIB: Final = 1024 * 1024
_INLINE_BYTES: Final = 256 * _KIB  # read on the event loop: 30 µs, less than a thread takes to start
_SINGLE_BYTES: Final = 16 * _MIB
_IN_PARTS_BYTES: Final = 32 * _MIB
_UNIT_BYTES: Final = 256 * _KIB  # Google takes multiples of it, except at the end
_HASHED_BYTES: Final = 4 * _MIB
_MOST_STALLS: Final = 6
_RECEIVED: Final = re.compile(r"bytes=0-(\d{1,15})")
_PUT: Final = frozenset({200, 201})
_PERMANENT_REDIRECT: Final = 308  # here: «Resume Incomplete», with what is there in the header Range
_ENDED: Final = frozenset({200, 204, 404, 410, 499})


class GcsWriter:
    """The puts of one bucket. Objects larger than `part_bytes` are sent in parts of about that size."""

    def __init__(self, client: GcsClient, part_bytes: int, retries: int) -> None:
        self._client = client
        self._part_bytes = max(_UNIT_BYTES, part_bytes // _UNIT_BYTES * _UNIT_BYTES)
        # Two budgets, so that a put of one request never waits for uploads that take minutes.
        self._single, self._in_parts = ByteBudget(_SINGLE_BYTES), ByteBudget(_IN_PARTS_BYTES)
        self._sending = _Sending(self._part_bytes, retries, self._in_parts)

    def can_put_speculatively(self, size: int) -> bool:
        """Return whether the object would be sent in parts and there is memory for them now."""
        return size > self._part_bytes and self._in_parts.has(self._part_bytes)

    async def put(
        self, key: str, sealed: Sealed, content_type: str, allowed: "asyncio.Future[bool] | None" = None
    ) -> None:
        """Store the bytes under `key`; with `allowed`, complete the upload only once it is True. Raise `StoreError`."""
        mark = os.urandom(8).hex()  # tells this put's object from another one under the same key
        wanted = {"contentType": content_type, "metadata": {"sha256": sealed.sha256.hex(), "sluice-put": mark}}
        try:
            if allowed is None and sealed.size <= _INLINE_BYTES:
                body = read_exactly(sealed.fd, sealed.size, 0)
                await run_to_completion(self._put_at_once(key, body, wanted))
            else:
                await self._put_large(key, sealed, wanted, allowed)
        except RequestFailed as failure:
            if failure.may_have_succeeded:
                with contextlib.suppress(StoreError, RequestFailed):  # the error of the put says more
                    if await self._has_arrived(key, sealed.size, mark):
                        return
            raise failure.to_store_error("write objects") from None

    async def _put_large(
        self, key: str, sealed: Sealed, wanted: dict[str, Any], allowed: "asyncio.Future[bool] | None"
    ) -> None:
        try:
            fd = sealed.reopen()
        except OSError as error:
            raise StoreError(f"The received bytes cannot be read: {os.strerror(error.errno or 0)}.") from error
        try:
            if allowed is None and sealed.size <= self._part_bytes:
                async with self._single.hold(sealed.size):
                    body = await run_to_completion(asyncio.to_thread(read_exactly, fd, sealed.size, 0))
                    await run_to_completion(self._put_at_once(key, body, wanted))
            else:
                upload = _Upload(self._client, key, fd, sealed.size, self._sending)
                await run_to_completion(upload.put(wanted, allowed), on_cancel=upload.stopper(allowed))
        finally:
            os.close(fd)

    async def _put_at_once(self, key: str, body: bytes, wanted: dict[str, Any]) -> None:
        digest = _md5(body) if len(body) <= _INLINE_BYTES else await run_to_completion(asyncio.to_thread(_md5, body))
        boundary = os.urandom(16).hex()  # 128 bits, unknown to the sender of the body
        described = json.dumps(wanted | {"md5Hash": digest})
        head = (
            f"--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{described}\r\n"
            f"--{boundary}\r\nContent-Type: {_header_value(wanted['contentType'])}\r\n\r\n"
        )
        headers = {"Content-Type": f"multipart/related; boundary={boundary}"}
        parts = (head.encode(), body, f"\r\n--{boundary}--\r\n".encode())
        await _create(self._client, key, "multipart", headers, parts)

    async def _has_arrived(self, key: str, size: int, mark: str) -> bool:
        """Return whether the object under `key` is the one that this put sent."""
        found = await self._client.described(key, "size,metadata")
        return found is not None and _is_sent(found, size, mark)


@dataclass(frozen=True, slots=True)
class _Sending:
    """How parts are sent: their size, how often one is repeated, and the memory of all that are on their way."""

    part_bytes: int
    retries: int
    budget: ByteBudget


class _Upload:
    """One resumable upload, from its session to the object.

    Google keeps what it has received and says how much when asked, so that a broken request is taken up again there. A
    session that is neither completed nor cancelled ends after a week; until then it costs nothing and no interface
    lists it.
    """

    def __init__(self, client: GcsClient, key: str, fd: int, size: int, sending: _Sending) -> None:
        self._client = client
        self._key = key
        self._fd = fd
        self._size = size
        self._sending = sending
        self._session = ""
        self._stored: dict[str, Any] | None = None
        self._stopped = False
        self._stalls = 0

    def stopper(self, allowed: "asyncio.Future[bool] | None") -> Callable[[], None]:
        """Return what ends the upload soon, also if it waits to be allowed."""

        def stop() -> None:
            self._stopped = True
            if allowed is not None and not allowed.done():
                allowed.set_result(False)

        return stop

    async def put(self, wanted: dict[str, Any], allowed: "asyncio.Future[bool] | None") -> None:
        """Send all bytes; with `allowed`, the last ones only once it is True. Raise `RequestFailed`, `StoreError`."""
        # Google judges the precondition when the upload is complete: a taken key is found here before bytes are sent.
        if await self._client.described(self._key, "size") is not None:
            raise StoreError("There is an object under this key already.")
        digest = await asyncio.to_thread(_md5_of_file, self._fd, self._size)
        try:
            await self._begin(wanted | {"md5Hash": digest})
            stored = await self._send_all(allowed)
        except (StoreError, RequestFailed) as error:
            if self._session and not (isinstance(error, RequestFailed) and error.is_outage):
                with contextlib.suppress(StoreError, RequestFailed):
                    await self._client.send("DELETE", self._session, expected=_ENDED, repeat=False)
            raise
        await self._verify(stored, wanted["metadata"]["sluice-put"], digest)

    async def _begin(self, described: dict[str, Any]) -> None:
        headers = {
            "Content-Type": "application/json; charset=UTF-8",
            "X-Upload-Content-Length": str(self._size),
            "X-Upload-Content-Type": _header_value(described["contentType"]),
        }
        response = await _create(self._client, self._key, "resumable", headers, (json.dumps(described).encode(),))
        # Only its path and query are used: no response leads to another host.
        session = urlsplit(response.headers.get("location", ""))
        if not session.path.startswith("/") or not session.query.isascii():
            raise StoreError("The store's response is not one that Google Cloud Storage gives.")
        self._session = f"{session.path}?{session.query}"

    async def _send_all(self, allowed: "asyncio.Future[bool] | None") -> dict[str, Any]:
        """Send all bytes, those that wait to be allowed last; return the object's description."""
        # What waits holds no memory.
        last = self._size if allowed is None else (self._size - 1) // _UNIT_BYTES * _UNIT_BYTES
        offset = await self._send_until(0, last)
        if allowed is not None:
            if not await allowed:
                raise StoreError("The upload was not allowed.")
            await self._send_until(offset, self._size)
        if self._stored is None:
            raise StoreError("The store did not complete the upload.")
        return self._stored

    async def _send_until(self, offset: int, end: int) -> int:
        """Send the bytes from `offset` up to `end`; return how many the store has."""
        async with self._sending.budget.hold(min(self._sending.part_bytes, max(end - offset, 1))):
            while offset < end and self._stored is None:
                if self._stopped:
                    raise StoreError("The upload was cancelled.")
                if offset:
                    failpoint("parts.read")
                part = await asyncio.to_thread(
                    read_exactly, self._fd, min(self._sending.part_bytes, end - offset), offset
                )
                reached = await self._send_part(part, offset)
                if reached <= offset:
                    self._stalls += 1
                    if self._stalls > _MOST_STALLS:
                        raise StoreError("The store does not keep what is sent to it.")
                offset = reached
        return offset

    async def _send_part(self, part: bytes, offset: int) -> int:
        """Send one part; return how many bytes of the object the store has then."""
        covered = f"bytes {offset}-{offset + len(part) - 1}/{self._size}"
        for tries in range(self._sending.retries + 1):
            try:
                return self._reached(await self._put_range(covered, (part,)))
            except RequestFailed as failure:
                if not failure.is_passing or tries == self._sending.retries:
                    raise
            await pause(tries + 1)
            reached = self._reached(await self._put_range(f"bytes */{self._size}", ()))
            if reached != offset:
                return reached
        raise AssertionError("unreachable: the last try returns or raises")

    async def _put_range(self, covered: str, body: tuple[bytes, ...]) -> Response:
        expected = _PUT | {_PERMANENT_REDIRECT}
        headers = {"Content-Range": covered}
        if self._client.is_relayed:
            headers["X-GUploader-No-308"] = "yes"  # the relay takes 308 for a redirect
        return await self._client.send(
            "PUT", self._session, headers=headers, body=body, expected=expected, repeat=not body
        )

    def _reached(self, response: Response) -> int:
        status = response.headers.get("x-http-status-code-override", str(response.status))
        if status != str(_PERMANENT_REDIRECT):
            self._stored = response.json()
            return self._size
        if "range" not in response.headers:
            return 0
        found = _RECEIVED.fullmatch(response.headers["range"])
        if found is None or int(found[1]) >= self._size:
            raise StoreError("The store's response is not one that Google Cloud Storage gives.")
        return int(found[1]) + 1

    async def _verify(self, stored: dict[str, Any], mark: str, digest: str) -> None:
        """Raise `StoreError`, and delete the object, if it is not what was sent."""
        if _is_sent(stored, self._size, mark) and stored.get("md5Hash") == digest:
            return
        generation = stored.get("generation")
        if _is_sent(stored, None, mark) and isinstance(generation, str | int):
            with contextlib.suppress(RequestFailed):
                await self._client.send(
                    "DELETE",
                    self._client.object_path(self._key),
                    {"ifGenerationMatch": str(generation)},
                    expected=_ENDED,
                )
        raise StoreError("The store holds another object than was sent.")


async def _create(client: GcsClient, key: str, kind: str, headers: dict[str, str], body: tuple[bytes, ...]) -> Response:
    """Send the request that begins an object, which is the only one if its bytes are in it. Raise `RequestFailed`."""
    path, query = f"/upload/storage/v1/b/{client.bucket}/o", {"uploadType": kind, "name": key, "ifGenerationMatch": "0"}
    try:
        return await client.send("POST", path, query, headers=headers, body=body, expected=_PUT)
    except RequestFailed as failure:
        raise no_bucket() if failure.status == HTTPStatus.NOT_FOUND else failure from None


def _is_sent(found: dict[str, Any], size: int | None, mark: str) -> bool:
    metadata = found.get("metadata")
    marked = isinstance(metadata, dict) and metadata.get("sluice-put") == mark
    return marked and (size is None or str(found.get("size")) == str(size))


def _header_value(text: str) -> str:
    """Return a type that can stand in a head; the object gets the exact one from its description."""
    return text if text.isascii() and text.isprintable() and text else "application/octet-stream"


def _md5(body: bytes) -> str:
    return base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()


def _md5_of_file(fd: int, size: int) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    for offset in range(0, size, _HASHED_BYTES):
        digest.update(read_exactly(fd, min(_HASHED_BYTES, size - offset), offset))
    return base64.b64encode(digest.digest()).decode()
