"""Objects in one container of Azure Blob Storage.

Whose container it is, and where it may be, is decided in `buckets`.
"""

import asyncio
import html
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from sluice.kit.disposition import attachment
from sluice.kit.health import EngineHealth, EngineState
from sluice.storage.azure.client import AzureClient, Place, is_missing
from sluice.storage.azure.credentials import (
    DelegationKey,
    Request,
    SasToken,
    SharedKey,
    delegation_request,
    moment,
    parse_delegation,
    sign_link,
)
from sluice.storage.azure.errors import code_of, is_outage
from sluice.storage.azure.puts import MARK, AzureWriter, are_stale, discard_blocks
from sluice.storage.common import CircuitBreaker, probe_store, validate_key
from sluice.storage.protocol import Connection, ListedObject, ObjectChanged, ProbeStep, StoreError, ignore_step
from sluice.storage.transport import Response
from sluice_inspect.sandbox.sealed import Sealed

_MIB: Final = 1024 * 1024
_CHUNK_BYTES: Final = _MIB
_READ_BYTES: Final = 4 * _MIB
_LISTED: Final = 1000  # at once; a response may have 8 MiB
_BOUNDARY: Final = "batch_of_deletions"  # never in a part: keys are percent-encoded
_BATCH: Final = 256  # the most that Azure deletes with one request
_SINGLE_DELETES: Final = 8  # at once, where the store does not delete a batch
_HEALTH_SECONDS: Final = 5.0
_LEAST_SAS: Final = timedelta(hours=24)
_SHORT_SAS: Final = timedelta(days=7)
_KEEPS_DELETED: Final = (
    "Versioning or soft delete is on: what is deleted stays in the storage account, is billed, and can be restored "
    "there."
)
_NO_DELEGATION: Final = (
    "The client may not sign download links: assign it the role Storage Blob Data Contributor, or Storage Blob "
    "Delegator, at the storage account and not only at the container."
)
# Patterns instead of an XML parser, which would expand entities and nest without bounds.
_BLOB: Final = re.compile(r"<Blob>(.*?)</Blob>", re.DOTALL)
_NAME: Final = re.compile(r'<Name( Encoded="true")?>([^<]*)</Name>')
_LENGTH: Final = re.compile(r"<Content-Length>([0-9]{1,18})</Content-Length>")
_NEXT: Final = re.compile(r"<NextMarker>([^<]+)</NextMarker>")
_RANGE: Final = re.compile(r"bytes (?:[0-9]+-[0-9]+|\*)/([0-9]+)", re.ASCII)
_PART_STATUS: Final = re.compile(rb"HTTP/1\.1 ([1-5][0-9]{2}) ")
_PART_NUMBER: Final = re.compile(rb"^Content-ID: ?([0-9]{1,3})\r?$", re.MULTILINE | re.IGNORECASE)
_PART_CODE: Final = re.compile(rb"^x-ms-error-code: ?([A-Za-z0-9]{1,64})\r?$", re.MULTILINE | re.IGNORECASE)


