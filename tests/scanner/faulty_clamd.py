"""A clamd that answers a scan in a way of the test's choosing. Version, ping and what is tried on it at first it answers as a good one does."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.threats.packing import EICAR

_STARTS_OF_PROBES = (bytes(4), EICAR[:4], b"PK\3\4", b"\x1f\x8b\x08\0")
FOUND, LIMIT = b"stream: Eicar FOUND\0", b"stream: Heuristics.Limits.Exceeded.MaxRecursion FOUND\0"


class Peer:
    """The daemon's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._loop = asyncio.get_running_loop()
        self._buffer = b""
        self._fds: list[int] = []

    async def until_nul(self) -> bytes:
        while b"\0" not in self._buffer:
            await self._more()
        text, _, self._buffer = self._buffer.partition(b"\0")
        return text

    async def take(self, count: int) -> bytes:
        while len(self._buffer) < count:
            await self._more()
        data, self._buffer = self._buffer[:count], self._buffer[count:]
        return data

    def put_back(self, data: bytes) -> None:
        self._buffer = data + self._buffer

    async def descriptor(self) -> int:
        while not self._fds:
            await self._more()
        await self.take(1)
        return self._fds.pop()

    async def say(self, data: bytes) -> None:
        await self._loop.sock_sendall(self._socket, data)

    def reset(self) -> None:
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self._socket.close()
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()

    async def _more(self) -> None:
        if self._socket.family is socket.AF_UNIX:
            await self._readable()
            data, fds, _, _ = socket.recv_fds(self._socket, 65536, 1)
            self._fds += fds
        else:
            data = await self._loop.sock_recv(self._socket, 65536)
        if not data:
            raise ConnectionError("the client left")
        self._buffer += data

    async def _readable(self) -> None:
        ready = asyncio.Event()
        self._loop.add_reader(self._socket.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            self._loop.remove_reader(self._socket.fileno())


Fault = Callable[[Peer], Awaitable[None]]


class FaultyClamd:
    """Answers scans by `fault`; `commands` are those of all connections so far, in order, but for scans of what a probe sends."""

    def __init__(self, fault: Fault) -> None:
        self.address = ""
        self.fault = fault
        self.commands: list[str] = []
        self.probes: list[str] = []
        self.version = b"ClamAV 1.4.6/27500/Mon Jan  5 09:00:00 2026"
        self.at_ping: Fault = answering(b"PONG\0")
        self.at_version: Fault | None = None
        self.at_descriptor: Fault | None = None
        """What becomes of every descriptor, probes included."""
        self.finds_test_virus = True
        self.names_limits = True
        self.largest = 32 * 2**20
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, listener: socket.socket) -> None:
        """Serve until cancelled. Accepting never waits, so that a cancel cannot lose a connection that was just accepted."""
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(listener.fileno(), ready.set)
        try:
            while True:
                await ready.wait()
                ready.clear()
                with contextlib.suppress(BlockingIOError):
                    self._welcome(listener.accept()[0])
        finally:
            loop.remove_reader(listener.fileno())

    def _welcome(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        peer = Peer(connection)
        task = asyncio.create_task(self._serve(peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # a task that is cancelled before its first step closes nothing by itself
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
            command = (await peer.until_nul())[1:].decode()
            if command == "IDSESSION":
                await self._session(peer)
            else:
                await self._answer(command, peer)
        except (ConnectionError, OSError):
            pass  # the client left, as it may
        finally:
            peer.close()

    async def _session(self, peer: Peer) -> None:
        number = 0
        while command := (await peer.until_nul())[1:].decode():
            number += 1
            self.commands.append(command)
            if self.at_version is not None:
                await self.at_version(peer)
                return
            await peer.say(b"%d: %s\0" % (number, self.version))

    async def _answer(self, command: str, peer: Peer) -> None:
        if command == "PING":
            self.commands.append(command)
            await self.at_ping(peer)
        elif command == "FILDES" and self.at_descriptor is not None:
            self.commands.append(command)
            await peer.descriptor()
            await self.at_descriptor(peer)
        elif command == "FILDES":
            await self._scan_descriptor(peer)
        else:
            await self._scan_stream(peer)

    async def _scan_descriptor(self, peer: Peer) -> None:
        fd = await peer.descriptor()
        start, size = os.pread(fd, 4, 0), os.fstat(fd).st_size
        os.close(fd)
        if start.startswith(_STARTS_OF_PROBES):
            self.probes.append("FILDES")
            await peer.say(self._of_probe(start, size))
        else:
            self.commands.append("FILDES")
            await self.fault(peer)

    async def _scan_stream(self, peer: Peer) -> None:
        head = await peer.take(4)
        head += await peer.take(min(4, int.from_bytes(head, "big")))
        peer.put_back(head)
        if head[4:].startswith(_STARTS_OF_PROBES):
            self.probes.append("INSTREAM")
            await self._answer_probe(peer, head[4:])
        else:
            self.commands.append("INSTREAM")
            await self.fault(peer)

    async def _answer_probe(self, peer: Peer, start: bytes) -> None:
        """Answer as a real one does past its limit: while bytes still come, and then reset. So probes of hundreds of megabytes are short."""
        size = 0
        while length := int.from_bytes(await peer.take(4), "big"):
            await peer.take(length)
            size += length
            if size > self.largest and self.names_limits:
                await says_limit(peer)
                return
        await peer.say(self._of_probe(start, size))

    def _of_probe(self, start: bytes, size: int) -> bytes:
        if start.startswith(_STARTS_OF_PROBES[-1]):
            return LIMIT if self.names_limits else b"stream: OK\0"
        if size > self.largest:
            return b"stream: Heuristics.Limits.Exceeded.MaxFileSize FOUND\0" if self.names_limits else b"stream: OK\0"
        return FOUND if self.finds_test_virus else b"stream: OK\0"


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


async def take_all(peer: Peer) -> bytes:
    """Read the frames of INSTREAM to their end and answer the bytes in them."""
    frames: list[bytes] = []
    while length := int.from_bytes(await peer.take(4), "big"):
        frames.append(await peer.take(length))
    return b"".join(frames)


def answering(answer: bytes) -> Fault:
    """Answer at once, with the scan's bytes unread."""

    async def fault(peer: Peer) -> None:
        await peer.say(answer)

    return fault


def hearing_out(answer: bytes) -> Fault:
    """Take all bytes of an INSTREAM scan, then answer."""

    async def fault(peer: Peer) -> None:
        await take_all(peer)
        await peer.say(answer)

    return fault


async def hangs(_: Peer) -> None:
    await asyncio.Event().wait()


async def hangs_after_the_bytes(peer: Peer) -> None:
    await take_all(peer)
    await hangs(peer)


async def resets_at_once(peer: Peer) -> None:
    peer.reset()


async def resets_mid_stream(peer: Peer) -> None:
    await peer.take(5)
    peer.reset()


async def dies_mid_scan(peer: Peer) -> None:
    await take_all(peer)


async def says_limit_and_resets(peer: Peer) -> None:
    await peer.take(5)
    await says_limit(peer)


async def says_limit(peer: Peer) -> None:
    await peer.say(b"INSTREAM size limit exceeded. ERROR\0")
    peer.reset()


async def trickles(peer: Peer) -> None:
    await take_all(peer)
    for letter in b"stream: " + b"x" * 10_000:
        await peer.say(bytes([letter]))
        await asyncio.sleep(0.05)
