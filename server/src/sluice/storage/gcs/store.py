"""Objects in one bucket of Google Cloud Storage, by its JSON API.

Whose bucket it is, and where it may be, is decided in `buckets`.
"""

import asyncio
import email
import json
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from sluice.kit.health import EngineHealth, EngineState
from sluice.storage.common import CircuitBreaker, probe_store, validate_key
from sluice.storage.gcs.client import READ, READ_BYTES, GcsClient, read_range
from sluice.storage.gcs.credentials import ServiceAccountKey
from sluice.storage.gcs.errors import RequestFailed, failed_response, no_bucket
from sluice.storage.gcs.puts import GcsWriter
from sluice.storage.gcs.signatures import signed_link
from sluice.storage.protocol import Connection, ListedObject, ObjectChanged, ProbeStep, StoreError, ignore_step
from sluice_inspect.sandbox.sealed import Sealed

_CHUNK_BYTES: Final = 1024 * 1024
_LISTED: Final = 1000  # the most that Google lists with one request
_BATCH: Final = 100  # the most that Google deletes with one request
_SINGLE_DELETES: Final = 8  # at once, where the store does not delete a batch
_HEALTH_SECONDS: Final = 5.0
_DELETED: Final = frozenset({200, 204})
_STATUS_LINE: Final = re.compile(rb"\s*HTTP/1\.1 ([1-5]\d\d)[^\n]*\n")
_PART_ID: Final = re.compile(r"<?response-[^<>]*?(\d{1,3})>?")
_EVERYONE: Final = frozenset({"allUsers", "allAuthenticatedUsers"})
_IS_PUBLIC: Final = "The bucket is public: anyone on the internet can read its objects."