class AzureStore:
    """An object store in the container `container`, which `secret` opens.

    Up to `part_bytes` an object is one request. Larger ones are sent in blocks of that size, two at a time, whose list
    is committed at the end. Azure refuses both when the key is taken (`If-None-Match: *`), and checks an MD5 of the
    bytes of each request. All puts together hold at most 48 MiB: further puts wait. Objects carry their SHA-256 as
    metadata `sha256`.

    Until they are committed, Azure keeps blocks for a week. Those of a put that fails are discarded at once, those of a
    crash by `abort_stale_parts`.

    After three puts or deletions in a row that failed, the store is left alone for `rest_seconds`.

    Raise `StoreError` for an impossible account, container, endpoint or secret.
    """

    def __init__(self, settings: Place, container: str, secret: str, connection: Connection) -> None:
        self._client = AzureClient(settings, container, secret, connection)
        self._writer = AzureWriter(self._client, part_bytes=connection.part_bytes)
        self._part_bytes = connection.part_bytes
        self._probe_folder = connection.probe_folder
        self._breaker = CircuitBreaker(rest_seconds=connection.rest_seconds)
        self._keeps_deleted = False

    def __repr__(self) -> str:
        address = self._client.address
        return f"AzureStore({address.container!r}, {address.endpoint!r})"

    @property
    def remarks(self) -> Sequence[str]:
        """What an operator should know of a store that works, as sentences: see `probe`."""
        found = [self._expiry_remark(), _KEEPS_DELETED if self._keeps_deleted else ""]
        return [remark for remark in found if remark]

    async def put(self, key: str, sealed: Sealed, *, content_type: str) -> None:
        """Store the bytes; see the protocol. A taken key is a `StoreError`.

        A put whose response was lost is looked up before it counts as failed; a cancelled one ends its request first.
        """
        validate_key(key)
        with self._breaker.guard():
            await self._writer.put(key, sealed, content_type)

    def can_put_speculatively(self, size: int) -> bool:
        """Return whether the object would be sent in blocks and there is memory for them now."""
        return self._writer.can_put_speculatively(size)

    async def put_speculatively(
        self, key: str, sealed: Sealed, *, content_type: str, allowed: "asyncio.Future[bool]"
    ) -> None:
        """Send the blocks, and commit their list once `allowed` is True; see the protocol."""
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
        tag = ""
        while end is None or start < end:
            stop = start + _READ_BYTES if end is None else min(start + _READ_BYTES, end)
            piece, size, tag = await self._read_range(key, start, stop, tag)
            if expected_size not in {None, size}:
                raise ObjectChanged
            for at in range(0, len(piece), _CHUNK_BYTES):
                yield piece[at : at + _CHUNK_BYTES]
            start += len(piece)
            if start >= size:
                return

    async def size(self, key: str) -> int | None:
        """Return the size in bytes, or None when there is no such object."""
        found = await self._head(key)
        return None if found is None else int(found["content-length"])

    async def delete(self, key: str) -> None:
        """Delete the object. A missing object is a no-op; a missing container is not."""
        validate_key(key)
        with self._breaker.guard():
            response = await self._client.object("DELETE", key)
            if response.status != HTTPStatus.ACCEPTED and not is_missing(response):
                raise self._client.error(response, "delete objects")
        self._keeps_deleted = response.headers.get("x-ms-delete-type-permanent") == "false"

    async def delete_many(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Delete the objects with one Blob Batch request for each 256; see the protocol."""
        valid, failed = list[str](), dict[str, str]()
        for key in keys:
            try:
                valid.append(validate_key(key))
            except StoreError as error:
                failed[key] = str(error)
        if not valid:
            await self._client.ready()
        for start in range(0, len(valid), _BATCH):
            with self._breaker.guard():
                failed |= await self._delete_batch(valid[start : start + _BATCH])
        return failed

    async def list_objects(self, prefix: str, *, after: str = "") -> AsyncIterator[Sequence[ListedObject]]:
        """Yield the objects below `prefix` after `after`, up to a thousand at a time; see the protocol.

        Azure cannot begin at a key: what comes before `after` is listed too, and left out here.
        """
        folder = f"{prefix.rstrip('/')}/" if prefix else ""
        async for batch in self._pages(folder):
            wanted = [found for found in batch if found.key.encode() > after.encode()]
            if wanted:
                yield wanted

    async def is_ours(self, key: str) -> bool:
        """Return whether the object carries the mark of a put of this service."""
        found = await self._head(key)
        return found is not None and f"x-ms-meta-{MARK}" in found

    async def abort_stale_parts(self, prefix: str, older_than: timedelta, is_ours: Callable[[str], bool]) -> int:
        """Discard the blocks of puts that were begun long ago and never committed; see the protocol.

        Only where all blocks of a key carry the name and the time that a put of this service gives them.
        """
        discarded = 0
        with self._breaker.guard():
            async for batch in self._pages(prefix, include="uncommittedblobs"):
                for found in batch:
                    if found.size or not is_ours(found.key):
                        continue
                    query = {"comp": "blocklist", "blocklisttype": "all"}
                    response = await self._client.object("GET", found.key, query)
                    if is_missing(response):
                        continue
                    if response.status != HTTPStatus.OK:
                        raise self._client.error(response, "read objects")
                    if are_stale(response, older_than.total_seconds()):
                        discarded += await discard_blocks(self._client, found.key)
        return discarded

    async def probe(self, begin: Callable[[ProbeStep], None] = ignore_step) -> None:
        """Put, read and delete one small object in the probe folder, after a look at the token and the container."""
        begin("lookup")
        self._check_token()
        is_private = await self._check_container()
        await probe_store(
            self,
            self._probe_folder,
            lambda step: None if step == "lookup" else begin(step),
            None if is_private else self._require_private,
        )

    async def health(self) -> EngineHealth:
        """Return whether the container responds within five seconds. Never raises."""
        try:
            async with asyncio.timeout(_HEALTH_SECONDS):
                await self.size(f"{self._probe_folder}/health")
        except StoreError as error:
            return EngineHealth("storage", "azure", EngineState.DOWN, detail=str(error))
        except TimeoutError:
            return EngineHealth("storage", "azure", EngineState.DOWN, detail="The store did not respond in time.")
        remark = self._expiry_remark()
        state = EngineState.DEGRADED if remark else EngineState.UP
        return EngineHealth("storage", "azure", state, detail=remark, limits={"part_bytes": self._part_bytes})

    async def aclose(self) -> None:
        """Release the connections. A second call is a no-op."""
        self._client.close()

    def _expiry_remark(self) -> str:
        """Return that the SAS token expires soon, empty if it does not."""
        ends = self._client.credential.expires_at if isinstance(self._client.credential, SasToken) else None
        if ends is None or ends - datetime.now(UTC) > _SHORT_SAS:
            return ""
        return f"The SAS token expires on {moment(ends)}."

    def _check_token(self) -> None:
        """Raise `StoreError` for a SAS token that cannot be used, or not for long."""
        token = self._client.credential
        if not isinstance(token, SasToken):
            return
        if problem := token.problem():
            raise StoreError(problem)
        ends = token.expires_at
        if ends is not None and ends <= datetime.now(UTC):
            raise StoreError(f"The SAS token expired on {moment(ends)}.")
        if ends is not None and ends - datetime.now(UTC) < _LEAST_SAS:
            raise StoreError(f"The SAS token expires on {moment(ends)}: one that lasts longer than a day is needed.")

    async def _check_container(self) -> bool:
        """Return whether the container is known to be private. Raise `StoreError` for one that must not be used.

        A SAS token for the container may not ask.
        """
        address = self._client.address
        response = await self._client.send("GET", address.path(), {"restype": "container"})
        if response.status == HTTPStatus.OK:
            if level := response.headers.get("x-ms-blob-public-access"):
                raise StoreError(_public(level))
            held = ("x-ms-has-immutability-policy", "x-ms-has-legal-hold")
            if "true" in {response.headers.get(name, "").lower() for name in held}:
                raise StoreError(
                    "The container has an immutability policy or a legal hold: objects could not be deleted."
                )
            return True
        if isinstance(self._client.credential, SasToken) and response.status in {
            HTTPStatus.FORBIDDEN,
            HTTPStatus.NOT_FOUND,
        }:
            return False
        raise self._client.error(response, "read the container's properties")

    async def _require_private(self, key: str) -> None:
        """Raise `StoreError` if anyone can read the object."""
        response = await self._client.send("GET", self._client.address.path(key), is_anonymous=True)
        if response.status == HTTPStatus.OK:
            raise StoreError(_public("blob"))

    async def _head(self, key: str) -> Mapping[str, str] | None:
        """Return the headers of an object, None if there is none."""
        response = await self._client.head(validate_key(key))
        if is_missing(response):
            return None
        if response.status != HTTPStatus.OK or not response.headers.get("content-length", "").isdecimal():
            raise self._client.error(response, "read objects")
        return response.headers

    async def _read_range(self, key: str, start: int, stop: int, tag: str) -> tuple[bytes, int, str]:
        """Return the bytes from `start` up to `stop` or the object's end, its size, and its entity tag.

        With a `tag`, only of the object that had it before. Raise `KeyError` if it is missing.
        """
        headers = {"range": f"bytes={start}-{stop - 1}", **({"if-match": tag} if tag else {})}
        response = await self._client.object("GET", key, headers=headers)
        if is_missing(response):
            raise KeyError(key)
        found = _RANGE.fullmatch(response.headers.get("content-range", ""))
        if response.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return b"", int(found[1]) if found else start, tag  # the object ends at or before `start`
        if response.status == HTTPStatus.PRECONDITION_FAILED:
            raise ObjectChanged
        if response.status != HTTPStatus.PARTIAL_CONTENT or found is None:
            raise self._client.error(response, "read objects")
        size = int(found[1])
        if len(response.body) != min(stop, size) - start:
            raise StoreError("The store sent fewer bytes than it said.")
        return response.body, size, response.headers.get("etag", "")

    async def _pages(self, prefix: str, *, include: str = "") -> AsyncIterator[Sequence[ListedObject]]:
        """Yield what is below a prefix, in pages."""
        query = {"restype": "container", "comp": "list", "maxresults": str(_LISTED)}
        query |= ({"prefix": prefix} if prefix else {}) | ({"include": include} if include else {})
        path = self._client.address.path()
        while True:
            response = await self._client.send("GET", path, query)
            text = response.body.decode("utf-8", "replace")
            if response.status != HTTPStatus.OK or "</EnumerationResults>" not in text:
                raise self._client.error(response, "list the container")
            yield [found for entry in _BLOB.findall(text) if (found := _listed(entry)) is not None]
            following = _NEXT.search(text)
            marker = html.unescape(following[1]) if following else ""
            if marker in {"", query.get("marker")}:  # a store that repeats a page must not loop us
                return
            query["marker"] = marker

    async def _delete_batch(self, keys: Sequence[str]) -> dict[str, str]:
        address = self._client.address
        parts = list[str]()
        for number, key in enumerate(keys):
            headers = {"x-ms-date": formatdate(usegmt=True), "content-length": "0"}
            path = address.path(key)
            words = await self._client.credential.authorize(Request("DELETE", path, {}, headers))
            lines = [f"DELETE {path}{'?' if words else ''}{words} HTTP/1.1", *map(": ".join, headers.items())]
            head = f"--{_BOUNDARY}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n"
            parts.append("\r\n".join((f"{head}Content-ID: {number}", "", *lines, "", "")))
        body = "".join((*parts, f"--{_BOUNDARY}--\r\n")).encode()
        query = {"restype": "container", "comp": "batch"}
        kind = {"content-type": f"multipart/mixed; boundary={_BOUNDARY}"}
        response = await self._client.send("POST", address.path(), query, headers=kind, body=body)
        if is_outage(response):
            raise self._client.error(response, "delete objects")
        left = _not_deleted(response, keys)
        failed = dict[str, str]()
        # Single requests tell why a key could not be deleted, also where the store does not delete a batch.
        for start in range(0, len(left), _SINGLE_DELETES):
            some = left[start : start + _SINGLE_DELETES]
            for key, refused in zip(some, await asyncio.gather(*map(self._delete_one, some)), strict=True):
                failed |= {} if refused is None else {key: refused}
        return failed

    async def _delete_one(self, key: str) -> str | None:
        """Delete an object; return why not. Raise `StoreError` if the store as a whole failed."""
        response = await self._client.object("DELETE", key)
        if response.status == HTTPStatus.ACCEPTED or is_missing(response):
            return None
        fault = self._client.error(response, "delete objects")
        if is_outage(response):
            raise fault
        return str(fault)


class SigningAzureStore(AzureStore):
    """A store that an account key or a client opens: both can sign links. What a SAS token opens, its owner signed."""

    _delegation: DelegationKey | None = None

    async def presign(self, key: str, *, expires_in: int, filename: str, content_type: str) -> str:
        """Return a URL for `expires_in` seconds whose response from Azure has exactly this file name and type.

        Sends no request with an account key, but calls `before`, because opening the URL sends one. A client asks for a
        key of its own to sign with, once a day.
        """
        address = self._client.address
        validate_key(key)
        await self._client.ready()
        expires_at = datetime.now(UTC) + timedelta(seconds=expires_in)
        headers = {"rscd": attachment(filename), "rsct": content_type}
        own = self._client.credential
        signer = own if isinstance(own, SharedKey) else await self._delegation_key(expires_in)
        return f"{address.endpoint}{address.path(key)}?{sign_link(address, key, expires_at, headers, signer)}"

    async def probe(self, begin: Callable[[ProbeStep], None] = ignore_step) -> None:
        """Try the container out, and whether links can be signed."""
        await super().probe(begin)
        if not isinstance(self._client.credential, SharedKey):
            await self._delegation_key(0)

    async def _delegation_key(self, expires_in: int) -> DelegationKey:
        now = datetime.now(UTC)
        known = self._delegation
        if known is None or known.expires_at < now + timedelta(seconds=expires_in + 60):
            query = {"restype": "service", "comp": "userdelegationkey"}
            body = delegation_request(now, expires_in)
            path = f"{self._client.address.root}/"
            response = await self._client.send("POST", path, query, body=body)
            if response.status != HTTPStatus.OK:
                fault = self._client.error(response, "sign links")
                if code_of(response) == "AuthorizationPermissionMismatch":
                    raise type(fault)(_NO_DELEGATION)
                raise fault
            known = self._delegation = parse_delegation(response.body)
        return known


def open_container(settings: Place, container: str, secret: str, connection: Connection) -> AzureStore:
    """Return the store of a container, which signs links if its credentials can. Raise `StoreError`."""
    kind = AzureStore if settings.credential == "sas_token" else SigningAzureStore
    return kind(settings, container, secret, connection)


def _public(level: str) -> str:
    named = "Container" if level == "container" else "Blob"
    return f"The container's anonymous access level is {named}: anyone could read its files. Set it to Private."


def _listed(entry: str) -> ListedObject | None:
    """Return the object of an entry of a list; None for a folder of an account with a hierarchical namespace."""
    name, length = _NAME.search(entry), _LENGTH.search(entry)
    if name is None or length is None or "<ResourceType>directory</ResourceType>" in entry:
        return None
    key = html.unescape(name[2])
    return ListedObject(unquote(key) if name[1] else key, int(length[1]))


def _not_deleted(response: Response, keys: Sequence[str]) -> Sequence[str]:
    """Return the keys of which the response to a batch does not say that they are gone."""
    gone = set[str]()
    kind = response.headers.get("content-type", "")
    boundary = kind.partition("boundary=")[2].strip('"').encode()
    if response.status == HTTPStatus.ACCEPTED and boundary:
        for part in response.body.split(b"--" + boundary):
            status, number, code = _PART_STATUS.search(part), _PART_NUMBER.search(part), _PART_CODE.search(part)
            if status is None or number is None or int(number[1]) >= len(keys):
                continue
            if status[1] == b"202" or (code is not None and code[1] == b"BlobNotFound"):
                gone.add(keys[int(number[1])])
    return [key for key in keys if key not in gone]
