"""Talk to one clamd: connect, hand over the bytes of a scan, read the reply.

How replies are understood is in `replies`.

Protocol: clamd(8). Commands begin with `z`, so that commands and replies end with NUL. Scans do not share a connection
(IDSESSION): measured, sharing saves nothing (0.08 against 0.07 ms of our processor time a scan, 0.5 ms of clamd's
either way), and one lost connection would cost many scans.
"""

import asyncio
import errno
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from sluice.kit.host_lookup import AddressInfo, look_up
from sluice.scanner.clamd.replies import ClamdUnavailable, ClamdVerdict, ScanReply, parse_scan_reply
from sluice_inspect.sandbox.sealed import Sealed

_BACKLOG_PAUSE: Final = 0.005
_PORT_MAX: Final = 65535
_REPLY_MAX: Final = 4096
_FRAME_BYTES: Final = 256 * 1024
# Bytes that were just written are in the page cache; up to this size a thread would cost more than the read.
_INLINE_READ_BYTES: Final = 64 * 1024
_END_OF_STREAM: Final = bytes(4)
# How often a scan that ends with "encrypted" is repeated: more often for small files, so that about 16 MiB are scanned
# again.
_FEWEST_REPEATS: Final = 2
_MOST_REPEATS: Final = 15
_REPEATED_BYTES: Final = 16 * 1024**2

# Returns whether a scan that shows no sign of life may be abandoned for another clamd.
MayAbandon = Callable[[], bool]


class ClamdUnresponsive(ClamdUnavailable):
    """It took the scan and shows no sign of life: it may be loading signatures, or it hangs."""


@dataclass(frozen=True, slots=True)
class ClamdTimeouts:
    """Seconds to wait: `connect` for a connection and short replies, `stall` for a sign of life during a scan."""

    connect: float
    stall: float


@dataclass(frozen=True, slots=True)
class ClamdAddress:
    """A unix socket (`path`) or a TCP port (`host` and `port`)."""

    path: str = ""
    host: str = ""
    port: int = 0

    @property
    def is_local(self) -> bool:
        """Whether descriptors can be passed to it."""
        return bool(self.path)

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"tcp:[{self.host}]:{self.port}" if ":" in self.host else f"tcp:{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> "ClamdAddress":
        """Parse `unix:/path`, `tcp:host:port` or `tcp:[IPv6]:port`.

        Raise `ValueError` with a sentence for anything else.
        """
        scheme, _, rest = text.partition(":")
        host, _, port = rest.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if scheme == "unix" and rest.startswith("/"):
            return cls(path=rest)
        if scheme == "tcp" and host and port.isascii() and port.isdecimal() and 0 < int(port) <= _PORT_MAX:
            return cls(host=host, port=int(port))
        raise ValueError(f"an address of clamd is unix:/path or tcp:host:port, not {text!r}")