class GcsStore:
    """An object store in `bucket`, opened by the key of a service account, which is `secret`.

    An object is created only if there is none under its key (`ifGenerationMatch=0`), and Google compares it with the
    MD5 that is sent before it. Up to `part_bytes` it is one request. Larger objects are sent in parts of that size, one
    after the other; all puts together hold at most 48 MiB. Objects carry their SHA-256 as metadata `sha256`.

    After three puts or deletions in a row that failed, the store is left alone for `rest_seconds`.

    The service account needs storage.objects.create, get, delete and list on the bucket: without the last, Google
    does not tell a missing object from a forbidden one. Raise `StoreError` for an impossible bucket name, endpoint or
    key.
    """

    def __init__(self, bucket: str, secret: str, connection: Connection, *, endpoint_url: str | None = None) -> None:
        self._client = GcsClient(bucket, ServiceAccountKey.parse(secret), endpoint_url, connection)
        self._part_bytes = connection.part_bytes
        self._writer = GcsWriter(self._client, connection.part_bytes, connection.timeouts.retries)
        self._probe_folder = connection.probe_folder
        self._breaker = CircuitBreaker(rest_seconds=connection.rest_seconds)
        self._remarks: list[str] = []

    @property
    def remarks(self) -> Sequence[str]:
        """What the last probe found that is no failure, as sentences."""
        return self._remarks

    def __repr__(self) -> str:
        return f"GcsStore({self._client.bucket!r}, {self._client.origin!r})"

    async def put(self, key: str, sealed: Sealed, *, content_type: str) -> None:
        """Store the bytes; see the protocol. A taken key is a `StoreError`.

        A put whose response was lost is looked up before it counts as failed; a cancelled one ends its request first.
        After a failure without a response the object may still appear: the owner of the reserved key deletes it later.
        """
        validate_key(key)
        with self._breaker.guard():
            await self._writer.put(key, sealed, content_type)

    def can_put_speculatively(self, size: int) -> bool:
        """Return whether the object would be sent in parts and there is memory for them now."""
        return self._writer.can_put_speculatively(size)

    async def put_speculatively(
        self, key: str, sealed: Sealed, *, content_type: str, allowed: "asyncio.Future[bool]"
    ) -> None:
        """Send all but the last 256 KiB, and those once `allowed` is True; see the protocol."""
        validate_key(key)
        with self._breaker.guard():
            await self._writer.put(key, sealed, content_type, allowed)

    async def read(
        self, key: str, *, start: int = 0, length: int | None = None, expected_size: int | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the object's bytes; see the protocol.

        Each request asks for 4 MiB, so a slow reader holds no connection.
        """
        end = start + length if length is not None else None
        while end is None or start < end:
            stop = start + READ_BYTES if end is None else min(start + READ_BYTES, end)
            piece, size = await self._read_range(key, start, stop)
            if expected_size not in {None, size}:
                raise ObjectChanged
            for at in range(0, len(piece), _CHUNK_BYTES):
                yield piece[at : at + _CHUNK_BYTES]
            start += len(piece)
            if start >= size:
                return

    async def size(self, key: str) -> int | None:
        """Return the size in bytes, or None when there is no such object."""
        found = await self._described(key, "size")
        if found is None:
            return None
        size = str(found.get("size", ""))
        if not size.isdecimal():
            raise StoreError("The store's response is not one that Google Cloud Storage gives.")
        return int(size)

    async def delete(self, key: str) -> None:
        """Delete the object. A missing object is a no-op; a missing bucket is not."""
        with self._breaker.guard():
            try:
                await self._delete(validate_key(key))
            except RequestFailed as failure:
                raise failure.to_store_error("delete objects") from None

    async def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Delete the objects with one batch request for each 100; see the protocol."""
        valid, failed = list[str](), dict[str, str]()
        for key in keys:
            try:
                valid.append(validate_key(key))
            except StoreError as error:
                failed[key] = str(error)
        await self._client.check()
        for start in range(0, len(valid), _BATCH):
            with self._breaker.guard():
                try:
                    failed |= await self._delete_batch(valid[start : start + _BATCH])
                except RequestFailed as failure:
                    raise failure.to_store_error("delete objects") from None
        return failed

    async def presign(self, key: str, *, expires_in: int, filename: str, content_type: str) -> str:
        """Return a URL for `expires_in` seconds whose response from Google has exactly this file name and type.

        Sends no request, but may be refused as one, because opening the URL sends one.
        """
        await self._client.check()
        return signed_link(
            self._client.key,
            self._client.origin,
            f"/{self._client.bucket}/{quote(validate_key(key), safe='/~')}",
            expires_in=expires_in,
            filename=filename,
            content_type=content_type,
        )

    async def list_objects(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[ListedObject]]:
        """Yield the objects below `prefix` after `after`, a thousand at a time; see the protocol."""
        path = f"/storage/v1/b/{self._client.bucket}/o"
        query = {"maxResults": str(_LISTED), "fields": "nextPageToken,items(name,size)"}
        query |= {"prefix": f"{prefix.rstrip('/')}/"} if prefix else {}
        query |= {"startOffset": after} if after else {}
        while True:
            try:
                page = (await self._client.send("GET", path, query)).json()
            except RequestFailed as failure:
                raise failure.to_store_error("list the bucket") from None
            items = page.get("items")
            found = [_listed(item) for item in items] if isinstance(items, list) else []
            yield [one for one in found if one.key != after]  # the offset is included
            token = page.get("nextPageToken")
            if not token or token == query.get("pageToken"):  # a store that repeats a page must not loop us
                return
            query["pageToken"] = str(token)

    async def is_ours(self, key: str) -> bool:
        """Return whether the object carries the mark of a put of this service."""
        found = await self._described(key, "metadata")
        metadata = None if found is None else found.get("metadata")
        return isinstance(metadata, dict) and "sluice-put" in metadata

    async def probe(self, begin: Callable[[ProbeStep], None] = ignore_step) -> None:
        """Put, read and delete one small object in the probe folder.

        Raise `StoreError` also for a bucket that is public, or whose objects could not be deleted.
        """
        begin("lookup")
        may_be_public = await self._check_settings()
        await probe_store(self, self._probe_folder, begin, self._check_private if may_be_public else None)

    async def health(self) -> EngineHealth:
        """Return whether the bucket responds within five seconds. Never raises."""
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                await self.size(f"{self._probe_folder}/health")
        except StoreError as error:
            return EngineHealth("storage", "gcs", EngineState.DOWN, detail=str(error))
        except TimeoutError:
            return EngineHealth("storage", "gcs", EngineState.DOWN, detail="The store did not respond in time.")
        return EngineHealth("storage", "gcs", EngineState.UP, limits={"part_bytes": self._part_bytes})

    async def aclose(self) -> None:
        """Release the connections. A second call is a no-op."""
        await self._client.aclose()

    async def _described(self, key: str, fields: str) -> dict[str, Any] | None:
        """Return some fields of an object's description, None if there is no such object."""
        try:
            return await self._client.described(validate_key(key), fields)
        except RequestFailed as failure:
            raise failure.to_store_error("read objects") from None

    async def _read_range(self, key: str, start: int, stop: int) -> tuple[bytes, int]:
        """Return the bytes from `start` up to `stop` or the object's end, and the object's size.

        Raise `KeyError` if missing.
        """
        path, headers = self._client.object_path(validate_key(key)), {"Range": f"bytes={start}-{stop - 1}"}
        try:
            try:
                response = await self._client.send("GET", path, {"alt": "media"}, headers=headers, expected=READ)
            except RequestFailed as failure:
                await self._client.require_bucket(failure)
                raise KeyError(key) from None
        except RequestFailed as failure:
            raise failure.to_store_error("read objects") from None
        return read_range(response.status, response.headers.get("content-range", ""), response.body, start, stop)

    async def _delete(self, key: str) -> None:
        try:
            await self._client.send("DELETE", self._client.object_path(key), expected=_DELETED)
        except RequestFailed as failure:
            await self._client.require_bucket(failure)

    async def _delete_batch(self, keys: Sequence[str]) -> dict[str, str]:
        boundary = os.urandom(16).hex()
        parts = [
            f"--{boundary}\r\nContent-Type: application/http\r\nContent-ID: <{number}>\r\n\r\n"
            f"DELETE {self._client.object_path(key)} HTTP/1.1\r\n\r\n\r\n"
            for number, key in enumerate(keys)
        ]
        try:
            response = await self._client.send(
                "POST",
                "/batch/storage/v1",
                headers={"Content-Type": f"multipart/mixed; boundary={boundary}"},
                body=("".join((*parts, f"--{boundary}--\r\n")).encode(),),
            )
        except RequestFailed as failure:
            if failure.is_outage or failure.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
                raise
            return await self._delete_one_by_one(keys)  # another server, without batches
        answers = _parts_of(response.headers.get("content-type", ""), response.body)
        left, failed = list[str](), dict[str, str]()
        doubtful: RequestFailed | None = None
        for number, key in enumerate(keys):
            status, body = answers.get(number, (0, b""))
            if status in _DELETED:
                continue
            refusal = failed_response(status, body)
            if status == HTTPStatus.NOT_FOUND:
                doubtful = doubtful if refusal.is_no_object else refusal
            elif not status or refusal.is_passing:
                left.append(key)
            else:
                failed[key] = str(refusal.to_store_error("delete objects"))
        if doubtful is not None:
            await self._client.require_bucket(doubtful)
        return failed | await self._delete_one_by_one(left)

    async def _delete_one_by_one(self, keys: Sequence[str]) -> dict[str, str]:
        failed = dict[str, str]()

        async def delete(key: str) -> None:
            try:
                await self._delete(key)
            except RequestFailed as failure:
                if failure.is_outage or failure.is_no_bucket:
                    raise
                failed[key] = str(failure.to_store_error("delete objects"))

        for start in range(0, len(keys), _SINGLE_DELETES):
            await asyncio.gather(*(delete(key) for key in keys[start : start + _SINGLE_DELETES]))
        return failed

    async def _check_settings(self) -> bool:
        """Raise `StoreError` if the bucket is not one for files that are deleted; return whether it may be public.

        Note what keeps them all the same. What the service account may not see is not checked.
        """
        bucket, policy = f"/storage/v1/b/{self._client.bucket}", dict[str, Any]()
        try:
            fields = "iamConfiguration,retentionPolicy,billing,defaultEventBasedHold,versioning,softDeletePolicy"
            found = await self._readable(bucket, fields)
            if self._client.asks_google:
                policy = await self._readable(f"{bucket}/iam", "bindings")
        except RequestFailed as failure:
            fault = no_bucket() if failure.status == HTTPStatus.NOT_FOUND else failure
            raise fault.to_store_error("read the bucket") from None
        if _object(found, "billing").get("requesterPays"):
            raise StoreError("The bucket has Requester Pays turned on, which is not supported.")
        if found.get("retentionPolicy"):
            raise StoreError("The bucket has a retention policy: files could not be deleted.")
        if found.get("defaultEventBasedHold"):
            raise StoreError("The bucket holds every new object: files could not be deleted.")
        self._remarks = []
        if _object(found, "versioning").get("enabled"):
            self._remarks.append("Object versioning is on: the bucket keeps deleted files as noncurrent versions.")
        if str(_object(found, "softDeletePolicy").get("retentionDurationSeconds", "0")) != "0":
            self._remarks.append(
                "Soft delete is on: Google keeps, and bills, deleted files for its retention duration."
            )
        prevention = _object(found, "iamConfiguration").get("publicAccessPrevention")
        if prevention == "enforced" or not self._client.asks_google:
            return False
        if any(f'"{everyone}"' in json.dumps(policy) for everyone in _EVERYONE):
            raise StoreError(_IS_PUBLIC)
        return True

    async def _readable(self, path: str, fields: str) -> dict[str, Any]:
        """Return some fields of a resource, none if they may not be read."""
        try:
            return (await self._client.send("GET", path, {"fields": fields})).json()
        except RequestFailed as failure:
            if failure.status == HTTPStatus.FORBIDDEN and "storage.buckets.get" in failure.message:
                return {}
            raise

    async def _check_private(self, key: str) -> None:
        """Raise `StoreError` if the object can be read without credentials."""
        try:
            await self._client.send("GET", self._client.object_path(key), {"alt": "media"}, anonymous=True)
        except RequestFailed as failure:
            if failure.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
                return
            raise failure.to_store_error("read objects") from None
        raise StoreError(_IS_PUBLIC)


def _object(found: dict[str, Any], name: str) -> dict[str, Any]:
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def _listed(item: Any) -> ListedObject:
    try:
        return ListedObject(str(item["name"]), int(item["size"]))
    except (KeyError, TypeError, ValueError):
        raise StoreError("The store's response is not one that Google Cloud Storage gives.") from None


def _parts_of(content_type: str, body: bytes) -> dict[int, tuple[int, bytes]]:
    """Return status and body of each response in a batch, by the number of its request."""
    head = f"Content-Type: {content_type}\r\n\r\n".encode("latin-1", "replace")
    found = dict[int, tuple[int, bytes]]()
    try:
        parts = email.message_from_bytes(head + body).get_payload()
    except RecursionError:  # parts within parts without an end
        return found
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, str):
            continue
        number = _PART_ID.fullmatch(str(part.get("Content-ID", "")).strip())
        payload = part.get_payload(decode=True)
        line = _STATUS_LINE.match(payload) if isinstance(payload, bytes) else None
        if number is not None and line is not None and isinstance(payload, bytes):
            found[int(number[1])] = int(line[1]), payload.partition(b"\r\n\r\n")[2]
    return found
