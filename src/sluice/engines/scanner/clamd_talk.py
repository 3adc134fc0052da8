"""One conversation with one clamd: a question and its answer, each on a connection of its own. What an answer means lives in `clamd_answers`.

Protocol: clamd(8). Commands begin with `z`, so that command and answer end with NUL.
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

Speech = Callable[[socket.socket], Coroutine[None, None, None]]


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


async def scan_descriptor(address: ClamdAddress, sealed: Sealed, patience: Patience) -> bytes:
    """Pass clamd a descriptor of the bytes and answer what it says; raises `ClamdAway`."""

    async def speak(connection: socket.socket) -> None:
        # A descriptor of its own: clamd moves the offset.
        descriptor = sealed.reopen()
        try:
            await asyncio.get_running_loop().sock_sendall(connection, b"zFILDES\0")
            socket.send_fds(connection, [b"\0"], [descriptor])
        finally:
            os.close(descriptor)

    return await _converse(address, speak, patience)


async def scan_stream(address: ClamdAddress, sealed: Sealed, patience: Patience) -> bytes:
    """Send clamd the bytes, a frame at a time, and answer what it says; raises `ClamdAway`."""

    async def speak(connection: socket.socket) -> None:
        opening, offset = b"zINSTREAM\0", 0
        while offset < sealed.size:
            frame = await _read_frame(sealed, offset)
            offset += len(frame)
            closing = _END_OF_STREAM if offset == sealed.size else b""
            await _send(connection, b"".join((opening, len(frame).to_bytes(4, "big"), frame, closing)), patience.stall)
            opening = b""
        if opening:
            await _send(connection, opening + _END_OF_STREAM, patience.stall)

    return await _converse(address, speak, patience)


async def _converse(address: ClamdAddress, speak: Speech, patience: Patience) -> bytes:
    """Speak and listen at once: past a limit clamd answers while it is still being sent bytes, and then resets the connection."""
    async with _connected(address, patience) as connection:
        listening = asyncio.create_task(_read_answer(connection))
        speaking = asyncio.create_task(speak(connection))
        try:
            await asyncio.wait({listening, speaking}, return_when=asyncio.FIRST_COMPLETED)
            said_all = speaking.done() and _went_well(speaking)
            while not listening.done():
                await asyncio.wait({listening}, timeout=patience.stall)
                if not listening.done():
                    await ask(address, b"PING", patience)  # it may think for long, but must be alive
            return _refuse_early_praise(listening.result(), said_all=said_all)
        finally:
            for task in (listening, speaking):
                task.cancel()
            # Both must be off the socket before it is closed: its number may be another's a moment later.
            await asyncio.gather(listening, speaking, return_exceptions=True)


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
        if len(answer) > _MOST_ANSWER_BYTES:
            raise ClamdAway(f"an answer of more than {_MOST_ANSWER_BYTES} bytes")
        part = await loop.sock_recv(connection, _MOST_ANSWER_BYTES)
        if not part:
            raise ClamdAway("the connection was closed without an answer")
        answer += part
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


async def _send(connection: socket.socket, data: bytes, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await asyncio.get_running_loop().sock_sendall(connection, data)
    except TimeoutError as late:
        raise ClamdAway(f"it took no bytes for {seconds:g} s") from late


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
