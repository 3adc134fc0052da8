"""Objects in one bucket of Google Cloud Storage that an HMAC key opens, by its XML API.

Whose bucket it is, and where it may be, is decided in `buckets`.
"""

import asyncio
import html
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final

from sluice.kit.health import EngineHealth, EngineState
from sluice.storage.common import CircuitBreaker, probe_store, validate_key
from sluice.storage.gcs.client import READ, READ_BYTES, read_range
from sluice.storage.gcs.errors import RequestFailed
from sluice.storage.gcs.hmac_client import HmacClient
from sluice.storage.gcs.hmac_puts import ABORTED, MARK, HmacWriter
from sluice.storage.gcs.signatures import HmacKey, signed_link
from sluice.storage.protocol import Connection, ListedObject, ObjectChanged, ProbeStep, StoreError, ignore_step
from sluice.storage.transport import Response
from sluice_inspect.sandbox.sealed import Sealed

_CHUNK_BYTES: Final = 1024 * 1024
_LISTED: Final = "1000"  # the most that Google lists with one request
_DELETED_AT_ONCE: Final = 8
_HEALTH_SECONDS: Final = 5.0
_DELETED: Final = frozenset({200, 204})
# Patterns instead of an XML parser, which would expand entities and nest without bounds.
_OBJECT: Final = re.compile(r"<Contents>(.*?)</Contents>", re.DOTALL)
_UPLOAD: Final = re.compile(r"<Upload>(.*?)</Upload>", re.DOTALL)
_KEY: Final = re.compile(r"<Key>([^<]*)</Key>")
_SIZE: Final = re.compile(r"<Size>([0-9]{1,18})</Size>")
_UPLOAD_ID: Final = re.compile(r"<UploadId>([^<]*)</UploadId>")
_INITIATED: Final = re.compile(r"<Initiated>([^<]*)</Initiated>")
_IS_TRUNCATED: Final = "<IsTruncated>true</IsTruncated>"
_NOT_GOOGLE: Final = "The store's response is not one that Google Cloud Storage gives."


