"""Requests to one bucket by the XML API of Google Cloud Storage, each signed with an HMAC key."""

import hashlib
import time
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from sluice.storage.gcs.client import READ, bucket_and_origin, pause, read_range
from sluice.storage.gcs.errors import RequestFailed, failed_xml_response
from sluice.storage.gcs.signatures import HmacKey, canonical_query
from sluice.storage.protocol import Connection, StoreError
from sluice.storage.transport import NoResponse, Response, Transport

_OK: Final = frozenset({200})
_EMPTY: Final = hashlib.sha256().hexdigest()
_WITH_BODY: Final = frozenset({"POST", "PUT"})


class HmacClient:
    """The requests of one bucket. Close it in the end.

    Each takes at most `request_seconds` with its body, follows no redirect, and uses no proxy but the relay. One that
    fails for a passing reason is repeated, unless it says otherwise.
    """

    def __init__(self, bucket: str, key: HmacKey, endpoint_url: str | None, connection: Connection) -> None:
        self.bucket, self.origin = bucket_and_origin(bucket, endpoint_url)
        self.key = key
        if not key.identity.isascii() or not key.identity.isprintable() or " " in key.identity:
            raise StoreError("The access ID of an HMAC key is printable ASCII without spaces.")
        self._before = connection.before
        self._timeouts = connection.timeouts
        self._transport = Transport(
            self.origin,
            connection.timeouts,
            unknown_host="The host name of the store is not known.",
            relay_url=connection.relay_url,
        )
        self._is_closed = False

    def path(self, key: str) -> str:
        """Return the path of an object, or of the bucket if the key is empty, as it is signed."""
        return f"/{self.bucket}/{quote(key, safe='/~')}" if key else f"/{self.bucket}"

    def close(self) -> None:
        """Close the connections. A second call is a no-op."""
        self._is_closed = True
        self._transport.close()

    async def check(self) -> None:
        """Raise `StoreError` if the client is closed, or if no request may be sent."""
        if self._is_closed:
            raise StoreError("The object store is closed.")
        if self._before is not None:
            await self._before()

    async def send(
        self,
        method: str,
        key: str = "",
        query: Mapping[str, str] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        digest: str = _EMPTY,
        expected: frozenset[int] = _OK,
        repeat: bool = True,
        anonymous: bool = False,
    ) -> Response:
        """Return a response with an `expected` status. Raise `RequestFailed`, and `StoreError` if none may be sent.

        `digest` is the SHA-256 of `body`; the names of `headers` are in lower case.
        """
        path, words = self.path(key), canonical_query(query or {})
        target = f"{path}?{words}" if words else path
        given = {"host": self.origin.partition("://")[2], **(headers or {})}
        begun, tries = time.monotonic(), 0
        while True:
            await self.check()
            sent = given if anonymous else self.key.signed_headers(method, path, words, given, digest)
            if method in _WITH_BODY:
                sent["content-length"] = str(len(body))
            try:
                try:
                    response = await self._transport.send(method, target, sent, body)
                except NoResponse as fault:
                    raise RequestFailed(None, sentence=str(fault)) from None
                if response.status in expected:
                    return response
                raise failed_xml_response(response.status, response.body)
            except RequestFailed as failure:
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

    async def described(self, key: str) -> Mapping[str, str] | None:
        """Return the headers of an object, None if there is no such object. Raise as `send` does."""
        try:
            return (await self.send("HEAD", key)).headers
        except RequestFailed as failure:
            if failure.status not in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
                raise
        # The response to HEAD has no body that tells a missing object from a missing bucket, or why it is refused.
        try:
            response = await self.send("GET", key, headers={"range": "bytes=0-0"}, expected=READ)
        except RequestFailed as failure:
            if failure.is_no_object:
                return None
            raise
        _, size = read_range(response.status, response.headers.get("content-range", ""), response.body, 0, 1)
        return {**response.headers, "content-length": str(size)}
