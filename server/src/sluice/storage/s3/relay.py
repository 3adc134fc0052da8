"""A forward proxy on loopback for S3 clients that use plain http: it connects to the address that was checked.

The client library resolves names itself, after the check: a name server that responds differently the second time leads
it to an internal address (DNS rebinding). Over https the certificate of the name prevents that.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from sluice.storage.protocol import StoreError

# Returns the addresses of an origin (`http://host:port`) that may be called; raises `StoreError` when none may.
Resolve = Callable[[str], Awaitable[Collection[str]]]

_CHUNK_BYTES: Final = 256 * 1024
_MAX_LINE_BYTES: Final = 16 * 1024
_MAX_HEAD_BYTES: Final = 64 * 1024
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?\r\n")
_BAD_GATEWAY: Final = (
    f"HTTP/1.1 {HTTPStatus.BAD_GATEWAY.value} Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()
)
_CONNECTION_ERRORS: Final = (OSError, ValueError, EOFError, asyncio.LimitOverrunError)


class Relay:
    """Forward the one request of each connection to its host. Clients must not use a connection twice.

    Redirects lose their target, so that none is followed. What cannot be forwarded gets 502.
    """

    def __init__(self, resolve: Resolve, connect_seconds: float) -> None:
        self._resolve = resolve
        self._connect_seconds = connect_seconds
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """The address for `proxy_url`. The port is bound now; await `start` before a request is sent."""
        if self._socket is None:
            self._socket = socket.create_server(("127.0.0.1", 0))
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    async def start(self) -> None:
        """Serve on the running loop. A second call is a no-op."""
        if self._server is None and self.url:
            self._server = await asyncio.start_server(self._serve, sock=self._socket, limit=_MAX_LINE_BYTES)

    async def aclose(self) -> None:
        """Stop listening. A second call is a no-op."""
        if self._server is not None:
            self._server.close()
        elif self._socket is not None:
            self._socket.close()
        self._server = self._socket = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request_line, store_reader, store_writer = await self._connect_for(await reader.readuntil(b"\r\n"))
        except (*_CONNECTION_ERRORS, StoreError):
            writer.write(_BAD_GATEWAY)
            writer.close()
            return
        store_writer.write(request_line)
        try:
            await _exchange(reader, writer, store_reader, store_writer)
        except _CONNECTION_ERRORS:
            # Break the connection as the store did: a response of ours could be taken for the rest of the store's.
            writer.transport.abort()
        finally:
            store_writer.close()
            writer.close()

    async def _connect_for(self, line: bytes) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the host of a proxy request; return its line in origin form (RFC 9112 3.2.1), and the streams."""
        method, target, version = line.decode("ascii").split(" ")
        parts = urlsplit(target)
        origin, port = f"http://{parts.netloc}", parts.port or 80
        if parts.scheme != "http" or not parts.hostname or not target.startswith(f"{origin}/"):
            raise ValueError("no request for this proxy")
        last_error: OSError = ConnectionError("no address")
        for address in await self._resolve(origin):
            try:
                async with asyncio.timeout(self._connect_seconds):
                    streams = await asyncio.open_connection(address, port, limit=_MAX_LINE_BYTES)
            except OSError as error:  # also a timeout
                last_error = error
            else:
                return f"{method} {target.removeprefix(origin)} {version}".encode("ascii"), *streams
        raise last_error


async def _exchange(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    store_reader: asyncio.StreamReader,
    store_writer: asyncio.StreamWriter,
) -> None:
    """Forward request and response until either side ends."""
    sending = asyncio.create_task(_forward(reader, store_writer))
    responding = asyncio.create_task(_forward_response(store_reader, writer))
    try:
        # A client that closes wants no more, whatever the store keeps open.
        await asyncio.wait((sending, responding), return_when=asyncio.FIRST_COMPLETED)
        if responding.done() or sending.exception() is not None:
            await responding  # a store may refuse a body and respond all the same
    finally:
        for task in (sending, responding):
            task.cancel()
        await asyncio.gather(sending, responding, return_exceptions=True)


async def _forward_response(store_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    status_line, status = await _read_status(store_reader)
    # Interim responses (RFC 9110 section 15.2) are dropped: a redirect may follow them.
    while status.startswith("1"):
        skipped = 0
        while (line := await store_reader.readuntil(b"\r\n")) != b"\r\n":
            skipped += len(line)
            if skipped > _MAX_HEAD_BYTES:
                raise ValueError("an interim response without end")
        status_line, status = await _read_status(store_reader)
    writer.write(status_line)
    if status.startswith("3") and status != "304":
        writer.write(b"Content-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        return
    await _forward(store_reader, writer)


async def _read_status(store_reader: asyncio.StreamReader) -> tuple[bytes, str]:
    """Return a status line and its status; raise `ValueError` for a line that another parser might read differently."""
    line = await store_reader.readuntil(b"\r\n")
    found = _STATUS_LINE.fullmatch(line)
    if found is None:
        raise ValueError("not a response of HTTP")
    return line, found[1].decode()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(_CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
