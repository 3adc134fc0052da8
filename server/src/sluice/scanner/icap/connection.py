"""Talk to one ICAP server: connect, send a file, read the response. What a response says is decided in `replies`.

A connection is kept for the next request if nothing is left to read on it. One on which the server sent anything
unasked is closed: responses carry no number, and the next file must not get the verdict of another.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final
from urllib.parse import urlsplit

from sluice.scanner.icap.replies import (
    CONTINUE,
    Head,
    IcapReply,
    IcapUnavailable,
    IcapVerdict,
    Options,
    judge,
    parse_head,
    parse_http,
    parse_options,
)
from sluice_inspect.sandbox.sealed import Sealed

_PORTS: Final = {"icap": 1344, "icaps": 11344}
_MOST_HEAD: Final = 65_536
_MOST_PAGE: Final = 1024**2  # of a page that a server returns in place of the file
_CHUNK_BYTES: Final = 256 * 1024
# Bytes that were just written are in the page cache; up to this size a thread would cost more than the read.
_INLINE_READ_BYTES: Final = 64 * 1024
_PIECE_BYTES: Final = 64 * 1024
_MOST_IDLE: Final = 32  # connections that are kept
_TURNS: Final = 3  # of the event loop, until bytes that have arrived can be read


@dataclass(frozen=True, slots=True)
class IcapAddress:
    """The address of a service: `icap://host:port/service`, `icaps` for TLS."""

    text: str
    host: str
    port: int
    is_tls: bool

    @classmethod
    def parse(cls, text: str) -> "IcapAddress":
        """Return the address. Raise `ValueError` with a sentence for anything else."""
        parts = urlsplit(text)
        with contextlib.suppress(ValueError):  # a port that is no number
            is_service = parts.scheme in _PORTS and parts.hostname and parts.path not in {"", "/"}
            port = parts.port if parts.port is not None else _PORTS.get(parts.scheme, 0)
            if is_service and port and parts.hostname and "@" not in parts.netloc and not parts.fragment:
                return cls(text, parts.hostname, port, parts.scheme == "icaps")
        raise ValueError(f"an address of an ICAP service is icap://host:port/service or icaps://…, not {text!r}")


class IcapUnreachable(IcapUnavailable):
    """No connection to the server: it is away, whatever the file is."""


class IcapSilent(IcapUnavailable):
    """The server did not reply to a question in time."""


class _Closed(IcapUnavailable):
    """The server closed the connection without a response."""


@dataclass(frozen=True, slots=True)
class _Response:
    """A response: its head, status and fields of the HTTP response within, and whether its body is the file's."""

    head: Head
    http_status: int | None = None
    http_fields: Mapping[str, str] = field(default_factory=dict)
    is_unchanged: bool = False