class ClamdSession:
    """A connection that stays open, for short questions, one at a time.

    It breaks when clamd exits, so that no restart goes unnoticed.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._number = 0

    async def query(self, command: bytes) -> bytes:
        """Return the reply, however long it takes. Raise `ClamdUnavailable` or `OSError` when the connection breaks."""
        self._number += 1
        await asyncio.get_running_loop().sock_sendall(self._connection, b"z%s\0" % command)
        reply = await _read_reply(self._connection)
        number, _, text = reply.partition(b": ")
        if number != b"%d" % self._number:
            raise ClamdUnavailable("a reply to another question")
        return text

    async def wait_closed(self) -> None:
        """Return when clamd closes the connection, or sends something unasked."""
        await asyncio.get_running_loop().sock_recv(self._connection, 1)


@dataclass(frozen=True, slots=True)
class ClamdClient:
    """Sends commands to one clamd. Every method raises `ClamdUnavailable` when there is no valid reply."""

    address: ClamdAddress
    timeouts: ClamdTimeouts

    async def query(self, command: bytes) -> bytes:
        """Return the reply to a short command such as `PING`. Raise `ClamdUnavailable` if none comes in time."""
        try:
            async with self._connected() as connection, asyncio.timeout(self.timeouts.connect):
                await asyncio.get_running_loop().sock_sendall(connection, b"z%s\0" % command)
                return await _read_reply(connection)
        except TimeoutError as late:
            raise ClamdUnavailable(f"no reply to {command.decode()} within {self.timeouts.connect:g} s") from late

    @asynccontextmanager
    async def session(self) -> AsyncIterator[ClamdSession]:
        """Open a connection that stays open until the block ends."""
        async with self._connected() as connection:
            await asyncio.get_running_loop().sock_sendall(connection, b"zIDSESSION\0")
            yield ClamdSession(connection)

    async def scan(self, sealed: Sealed, *, by_descriptor: bool, may_abandon: MayAbandon) -> ScanReply:
        """Scan the bytes, so that no other verdict is hidden behind "encrypted".

        ClamAV picks one of several heuristic findings by chance: `Encrypted` hid `Limits.Exceeded` in 33 of 80 scans of
        such files (1.4.6), so these are scanned again a few times. With `AlertEncrypted no` there is nothing to pick
        from.
        """
        reply = await self.scan_once(sealed, by_descriptor=by_descriptor, may_abandon=may_abandon)
        if reply.verdict is ClamdVerdict.ENCRYPTED:
            for _ in range(max(_FEWEST_REPEATS, min(_MOST_REPEATS, _REPEATED_BYTES // max(1, sealed.size)))):
                reply = await self.scan_once(sealed, by_descriptor=by_descriptor, may_abandon=may_abandon)
                if reply.verdict is not ClamdVerdict.ENCRYPTED:
                    break
        return reply

    async def scan_once(
        self, sealed: Sealed, *, by_descriptor: bool, may_abandon: MayAbandon = lambda: True
    ) -> ScanReply:
        """Scan the bytes. A descriptor that clamd refuses is followed by the bytes themselves.

        Raise `ClamdUnresponsive` if `may_abandon`.
        """
        if by_descriptor:
            reply = parse_scan_reply(await self._scan_descriptor(sealed, may_abandon))
            if reply.verdict is not ClamdVerdict.REFUSED:
                return reply
        return parse_scan_reply(await self._scan_stream(sealed, may_abandon))

    async def _scan_descriptor(self, sealed: Sealed, may_abandon: MayAbandon) -> bytes:
        async with self._connected() as connection:
            # A descriptor of its own, since clamd moves the offset.
            descriptor = sealed.reopen()
            try:
                # The command and the byte that carries the descriptor go in one message: clamd is woken once. These ten
                # bytes fit into the socket's buffer, so only the reply has to be waited for.
                socket.send_fds(connection, [b"zFILDES\0", b"\0"], [descriptor])
                sent_all = True
            except OSError:  # the connection is broken, but the reply may be on its way
                sent_all = False
            finally:
                os.close(descriptor)
            reply = b""
            while b"\0" not in reply:
                if await _wait_readable(connection, self.timeouts.stall):
                    try:
                        reply = _append(reply, connection.recv(_REPLY_MAX))
                    except BlockingIOError:
                        continue
                elif may_abandon():
                    await self._require_alive()
            return _require_complete(_one_reply(reply), sent_all=sent_all)

    async def _scan_stream(self, sealed: Sealed, may_abandon: MayAbandon) -> bytes:
        """Send the bytes in frames, and read the reply at the same time."""
        # Past a limit, clamd replies while it is still being sent bytes, and then resets the connection.
        frames_sent = 0

        async def send_frames(connection: socket.socket) -> None:
            nonlocal frames_sent
            loop = asyncio.get_running_loop()
            opening, offset = b"zINSTREAM\0", 0
            while offset < sealed.size:
                frame = await _read_frame(sealed, offset)
                offset += len(frame)
                closing = _END_OF_STREAM if offset == sealed.size else b""
                await loop.sock_sendall(connection, b"".join((opening, len(frame).to_bytes(4, "big"), frame, closing)))
                frames_sent += 1
                opening = b""
            if opening:
                await loop.sock_sendall(connection, opening + _END_OF_STREAM)

        async with self._connected() as connection:
            reading = asyncio.create_task(_read_reply(connection))
            sending = asyncio.create_task(send_frames(connection))
            in_progress: set[asyncio.Task[bytes] | asyncio.Task[None]] = {reading, sending}
            try:
                while not reading.done():
                    frames_before = frames_sent
                    done, in_progress = await asyncio.wait(
                        in_progress, timeout=self.timeouts.stall, return_when=asyncio.FIRST_COMPLETED
                    )
                    if sending in done:
                        _has_sent_all(sending)
                    if not done and frames_sent == frames_before and may_abandon():
                        await self._require_alive()
                return _require_complete(reading.result(), sent_all=sending.done() and _has_sent_all(sending))
            finally:
                for task in (reading, sending):
                    task.cancel()
                # Both must be off the socket before it is closed: its number may be reused a moment later.
                await asyncio.gather(reading, sending, return_exceptions=True)

    async def _require_alive(self) -> None:
        """Raise `ClamdUnresponsive` if clamd does not even reply to a PING: a scan may take long, a PING may not."""
        try:
            await self.query(b"PING")
        except ClamdUnavailable as error:
            raise ClamdUnresponsive(f"no sign of life: {error}") from error

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[socket.socket]:
        connection = await connect(self.address, self.timeouts.connect)
        try:
            yield connection
        except TimeoutError:
            raise
        except OSError as error:
            raise ClamdUnavailable(f"the connection broke: {describe_os_error(error)}") from error
        finally:
            connection.close()


def _has_sent_all(sending: asyncio.Task[None]) -> bool:
    """Return whether all frames were sent; a broken connection is no reason to stop reading. Raise other errors."""
    error = sending.exception()
    if error is not None and not isinstance(error, OSError):
        raise error
    return error is None


def _require_complete(reply: bytes, *, sent_all: bool) -> bytes:
    """Return the reply. Raise `ClamdUnavailable` for a verdict on bytes that were not all sent."""
    if not sent_all and not reply.endswith(b"ERROR"):
        raise ClamdUnavailable("a reply before all bytes were sent")
    return reply


async def _read_reply(connection: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    reply = b""
    while b"\0" not in reply:
        reply = _append(reply, await loop.sock_recv(connection, _REPLY_MAX))
    return _one_reply(reply)


def _append(reply: bytes, part: bytes) -> bytes:
    if not part:
        raise ClamdUnavailable("the connection was closed without a reply")
    if len(reply) > _REPLY_MAX:
        raise ClamdUnavailable(f"a reply of more than {_REPLY_MAX} bytes")
    return reply + part


def _one_reply(raw: bytes) -> bytes:
    text, _, rest = raw.partition(b"\0")
    if rest:
        raise ClamdUnavailable("a reply with more data after it")
    return text


async def _wait_readable(connection: socket.socket, seconds: float) -> bool:
    """Wait until the socket is readable or at its end; return False after `seconds`."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[bool] = loop.create_future()

    def resolve(readable: bool) -> None:  # noqa: FBT001  (a callback's one argument)
        if not ready.done():
            ready.set_result(readable)

    timer = loop.call_later(seconds, resolve, False)
    loop.add_reader(connection, resolve, True)
    try:
        return await ready
    finally:
        # Before the socket is closed, also when cancelled: its number may be reused a moment later.
        loop.remove_reader(connection)
        timer.cancel()


