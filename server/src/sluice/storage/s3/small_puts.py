"""Puts of small objects on the event loop: signed and sent here, since the client library wakes a thread for each.

Only the common case is here, a new object that the store accepts at once. All else is left to the library, which sends
the request again and knows what a response means. Decision 30 has the measurement.
"""

import asyncio
import hashlib
import hmac
import re
import ssl
import time
from collections.abc import Mapping
from enum import Enum, auto
from functools import cache
from http import HTTPStatus
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from sluice.storage.protocol import Timeouts
from sluice.storage.s3.client import Address, S3Credentials

_MAX_RESPONSE_BYTES: Final = 64 * 1024
_MAX_IDLE: Final = 32
_IDLE_SECONDS: Final = 20.0
_HEADER_VALUE: Final = re.compile(r"[!-~](?:[ !-~]*[!-~])?", re.ASCII)
_ALGORITHM: Final = "AWS4-HMAC-SHA256"
_PORTS: Final = {"http": 80, "https": 443}


class PutOutcome(Enum):
    """The outcome of a put.

    `NOT_SENT`: the store could not be reached, or the request is not one for this client. `REFUSED`: the store
    responded anything but that it holds a new object. `BROKE`: the connection ended without a response.
    """

    STORED = auto()
    NOT_SENT = auto()
    REFUSED = auto()
    BROKE = auto()