class _Connection:
    """One connection; not kept once `is_broken`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.is_broken = False

    async def read_unasked(self) -> bytes | None:
        """Return what the server has sent without being asked, empty if it has closed the connection, None if nothing.

        A connection that was reset counts as closed.
        """
        reading = asyncio.ensure_future(self.reader.read(_CHUNK_BYTES))
        try:
            for _ in range(_TURNS):
                await asyncio.sleep(0)
            if not reading.done():
                return None
            return b"" if reading.exception() is not None else reading.result()
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def send(self, data: bytes) -> None:
        try:
            self.writer.write(data)
        except RuntimeError as closed:  # how uvloop refuses to write to a connection that was lost
            raise ConnectionResetError("the connection is closed") from closed
        await self.writer.drain()

    def close(self) -> None:
        self.writer.transport.abort()

    async def read_head(self) -> Head:
        try:
            return parse_head((await self.reader.readuntil(b"\r\n\r\n"))[:-4])
        except asyncio.IncompleteReadError as end:
            if end.partial:
                raise IcapUnavailable("a response that ends early") from end
            raise _Closed("the connection was closed without a response") from end
        except asyncio.LimitOverrunError as long:
            raise IcapUnavailable(f"a head of more than {_MOST_HEAD} bytes") from long

    async def read_response(self, sealed: Sealed) -> _Response:
        """Read a whole response to a request with the file."""
        head = await self.read_head()
        if head.status not in {200, 201}:
            return _Response(head)
        sections = head.sections
        at = max(sections.values(), default=0)
        if at > _MOST_HEAD:
            raise IcapUnavailable(f"an HTTP head of more than {_MOST_HEAD} bytes")
        heads = await self._read_exactly(at)
        start = sections.get("res-hdr")
        status, fields = (None, {}) if start is None else parse_http(heads[start:])
        if not {"res-body", "req-body", "opt-body"} & sections.keys():
            return _Response(head, status, fields)
        hashed, size = sha256(), 0
        while length := await self._read_chunk_length():
            size += length
            if size > sealed.size + _MOST_PAGE:
                raise IcapUnavailable("a response that is larger than the file")
            while length:
                piece = await self._read_exactly(min(length, _PIECE_BYTES))
                hashed.update(piece)
                length -= len(piece)
            if await self._read_exactly(2) != b"\r\n":
                raise IcapUnavailable("a response whose chunks have no end")
        if await self._read_line():
            raise IcapUnavailable("a response with fields behind its last chunk")
        is_same = size == sealed.size and hashed.digest() == sealed.sha256
        return _Response(head, status, fields, is_same and status in {None, 200})

    async def _read_chunk_length(self) -> int:
        line = (await self._read_line()).partition(b";")[0].strip()
        if not line or len(line) > 8 or line.strip(b"0123456789abcdefABCDEF"):  # noqa: PLR2004  (digits of 4 GiB)
            raise IcapUnavailable("a response whose chunks have no size")
        return int(line, 16)

    async def _read_line(self) -> bytes:
        try:
            return (await self.reader.readuntil(b"\r\n"))[:-2]
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise IcapUnavailable("a response that ends early") from error

    async def _read_exactly(self, size: int) -> bytes:
        try:
            return await self.reader.readexactly(size)
        except asyncio.IncompleteReadError as end:
            raise IcapUnavailable("a response that ends early") from end


class IcapClient:
    """Asks one service, on connections that are kept. Every method raises `IcapUnavailable` without a valid reply."""

    def __init__(
        self, address: IcapAddress, *, method: str, tls: ssl.SSLContext | None, connect_seconds: float
    ) -> None:
        self.address = address
        self._method = method
        self._tls = tls
        self._connect_seconds = connect_seconds
        self._idle: list[_Connection] = []
        self._is_closed = False

    def close(self) -> None:
        """Close the connections that are not in use."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    async def options(self) -> Options:
        """Return what the server says of the service."""
        async with self._using(await self._open()) as connection, _bounded(self._connect_seconds):
            await connection.send(f"OPTIONS {self._line}".encode() + b"Encapsulated: null-body=0\r\n\r\n")
            head = await connection.read_head()
            connection.is_broken = True  # not kept: a question is asked seldom, and a scan takes a kept one
        return parse_options(head)

    async def scan(self, sealed: Sealed, options: Options) -> IcapReply:
        """Return what the server says of all of the bytes."""
        reply = None
        if options.preview is not None:
            reply = await self._ask(sealed, options, options.preview)
        if reply is None or reply.verdict is IcapVerdict.UNSEEN:
            reply = await self._ask(sealed, options, None)
        if reply.verdict is IcapVerdict.UNSEEN:
            raise IcapUnavailable("a response before all bytes were sent")
        return reply

    @property
    def _line(self) -> str:
        host = f"[{self.address.host}]" if ":" in self.address.host else self.address.host
        return f"{self.address.text} ICAP/1.0\r\nHost: {host}:{self.address.port}\r\nUser-Agent: Sluice\r\n"

    async def _ask(self, sealed: Sealed, options: Options, preview: int | None) -> IcapReply:
        if (kept := await self._take()) is not None:
            with contextlib.suppress(_Closed):  # it was closed when the request was on its way
                return await self._ask_on(kept, sealed, options, preview)
        return await self._ask_on(await self._open(), sealed, options, preview)

    async def _ask_on(self, opened: _Connection, sealed: Sealed, options: Options, preview: int | None) -> IcapReply:
        async with self._using(opened) as connection:
            request = self._request(sealed, options, preview)
            if preview is None:
                response, was_whole = await self._send(connection, request, sealed, 0)
            else:
                first = min(preview, sealed.size)
                was_whole = first == sealed.size
                data = await _read(sealed, 0, first)
                await connection.send(request + _chunk(data) + (b"0; ieof\r\n\r\n" if was_whole else b"0\r\n\r\n"))
                response = await connection.read_response(sealed)
                if response.head.status == CONTINUE and not was_whole:
                    response, was_whole = await self._send(connection, b"", sealed, first)
            # A server that did not read a preview to its end may take the rest for another request.
            if not was_whole or response.head.status not in {200, 201, 204}:
                connection.is_broken = True
            reply = judge(
                response.head,
                was_whole=was_whole,
                http_status=response.http_status,
                http_fields=response.http_fields,
                is_unchanged=response.is_unchanged,
            )
            await self._finish(connection, response.head)
            return reply

    def _request(self, sealed: Sealed, options: Options, preview: int | None) -> bytes:
        name = b"POST" if self._method == "REQMOD" else b"GET"
        length = b"Content-Type: application/octet-stream\r\nContent-Length: %d\r\n" % sealed.size
        http = name + b" http://sluice.invalid/file HTTP/1.1\r\nHost: sluice.invalid\r\n"
        if self._method == "REQMOD":
            http += length + b"\r\n"
            sections = f"req-hdr=0, req-body={len(http)}"
        else:
            http += b"\r\n"
            at = len(http)
            http += b"HTTP/1.1 200 OK\r\n" + length + b"\r\n"
            sections = f"req-hdr=0, res-hdr={at}, res-body={len(http)}"
        fields = "Allow: 204\r\n" if options.allows_204 else ""
        fields += "" if preview is None else f"Preview: {preview}\r\n"
        return f"{self._method} {self._line}{fields}Encapsulated: {sections}\r\n\r\n".encode() + http

    async def _send(self, connection: _Connection, first: bytes, sealed: Sealed, offset: int) -> tuple[_Response, bool]:
        """Send `first` and the bytes from `offset` on, and read the response at the same time.

        Return it, and whether all bytes were sent before its end: a server may return the file while it gets it.
        """

        async def send() -> None:
            opening, at = first, offset
            while at < sealed.size:
                data = await _read(sealed, at, min(_CHUNK_BYTES, sealed.size - at))
                at += len(data)
                await connection.send(opening + _chunk(data) + (b"0\r\n\r\n" if at == sealed.size else b""))
                opening = b""
            if opening:
                await connection.send(opening + b"0\r\n\r\n")

        reading, sending = asyncio.ensure_future(connection.read_response(sealed)), asyncio.ensure_future(send())
        try:
            await asyncio.wait({reading, sending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done() and not isinstance(sending.exception(), OSError | None):
                sending.result()  # raises what is no fault of the connection
            response = await reading
            was_whole = sending.done() and sending.exception() is None
            connection.is_broken = connection.is_broken or not was_whole
            return response, was_whole
        finally:
            for task in (reading, sending):
                task.cancel()
            await asyncio.gather(reading, sending, return_exceptions=True)

    async def _finish(self, connection: _Connection, head: Head) -> None:
        """Decide whether a connection is kept. Raise `IcapUnavailable` if there is more than the response on it."""
        if head.closes or connection.is_broken:
            connection.is_broken = True
            return
        unasked = await connection.read_unasked()
        connection.is_broken = unasked is not None
        if unasked:
            raise IcapUnavailable("a response with more data after it")

    @asynccontextmanager
    async def _using(self, connection: _Connection) -> AsyncIterator[_Connection]:
        """Keep the connection at the end of the block, or close it; an error of the system is `_Closed`."""
        is_kept = False
        try:
            yield connection
            is_kept = not connection.is_broken and not self._is_closed
        except TimeoutError:
            raise
        except OSError as error:
            raise _Closed(f"the connection broke: {_describe(error)}") from error
        finally:
            if is_kept and len(self._idle) < _MOST_IDLE:
                self._idle.append(connection)
            else:
                connection.close()

    async def _take(self) -> _Connection | None:
        """Return a kept connection on which the server has sent nothing since, nor closed it."""
        while self._idle:
            connection = self._idle.pop()
            try:
                unasked = await connection.read_unasked()
            except BaseException:
                connection.close()
                raise
            if unasked is None:
                return connection
            connection.close()
        return None

    async def _open(self) -> _Connection:
        try:
            async with asyncio.timeout(self._connect_seconds):
                return _Connection(
                    *await asyncio.open_connection(
                        self.address.host,
                        self.address.port,
                        ssl=self._tls if self.address.is_tls else None,
                        limit=_MOST_HEAD,
                    )
                )
        except TimeoutError as late:
            raise IcapUnreachable(f"no connection within {self._connect_seconds:g} s") from late
        except ssl.SSLCertVerificationError as error:
            raise IcapUnreachable("its certificate is not trusted for this address") from error
        except socket.gaierror as error:
            raise IcapUnreachable("its name is not found") from error
        except (OSError, UnicodeError) as error:
            raise IcapUnreachable(f"no connection: {_describe(error)}") from error


@asynccontextmanager
async def _bounded(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as late:
        raise IcapSilent(f"no response within {seconds:g} s") from late


def _describe(error: OSError | UnicodeError) -> str:
    """Return the system's message, without paths or addresses."""
    if isinstance(error, UnicodeError):
        return "its name is none"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or 'failed').lower().replace('_', ' ')}"
    return os.strerror(error.errno) if error.errno and error.errno > 0 else type(error).__name__


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data) if data else b""


async def _read(sealed: Sealed, offset: int, length: int) -> bytes:
    if sealed.size <= _INLINE_READ_BYTES:
        data = _read_now(sealed, offset, length)
    else:
        data = await asyncio.to_thread(_read_now, sealed, offset, length)
    if len(data) < length:
        raise IcapUnavailable("the bytes to be scanned ended early")
    return data


def _read_now(sealed: Sealed, offset: int, length: int) -> bytes:
    pieces, left = [], length
    while left and (piece := os.pread(sealed.fd, left, offset + length - left)):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
