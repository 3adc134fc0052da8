"""Requests to one bucket by the JSON API of Google Cloud Storage."""

import asyncio
import json
import random
import re
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import httpcore

from sluice.kit.bounded_answers import BoundedBackend
from sluice.storage.gcs.credentials import AccessTokens, ServiceAccountKey
from sluice.storage.gcs.errors import FOREIGN, RequestFailed, failed_request, failed_response, no_bucket
from sluice.storage.protocol import Connection, StoreError

READ_BYTES: Final = 4 * 1024 * 1024
_MOST_BYTES: Final = 8 * 1024 * 1024  # of a response: a page of the listing with a thousand names of 1,024 bytes
_MOST_RECEIVED_BYTES: Final = _MOST_BYTES + 64 * 1024  # with its head
_RECEIVED_BYTES: Final = 32 * 1024  # at once: a download takes an eighth of the steps that 4 KiB would
_PIECE_BYTES: Final = 256 * 1024  # encrypted at once on the event loop
_MAX_IDLE: Final = 32
_IDLE_SECONDS: Final = 20.0
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_OK: Final = frozenset({200})
READ: Final = frozenset({200, 206, 416})
"""Statuses of responses that `read_range` reads."""
_GOOGLE: Final = "storage.googleapis.com"
_OF_GOOGLE: Final = ".googleapis.com"  # also addresses of a region, and private ones
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]", re.ASCII)
_RANGE: Final = re.compile(r"bytes (?:(\d{1,15})-(\d{1,15})|\*)/(\d{1,15})")
_HOST: Final = re.compile(r"[a-z0-9.-]+|[0-9a-f:.]+", re.ASCII)
_NO_ENDPOINT: Final = "The endpoint is an http or https address of a host, without path, user or query."


@dataclass(frozen=True, slots=True)
class Response:
    """A response. The names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the body as an object of JSON. Raise `StoreError`."""
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise StoreError("The store's response is not one that Google Cloud Storage gives.")
        return found


class GcsClient:
    """The requests of one bucket. Close it in the end.

    Each takes at most `request_seconds` with its body, follows no redirect, and uses no proxy but the relay. One that
    fails for a passing reason is repeated; all of ours can be, since objects are created only where there is none.

    Access tokens are sent to Google alone: another server gets neither a token nor anything signed with the key, except
    links to itself.
    """

    def __init__(self, bucket: str, key: ServiceAccountKey, endpoint_url: str | None, connection: Connection) -> None:
        self.bucket, self.origin = bucket_and_origin(bucket, endpoint_url)
        self.key = key
        self._before = connection.before
        self._timeouts = connection.timeouts
        tls = _tls_context() if self.origin.startswith("https:") else None
        self.is_relayed = connection.relay_url is not None
        self._http = httpcore.AsyncConnectionPool(
            tls,
            # The relay takes one request on each connection.
            max_keepalive_connections=0 if self.is_relayed else _MAX_IDLE,
            keepalive_expiry=_IDLE_SECONDS,
            max_connections=None,
            proxy=httpcore.Proxy(connection.relay_url) if connection.relay_url is not None else None,
            network_backend=BoundedBackend(_MOST_RECEIVED_BYTES, read_bytes=_RECEIVED_BYTES),
        )
        self._tokens: AccessTokens | None = None
        if is_google(self.origin):
            self._google = httpcore.AsyncConnectionPool(
                _tls_context(), max_connections=1, network_backend=BoundedBackend(_MOST_RECEIVED_BYTES)
            )
            self._tokens = AccessTokens(key, self._google, self._timeouts.request_seconds)
        self._is_closed = False

    @property
    def asks_google(self) -> bool:
        """Whether requests go to Google, which judges who sends them."""
        return self._tokens is not None

    def object_path(self, key: str) -> str:
        """Return the path of an object's resource."""
        return f"/storage/v1/b/{self.bucket}/o/{quote(key, safe='')}"

    async def aclose(self) -> None:
        """Close the connections. A second call is a no-op."""
        self._is_closed = True
        await self._http.aclose()
        if self._tokens is not None:
            await self._google.aclose()

    async def check(self) -> None:
        """Raise `StoreError` if the client is closed, or if no request may be sent."""
        if self._is_closed:
            raise StoreError("The object store is closed.")
        if self._before is not None:
            await self._before()

    async def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: Sequence[bytes] = (),
        expected: frozenset[int] = _OK,
        repeat: bool = True,
        anonymous: bool = False,
    ) -> Response:
        """Return a response with an `expected` status. Raise `RequestFailed`, and `StoreError` if none may be sent."""
        begun, tries, renewed = time.monotonic(), 0, False
        while True:
            token = ""
            try:
                await self.check()
                if self._tokens is not None and not anonymous:
                    token = await self._tokens.get()
                address = f"{path}?{urlencode(query, quote_via=quote, safe='')}" if query else path
                response = await self._send_once(method, address, headers or {}, body, token)
                if response.status in expected:
                    return response
                raise failed_response(response.status, response.body)
            except RequestFailed as failure:
                if failure.status == HTTPStatus.UNAUTHORIZED and token and self._tokens is not None and not renewed:
                    self._tokens.discard(token)  # it was revoked
                    renewed = True
                    continue
                tries += 1
                spent = time.monotonic() - begun
                if (
                    not repeat
                    or not failure.is_passing
                    or tries > self._timeouts.retries
                    or spent >= self._timeouts.request_seconds
                ):
                    raise
            await pause(tries)

    async def described(self, key: str, fields: str) -> dict[str, Any] | None:
        """Return some fields of an object's description, None if there is no such object. Raise as `send` does."""
        try:
            return (await self.send("GET", self.object_path(key), {"fields": fields})).json()
        except RequestFailed as failure:
            await self.require_bucket(failure)
            return None

    async def require_bucket(self, failure: RequestFailed) -> None:
        """Raise `RequestFailed` unless a failure means that an object of the bucket is missing."""
        if failure.status != HTTPStatus.NOT_FOUND or failure.is_no_bucket:
            raise failure
        if failure.is_no_object:
            return
        try:  # other servers do not say which of them is missing
            await self.send("GET", f"/storage/v1/b/{self.bucket}/o", {"maxResults": "1", "fields": "kind"})
        except RequestFailed as other:
            raise no_bucket() if other.status == HTTPStatus.NOT_FOUND else other from None

    async def _send_once(
        self,
        method: str,
        address: str,
        headers: Mapping[str, str],
        body: Sequence[bytes],
        token: str,
    ) -> Response:
        length = sum(map(len, body))
        sent = [("Host", self.origin.partition("://")[2]), ("Accept-Encoding", "identity"), *headers.items()]
        if token:
            sent.append(("Authorization", f"Bearer {token}"))
        if body or method in {"POST", "PUT"}:
            sent.append(("Content-Length", str(length)))
        limits = {"connect": self._timeouts.connect_seconds}
        try:
            async with (
                asyncio.timeout(self._timeouts.request_seconds),
                self._http.stream(
                    method,
                    f"{self.origin}{address}",
                    headers=sent,
                    content=_pieces(body) if body else None,
                    extensions={"timeout": limits},
                ) as response,
            ):
                received = bytearray()
                async for piece in response.aiter_stream():
                    received += piece
                    if len(received) > _MOST_BYTES:
                        raise RequestFailed(response.status, sentence="The store's response is longer than it may be.")
                found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
                return Response(response.status, found, bytes(received))
        except FOREIGN as error:
            raise failed_request(error) from None


