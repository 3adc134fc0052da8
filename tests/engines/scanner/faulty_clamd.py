"""A clamd that answers a scan in a way of the test's choosing. Version, ping and the first tiny scans it answers as a good one does."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET

Fault = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

PROBES = 2
"""A scanner that meets a clamd for the first time tries it on the test virus and on something packed very deep."""


class FaultyClamd:
    """Answers scans by `fault`; `commands` are those of all connections so far, in order."""

    def __init__(self, fault: Fault) -> None:
        self.address = ""
        self.fault = fault
        self.commands: list[str] = []
        self.version = b"ClamAV 1.4.6/27500/Mon Jan  5 09:00:00 2026\0"
        self.at_ping: Fault = answering(b"PONG\0")
        self.at_version: Fault | None = None
        self._scans = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._answer((await reader.readuntil(b"\0"))[1:-1].decode(), reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        self._tasks.discard(task)

    async def stop(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer(self, command: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.commands.append(command)
        if command == "VERSION":
            await (self.at_version or answering(self.version))(reader, writer)
        elif command == "PING":
            await self.at_ping(reader, writer)
        else:
            self._scans += 1
            probe = self._scans <= PROBES
            answer = [b"stream: Eicar FOUND\0", b"stream: Heuristics.Limits.Exceeded.MaxRecursion FOUND\0"][
                self._scans % PROBES - 1
            ]
            if probe and command == "INSTREAM":
                await take_all(reader)
            await (answering(answer) if probe else self.fault)(reader, writer)


@asynccontextmanager
async def faulty_clamd(fault: Fault, *, socket: Path | None = None) -> AsyncIterator[FaultyClamd]:
    """Listen on a free loopback port, or on a unix socket, until the block ends."""
    daemon = FaultyClamd(fault)
    if socket is not None:
        server = await asyncio.start_unix_server(daemon.serve, socket)
        daemon.address = f"unix:{socket}"
    else:
        server = await asyncio.start_server(daemon.serve, "127.0.0.1", 0)
        daemon.address = f"tcp:127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield daemon
        await daemon.stop()


async def take_all(reader: asyncio.StreamReader) -> bytes:
    """Read the frames of INSTREAM to their end and answer the bytes in them."""
    data = b""
    while length := int.from_bytes(await reader.readexactly(4), "big"):
        data += await reader.readexactly(length)
    return data


def answering(answer: bytes) -> Fault:
    """Answer at once, with the scan's bytes unread."""

    async def fault(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()

    return fault


def hearing_out(answer: bytes) -> Fault:
    """Take all bytes of an INSTREAM scan, then answer."""

    async def fault(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await take_all(reader)
        await answering(answer)(reader, writer)

    return fault


async def hangs(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def hangs_after_the_bytes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await take_all(reader)
    await hangs(reader, writer)


async def resets_at_once(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    reset(writer)


async def resets_mid_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readexactly(5)
    reset(writer)


async def dies_mid_scan(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await take_all(reader)


async def says_limit_and_resets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readexactly(5)
    await answering(b"INSTREAM size limit exceeded. ERROR\0")(reader, writer)
    reset(writer)


async def trickles(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await take_all(reader)
    for letter in b"stream: " + b"x" * 10_000:
        writer.write(bytes([letter]))
        await writer.drain()
        await asyncio.sleep(0.05)


def reset(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
