"""Objects in one bucket of S3: AWS or any server with its API.

Whose bucket it is, and where it may be, is decided in `buckets`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from typing import Final

from botocore.auth import S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from obstore.store import S3Store as Client

from sluice.kit.disposition import attachment
from sluice.kit.health import EngineHealth, EngineState
from sluice.storage.common import CircuitBreaker, probe_store, validate_key
from sluice.storage.folders import PROBES
from sluice.storage.protocol import ListedObject, ObjectChanged, ProbeStep, StoreError, Timeouts, ignore_step
from sluice.storage.s3.client import S3Credentials, bucket_address, make_client
from sluice.storage.s3.errors import FOREIGN, parse_failure, safe_cause, to_store_error
from sluice.storage.s3.puts import S3Writer
from sluice.storage.s3.small_puts import SmallPuts
from sluice.storage.s3.stale_parts import StaleParts
from sluice_inspect.sandbox.sealed import Sealed

_MIB: Final = 1024 * 1024
_CHUNK_BYTES: Final = _MIB
_READ_BYTES: Final = 4 * _MIB
_BATCH: Final = 1000  # the most that S3 lists or deletes with one request
_SINGLE_DELETES: Final = 8  # at once, where the store does not delete a batch
_HEALTH_SECONDS: Final = 5.0


class S3Store:
    """An object store in `bucket`.

    Up to `part_bytes` an object is one request, refused by the server when the key is taken (`If-None-Match: *`).
    Larger objects are sent in parts of that size, `part_concurrency` at a time, so that a put holds about (1 +
    concurrency) x `part_bytes` in memory; S3 takes 10,000 parts of at least 5 MiB. All puts together hold at most 48
    MiB, except for the last parts of those that wait to be allowed: further puts wait. Objects carry their SHA-256 as
    metadata `sha256`.

    `before` is awaited before each request of an operation and before a link is issued, and may refuse it by raising
    `StoreError`. `relay_url` is the proxy that every request goes through (see `relay`).

    After three puts or deletions in a row that failed, the store is left alone for `rest_seconds`.

    The credentials need PutObject, GetObject, DeleteObject, AbortMultipartUpload and, to tell a missing object from a
    forbidden one, ListBucket. Raise `StoreError` for an impossible bucket name, region or endpoint.
    """

    def __init__(
        self,
        bucket: str,
        region: str,
        access_key_id: str,
        secret_access_key: str,
        *,
        endpoint_url: str | None = None,
        timeouts: Timeouts | None = None,
        part_bytes: int = 8 * _MIB,
        part_concurrency: int = 2,
        probe_folder: str = PROBES,
        rest_seconds: float = 10.0,
        before: Callable[[], Awaitable[None]] | None = None,
        relay_url: str | None = None,
    ) -> None:
        self._before = before
        self._address = bucket_address(bucket, region, endpoint_url)
        self._credentials = S3Credentials(region, access_key_id, secret_access_key)
        timeouts = timeouts or Timeouts()
        self._make_client = partial(
            make_client,
            self._address,
            self._credentials,
            timeouts,
            relay_url=relay_url,
        )
        self._client: Client | None = self._make_client()
        self._bulk_client: Client | None = None
        self._stale = StaleParts(
            self._address, self._credentials, seconds=timeouts.request_seconds, relay_url=relay_url
        )
        self._part_bytes = part_bytes
        # The relay takes one request on each connection: nothing is gained by a client that keeps them.
        self._small = SmallPuts(self._address, self._credentials, timeouts) if relay_url is None else None
        self._writer = S3Writer(
            self._open_client,
            self.size,
            self._small,
            part_bytes=part_bytes,
            part_concurrency=part_concurrency,
        )
        self._probe_folder = probe_folder
        self._breaker = CircuitBreaker(rest_seconds=rest_seconds)

    def __repr__(self) -> str:
        return f"S3Store({self._address.bucket!r}, {self._address.endpoint!r})"

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
        end = start + length if length is not None else None
        while end is None or start < end:
            stop = start + _READ_BYTES if end is None else min(start + _READ_BYTES, end)
            piece, size = await self._read_range(await self._open_client(), key, start, stop)
            if expected_size not in {None, size}:
                raise ObjectChanged
            for at in range(0, len(piece), _CHUNK_BYTES):
                yield bytes(piece[at : at + _CHUNK_BYTES])
            start += len(piece)
            if start >= size:
                return

    async def size(self, key: str) -> int | None:
        """Return the size in bytes, or None when there is no such object."""
        client = await self._open_client()
        try:
            return (await client.head_async(validate_key(key)))["size"]
        except FileNotFoundError:
            pass
        except FOREIGN as error:
            raise to_store_error(error, "list the bucket") from safe_cause(error)
        # The response to HEAD has no body: a 404 does not tell a missing object from a missing bucket. One to GET does.
        try:
            _, size = await self._read_range(client, key, 0, 1)
        except KeyError:
            return None
        return size

    async def delete(self, key: str) -> None:
        """Delete the object. A missing object is a no-op; a missing bucket is not."""
        client = await self._open_client()
        with self._breaker.guard():
            try:
                await client.delete_async(validate_key(key))
            except FOREIGN as error:
                if parse_failure(error).code != "NoSuchKey":
                    raise to_store_error(error, "delete objects") from safe_cause(error)

    async def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Delete the objects with one DeleteObjects request for each 1,000; see the protocol."""
        valid, failed = list[str](), dict[str, str]()
        for key in keys:
            try:
                valid.append(validate_key(key))
            except StoreError as error:
                failed[key] = str(error)
        for start in range(0, len(valid), _BATCH):
            failed |= await self._delete_batch(valid[start : start + _BATCH])
        return failed

    async def presign(self, key: str, *, expires_in: int, filename: str, content_type: str) -> str:
        """Return a URL for `expires_in` seconds whose response from S3 has exactly this file name and type.

        Sends no request, but calls `before`, because opening the URL sends one.
        """
        await self._open_client()
        # botocore's signing class alone: its client would read profile files and `AWS_*` variables, and load 1 MB of
        # JSON.
        headers = {"response-content-disposition": attachment(filename), "response-content-type": content_type}
        request = AWSRequest("GET", self._address.url(validate_key(key)), params=headers)
        pair = Credentials(self._credentials.access_key_id, self._credentials.secret_access_key)
        S3SigV4QueryAuth(pair, "s3", self._credentials.region, expires=expires_in).add_auth(request)
        return str(request.url)

    async def list_objects(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[ListedObject]]:
        """Yield the objects below `prefix` after `after`, a thousand at a time; see the protocol.

        Needs the right ListBucket.
        """
        client = await self._open_client()
        try:
            async for batch in client.list(prefix or None, offset=after or None, chunk_size=_BATCH):
                yield [ListedObject(found["path"], found["size"], found["e_tag"] or "") for found in batch]
        except FOREIGN as error:
            raise to_store_error(error, "list the bucket") from safe_cause(error)

    async def is_ours(self, key: str) -> bool:
        """Return whether the object carries the mark of a put of this service."""
        client = await self._open_client()
        try:
            found = await client.get_async(validate_key(key), options={"head": True})
        except FileNotFoundError:
            return False
        except FOREIGN as error:
            raise to_store_error(error, "read objects") from safe_cause(error)
        return "sluice-put" in found.attributes

    async def abort_stale_parts(self, prefix: str, older_than: timedelta, is_ours: Callable[[str], bool]) -> int:
        """Abort multipart uploads that were begun long ago; see the protocol."""
        with self._breaker.guard():
            return await self._stale.abort(prefix, older_than, is_ours, before=self._open_client)

    async def probe(self, begin: Callable[[ProbeStep], None] = ignore_step) -> None:
        """Put, read and delete one small object in the probe folder."""
        await probe_store(self, self._probe_folder, begin)

    async def health(self) -> EngineHealth:
        """Return whether the bucket responds within five seconds. Never raises."""
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                await self.size(f"{self._probe_folder}/health")
        except StoreError as error:
            return EngineHealth("storage", "s3", EngineState.DOWN, detail=str(error))
        except TimeoutError:
            return EngineHealth("storage", "s3", EngineState.DOWN, detail="The store did not respond in time.")
        return EngineHealth("storage", "s3", EngineState.UP, limits={"part_bytes": self._part_bytes})

    async def aclose(self) -> None:
        """Release the connections. A second call is a no-op."""
        self._client = self._bulk_client = None
        if self._small is not None:
            self._small.close()

    async def _open_client(self) -> Client:
        if self._client is None:
            raise StoreError("The object store is closed.")
        if self._before is not None:
            await self._before()
        return self._client

    async def _read_range(self, client: Client, key: str, start: int, stop: int) -> tuple[memoryview, int]:
        """Return the bytes from `start` up to `stop` or the object's end, and the object's size.

        Raise `KeyError` if missing.
        """
        try:
            found = await client.get_async(validate_key(key), options={"range": (start, stop)})
            piece = memoryview(await found.bytes_async())
        except FOREIGN as error:
            failure = parse_failure(error)
            if failure.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return memoryview(b""), start  # the object ends at or before `start`
            if isinstance(error, FileNotFoundError) and failure.code != "NoSuchBucket":
                raise KeyError(key) from None
            raise to_store_error(error, "read objects") from safe_cause(error)
        expected = min(stop, found.meta["size"]) - start
        if len(piece) != expected:
            raise StoreError("The store sent fewer bytes than it said.")
        return piece, found.meta["size"]

    async def _delete_batch(self, keys: Sequence[str]) -> dict[str, str]:
        client = await self._open_client()
        # The library sends either every deletion in bulk or none, and not every server with S3's API knows
        # DeleteObjects. So `delete` has a client without it.
        self._bulk_client = self._bulk_client or self._make_client(bulk_delete=True)
        with self._breaker.guard():
            try:
                await self._bulk_client.delete_async(keys)
            except FOREIGN as error:
                if parse_failure(error).is_outage:
                    raise to_store_error(error, "delete objects") from safe_cause(error)
                # The library reports one failure for all keys; single requests tell which ones failed, and why.
                return await self._delete_one_by_one(client, keys)
        return {}

    async def _delete_one_by_one(self, client: Client, keys: Sequence[str]) -> dict[str, str]:
        failed = dict[str, str]()

        async def delete(key: str) -> None:
            try:
                await client.delete_async(key)
            except FOREIGN as error:
                failure = parse_failure(error)
                if failure.is_outage:
                    raise to_store_error(error, "delete objects") from safe_cause(error)
                if failure.code != "NoSuchKey":
                    failed[key] = str(to_store_error(error, "delete objects"))

        for start in range(0, len(keys), _SINGLE_DELETES):
            await asyncio.gather(*(delete(key) for key in keys[start : start + _SINGLE_DELETES]))
        return failed
