"""The HTTP/1.1 protocol of the server: uvicorn's, held to one reading of each request, to time, and to bounds in number.

Requests it can read go to the app; what it refuses by itself is an envelope too. What a head must be is said in `framing`, how fast a
body must come in `pace`. A refusal closes the connection: nobody knows where the next request would begin.
"""

import asyncio
import socket
import struct
from typing import Any, Final

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from sluice.api.framing import HEAD_BYTES, Head, require_one_reading
from sluice.api.guards import SECURITY_HEADERS
from sluice.api.pace import Pace, Patience
from sluice.api.render import render
from sluice.errors import BodyStalled, HeadStalled, HeadTooLarge, Malformed, SluiceError, TooManyConnections
from sluice.kit.ids import new_id
from sluice.observe.log import log
from sluice.observe.metrics import REFUSALS

_UNREADABLE: Final = "The request is not HTTP/1.1 as RFC 9112 has it"
_MOST_WAITING: Final = 16
"""Requests that one connection may send ahead of their answers."""
_READING: Final = 4
"""A reader may seem silent for so many times longer than a writer: what it takes shows only once the kernel's own buffer has room."""


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, patience: Patience, **more: Any) -> None:
        super().__init__(*args, **more)
        self._patience = patience
        self._answering: RequestResponseCycle | None = None
        self._refusal: SluiceError | None = None
        self._refused = False
        self._head_open = False
        self._head_bytes = 0
        self._pace: Pace | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._write_alarm: asyncio.TimerHandle | None = None

    # the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn's own narrowing
        """Take the connection while there is room for it, and expect a head."""
        super().connection_made(transport)
        self.flow = _Flow(transport, self._waive)
        if len(self.connections) > self._patience.connections:
            self._refuse(TooManyConnections())
            return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the alarms."""
        self._disarm()
        self._disarm_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what came, and hold it to size and time."""
        if self._is_over():
            return
        was_open = self._head_open
        if self._pace is not None:
            self._pace.took(len(data), self.loop.time())
        super().data_received(data)
        if self._is_over():
            return
        if was_open and self._head_open:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._refuse(HeadTooLarge(f"The head has more than {HEAD_BYTES} bytes"))
                return
        self._watch()

    # what the parser finds

    def on_message_begin(self) -> None:
        """Begin a head; a client that asks far ahead of its answers is not followed."""
        super().on_message_begin()
        self._head_open, self._head_bytes = True, 0
        if len(self.pipeline) >= _MOST_WAITING:
            self._refuse_by_raising(Malformed(errors=["Too many requests ahead of their answers"]))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep one field of the head; one after the body would change a head that was judged already (RFC 9110 section 6.5.1)."""
        if not self._head_open:
            self._refuse_by_raising(Malformed(errors=["Trailer fields are not accepted"]))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Judge the head before the app hears of it."""
        self._disarm()
        head = Head(self.parser.get_method().decode("ascii"), self.url, self.parser.get_http_version(), self.headers)
        try:
            require_one_reading(head)
        except SluiceError as refusal:
            self._refuse_by_raising(refusal)
        super().on_headers_complete()
        self._head_open = False
        self._pace = Pace(self._patience, self.loop.time())

    def on_message_complete(self) -> None:
        """The request is whole: from here on only the answer takes time."""
        self._pace = None
        self._disarm()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is sent; what remains of the body is taken for a while, so that the client comes to read the answer."""
        super().on_response_complete()
        if self._pace is not None:
            self._pace.end(self.loop.time())

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  (uvicorn's signature; its sentence is not ours)
        """Answer what the parser refused, or what was refused while it parsed."""
        self._refuse(self._refusal or Malformed(errors=[_UNREADABLE]))

    def _unsupported_upgrade_warning(self) -> None:
        """Whoever asks for another protocol is answered in this one (RFC 9110 section 7.8); what it sends next is not HTTP."""
        self.cycle.keep_alive = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    # time

    def _expect_head(self) -> None:
        if self._alarm is None:
            self._alarm = self.loop.call_later(self._patience.head_seconds, self._head_is_late)

    def _head_is_late(self) -> None:
        self._alarm = None
        if self._is_answering():
            self._expect_head()
        elif self._head_open:
            self._refuse(HeadStalled())
        else:
            self.transport.close()

    def _watch(self) -> None:
        """Set the alarm that fits what is expected now, unless one is set."""
        if self._pace is None:
            if self._head_open or not self._is_answering():
                self._expect_head()
        elif self._alarm is None:
            self._alarm = self.loop.call_at(self._pace.late_at, self._body_is_late)

    def _body_is_late(self) -> None:
        self._alarm = None
        if self._pace is None:
            return
        if self.flow.read_paused or self.cycle.waiting_for_100_continue:
            self._waive()
        if self.loop.time() < self._pace.late_at:
            self._watch()
        else:
            self._refuse(BodyStalled())

    def _waive(self) -> None:
        if self._pace is not None:
            self._pace.waive(self.loop.time())

    def _disarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def pause_writing(self) -> None:
        """The client does not take what it asked for: wait, but not for ever."""
        super().pause_writing()
        self._watch_writing()

    def resume_writing(self) -> None:
        """The client takes its answer again."""
        self._disarm_writing()
        super().resume_writing()

    def _disarm_writing(self) -> None:
        if self._write_alarm is not None:
            self._write_alarm.cancel()
            self._write_alarm = None

    def _watch_writing(self) -> None:
        left = self.transport.get_write_buffer_size()
        self._write_alarm = self.loop.call_later(self._patience.idle_seconds * _READING, self._writing_is_late, left)

    def _writing_is_late(self, left_before: int) -> None:
        if self.transport.is_closing():
            return
        if self.transport.get_write_buffer_size() >= left_before:
            log.info("reader_stalled")
            # A reset, not an ordinary end: the kernel would keep what it has for this client, and try for minutes.
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()
        else:
            self._watch_writing()

    # refusing

    def _is_over(self) -> bool:
        return self._refused or self.transport.is_closing()

    def _is_answering(self) -> bool:
        return self._answering is not None and not self._answering.response_complete

    def _refuse_by_raising(self, refusal: SluiceError) -> None:
        """Stop the parser from within; it comes back by `send_400_response`."""
        self._refusal = refusal
        raise refusal

    def _refuse(self, error: SluiceError) -> None:
        """Answer, in the order of the requests, and close."""
        if self._is_over():
            return
        self._refused = True
        self._disarm()
        REFUSALS.labels(error.code).inc()
        log.info("request_refused", code=error.code, why=error.errors[0])
        if self._pace is not None and self.cycle.response_complete:
            # What is wrong with a request that was answered needs no second answer: the client would take it for the next one's.
            self.transport.close()
        elif not self._is_answering():
            self._answer(error)
        elif self._answering is self.cycle and self._pace is not None:
            self._refuse_under_way(error, self.cycle)
        else:
            # An earlier request is still being answered: it keeps its answer, and the connection ends with that.
            self._end_after_answer()

    def _refuse_under_way(self, error: SluiceError, cycle: RequestResponseCycle) -> None:
        if cycle.response_started:
            self.transport.abort()
            return
        self._answer(error)
        cycle.disconnected = True
        cycle.message_event.set()

    def _end_after_answer(self) -> None:
        self.pipeline.clear()
        self.flow.pause_reading()
        if self._answering is not None:
            self._answering.keep_alive = False

    def _answer(self, error: SluiceError) -> None:
        response = render(error)
        headers = {
            **dict(response.headers),
            "connection": "close",
            "request-id": new_id("req"),
            **{name.lower(): value for name, value in SECURITY_HEADERS.items()},
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(f"HTTP/1.1 {error.status} {error.message}\r\n{lines}\r\n".encode() + bytes(response.body))
        self.transport.close()


class _Flow(FlowControl):
    """uvicorn's, and tells when the service reads again."""

    def __init__(self, transport: asyncio.Transport, resumed: Any) -> None:
        super().__init__(transport)
        self._resumed = resumed

    def resume_reading(self) -> None:
        if self.read_paused:
            self._resumed()
        super().resume_reading()
