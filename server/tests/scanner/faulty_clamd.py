"""A clamd whose response to a scan can be chosen. It responds correctly to VERSION, PING and probes."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.inspection.threats.packed_files import EICAR

_PROBE_STARTS = (bytes(4), EICAR[:4], b"PK\3\4", b"\x1f\x8b\x08\0")
EICAR_FOUND = b"stream: Eicar FOUND\0"
RECURSION_LIMIT = b"stream: Heuristics.Limits.Exceeded.MaxRecursion FOUND\0"


class Peer:
    """The daemon side of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self._buffer = b""
        self._fds: list[int] = []

    async def read_until_nul(self) -> bytes:
        while b"\0" not in self._buffer:
            await self._receive()
        text, _, self._buffer = self._buffer.partition(b"\0")
        return text

    async def read(self, count: int) -> bytes:
        while len(self._buffer) < count:
            await self._receive()
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def unread(self, data: bytes) -> None:
        self._buffer = data + self._buffer

    async def receive_descriptor(self) -> int:
        while not self._fds:
            await self._receive()
        await self.read(1)
        return self._fds.pop()

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    def reset(self) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self._socket.close()
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()

    async def _receive(self) -> None:
        if self._socket.family is socket.AF_UNIX:
            await self._wait_readable()
            data, fds, _, _ = socket.recv_fds(self._socket, 65536, 1)
            self._fds += fds
        else:
            data = await self._loop.sock_recv(self._socket, 65536)
        if not data:
            raise ConnectionError("the client closed the connection")
        self._buffer += data

    async def _wait_readable(self) -> None:
        ready = asyncio.Event()
        self._loop.add_reader(self._socket.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            self._loop.remove_reader(self._socket.fileno())


Fault = Callable[[Peer], Awaitable[None]]


class FaultyClamd:
    """Responds to scans with `fault`. `commands` are those of all connections in order, except scans of probes."""

    def __init__(self, fault: Fault) -> None:
        self.address = ""
        self.fault = fault
        self.commands: list[str] = []
        self.probes: list[str] = []
        self.version = b"ClamAV 1.4.6/27500/Mon Jan  5 09:00:00 2026"
        self.on_ping: Fault = responds(b"PONG\0")
        self.on_version: Fault | None = None
        self.on_descriptor: Fault | None = None
        """The response to every descriptor, including those of probes."""
        self.finds_eicar = True
        self.reports_limits = True
        self.max_bytes = 32 * 2**20
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, listener: socket.socket) -> None:
        """Serve until cancelled. Accepting never waits, so that a cancellation cannot lose an accepted connection."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(listener.fileno(), ready.set)
        try:
            while True:
                await ready.wait()
                ready.clear()
                with contextlib.suppress(BlockingIOError):
                    self._accept(listener.accept()[0])
        finally:
            loop.remove_reader(listener.fileno())

    def _accept(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        peer = Peer(connection)
        task = asyncio.create_task(self._serve(peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # a task that is cancelled before its first step does not close the peer
        task.add_done_callback(lambda _task: peer.close())

    async def stop(self) -> None:
        self.hang_up()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hang_up(self) -> None:
        """Close every connection."""
        for task in self._tasks:
            task.cancel()

    async def _serve(self, peer: Peer) -> None:
        try:
            command = (await peer.read_until_nul())[1:].decode()
            if command == "IDSESSION":
                await self._session(peer)
            else:
                await self._serve_command(command, peer)
        except (ConnectionError, OSError):
            pass  # the client closed the connection
        finally:
            peer.close()

    async def _session(self, peer: Peer) -> None:
        number = 0
        while command := (await peer.read_until_nul())[1:].decode():
            number += 1
            self.commands.append(command)
            if self.on_version is not None:
                await self.on_version(peer)
                return
            await peer.send(b"%d: %s\0" % (number, self.version))

    async def _serve_command(self, command: str, peer: Peer) -> None:
        if command == "PING":
            self.commands.append(command)
            await self.on_ping(peer)
        elif command == "FILDES" and self.on_descriptor is not None:
            self.commands.append(command)
            await peer.receive_descriptor()
            await self.on_descriptor(peer)
        elif command == "FILDES":
            await self._scan_descriptor(peer)
        else:
            await self._scan_stream(peer)

    async def _scan_descriptor(self, peer: Peer) -> None:
        fd = await peer.receive_descriptor()
        start, size = os.pread(fd, 4, 0), os.fstat(fd).st_size
        os.close(fd)
        if start.startswith(_PROBE_STARTS):
            self.probes.append("FILDES")
            await peer.send(self._probe_response(start, size))
        else:
            self.commands.append("FILDES")
            await self.fault(peer)

    async def _scan_stream(self, peer: Peer) -> None:
        head = await peer.read(4)
        head += await peer.read(min(4, int.from_bytes(head, "big")))
        peer.unread(head)
        if head[4:].startswith(_PROBE_STARTS):
            self.probes.append("INSTREAM")
            await self._serve_probe(peer, head[4:])
        else:
            self.commands.append("INSTREAM")
            await self.fault(peer)

    async def _serve_probe(self, peer: Peer, start: bytes) -> None:
        """Respond and reset once the limit is exceeded, like a real clamd, so that large probes take little time."""
        size = 0
        while length := int.from_bytes(await peer.read(4), "big"):
            await peer.read(length)
            size += length
            if size > self.max_bytes and self.reports_limits:
                await reports_limit(peer)
                return
        await peer.send(self._probe_response(start, size))

    def _probe_response(self, start: bytes, size: int) -> bytes:
        if start.startswith(_PROBE_STARTS[-1]):
            return RECURSION_LIMIT if self.reports_limits else b"stream: OK\0"
        if size > self.max_bytes:
            return b"stream: Heuristics.Limits.Exceeded.MaxFileSize FOUND\0" if self.reports_limits else b"stream: OK\0"
        return EICAR_FOUND if self.finds_eicar else b"stream: OK\0"


@asynccontextmanager
async def faulty_clamd(fault: Fault, *, socket_path: Path | None = None) -> AsyncIterator[FaultyClamd]:
    """Listen on a free loopback port, or on a unix socket, until the block ends."""
    daemon = FaultyClamd(fault)
    with socket.socket(socket.AF_UNIX if socket_path else socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(str(socket_path) if socket_path else ("127.0.0.1", 0))
        listener.listen(64)
        listener.setblocking(False)
        daemon.address = f"unix:{socket_path}" if socket_path else f"tcp:127.0.0.1:{listener.getsockname()[1]}"
        listening = asyncio.create_task(daemon.listen(listener))
        try:
            yield daemon
        finally:
            listening.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await listening
            await daemon.stop()


async def read_stream(peer: Peer) -> bytes:
    """Read the frames of INSTREAM to their end. Return the bytes in them."""
    frames: list[bytes] = []
    while length := int.from_bytes(await peer.read(4), "big"):
        frames.append(await peer.read(length))
    return b"".join(frames)


def responds(response: bytes) -> Fault:
    """Respond at once, without reading the bytes of the scan."""

    async def fault(peer: Peer) -> None:
        await peer.send(response)

    return fault


def responds_after_bytes(response: bytes) -> Fault:
    """Read all bytes of an INSTREAM scan, then respond."""

    async def fault(peer: Peer) -> None:
        await read_stream(peer)
        await peer.send(response)

    return fault


async def hangs(_: Peer) -> None:
    await asyncio.Event().wait()


async def hangs_after_bytes(peer: Peer) -> None:
    await read_stream(peer)
    await hangs(peer)


async def resets_at_once(peer: Peer) -> None:
    peer.reset()


async def resets_mid_stream(peer: Peer) -> None:
    await peer.read(5)
    peer.reset()


async def dies_mid_scan(peer: Peer) -> None:
    await read_stream(peer)


async def reports_limit_mid_stream(peer: Peer) -> None:
    await peer.read(5)
    await reports_limit(peer)


async def reports_limit(peer: Peer) -> None:
    await peer.send(b"INSTREAM size limit exceeded. ERROR\0")
    peer.reset()


async def responds_slowly(peer: Peer) -> None:
    await read_stream(peer)
    for letter in b"stream: " + b"x" * 10_000:
        await peer.send(bytes([letter]))
        await asyncio.sleep(0.05)