class HmacGcsStore:
    """An object store in `bucket`, opened by the HMAC key of a service account, whose secret is `secret`.

    Up to `part_bytes` an object is one request, which creates it only if there is none under its key
    (`x-goog-if-generation-match: 0`). Larger ones are sent in parts of that size, two at a time; Google takes 10,000
    parts of at least 5 MiB, and no precondition for the object that is made of them. It compares an MD5 of the bytes of
    each request. All puts together hold at most 48 MiB: further puts wait. Objects carry their SHA-256 as metadata
    `sha256`.

    After three puts or deletions in a row that failed, the store is left alone for `rest_seconds`.

    The service account needs storage.objects.create, get, delete and list, and storage.multipartUploads.create, abort
    and list, on the bucket. Raise `StoreError` for an impossible bucket name or endpoint.
    """

    def __init__(
        self,
        bucket: str,
        access_key_id: str,
        secret: str,
        connection: Connection,
        *,
        endpoint_url: str | None = None,
    ) -> None:
        self._client = HmacClient(bucket, HmacKey(access_key_id, secret), endpoint_url, connection)
        self._part_bytes = connection.part_bytes
        self._writer = HmacWriter(self._client, connection.part_bytes)
        self._probe_folder = connection.probe_folder
        self._breaker = CircuitBreaker(rest_seconds=connection.rest_seconds)
        self._remarks: list[str] = []

    @property
    def remarks(self) -> Sequence[str]:
        """What the last probe found that is no failure, as sentences."""
        return self._remarks

    def __repr__(self) -> str:
        return f"HmacGcsStore({self._client.bucket!r}, {self._client.origin!r})"

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
        """Send the parts, and complete the upload once `allowed` is True; see the protocol."""
        validate_key(key)
        with self._breaker.guard():
            await self._writer.put(key, sealed, content_type, allowed)

    async def read(
        self, key: str, *, start: int = 0, length: int | None = None, expected_size: int | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the object's bytes; see the protocol.

        Each request asks for 4 MiB, so a slow reader holds no connection.
        """
        validate_key(key)
        end = start + length if length is not None else None
        while end is None or start < end:
            stop = start + READ_BYTES if end is None else min(start + READ_BYTES, end)
            try:
                found = await self._client.send(
                    "GET", key, headers={"range": f"bytes={start}-{stop - 1}"}, expected=READ
                )
            except RequestFailed as failure:
                if failure.is_no_object:
                    raise KeyError(key) from None
                raise failure.to_store_error("read objects") from None
            covered = found.headers.get("content-range", "")
            piece, size = read_range(found.status, covered, found.body, start, stop)
            if expected_size not in {None, size}:
                raise ObjectChanged
            for at in range(0, len(piece), _CHUNK_BYTES):
                yield piece[at : at + _CHUNK_BYTES]
            start += len(piece)
            if start >= size:
                return

    async def size(self, key: str) -> int | None:
        """Return the size in bytes, or None when there is no such object."""
        found = await self._described(key)
        if found is None:
            return None
        size = found.get("content-length", "")
        if not size.isdecimal():
            raise StoreError(_NOT_GOOGLE)
        return int(size)

    async def is_ours(self, key: str) -> bool:
        """Return whether the object carries the mark of a put of this service."""
        found = await self._described(key)
        return found is not None and MARK in found

    async def delete(self, key: str) -> None:
        """Delete the object. A missing object is a no-op; a missing bucket is not."""
        validate_key(key)
        with self._breaker.guard():
            try:
                await self._delete(key)
            except RequestFailed as failure:
                raise failure.to_store_error("delete objects") from None

    async def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Delete the objects, eight at a time; see the protocol."""
        valid, failed = list[str](), dict[str, str]()
        for key in keys:
            try:
                valid.append(validate_key(key))
            except StoreError as error:
                failed[key] = str(error)
        await self._client.check()

        async def delete(key: str) -> None:
            try:
                await self._delete(key)
            except RequestFailed as failure:
                fault = failure.to_store_error("delete objects")
                if failure.is_outage or failure.is_no_bucket:
                    raise fault from None
                failed[key] = str(fault)

        for start in range(0, len(valid), _DELETED_AT_ONCE):
            with self._breaker.guard():
                await asyncio.gather(*map(delete, valid[start : start + _DELETED_AT_ONCE]))
        return failed

    async def presign(self, key: str, *, expires_in: int, filename: str, content_type: str) -> str:
        """Return a URL for `expires_in` seconds whose response from Google has exactly this file name and type.

        Sends no request, but may be refused as one, because opening the URL sends one.
        """
        path = self._client.path(validate_key(key))
        await self._client.check()
        return signed_link(
            self._client.key,
            self._client.origin,
            path,
            expires_in=expires_in,
            filename=filename,
            content_type=content_type,
        )

    async def list_objects(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[ListedObject]]:
        """Yield the objects below `prefix` after `after`, a thousand at a time; see the protocol."""
        query = {"list-type": "2", "max-keys": _LISTED}
        query |= {"prefix": f"{prefix.rstrip('/')}/"} if prefix else {}
        while True:
            response = await self._list(query | ({"start-after": after} if after else {}), "ListBucketResult")
            text = response.body.decode("utf-8", "replace")
            found = [_listed(entry) for entry in _OBJECT.findall(text)]
            yield [one for one in found if one.key.encode() > after.encode()]
            # The next page begins after the last key: a store that repeats a page must not loop us.
            if _IS_TRUNCATED not in text or not found or found[-1].key.encode() <= after.encode():
                return
            after = found[-1].key

    async def abort_stale_parts(self, prefix: str, older_than: timedelta, is_ours: Callable[[str], bool]) -> int:
        """Abort multipart uploads that were begun long ago; see the protocol."""
        aborted, query = 0, {"uploads": "", "max-uploads": _LISTED, **({"prefix": prefix} if prefix else {})}
        with self._breaker.guard():
            while True:
                response = await self._list(query, "ListMultipartUploadsResult")
                text, now = response.body.decode("utf-8", "replace"), _clock_of(response)
                following = dict(query)
                for key, upload_id, begun in map(_upload, _UPLOAD.findall(text)):
                    following |= {"key-marker": key, "upload-id-marker": upload_id}
                    if now - begun >= older_than and is_ours(key):
                        try:
                            await self._client.send("DELETE", key, {"uploadId": upload_id}, expected=ABORTED)
                        except RequestFailed as failure:
                            raise failure.to_store_error("abort uploads") from None
                        aborted += 1
                if _IS_TRUNCATED not in text or following == query:
                    return aborted
                query = following

    async def probe(self, begin: Callable[[ProbeStep], None] = ignore_step) -> None:
        """Put, read and delete one small object in the probe folder; begin, list and abort an upload in parts.

        Raise `StoreError` also for a bucket that is public. Remark on versioning if the service account may see whether
        it is on.
        """
        begin("lookup")
        self._remarks = []
        await self._client.check()
        try:
            response = await self._client.send("GET", query={"versioning": ""})
        except RequestFailed as failure:
            if failure.is_outage:  # what else is wrong, the following steps say
                raise failure.to_store_error("read the bucket") from None
        else:
            if b"<Status>Enabled</Status>" in response.body:
                self._remarks = ["Object versioning is on: the bucket keeps deleted files as noncurrent versions."]
        await probe_store(self, self._probe_folder, begin, self._inspect)

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
        self._client.close()

    async def _described(self, key: str) -> Mapping[str, str] | None:
        """Return the headers of an object, None if there is no such object."""
        try:
            return await self._client.described(validate_key(key))
        except RequestFailed as failure:
            raise failure.to_store_error("read objects") from None

    async def _delete(self, key: str) -> None:
        try:
            await self._client.send("DELETE", key, expected=_DELETED)
        except RequestFailed as failure:
            if not failure.is_no_object:
                raise

    async def _list(self, query: Mapping[str, str], element: str) -> Response:
        """Return a response that is one whole element of this name."""
        try:
            response = await self._client.send("GET", query=query)
        except RequestFailed as failure:
            raise failure.to_store_error("list the bucket") from None
        if f"</{element}>".encode() not in response.body:
            raise StoreError(_NOT_GOOGLE)
        return response

    async def _inspect(self, key: str) -> None:
        """Raise `StoreError` if the object can be read without credentials, or if none can be sent in parts."""
        try:
            await self._client.send("GET", key, anonymous=True)
        except RequestFailed as failure:
            if failure.is_outage:
                raise failure.to_store_error("read objects") from None
        else:
            raise StoreError("The bucket is public: anyone on the internet can read its objects.")
        await self._writer.try_parts(key)
        await self._list({"uploads": "", "max-uploads": "1"}, "ListMultipartUploadsResult")


def _listed(entry: str) -> ListedObject:
    key, size = _KEY.search(entry), _SIZE.search(entry)
    if key is None or size is None:
        raise StoreError(_NOT_GOOGLE)
    return ListedObject(html.unescape(key[1]), int(size[1]))


def _upload(entry: str) -> tuple[str, str, datetime]:
    """Return the key of an upload, its id, and when it began."""
    key, upload_id, begun = _KEY.search(entry), _UPLOAD_ID.search(entry), _INITIATED.search(entry)
    if key is None or upload_id is None or begun is None:
        raise StoreError(_NOT_GOOGLE)
    try:
        return html.unescape(key[1]), html.unescape(upload_id[1]), datetime.fromisoformat(begun[1]).astimezone(UTC)
    except (ValueError, OverflowError):
        raise StoreError(_NOT_GOOGLE) from None


def _clock_of(response: Response) -> datetime:
    """Return the time of the store, by whose clock uploads begin."""
    try:
        return parsedate_to_datetime(response.headers.get("date", "")).astimezone(UTC)
    except (ValueError, TypeError):
        return datetime.now(UTC)
