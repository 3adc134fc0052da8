"""The server's end of one child's socket: ask, wait, and believe nothing. What a reply means is judged in `judge`."""

import asyncio
import contextlib
import fcntl
import socket
import struct
import sys
import termios
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sluice.engines.sandbox import wire

_CHUNK: Final = 64 * 1024
_PICK_UP_SECONDS: Final = 2.0
"""An idle child takes a request within a tenth of a millisecond; one that has not after this hangs from before."""
_SLOW_SECONDS: Final = 0.1
"""So long the files behind another one wait for it. Then other children get them."""


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
    """The child did not come to this request, being dead, stuck or slow before: the file has nothing to do with it."""


Reply = Answered | Babbled | Gone | Late | Unread


@dataclass(frozen=True, slots=True)
class Task:
    """One file to hand over: its descriptor and, where one is lent, a tray's. They stay the caller's to close."""

    job: str
    filename: str
    fds: tuple[int, ...]
    cpu_seconds: int
    wall_seconds: float


@dataclass(frozen=True, slots=True)
class _Expected:
    number: int
    seconds: float
    reply: "asyncio.Future[Reply]"


class Link:
    """One stream socket to a child, which works on one file after another. `open` turns False for good when the child is of no more use."""

    def __init__(self, sock: socket.socket) -> None:
        """Take over `sock`, whose first frame will be the child's hello."""
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._number = wire.HELLO
        self._expected: deque[_Expected] = deque()
        """What was asked and not answered yet, in the order in which the child comes to it."""
        self._timer: asyncio.TimerHandle | None = None
        self.open = True
        self.spent = False
        """Whether files were taken back from the child, which it would still work on: it must be asked for nothing more."""
        self._hello: asyncio.Future[Reply] = self._loop.create_future()
        self._expected.append(_Expected(wire.HELLO, 0, self._hello))
        self._loop.add_reader(sock.fileno(), self._on_bytes)

    async def hello(self, seconds: float) -> Reply:
        """Wait for the child's first frame."""
        if not self._hello.done():
            self._timer = self._loop.call_later(seconds, self._settle, Late())
        return await self._hello

    async def ask(self, task: Task) -> Reply:
        """Hand over one file and wait for the answer."""
        (reply,) = self.ask_all([task])
        return await reply

    def ask_all(self, tasks: Sequence[Task]) -> "list[asyncio.Future[Reply]]":
        """Hand over up to `wire.MOST_FILES` files, and answer what their replies will be, in that order. Only one may come with a tray, alone.

        A file that stands behind a slow one, or one that brings the child down, is `Unread`. An idle child only may be asked.
        """
        expected = [
            _Expected(self._number + place, task.wall_seconds, self._loop.create_future()) for place, task in enumerate(tasks, 1)
        ]
        replies = [one.reply for one in expected]
        if not self.open:
            for reply in replies:
                reply.set_result(Unread())
            return replies
        self._number += len(tasks)
        self._expected.extend(expected)
        requests = [
            wire.Request(one.number, task.job, task.filename, task.cpu_seconds) for one, task in zip(expected, tasks, strict=True)
        ]
        frame = wire.pack_requests(requests)
        try:
            sent = socket.send_fds(self._sock, [frame], [fd for task in tasks for fd in task.fds])
        except OSError:
            sent = 0
        if sent == len(frame):
            self._watch()
        else:
            self.take_back()
            self.close()
        return replies

    def close(self) -> None:
        """Hang up. Whoever waits for a reply gets `Gone`, or `Unread` where the child had not come to it."""
        if self.open:
            self.open = False
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()
            self._settle(Gone())
            self.take_back()

    def take_back(self, but: int = 0) -> None:
        """Answer those whose files the child is not to work on any more, all but the first so many: they are `Unread`."""
        self.spent = True
        while len(self._expected) > but:
            _tell(self._expected.pop().reply, Unread())

    def _watch(self) -> None:
        """Set the timer for the file that the child works on now."""
        first = self._expected[0]
        deadline = self._loop.time() + first.seconds
        sooner = _SLOW_SECONDS if len(self._expected) > 1 else _PICK_UP_SECONDS
        self._timer = self._loop.call_later(min(first.seconds, sooner), self._look, deadline)

    def _look(self, deadline: float) -> None:
        """See after a while whether the child has begun at all, and at the deadline that it has not finished."""
        now = self._loop.time()
        if len(self._expected) > 1:
            self.take_back(but=1)
            self._timer = self._loop.call_at(min(deadline, now + _PICK_UP_SECONDS), self._look, deadline)
        elif self._unread_bytes():
            self._settle(Unread())
        elif now >= deadline:
            self._settle(Late())
        else:
            self._timer = self._loop.call_at(deadline, self._look, deadline)

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
            while (body := self._frame()) is not None:
                self._settle(Answered(body))
        except wire.Nonsense as fault:
            self._settle(Babbled(str(fault)))
            self.take_back()
            self.close()

    def _frame(self) -> dict[str, object] | None:
        """Answer the body of the frame waited for, None while it is not whole. Raises `Nonsense`."""
        if not self._buffer:
            return None
        if not self._expected:
            raise wire.Nonsense("it spoke without being asked")
        if len(self._buffer) < wire.HEADER.size:
            return None
        length, number = wire.HEADER.unpack_from(self._buffer)
        if number != self._expected[0].number:
            raise wire.Nonsense("it answered another request")
        if length > wire.ANSWER_MAX:
            raise wire.Nonsense(f"its answer is longer than {wire.ANSWER_MAX} bytes")
        end = wire.HEADER.size + length
        if len(self._buffer) < end:
            return None
        if (
            len(self._buffer) > end and len(self._expected) == 1 and not self.spent
        ):  # a spent child still answers what was taken back
            raise wire.Nonsense("it answered more than it was asked")
        body = wire.parse(bytes(self._buffer[wire.HEADER.size : end]))
        del self._buffer[:end]
        return body

    def _settle(self, reply: Reply) -> None:
        """Answer whoever waits for the file that the child works on; it goes on to the next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._expected:
            _tell(self._expected.popleft().reply, reply)
        if self._expected and isinstance(reply, Answered):
            if reply.body.get("worn") is False:
                self._watch()
            else:
                self.take_back()


def _tell(waiting: "asyncio.Future[Reply]", reply: Reply) -> None:
    if not waiting.done():
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            waiting.set_result(reply)
