"""A TCP proxy on loopback that loses what it is told to lose. It stands between a client under test and a real server."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import Enum
from functools import partial
from socket import SO_LINGER, SOL_SOCKET

_PIECE = 64 * 1024
_LATE_SECONDS = 0.2


class Fault(Enum):
    """What happens to bytes from now on, on open connections too."""

    NONE = "bytes pass both ways"
    BLACK_HOLE = "bytes are taken and go nowhere"
    RESET = "the connection is reset at its first byte"
    LOST_ANSWER = "requests arrive; instead of an answer the connection is reset"
    SLOW = "every piece is passed on, each 0.2 s late"
    CUT = "the first half of an answer arrives, then the connection is reset"
    NO_END = "bytes pass both ways; that the server has closed a connection is not told"
    DOWN = "connections are reset as soon as they are made, open ones at their next byte"


@dataclass
class FaultProxy:
    """A running proxy: set `fault` to change what it does to its first `faulty` connections (None: to all)."""

    port: int = 0
    fault: Fault = Fault.NONE
    faulty: int | None = None
    connections: int = 0
    answered: int = 0
    """How many pieces have been passed on to clients."""

    @property
    def endpoint(self) -> str:
        """Its address as a URL."""
        return f"http://127.0.0.1:{self.port}"

    def fault_on(self, connection: int) -> Fault:
        """Answer what happens to the connection of that number, which begins at 1."""
        return self.fault if self.faulty is None or connection <= self.faulty else Fault.NONE


@asynccontextmanager
async def fault_proxy(endpoint: str, host: str = "127.0.0.1") -> AsyncIterator[FaultProxy]:
    """Stand before `http://127.0.0.1:PORT`, at an address of this machine, until the block ends."""
    proxy = FaultProxy()
    target = int(endpoint.rpartition(":")[2])
    served: dict[asyncio.Task[None], tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = {}

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        proxy.connections += 1
        fault = partial(proxy.fault_on, proxy.connections)
        if fault() is Fault.DOWN:
            _reset(writer)
            return
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", target)
        task = asyncio.current_task()
        assert task is not None
        served[task] = (writer, behind_writer)
        try:
            async with asyncio.TaskGroup() as ways:
                ways.create_task(_up(fault, reader, behind_writer))
                ways.create_task(_down(proxy, fault, behind_reader, writer))
        except* OSError:
            _reset(writer)
        finally:
            behind_writer.close()
            writer.close()
            del served[task]

    server = await asyncio.start_server(serve, host, 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        for both in served.values():
            for writer in both:
                writer.transport.abort()
        await asyncio.gather(*served)
        await server.wait_closed()


async def _up(fault: Callable[[], Fault], reader: asyncio.StreamReader, behind: asyncio.StreamWriter) -> None:
    while piece := await reader.read(_PIECE):
        if fault() in {Fault.RESET, Fault.DOWN}:
            raise ConnectionResetError
        if fault() is Fault.SLOW:
            await asyncio.sleep(_LATE_SECONDS)
        if fault() is not Fault.BLACK_HOLE:
            behind.write(piece)
            await behind.drain()
    with contextlib.suppress(OSError):
        behind.write_eof()


async def _down(proxy: FaultProxy, fault: Callable[[], Fault], behind: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
    while piece := await behind.read(_PIECE):
        if fault() in {Fault.LOST_ANSWER, Fault.RESET, Fault.DOWN}:
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
    with contextlib.suppress(OSError):  # the other side was faster
        connection.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