async def _pieces(body: Sequence[bytes]) -> AsyncIterator[bytes]:
    """Yield a body in pieces, so that its encryption does not hold up the event loop."""
    for part in body:
        view = memoryview(part)
        for at in range(0, len(view), _PIECE_BYTES):
            yield bytes(view[at : at + _PIECE_BYTES])


async def pause(tries: int) -> None:
    """Wait before a request is repeated."""
    longest = min(_FIRST_PAUSE * 2**tries, _LONGEST_PAUSE)
    await asyncio.sleep(random.uniform(longest / 2, longest))  # noqa: S311  (not a secret)


def is_google(origin: str) -> bool:
    """Return whether an origin is one of Google's, to which access tokens are sent."""
    parts = urlsplit(origin)
    return parts.scheme == "https" and (parts.hostname or "").endswith(_OF_GOOGLE)


def bucket_and_origin(bucket: str, endpoint_url: str | None) -> tuple[str, str]:
    """Return both as requests name them; raise `StoreError` for what could change the address of a request."""
    if not _BUCKET.fullmatch(bucket):
        raise StoreError("The bucket name is 3 to 222 lower-case letters, digits, dots, hyphens and underscores.")
    if endpoint_url is None:
        return bucket, f"https://{_GOOGLE}"
    try:
        parts = urlsplit(endpoint_url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise StoreError(_NO_ENDPOINT) from None
    bare = parts._replace(scheme="", netloc="").geturl() in {"", "/"}
    if parts.scheme not in {"http", "https"} or not _HOST.fullmatch(host) or "@" in parts.netloc or not bare:
        raise StoreError(_NO_ENDPOINT)
    shown = f"[{host}]" if ":" in host else host
    return bucket, f"{parts.scheme}://{shown}{f':{port}' if port else ''}"


def read_range(status: int, content_range: str, body: bytes, start: int, stop: int) -> tuple[bytes, int]:
    """Return the bytes of a response to a request for those from `start` up to `stop`, and the object's size.

    Raise `StoreError` for other bytes.
    """
    covered = _RANGE.fullmatch(content_range)
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        return b"", int(covered[3]) if covered else start  # the object ends at or before `start`
    if status == HTTPStatus.OK and start == 0:  # a range that is the whole object
        covered = _RANGE.fullmatch(f"bytes 0-{len(body) - 1}/{len(body)}")
        if not body:
            return b"", 0
    if covered is None or covered[1] is None:
        raise StoreError("The store sent other bytes than were asked for.")
    size = int(covered[3])
    if int(covered[1]) != start or len(body) != min(stop, size) - start:
        raise StoreError("The store sent fewer bytes than it said.")
    return body, size


@cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()