class SmallPuts:
    """Puts into one bucket over connections that are kept for `_IDLE_SECONDS`.

    No proxy is used and no redirect followed, and the certificate of an https endpoint must be one that the system
    trusts.
    """

    def __init__(self, address: Address, credentials: S3Credentials, timeouts: Timeouts) -> None:
        parts = urlsplit(address.endpoint)
        self._address = address
        self._port = parts.port or _PORTS[parts.scheme]
        self._is_tls = parts.scheme == "https"
        self._signer = _Signer(address, credentials)
        self._access_key_id = credentials.access_key_id
        self._timeouts = timeouts
        self._idle: list[_Connection] = []
        self._sweep: asyncio.TimerHandle | None = None

    async def put(self, key: str, body: bytes, attributes: Mapping[str, str]) -> PutOutcome:
        """Create the object if there is none under `key`. Raise `TimeoutError` if the store does not respond in time.

        `attributes` are its metadata, with `Content-Type` and `sha256`, the digest of `body` that the store checks.
        """
        if not all(map(_HEADER_VALUE.fullmatch, (self._access_key_id, *attributes.values()))):
            return PutOutcome.NOT_SENT
        request = b"".join((self._signer.head(self._address.url(key), attributes, len(body)), body))
        while True:
            connection, is_new = self._pop_idle(), False
            if connection is None:
                try:
                    connection, is_new = await self._connect(), True
                except (OSError, ValueError):  # also an untrusted certificate, or a name that no DNS can hold
                    return PutOutcome.NOT_SENT
            outcome = await connection.exchange(request, self._timeouts.request_seconds)
            if connection.is_reusable:
                self._keep(connection)
            # A store may close a connection while it is idle: that says nothing about this request.
            if outcome is not PutOutcome.BROKE or is_new:
                return outcome

    def close(self) -> None:
        """Close the connections that no request uses."""
        while self._idle:
            self._idle.pop().close()

    async def _connect(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(self._timeouts.connect_seconds):
            _, connection = await loop.create_connection(
                lambda: _Connection(loop),
                self._address.host,
                self._port,
                ssl=_tls_context() if self._is_tls else None,
                server_hostname=self._address.host if self._is_tls else None,
            )
        return connection

    def _pop_idle(self) -> "_Connection | None":
        loop = asyncio.get_running_loop()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_reusable and connection.loop is loop:
                return connection
        return None

    def _keep(self, connection: "_Connection") -> None:
        if len(self._idle) >= _MAX_IDLE:
            connection.close()
            return
        connection.idle_since = connection.loop.time()
        self._idle.append(connection)
        if self._sweep is None or self._sweep.when() < connection.idle_since:  # it has run, or its loop has ended
            self._sweep = connection.loop.call_later(_IDLE_SECONDS, self._close_old, connection.loop)

    def _close_old(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sweep = None
        oldest = loop.time() - _IDLE_SECONDS
        for connection in self._idle:
            if connection.idle_since <= oldest:
                connection.close()
        self._idle = [connection for connection in self._idle if connection.is_reusable]
        if self._idle:
            self._sweep = loop.call_later(_IDLE_SECONDS, self._close_old, loop)


class _Signer:
    """Signature version 4 of puts: docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html."""

    def __init__(self, address: Address, credentials: S3Credentials) -> None:
        parts = urlsplit(address.endpoint)
        self._endpoint = address.endpoint
        self._host = parts.netloc.removesuffix(f":{_PORTS[parts.scheme]}")
        self._credentials = credentials
        self._day, self._key = "", b""

    def head(self, url: str, attributes: Mapping[str, str], size: int) -> bytes:
        """Return the head of a signed put of `size` bytes that creates an object with these attributes."""
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        path = url.removeprefix(self._endpoint)
        digest = attributes["sha256"]
        signed = {  # in the order of their names
            "content-type": attributes["Content-Type"],
            "host": self._host,
            "if-none-match": "*",
            "x-amz-content-sha256": digest,
            "x-amz-date": now,
            "x-amz-meta-sha256": attributes["sha256"],
            "x-amz-meta-sluice-put": attributes["sluice-put"],
        }
        names = ";".join(signed)
        canonical = "\n".join(
            ("PUT", path, "", *(f"{name}:{value}" for name, value in signed.items()), "", names, digest)
        )
        day = now[:8]
        scope = f"{day}/{self._credentials.region}/s3/aws4_request"
        text = f"{_ALGORITHM}\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._key_of(day), text.encode(), "sha256").hex()
        credential = f"{self._credentials.access_key_id}/{scope}"
        lines = [f"{name}: {value}" for name, value in signed.items()]
        lines.append(f"content-length: {size}")
        lines.append(f"authorization: {_ALGORITHM} Credential={credential},SignedHeaders={names},Signature={signature}")
        return "\r\n".join((f"PUT {path} HTTP/1.1", *lines, "", "")).encode()

    def _key_of(self, day: str) -> bytes:
        if day != self._day:
            key = f"AWS4{self._credentials.secret_access_key}".encode()
            for part in (day, self._credentials.region, "s3", "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._day, self._key = day, key
        return self._key


class _Connection(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.idle_since = 0.0
        self.is_reusable = False
        """Whether it is open, and its last response was read to the end."""
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[PutOutcome] | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._received = 0
        self._has_etag = False

    async def exchange(self, request: bytes, seconds: float) -> PutOutcome:
        """Send a request and return what the store made of it; raise `TimeoutError`."""
        if self._transport is None:
            return PutOutcome.BROKE
        self._response = response = self.loop.create_future()
        self.is_reusable, self._received, self._has_etag = False, 0, False
        timer = self.loop.call_later(seconds, self._time_out)
        self._transport.write(request)
        try:
            outcome: PutOutcome = await response
        finally:
            timer.cancel()
            self._response = None
            if not self.is_reusable:
                self.close()
        return outcome

    def close(self) -> None:
        """Close it. A second call is a no-op."""
        self.is_reusable = False
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._response is None or self._response.done() or self._received > _MAX_RESPONSE_BYTES:
            # Also unexpected bytes: the next response could not be distinguished from them.
            self._end(PutOutcome.REFUSED)
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._end(PutOutcome.REFUSED)

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        self._end(PutOutcome.BROKE)

    def on_header(self, name: bytes, _: bytes) -> None:
        """Part of `httptools`: a header of the response."""
        self._has_etag = self._has_etag or name.lower() == b"etag"

    def on_message_complete(self) -> None:
        """Part of `httptools`: the end of a response."""
        # What has no entity tag is no response of S3 to a put, and a second response is one to nothing.
        is_second = self._response is None or self._response.done()
        if is_second or self._parser.get_status_code() != HTTPStatus.OK or not self._has_etag:
            self._end(PutOutcome.REFUSED)
        elif self._response is not None:
            self.is_reusable = self._parser.should_keep_alive()
            self._response.set_result(PutOutcome.STORED)

    def _end(self, outcome: PutOutcome) -> None:
        self.is_reusable = False
        if self._response is not None and not self._response.done():
            self._response.set_result(outcome)
        else:
            self.close()

    def _time_out(self) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(TimeoutError())


@cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()
