"""The server's end of one worker's socket: submit jobs, enforce wall clock limits, and trust no byte of the replies."""

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sluice_inspect.child import protocol

_CHUNK: Final = 64 * 1024
# An idle worker reads a request within a tenth of a millisecond, on a machine that is far too busy within seconds; one
# that has not after this time was stuck before it.
_READ_SECONDS: Final = 20.0
# Jobs queued behind another one in the same worker wait this long for it; then they are withdrawn and go to other
# workers.
_SLOW_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True)
class JobReply:
    """A whole frame; `body` is some JSON object, not yet trusted."""

    body: dict[str, object]


@dataclass(frozen=True, slots=True)
class ProtocolError:
    """Bytes that no honest worker writes."""

    why: str


@dataclass(frozen=True, slots=True)
class Exited:
    """The worker closed its end, as it does when it exits."""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """No reply within the wall clock limit."""


@dataclass(frozen=True, slots=True)
class Unread:
    """The worker never came to this job: it was dead, stuck or slow before. The file is not to blame."""


Reply = JobReply | ProtocolError | Exited | TimedOut | Unread


@dataclass(frozen=True, slots=True)
class Submission:
    """One job to hand over, with the descriptors of its file and, if one is lent, of a shared buffer.

    They stay the caller's to close.
    """

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


class Channel:
    """A stream socket to one worker, which works on one job after another.

    `is_open` turns False for good when the worker is unusable.
    """

    def __init__(self, sock: socket.socket) -> None:
        """Take ownership of `sock`. Its first frame will be the worker's hello."""
        sock.setblocking(False)
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._number = protocol.HELLO
        # Replies that are due, in the order in which the worker comes to them.
        self._expected: deque[_Expected] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.is_open = True
        # Set once jobs were withdrawn. The worker may still work on them, so it must not be given others.
        self.has_withdrawn = False
        self._hello: asyncio.Future[Reply] = self._loop.create_future()
        self._expected.append(_Expected(protocol.HELLO, 0, self._hello))
        self._loop.add_reader(sock.fileno(), self._on_readable)

    async def hello(self, seconds: float) -> Reply:
        """Wait for the worker's first frame."""
        if not self._hello.done():
            self._timer = self._loop.call_later(seconds, self._settle, TimedOut())
        return await self._hello

    def submit(self, submissions: Sequence[Submission]) -> "list[asyncio.Future[Reply]]":
        """Hand over up to `protocol.REQUESTS_MAX` jobs to an idle worker; return the futures of their replies.

        A job with a shared buffer must be submitted alone. A job behind a slow one, or behind one that takes the worker
        down, gets `Unread`.
        """
        replies: list[asyncio.Future[Reply]] = []
        requests: list[protocol.JobRequest] = []
        fds: list[int] = []
        for submission in submissions:
            reply: asyncio.Future[Reply] = self._loop.create_future()
            replies.append(reply)
            if not self.is_open:
                reply.set_result(Unread())
                continue
            self._number += 1
            self._expected.append(_Expected(self._number, submission.wall_seconds, reply))
            requests.append(
                protocol.JobRequest(self._number, submission.job, submission.filename, submission.cpu_seconds)
            )
            fds.extend(submission.fds)
        if not self.is_open:
            return replies
        frame = protocol.pack_requests(requests)
        try:
            sent = socket.send_fds(self._sock, [frame], fds)
        except OSError:
            sent = 0
        if sent == len(frame):
            self._start_timer()
        else:
            self.withdraw()
            self.close()
        return replies

    def close(self) -> None:
        """Hang up. The job in progress gets `Exited`; jobs that the worker had not come to get `Unread`."""
        if self.is_open:
            self.is_open = False
            self._loop.remove_reader(self._sock.fileno())
            self._sock.close()
            self._settle(Exited())
            self.withdraw()

    def withdraw(self, *, keep: int = 0) -> None:
        """Settle all but the first `keep` expected replies as `Unread`."""
        self.has_withdrawn = True
        while len(self._expected) > keep:
            _resolve(self._expected.pop().reply, Unread())

    def _start_timer(self) -> None:
        """Set the timer for the job that the worker works on now."""
        first = self._expected[0]
        deadline = self._loop.time() + first.seconds
        early = _SLOW_SECONDS if len(self._expected) > 1 else _READ_SECONDS
        self._timer = self._loop.call_later(min(first.seconds, early), self._on_timer, deadline)

    def _on_timer(self, deadline: float) -> None:
        """Withdraw jobs behind a slow one, detect a worker that has not begun, and enforce the deadline."""
        now = self._loop.time()
        if len(self._expected) > 1:
            self.withdraw(keep=1)
            self._timer = self._loop.call_at(min(deadline, now + _READ_SECONDS), self._on_timer, deadline)
        elif self._has_unread_bytes():
            self._settle(Unread())
        elif now >= deadline:
            self._settle(TimedOut())
        else:
            self._timer = self._loop.call_at(deadline, self._on_timer, deadline)

    def _has_unread_bytes(self) -> bool:
        """Return whether the request is still in the socket's send queue: the worker has not read it."""
        if not self.is_open:
            return False
        raw = fcntl.ioctl(self._sock.fileno(), termios.TIOCOUTQ, bytes(4))
        return bool(struct.unpack("@i", raw)[0])

    def _on_readable(self) -> None:
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
            while self._buffer and (body := self._take_frame()) is not None:
                self._settle(JobReply(body))
        except protocol.FrameError as error:
            self._settle(ProtocolError(str(error)))
            self.withdraw()
            self.close()

    def _take_frame(self) -> dict[str, object] | None:
        """Take the expected frame's body from the buffer; None while it is incomplete. Raise `FrameError`."""
        if not self._expected:
            raise protocol.FrameError("it spoke without being asked")
        if len(self._buffer) < protocol.HEADER.size:
            return None
        length, number = protocol.HEADER.unpack_from(self._buffer)
        if number != self._expected[0].number:
            raise protocol.FrameError("it replied to another request")
        if length > protocol.REPLY_MAX:
            raise protocol.FrameError(f"its reply is longer than {protocol.REPLY_MAX} bytes")
        end = protocol.HEADER.size + length
        if len(self._buffer) < end:
            return None
        # A worker whose other jobs were withdrawn may still reply to them; those replies are dropped.
        if len(self._buffer) > end and len(self._expected) == 1 and not self.has_withdrawn:
            raise protocol.FrameError("it sent more than was requested")
        body = protocol.parse(bytes(self._buffer[protocol.HEADER.size : end]))
        del self._buffer[:end]
        return body

    def _settle(self, reply: Reply) -> None:
        """Settle the job that the worker works on, and start the timer of the next one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._expected:
            _resolve(self._expected.popleft().reply, reply)
        if self._expected and isinstance(reply, JobReply):
            if reply.body.get("recycle") is False:
                self._start_timer()
            else:
                self.withdraw()


def _resolve(future: "asyncio.Future[Reply]", reply: Reply) -> None:
    if not future.done():
        with contextlib.suppress(RuntimeError):  # the loop is closed, and no task waits
            future.set_result(reply)
