"""A forward proxy on loopback for S3 clients that speak plain http: it learns where a name leads and connects there, in one step.

The client library resolves names by itself, after anybody has judged them: a name server that answers twice differently leads it astray
(DNS rebinding). Over https the certificate of the name stands against that; here the address that was judged is the one that is called. Who may be called, and where, is judged by what it is given.
"""

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Collection
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from sluice.engines.storage.protocol import StoreFault

Lead = Callable[[str], Awaitable[Collection[str]]]
"""Answers the addresses that an origin (`http://host:port`) leads to and may; raises `StoreFault` when it may not be called."""

_PIECE: Final = 256 * 1024
_MOST_LINE: Final = 16 * 1024
_MOST_HEAD: Final = 64 * 1024
_STATUS_LINE: Final = re.compile(rb"HTTP/1\.[01] ([1-5][0-9]{2})(?: [^\r\n]*)?\r\n")
_AWAY: Final = f"HTTP/1.1 {HTTPStatus.BAD_GATEWAY.value} Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode()


class Relay:
    """Hands each connection on to where its one request is meant to go. Clients must not use a connection twice.

    Redirects lose their target on the way, so that none is followed. What cannot be handed on is answered with 502.
    """

    def __init__(self, lead: Lead, connect_seconds: float) -> None:
        self._lead = lead
        self._connect_seconds = connect_seconds
        self._socket: socket.socket | None = None
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        """Where it listens, for `proxy_url`. The port is taken now; `start` must have been awaited before a request is sent."""
        if self._socket is None:
            self._socket = socket.create_server(("127.0.0.1", 0))
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    async def start(self) -> None:
        """Serve on the running loop. A second call is a no-op."""
        if self._server is None and self.url:
            self._server = await asyncio.start_server(self._serve, sock=self._socket, limit=_MOST_LINE)

    async def aclose(self) -> None:
        """Listen no more. A second call is a no-op."""
        if self._server is not None:
            self._server.close()
        elif self._socket is not None:
            self._socket.close()
        self._server = self._socket = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readuntil(b"\r\n")
            first, behind, ahead = await self._reached(line)
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError, StoreFault):
            writer.write(_AWAY)
            writer.close()
            return
        ahead.write(first)
        try:
            await _exchange(reader, writer, behind, ahead)
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError):
            writer.transport.abort()  # as the client would have met it: a word of ours could be taken for the rest of an answer
        finally:
            ahead.close()
            writer.close()

    async def _reached(self, line: bytes) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to where a request's first line leads, and answer the line as servers know it (RFC 9112 section 3.2.1)."""
        method, target, version = line.decode("ascii").split(" ")
        parts = urlsplit(target)
        origin, port = f"http://{parts.netloc}", parts.port or 80
        if parts.scheme != "http" or not parts.hostname or not target.startswith(f"{origin}/"):
            raise ValueError("no request for this proxy")
        behind, ahead = await self._connected(await self._lead(origin), port)
        return f"{method} {target.removeprefix(origin)} {version}".encode("ascii"), behind, ahead

    async def _connected(self, addresses: Collection[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        fault: OSError = ConnectionError("leads nowhere")
        for address in addresses:
            try:
                async with asyncio.timeout(self._connect_seconds):
                    return await asyncio.open_connection(address, port, limit=_MOST_LINE)
            except OSError as error:  # a timeout is one too
                fault = error
        raise fault


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, behind: asyncio.StreamReader, ahead: asyncio.StreamWriter
) -> None:
    """Pass request and answer on until either side has had enough: a client that closes wants no more, whatever the server keeps open."""
    sending, answering = asyncio.create_task(_pass_on(reader, ahead)), asyncio.create_task(_answer(behind, writer))
    try:
        await asyncio.wait((sending, answering), return_when=asyncio.FIRST_COMPLETED)
        if answering.done() or sending.exception() is not None:
            await answering  # a server may refuse a body and answer all the same
    finally:
        for task in (sending, answering):
            task.cancel()
        await asyncio.gather(sending, answering, return_exceptions=True)


async def _answer(behind: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass the answer on; of a redirect only that it is one, of interim answers (RFC 9110 section 15.2) nothing: one may stand behind them."""
    first, status = await _status(behind)
    while status.startswith("1"):
        await _skip_head(behind)
        first, status = await _status(behind)
    if status.startswith("3") and status != "304":
        writer.write(first + b"Content-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        return
    writer.write(first)
    await _pass_on(behind, writer)


async def _status(behind: asyncio.StreamReader) -> tuple[bytes, str]:
    """Answer a status line and its status. Raises `ValueError` for what another reader might take for another status."""
    line = await behind.readuntil(b"\r\n")
    found = _STATUS_LINE.fullmatch(line)
    if found is None:
        raise ValueError("no answer of HTTP")
    return line, found[1].decode()


async def _skip_head(behind: asyncio.StreamReader) -> None:
    read = 0
    while (line := await behind.readuntil(b"\r\n")) != b"\r\n":
        read += len(line)
        if read > _MOST_HEAD:
            raise ValueError("an interim answer without end")


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        writer.write(piece)
        await writer.drain()
