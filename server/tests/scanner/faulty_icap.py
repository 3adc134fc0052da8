"""An ICAP server whose response to a file can be chosen. It responds correctly to OPTIONS and finds the test virus."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from sluice_inspect.threats import EICAR

FOUND = b'ICAP/1.0 200 OK\r\nISTag: "%s"\r\nX-Infection-Found: Type=0; Resolution=2; Threat=Eicar;\r\n\r\n'
CLEAN = b'ICAP/1.0 204 No Content\r\nISTag: "%s"\r\n\r\n'


@dataclass
class Request:
    """A request: its head, the bytes of the file that came with it, and the connection."""

    head: bytes
    content: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def rest(self) -> None:
        """Ask for the bytes behind the preview, and read them."""
        self.writer.write(b"ICAP/1.0 100 Continue\r\n\r\n")
        self.content += await _chunks(self.reader)

    def reset(self) -> None:
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.writer.transport.abort()


Respond = Callable[["FaultyIcap", Request], Awaitable[None]]


@dataclass
class FaultyIcap:
    """The running server. `respond` answers a request with a file that is no test file.

    `hangs`: it answers nothing more. `most`: it refuses larger test files. `reads_nothing`: it says "clean" after the head of a request.
    """

    port: int
    respond: Respond
    options: bytes = b"Methods: RESPMOD\r\nAllow: 204\r\nPreview: 1024\r\n"
    tag: bytes = b"v1"
    finds: Callable[[bytes], bool] = lambda content: EICAR in content or content[:2] == b"PK"
    hangs: bool = False
    most: int | None = None
    reads_nothing: bool = False
    requests: list[Request] = field(default_factory=list)
    tasks: set[asyncio.Task[object]] = field(default_factory=set)

    @property
    def address(self) -> str:
        return f"icap://127.0.0.1:{self.port}/av"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError), contextlib.closing(writer.transport):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if self.hangs:
                    await asyncio.Event().wait()
                if self.reads_nothing:
                    writer.write(CLEAN % self.tag)
                    await asyncio.Event().wait()
                if head.startswith(b"OPTIONS"):
                    writer.write(b'ICAP/1.0 200 OK\r\nISTag: "%s"\r\n%s\r\n' % (self.tag, self.options))
                    continue
                size = int(head.partition(b"res-body=")[2].split()[0])
                http = await reader.readexactly(size)
                request = Request(head + http, await _chunks(reader), reader, writer)
                is_test = request.content[:4] in {EICAR[:4], b"PK\3\4"}
                if is_test and self.most is not None and len(request.content) > self.most:
                    writer.write(b"ICAP/1.0 413 Too large\r\n\r\n")
                    continue
                if is_test:
                    if b"Preview:" in head and len(request.content) == 1024:
                        await request.rest()
                    writer.write((FOUND if self.finds(request.content) else CLEAN) % self.tag)
                    continue
                self.requests.append(request)
                await self.respond(self, request)


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    content = b""
    while size := int((await reader.readline()).partition(b";")[0], 16):
        content += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readline()
    return content


def sends(raw: bytes, *, whole: bool = True) -> Respond:
    """Return a response of these bytes; with `whole`, after all of the file was read."""

    async def respond(server: FaultyIcap, request: Request) -> None:
        if whole and b"Preview:" in request.head and len(request.content) == 1024:
            await request.rest()
        request.writer.write(raw.replace(b"%s", server.tag))

    return respond


SAYS_CLEAN = sends(CLEAN)


@asynccontextmanager
async def faulty_icap(respond: Respond = SAYS_CLEAN, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[FaultyIcap]:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    server = FaultyIcap(listener.getsockname()[1], respond)

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.tasks.add(asyncio.create_task(server.serve(reader, writer)))

    running = await asyncio.start_server(accept, sock=listener, ssl=tls)
    try:
        yield server
    finally:
        running.close()
        for task in server.tasks:
            task.cancel()
        await asyncio.gather(*server.tasks, return_exceptions=True)
