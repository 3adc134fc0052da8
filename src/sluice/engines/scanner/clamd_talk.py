"""Conversations with one clamd: scans on a connection each, and one that lasts. What an answer means lives in `clamd_answers`.

Protocol: clamd(8). Commands begin with `z`, so that command and answer end with NUL. Scans do not share a connection (IDSESSION): measured,
that saves nothing (0.08 against 0.07 ms of our processor time a scan, 0.5 ms of clamd's either way), and one lost connection would cost many scans.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from sluice.engines.scanner.clamd_address import ClamdAddress, ClamdAway, connect, reason
from sluice.kit.sealed import Sealed

_MOST_ANSWER_BYTES: Final = 4096
_FRAME_BYTES: Final = 256 * 1024
_INLINE_BYTES: Final = 64 * 1024
"""So much was just written and is read without a thread, which would cost more than the read."""
_END_OF_STREAM: Final = bytes(4)


@dataclass(slots=True)
class _Progress:
    frames: int = 0


Speech = Callable[[socket.socket, _Progress], Coroutine[None, None, None]]
MayLeave = Callable[[], bool]
"""Answers whether a scan that shows no sign of life may be left for another clamd."""


class ClamdSilent(ClamdAway):
    """It took the scan and shows no sign of life: it may be loading signatures, or it hangs."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long is waited, in seconds: for a connection and for short answers; and for a sign of life while a scan is under way."""

    connect: float
    stall: float


async def ask(address: ClamdAddress, command: bytes, patience: Patience) -> bytes:
    """Answer what clamd says to a short question such as `PING`; raises `ClamdAway`."""
    try:
        async with _connected(address, patience) as connection, asyncio.timeout(patience.connect):
            await asyncio.get_running_loop().sock_sendall(connection, b"z%s\0" % command)
            return await _read_answer(connection)
    except TimeoutError as late:
        raise ClamdAway(f"no answer to {command.decode()} within {patience.connect:g} s") from late


async def scan_descriptor(address: ClamdAddress, sealed: Sealed, patience: Patience, may_leave: MayLeave) -> bytes:
    """Pass clamd a descriptor of the bytes and answer what it says; raises `ClamdAway`, `ClamdSilent` when `may_leave` says so."""
    async with _connected(address, patience) as connection:
        said_all = _pass_descriptor(connection, sealed)
        # What was said is nine bytes, which a socket takes at once: only listening is left to be waited for.
        answer = b""
        while b"\0" not in answer:
            if await _readable(connection, patience.stall):
                answer = _received(connection, answer)
            elif may_leave():
                await _require_life(address, patience)
        return _refuse_early_praise(_one_answer(answer), said_all=said_all)


async def scan_stream(address: ClamdAddress, sealed: Sealed, patience: Patience, may_leave: MayLeave) -> bytes:
    """Send clamd the bytes, a frame at a time, and answer what it says; raises as `scan_descriptor`."""

    async def speak(connection: socket.socket, progress: _Progress) -> None:
        loop = asyncio.get_running_loop()
        opening, offset = b"zINSTREAM\0", 0
        while offset < sealed.size:
            frame = await _read_frame(sealed, offset)
            offset += len(frame)
            closing = _END_OF_STREAM if offset == sealed.size else b""
            await loop.sock_sendall(connection, b"".join((opening, len(frame).to_bytes(4, "big"), frame, closing)))
            progress.frames += 1
            opening = b""
        if opening:
            await loop.sock_sendall(connection, opening + _END_OF_STREAM)

    return await _converse(address, speak, patience, may_leave)


def _pass_descriptor(connection: socket.socket, sealed: Sealed) -> bool:
    """Answer whether the descriptor was taken. A broken connection is no reason not to listen: the answer may be on its way."""
    # A descriptor of its own: clamd moves the offset.
    descriptor = sealed.reopen()
    try:
        # The command and the byte that carries the descriptor in one message: clamd is woken once.
        socket.send_fds(connection, [b"zFILDES\0", b"\0"], [descriptor])
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


