"""The server's end of one child's socket: ask, wait, and believe nothing. What a reply means is judged in `judge`."""

import asyncio
import contextlib
import fcntl
import socket
import struct
import sys
import termios
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sluice.engines.sandbox import wire

_CHUNK: Final = 64 * 1024
_PICK_UP_SECONDS: Final = 2.0
"""An idle child takes a request within a tenth of a millisecond; one that has not after this hangs from before."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A whole frame, whose body is some JSON object."""

    body: dict[str, object]


@dataclass(frozen=True, slots=True)
class Babbled:
    """Bytes that no honest child writes."""

    why: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The child closed its end, as it does by ending."""


@dataclass(frozen=True, slots=True)
class Late:
    """No answer in time."""


@dataclass(frozen=True, slots=True)
class Unread:
    """The child was dead or stuck before it took the request: the file has nothing to do with it."""


Reply = Answered | Babbled | Gone | Late | Unread


class Link:
    """One stream socket to a child that works on one request at a time. `open` turns False for good when the child is of no more use."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over `sock`, whose first frame will be the child's hello."""
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._number = wire.HELLO
        self._waiting: asyncio.Future[Reply] | None = self._loop.create_future()
        self.open = True
        self._loop.add_reader(sock.fileno(), self._on_bytes)

    async def hello(self, seconds: float) -> Reply:
        """Wait for the child's first frame."""
        return await self._reply(seconds)

    async def ask(self, job: str, filename: str, fds: Sequence[int], *, cpu_seconds: int, wall_seconds: float) -> Reply:
        """Hand over the descriptors of the file and, where one is lent, of a tray; wait for the answer. They stay the caller's to close."""
        if not self.open:
            return Unread()
        self._number += 1
        self._waiting = self._loop.create_future()
        frame = wire.pack_request(wire.Request(self._number, job, filename, cpu_seconds))
        try:
            sent = socket.send_fds(self._sock, [frame], fds)
        except OSError:
            sent = 0
        if sent != len(frame):
            self.close()
            return Unread()
        return await self._reply(wall_seconds)

    def close(self) -> None:
        """Hang up. Whoever waits for a reply gets `Gone`."""
        if self.open:
            self.open = False
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()
            self._settle(Gone())

    async def _reply(self, seconds: float) -> Reply:
        waiting = self._waiting
        if waiting is None:
            return Gone()
        deadline = self._loop.time() + seconds
        self._timer = self._loop.call_later(min(seconds, _PICK_UP_SECONDS), self._look, deadline)
        try:
            return await waiting
        finally:
            self._timer.cancel()
            self._waiting = None

    def _look(self, deadline: float) -> None:
        """See after a while whether the child has begun at all, and at the deadline that it has not finished."""
        left = deadline - self._loop.time()
        if self._number != wire.HELLO and self._unread_bytes():
            self._settle(Unread())
        elif left <= 0:
            self._settle(Late())
        else:
            self._timer = self._loop.call_later(left, self._look, deadline)

    def _unread_bytes(self) -> int:
        """Answer how much of what was sent still lies in the child's socket; Linux only, elsewhere 0."""
        if sys.platform != "linux" or not self.open:
            return 0
        raw = fcntl.ioctl(self._sock.fileno(), termios.TIOCOUTQ, bytes(4))
        return int(struct.unpack("@i", raw)[0])

    def _on_bytes(self) -> None:
        try:
            chunk = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return
        self._buffer += chunk
        try:
            body = self._frame()
        except wire.Nonsense as fault:
            self._settle(Babbled(str(fault)))
            self.close()
            return
        if body is not None:
            self._settle(Answered(body))

    def _frame(self) -> dict[str, object] | None:
        """Answer the body of the frame waited for, None while it is not whole. Raises `Nonsense`."""
        if self._waiting is None or self._waiting.done():
            raise wire.Nonsense("it spoke without being asked")
        if len(self._buffer) < wire.HEADER.size:
            return None
        length, number = wire.HEADER.unpack_from(self._buffer)
        if number != self._number:
            raise wire.Nonsense("it answered another request")
        if length > wire.ANSWER_MAX:
            raise wire.Nonsense(f"its answer is longer than {wire.ANSWER_MAX} bytes")
        end = wire.HEADER.size + length
        if len(self._buffer) < end:
            return None
        if len(self._buffer) > end:
            raise wire.Nonsense("it answered more than it was asked")
        body = wire.parse(bytes(self._buffer[wire.HEADER.size :]))
        self._buffer.clear()
        return body

    def _settle(self, reply: Reply) -> None:
        if self._waiting is not None and not self._waiting.done():
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._waiting.set_result(reply)
