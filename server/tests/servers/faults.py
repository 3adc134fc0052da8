"""A loopback TCP proxy that injects faults between a client under test and a real server."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from socket import SO_LINGER, SOL_SOCKET

_PIECE = 64 * 1024
_DELAY_SECONDS = 0.2


class Fault(Enum):
    """What the proxy does to bytes from now on, on open connections too."""

    NONE = "bytes pass both ways"
    BLACK_HOLE = "bytes are read and discarded"
    RESET = "the connection is reset at its first byte"
    LOST_RESPONSE = "requests arrive; the connection is reset instead of a response"
    SLOW = "every piece is forwarded 0.2 s late"
    CUT = "the first half of a response arrives, then the connection is reset"
    NO_END = "bytes pass both ways, but the client never sees the server close a connection"
    DOWN = "connections are reset as soon as they are made, open ones at their next byte"


@dataclass
class FaultProxy:
    """A running proxy. `fault` applies to its first `faulty` connections, or to all when that is None.

    In addition, a connection is cut each time that the bytes sent to the server reach a number of `cuts`, and instead
    of the first response with one of the words of `lost`.
    """

    port: int = 0
    fault: Fault = Fault.NONE
    faulty: int | None = None
    connections: int = 0
    answered: int = 0
    """How many pieces have been forwarded to clients."""
    sent: int = 0
    """How many bytes have been forwarded to the server."""
    cuts: list[int] = field(default_factory=list)
    lost: list[bytes] = field(default_factory=list)

    @property
    def endpoint(self) -> str:
        """Its address as a URL."""
        return f"http://127.0.0.1:{self.port}"

    def fault_on(self, connection: int) -> Fault:
        """Return the fault of the connection with that number; the first is 1."""
        return self.fault if self.faulty is None or connection <= self.faulty else Fault.NONE


@asynccontextmanager
async def fault_proxy(endpoint: str, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[FaultProxy]:
    """Run a proxy on `host` in front of `endpoint`, `http://127.0.0.1:PORT`, until the block ends."""
    proxy = FaultProxy()
    target = int(endpoint.rpartition(":")[2])
    served: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proxy.connections += 1
        fault = partial(proxy.fault_on, proxy.connections)
        if fault() is Fault.DOWN:
            _reset(writer)
            return
        task = asyncio.current_task()
        assert task is not None
        served[task] = [writer]
        try:
            server_reader, server_writer = await asyncio.open_connection("127.0.0.1", target)
            served[task].append(server_writer)
            if not server.is_serving():  # the end came while it connected
                server_writer.transport.abort()
            async with asyncio.TaskGroup() as directions:
                directions.create_task(_to_server(proxy, fault, reader, server_writer))
                directions.create_task(_to_client(proxy, fault, server_reader, writer))
        except* OSError:
            _reset(writer)
        finally:
            for each in served.pop(task):
                each.close()

    server = await asyncio.start_server(serve, host, port)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for writers in served.values():
            for writer in writers:
                writer.transport.abort()
        await asyncio.gather(*served)
        await server.wait_closed()


async def _to_server(
    proxy: FaultProxy, fault: Callable[[], Fault], reader: asyncio.StreamReader, server: asyncio.StreamWriter
) -> None:
    while piece := await reader.read(_PIECE):
        if proxy.cuts and proxy.sent + len(piece) >= proxy.cuts[0]:
            server.write(piece[: proxy.cuts.pop(0) - proxy.sent])
            await server.drain()
            raise ConnectionResetError
        proxy.sent += len(piece)
        if fault() in {Fault.RESET, Fault.DOWN}:
            raise ConnectionResetError
        if fault() is Fault.SLOW:
            await asyncio.sleep(_DELAY_SECONDS)
        if fault() is not Fault.BLACK_HOLE:
            server.write(piece)
            await server.drain()
    with contextlib.suppress(OSError):
        server.write_eof()


async def _to_client(
    proxy: FaultProxy, fault: Callable[[], Fault], server: asyncio.StreamReader, client: asyncio.StreamWriter
) -> None:
    while piece := await server.read(_PIECE):
        for word in [word for word in proxy.lost if word in piece]:
            proxy.lost.remove(word)
            raise ConnectionResetError
        if fault() in {Fault.LOST_RESPONSE, Fault.RESET, Fault.DOWN}:
            raise ConnectionResetError
        if fault() is Fault.CUT:
            client.write(piece[: len(piece) // 2])
            await client.drain()
            raise ConnectionResetError
        if fault() is not Fault.BLACK_HOLE:
            client.write(piece)
            await client.drain()
            proxy.answered += 1
    if fault() is not Fault.NO_END:
        client.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):  # already closed by the peer
        connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