async def _read_frame(sealed: Sealed, offset: int) -> bytes:
    length = min(_FRAME_BYTES, sealed.size - offset)
    if sealed.size <= _INLINE_READ_BYTES:
        frame = os.pread(sealed.fd, length, offset)
    else:
        frame = await asyncio.to_thread(os.pread, sealed.fd, length, offset)
    if not frame:
        raise ClamdUnavailable("the bytes to be scanned ended early")
    return frame


async def connect(address: ClamdAddress, seconds: float) -> socket.socket:
    """Return a connected, non-blocking socket, which the caller closes.

    Raise `ClamdUnavailable` if there is none within `seconds`.
    """
    try:
        if address.is_local and (connection := _try_connect(address.path)):
            return connection
        async with asyncio.timeout(seconds):
            if not address.is_local:
                return await _connect_tcp(address.host, address.port)
            while True:
                await asyncio.sleep(_BACKLOG_PAUSE)
                if connection := _try_connect(address.path):
                    return connection
    except TimeoutError as late:
        raise ClamdUnavailable(f"no connection within {seconds:g} s") from late
    except OSError as error:
        raise ClamdUnavailable(f"no connection: {describe_os_error(error)}") from error


def describe_os_error(error: OSError) -> str:
    """Return the system's message, without paths or addresses."""
    return os.strerror(error.errno) if error.errno else type(error).__name__


def _try_connect(path: str) -> socket.socket | None:
    """Return a connection; None while the backlog is full."""
    # A unix socket reports a full backlog at once, and cannot be waited for.
    connection = _new_socket(socket.AF_UNIX)
    try:
        connection.connect(path)
    except BlockingIOError:
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


async def _connect_tcp(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    last_error = OSError(errno.EHOSTUNREACH, "")
    try:
        # A numeric address needs no resolver, and so no thread.
        found: Sequence[AddressInfo] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )
    except socket.gaierror:
        found = await look_up(host, port)
    for family, _, _, _, address in found:
        connection = _new_socket(family)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(connection, address)
        except OSError as error:
            connection.close()
            last_error = error
        except BaseException:
            connection.close()
            raise
        else:
            return connection
    raise last_error


def _new_socket(family: int) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    connection.setblocking(False)
    return connection