class Line:
    """A conversation that lasts, of short questions, one at a time. It breaks when clamd ends: a restart between two scans is not missed."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._number = 0

    async def ask(self, command: bytes) -> bytes:
        """Answer what clamd says, however long it takes; raises `ClamdAway` or `OSError` when the connection breaks."""
        self._number += 1
        await asyncio.get_running_loop().sock_sendall(self._connection, b"z%s\0" % command)
        answer = await _read_answer(self._connection)
        number, _, text = answer.partition(b": ")
        if number != b"%d" % self._number:
            raise ClamdAway("an answer to another question")
        return text

    async def broken(self) -> None:
        """Return when clamd closes the connection, or says something unasked."""
        await asyncio.get_running_loop().sock_recv(self._connection, 1)


@asynccontextmanager
async def lasting_line(address: ClamdAddress, patience: Patience) -> AsyncIterator[Line]:
    """Open a conversation that lasts until the block ends; raises `ClamdAway`."""
    async with _connected(address, patience) as connection:
        await asyncio.get_running_loop().sock_sendall(connection, b"zIDSESSION\0")
        yield Line(connection)


async def _converse(address: ClamdAddress, speak: Speech, patience: Patience, may_leave: MayLeave) -> bytes:
    """Speak and listen at once: past a limit clamd answers while it is still being sent bytes, and then resets the connection."""
    progress = _Progress()
    async with _connected(address, patience) as connection:
        listening = asyncio.create_task(_read_answer(connection))
        speaking = asyncio.create_task(speak(connection, progress))
        under_way: set[asyncio.Task[bytes] | asyncio.Task[None]] = {listening, speaking}
        try:
            while not listening.done():
                before = progress.frames
                done, under_way = await asyncio.wait(under_way, timeout=patience.stall, return_when=asyncio.FIRST_COMPLETED)
                if speaking in done:
                    _went_well(speaking)
                if not done and progress.frames == before and may_leave():
                    await _require_life(address, patience)
            return _refuse_early_praise(listening.result(), said_all=speaking.done() and _went_well(speaking))
        finally:
            for task in (listening, speaking):
                task.cancel()
            # Both must be off the socket before it is closed: its number may be another's a moment later.
            await asyncio.gather(listening, speaking, return_exceptions=True)


async def _require_life(address: ClamdAddress, patience: Patience) -> None:
    """Raise `ClamdSilent` for one that does not even answer a PING: a scan may take long, that may not."""
    try:
        await ask(address, b"PING", patience)
    except ClamdAway as fault:
        raise ClamdSilent(f"no sign of life: {fault}") from fault


def _went_well(speaking: asyncio.Task[None]) -> bool:
    """Answer whether all was said. A broken connection is no reason to stop listening: the answer may be on its way."""
    fault = speaking.exception()
    if fault is not None and not isinstance(fault, OSError):
        raise fault
    return fault is None


def _refuse_early_praise(answer: bytes, *, said_all: bool) -> bytes:
    if not said_all and not answer.endswith(b"ERROR"):
        raise ClamdAway("an answer before all bytes were sent")
    return answer


async def _read_answer(connection: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    answer = b""
    while b"\0" not in answer:
        answer = _more(answer, await loop.sock_recv(connection, _MOST_ANSWER_BYTES))
    return _one_answer(answer)


async def _readable(connection: socket.socket, seconds: float) -> bool:
    """Wait until there is something to read, or the end; answers False after `seconds`. It is off the socket when it ends, however that is."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[bool] = loop.create_future()

    def settle(found: bool) -> None:  # noqa: FBT001  (a callback's one argument)
        if not ready.done():
            ready.set_result(found)

    timer = loop.call_later(seconds, settle, False)
    loop.add_reader(connection, settle, True)
    try:
        return await ready
    finally:
        # At once, and not when a cancelled task comes round: the socket's number may be another's a moment later.
        loop.remove_reader(connection)
        timer.cancel()


def _received(connection: socket.socket, answer: bytes) -> bytes:
    """Answer what has come so far, with what lies ready."""
    try:
        return _more(answer, connection.recv(_MOST_ANSWER_BYTES))
    except BlockingIOError:
        return answer


def _more(answer: bytes, part: bytes) -> bytes:
    if not part:
        raise ClamdAway("the connection was closed without an answer")
    if len(answer) > _MOST_ANSWER_BYTES:
        raise ClamdAway(f"an answer of more than {_MOST_ANSWER_BYTES} bytes")
    return answer + part


def _one_answer(answer: bytes) -> bytes:
    text, _, more = answer.partition(b"\0")
    if more:
        raise ClamdAway("an answer with more behind it")
    return text


async def _read_frame(sealed: Sealed, offset: int) -> bytes:
    length = min(_FRAME_BYTES, sealed.size - offset)
    if sealed.size <= _INLINE_BYTES:
        frame = os.pread(sealed.fd, length, offset)
    else:
        frame = await asyncio.to_thread(os.pread, sealed.fd, length, offset)
    if not frame:
        raise ClamdAway("the bytes to be scanned ended early")
    return frame


@asynccontextmanager
async def _connected(address: ClamdAddress, patience: Patience) -> AsyncIterator[socket.socket]:
    connection = await connect(address, patience.connect)
    try:
        yield connection
    except TimeoutError:
        raise
    except OSError as fault:
        raise ClamdAway(f"the connection broke: {reason(fault)}") from fault
    finally:
        connection.close()
