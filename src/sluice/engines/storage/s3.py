"""Objects in one bucket of an S3: AWS or any server that speaks its API. Whose bucket it is, and where it may be, is decided in `buckets`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from http import HTTPStatus
from typing import Final

from obstore.store import S3Store as Client

from sluice.engines.storage.breaker import Breaker
from sluice.engines.storage.keys import checked_key
from sluice.engines.storage.probing import probed
from sluice.engines.storage.protocol import Listed, StoreFault
from sluice.engines.storage.s3_address import address_of
from sluice.engines.storage.s3_client import Patience, client_of
from sluice.engines.storage.s3_faults import FOREIGN, answer_in, cause_of, fault_of
from sluice.engines.storage.s3_links import LinkSigner
from sluice.engines.storage.s3_puts import Puts
from sluice.engines.storage.s3_stale import StaleParts
from sluice.kit.health import EngineHealth, EngineState
from sluice.kit.sealed import Sealed

_MIB: Final = 1024 * 1024
_CHUNK_BYTES: Final = _MIB
_READ_BYTES: Final = 4 * _MIB
_BATCH: Final = 1000
_HEALTH_SECONDS: Final = 5.0


class S3Store:
    """An object store in `bucket`.

    Up to `part_bytes` an object is one request, refused by the server when the key is taken (`If-None-Match: *`). Beyond, it is
    sent in parts of that size, `part_concurrency` at a time, so that a put holds about (1 + concurrency) x `part_bytes` in
    memory; S3 takes 10,000 parts of at least 5 MiB. All puts together hold no more than 48 MiB, but for the last parts of those that
    wait to be allowed: further ones wait. `sign_payload` has the server check the SHA-256 of each request body, for 0.8 CPU seconds a
    GB; without it, only TLS guards the way. Objects carry their SHA-256 as metadata `sha256`.

    `before` is awaited before each request of an operation, and may refuse it by raising `StoreFault`. `relay_url` is the proxy that
    every request goes through (`s3_relay`).

    A store that does not carry out three puts or deletions in a row is left alone for `rest_seconds`.

    The credentials need PutObject, GetObject, DeleteObject, AbortMultipartUpload and, to tell a missing object from a forbidden
    one, ListBucket. Raises `StoreFault` for names that can be no bucket, region or endpoint.
    """

    def __init__(
        self,
        bucket: str,
        region: str,
        access_key_id: str,
        secret_access_key: str,
        *,
        endpoint_url: str | None = None,
        patience: Patience | None = None,
        part_bytes: int = 8 * _MIB,
        part_concurrency: int = 2,
        sign_payload: bool = True,
        probe_folder: str = ".sluice-probe",
        rest_seconds: float = 10.0,
        before: Callable[[], Awaitable[None]] | None = None,
        relay_url: str | None = None,
    ) -> None:
        self._before = before
        self._address = address_of(bucket, region, endpoint_url)
        patience = patience or Patience()
        self._client: Client | None = client_of(
            self._address, region, access_key_id, secret_access_key, patience, sign_payload=sign_payload, relay_url=relay_url
        )
        self._links = LinkSigner(self._address, region, access_key_id, secret_access_key)
        self._stale = StaleParts(
            self._address, region, access_key_id, secret_access_key, seconds=patience.request_seconds, relay_url=relay_url
        )
        self._part_bytes = part_bytes
        self._puts = Puts(self._open_client, self.size, part_bytes=part_bytes, part_concurrency=part_concurrency)
        self._probe_folder = probe_folder
        self._breaker = Breaker(rest_seconds=rest_seconds)

    def __repr__(self) -> str:
        return f"S3Store({self._address.bucket!r}, {self._address.endpoint!r})"

    def takes_ahead(self, size: int) -> bool:
        """Say whether it would go in parts, and those could be held in memory now."""
        return self._puts.takes_ahead(size)

    async def put_ahead(self, key: str, sealed: Sealed, *, content_type: str, allowed: "asyncio.Future[bool]") -> None:
        """Send the parts and make an object of them once `allowed`; see the protocol."""
        checked_key(key)
        with self._breaker.passing():
            await self._puts.put(key, sealed, content_type, allowed)

    async def put(self, key: str, sealed: Sealed, *, content_type: str) -> None:
        """Store the bytes; see the protocol. A taken key is a `StoreFault`.

        A put whose answer got lost is looked up before it is called failed; cancelled, it ends its request first. After a fault
        for want of an answer the object may still appear: whoever reserved the key deletes it later.
        """
        checked_key(key)
        with self._breaker.passing():
            await self._puts.put(key, sealed, content_type)

    async def read(self, key: str, *, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """Answer the object's bytes in chunks; see the protocol. Each request asks for 4 MiB, so a slow reader holds no connection."""
        end = start + length if length is not None else None
        while end is None or start < end:
            stop = start + _READ_BYTES if end is None else min(start + _READ_BYTES, end)
            piece, size = await self._piece(await self._open_client(), key, start, stop)
            for at in range(0, len(piece), _CHUNK_BYTES):
                yield bytes(piece[at : at + _CHUNK_BYTES])
            start += len(piece)
            if start >= size:
                return

    async def size(self, key: str) -> int | None:
        """Answer the size in bytes, or None when there is no such object."""
        client = await self._open_client()
        try:
            return (await client.head_async(checked_key(key)))["size"]
        except FileNotFoundError:
            return await self._size_by_reading(client, key)
        except FOREIGN as error:
            raise fault_of(error, "list the bucket") from cause_of(error)

    async def delete(self, key: str) -> None:
        """Remove the object. A missing object is a no-op; a missing bucket is not."""
        client = await self._open_client()
        with self._breaker.passing():
            try:
                await client.delete_async(checked_key(key))
            except FOREIGN as error:
                if answer_in(error).code == "NoSuchKey":
                    return
                raise fault_of(error, "delete objects") from cause_of(error)

    async def presign(self, key: str, *, expires_in: int, filename: str, content_type: str) -> str:
        """Answer a URL that downloads the object as an attachment named `filename` for `expires_in` seconds. Asks nobody."""
        return self._links.sign(checked_key(key), expires_in=expires_in, filename=filename, content_type=content_type)

    async def listed(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[Listed]]:
        """Answer the objects below `prefix` after `after`, a thousand at a time; see the protocol. Needs the right ListBucket."""
        client = await self._open_client()
        try:
            async for batch in client.list(prefix or None, offset=after or None, chunk_size=_BATCH):
                yield [Listed(found["path"], found["size"]) for found in batch]
        except FOREIGN as error:
            raise fault_of(error, "list the bucket") from cause_of(error)

    async def is_ours(self, key: str) -> bool:
        """Say whether the object bears the mark of a put of this service."""
        client = await self._open_client()
        try:
            found = await client.get_async(checked_key(key), options={"head": True})
        except FileNotFoundError:
            return False
        except FOREIGN as error:
            raise fault_of(error, "read objects") from cause_of(error)
        return "sluice-put" in found.attributes

    async def abort_stale_parts(self, prefix: str, older_than: timedelta, is_ours: Callable[[str], bool]) -> int:
        """Abort uploads in parts that were begun long ago; see the protocol."""
        with self._breaker.passing():
            return await self._stale.abort(prefix, older_than, is_ours, before=self._open_client)

    async def probe(self) -> None:
        """Put, read and delete one small object below the probe folder."""
        await probed(self, self._probe_folder)

    async def health(self) -> EngineHealth:
        """Answer whether the bucket answers within five seconds. Never raises."""
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                await self.size(f"{self._probe_folder}/health")
        except StoreFault as fault:
            return EngineHealth("storage", "s3", EngineState.DOWN, detail=str(fault))
        except TimeoutError:
            return EngineHealth("storage", "s3", EngineState.DOWN, detail="The store did not answer in time.")
        return EngineHealth("storage", "s3", EngineState.UP, limits={"part_bytes": self._part_bytes})

    async def aclose(self) -> None:
        """Let go of the connections. A second call is a no-op."""
        self._client = None

    async def _open_client(self) -> Client:
        if self._client is None:
            raise StoreFault("The object store is closed.")
        if self._before is not None:
            await self._before()
        return self._client

    async def _piece(self, client: Client, key: str, start: int, stop: int) -> tuple[memoryview, int]:
        """Answer the bytes from `start` before `stop`, as far as the object goes, and the object's whole size."""
        try:
            found = await client.get_async(checked_key(key), options={"range": (start, stop)})
            piece = memoryview(await found.bytes_async())
        except FOREIGN as error:
            answer = answer_in(error)
            if answer.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                return memoryview(b""), start  # there is no byte from here on
            if _is_missing(error):
                raise KeyError(key) from None
            raise fault_of(error, "read objects") from cause_of(error)
        expected = min(stop, found.meta["size"]) - start
        if len(piece) != expected:
            raise StoreFault("The store answered fewer bytes than it said.")
        return piece, found.meta["size"]

    async def _size_by_reading(self, client: Client, key: str) -> int | None:
        """Answer the size where HEAD said 404: without a body it cannot say whether the object is missing or the whole bucket."""
        try:
            _, size = await self._piece(client, key, 0, 1)
        except KeyError:
            return None
        return size


def _is_missing(error: BaseException) -> bool:
    return isinstance(error, FileNotFoundError) and answer_in(error).code != "NoSuchBucket"
