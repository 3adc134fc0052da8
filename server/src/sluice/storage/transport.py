"""Requests over HTTP to one origin: no redirect is followed, and no proxy used except the relay.

On the event loop, with the parser of the server: of a put of 10 KB, an HTTP client takes most of the processor time
(decision 30).
"""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final, cast
from urllib.parse import urlsplit

import httptools

from sluice.storage.protocol import StoreUnavailable, Timeouts

_KIB: Final = 1024
_PIECE_BYTES: Final = 256 * _KIB  # encrypted at once, on the event loop
_MAX_RESPONSE_BYTES: Final = 8 * _KIB * _KIB
_MAX_IDLE: Final = 32
_IDLE_SECONDS: Final = 20.0
_PORTS: Final = {"http": 80, "https": 443}
_NOT_FIELD: Final = frozenset("\r\n\0")
_FIRST_FINAL: Final = 200  # RFC 9110 section 15.2: before it are interim responses
_BROKEN: Final = "The connection to the store broke."


class NoResponse(StoreUnavailable):
    """The store did not respond. `may_have_arrived`: the request may have been carried out all the same."""

    def __init__(self, sentence: str, *, may_have_arrived: bool) -> None:
        super().__init__(sentence)
        self.may_have_arrived = may_have_arrived


@dataclass(frozen=True, slots=True)
class Response:
    """What a server sent; the names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Transport:
    """The connections to `origin`, kept for `_IDLE_SECONDS` when they are idle; those through a relay are not.

    The certificate of an https origin must be one that the system trusts. `unknown_host` says that it has no address.
    """

    def __init__(self, origin: str, timeouts: Timeouts, *, unknown_host: str, relay_url: str | None = None) -> None:
        parts = urlsplit(origin)
        self._host_field = parts.netloc
        self._is_tls = parts.scheme == "https"
        self._prefix = "" if relay_url is None else origin
        where = parts if relay_url is None else urlsplit(relay_url)
        self._host, self._port = where.hostname or "", where.port or _PORTS[where.scheme]
        self._keeps = relay_url is None
        self._timeouts = timeouts
        self._unknown_host = unknown_host
        self._idle: list[_Connection] = []
        self._sweep: asyncio.TimerHandle | None = None

    async def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> Response:
        """Return the response, whatever its status. Raise `NoResponse`."""
        fields = {"host": self._host_field, "accept": "*/*", **headers}
        if not self._keeps:
            fields["connection"] = "close"
        if not _NOT_FIELD.isdisjoint("".join(fields.values())):
            raise NoResponse("The request has a header that cannot be sent.", may_have_arrived=False)
        lines = [f"{method} {self._prefix}{target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
        head = "\r\n".join((*lines, "", "")).encode("utf-8")
        try:
            async with asyncio.timeout(self._timeouts.request_seconds):
                return await self._exchange(head, body, is_head=method == "HEAD")
        except TimeoutError:
            raise NoResponse("The store did not respond in time.", may_have_arrived=True) from None

    def close(self) -> None:
        """Close the connections that no request uses. A second call is a no-op."""
        while self._idle:
            self._idle.pop().close()

    async def _exchange(self, head: bytes, body: bytes, *, is_head: bool) -> Response:
        while True:
            connection, is_new = self._pop_idle(), False
            if connection is None:
                connection, is_new = await self._connect(), True
            try:
                response = await connection.exchange(head, body, is_head=is_head)
            except _Broken:
                # A store may close a connection while it is idle: that says nothing about this request.
                if is_new:
                    raise NoResponse(_BROKEN, may_have_arrived=True) from None
                continue
            finally:
                if not connection.is_reusable:
                    connection.close()
            if self._keeps and connection.is_reusable:
                self._keep(connection)
            else:
                connection.close()
            return response

    async def _connect(self) -> "_Connection":
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeouts.connect_seconds):
                _, connection = await loop.create_connection(
                    lambda: _Connection(loop),
                    self._host,
                    self._port,
                    ssl=_tls_context() if self._is_tls else None,
                    server_hostname=self._host if self._is_tls else None,
                )
        except ssl.SSLError as error:
            raise NoResponse("The store's TLS certificate is not trusted.", may_have_arrived=False) from error
        except (socket.gaierror, UnicodeError) as error:  # the latter for what no DNS can hold
            raise NoResponse(self._unknown_host, may_have_arrived=False) from error
        except OSError as error:  # also a timeout
            raise NoResponse("The store cannot be reached.", may_have_arrived=False) from error
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


class _Broken(Exception):
    """A connection ended before its response, or sent something that is none."""


class _Connection(asyncio.Protocol):
    """One connection; one request at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.idle_since = 0.0
        self.is_reusable = False
        """Whether it is open, and its last response was read to the end."""
        self._transport: asyncio.Transport | None = None
        self._response: asyncio.Future[Response] | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._parser = httptools.HttpResponseParser(self)
        self._is_head = self._has_head = False
        self._received = 0
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []

    async def exchange(self, head: bytes, body: bytes, *, is_head: bool) -> Response:
        """Send a request and return its response; raise `_Broken`. The caller closes what cannot be used again."""
        response: asyncio.Future[Response] = self.loop.create_future()
        self._response = response
        self._parser = httptools.HttpResponseParser(self)  # a response to HEAD ends where another has its body
        self.is_reusable, self._is_head, self._has_head, self._received = False, is_head, False, 0
        view = memoryview(body)
        if self._transport is None:
            raise _Broken
        self._transport.write(head + body if len(body) <= _PIECE_BYTES else head)
        is_whole = True
        for at in range(0, len(body), _PIECE_BYTES) if len(body) > _PIECE_BYTES else ():
            await self._can_write.wait()
            if response.done() or self._transport is None:  # it was refused before all was sent
                is_whole = False
                break
            self._transport.write(view[at : at + _PIECE_BYTES])
        try:
            found = await response
        finally:
            self._response = None
        self.is_reusable = self.is_reusable and is_whole
        return found

    def close(self) -> None:
        """Close it. A second call is a no-op."""
        self.is_reusable = False
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        if self._response is None or self._response.done() or self._received > _MAX_RESPONSE_BYTES:
            # Also unexpected bytes: the next response could not be distinguished from them.
            self._break()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._break()

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        self._can_write.set()
        is_unbounded = self._has_head and not {"content-length", "transfer-encoding"} & self._headers.keys()
        if is_unbounded and self._response is not None and not self._response.done():
            self._complete()
        self._break()

    def on_message_begin(self) -> None:
        """Part of `httptools`: the begin of a response, an interim one too."""
        self._headers, self._body = {}, []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Part of `httptools`: a header of the response."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Part of `httptools`: the end of the headers."""
        self._has_head = self._parser.get_status_code() >= _FIRST_FINAL
        if self._has_head and self._is_head:
            self._complete()

    def on_body(self, data: bytes) -> None:
        """Part of `httptools`: a part of the body."""
        self._body.append(data)

    def on_message_complete(self) -> None:
        """Part of `httptools`: the end of a response."""
        if self._has_head and not self._is_head:
            if self._response is None or self._response.done():  # a response to nothing
                self._break()
                return
            self._complete()

    def _complete(self) -> None:
        if self._response is not None and not self._response.done():
            self.is_reusable = self._transport is not None and self._parser.should_keep_alive()
            self._response.set_result(Response(self._parser.get_status_code(), self._headers, b"".join(self._body)))

    def _break(self) -> None:
        self.is_reusable = False
        self._can_write.set()
        if self._response is not None and not self._response.done():
            self._response.set_exception(_Broken())
        elif self._response is None:
            self.close()


@cache
def _tls_context() -> ssl.SSLContext:
    return ssl.create_default_context()
