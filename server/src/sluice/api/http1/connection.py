"""The HTTP/1.1 protocol of the server: uvicorn's, with strict framing, timeouts and limits.

The rules for heads are in `framing`, those for the speed of bodies and readers in `minimum_rate`, those for how many
connections there are in `connection_table`. A request that is refused here gets an envelope too, and its connection is
closed, because the start of the next request is unknown.
"""

import asyncio
import socket
import struct
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from sluice.api.cors import origin_of, readable
from sluice.api.error_responses import render
from sluice.api.guards import SECURITY_HEADERS, ResponseBroken
from sluice.api.http1.connection_table import PIECE_BYTES, ConnectionTable
from sluice.api.http1.framing import HEAD_BYTES, require_one_reading
from sluice.api.http1.joined_answer import JoinedResponse
from sluice.api.http1.minimum_rate import MinimumRate, ReadingRate, RequestTimeouts
from sluice.cors.service import Cors
from sluice.errors import BodyStalled, HeadStalled, HeadTooLarge, Malformed, SluiceError, TooManyConnections
from sluice.kit.ids import new_id
from sluice.observe.log import log
from sluice.observe.metrics import CUT_OFF, REFUSALS

_UNREADABLE: Final = "The request is not HTTP/1.1 as RFC 9112 has it"
_MOST_PIPELINED: Final = 16  # requests that one connection may send ahead of their responses
_CHUNK_LINES: Final = 20  # bytes around a chunk: the longest size that the parser accepts, and two line ends
_CHUNK_BYTES: Final = 16  # at least, on average: to parse a chunk costs as much as to read these
_CHUNK_DEBT: Final = 4096 * _CHUNK_BYTES  # what a body may lack of that
_EXTENSION_BYTES: Final = 4096  # of all chunks of one body; what is longer than a chunk needs counts too
_FIRST_REQUEST_SECONDS: Final = 2.0  # that a drain leaves to a connection which has not sent its first request
# tcpi_bytes_acked of struct tcp_info: bytes that the client's kernel has taken. In Linux since 4.1.
_ACKED_AT: Final = 120
_ACKED: Final = struct.Struct("=Q")


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, timeouts: RequestTimeouts, table: ConnectionTable, **more: Any) -> None:
        super().__init__(*args, **more)
        self._timeouts = timeouts
        self._table = table
        self._responding: RequestResponseCycle | None = None
        self._refusal: SluiceError | None = None
        self._refused = False
        self._head_open = False
        self._head_bytes = 0
        self._rate: MinimumRate | None = None
        self._chunk_debt = 0
        self._around_chunks = 0  # bytes of the body's framing beyond what its chunks need
        self._timer: asyncio.TimerHandle | None = None
        self._in_hand = 0  # bytes of a response that wait until the client reads what was written before
        self._reading: ReadingRate | None = None
        self._page_response: asyncio.Task[None] | None = None
        self._is_draining = False
        self._has_requested = False  # the head of a request was complete

    # Connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Accept the connection if there is a place for it, and expect a head."""
        super().connection_made(transport)
        self.flow = _Flow(transport, self._restart_rate)
        transport.set_write_buffer_limits(high=self._table.high_water_bytes)
        try:
            self._table.admit(self, None if self.client is None else self.client[0])
        except TooManyConnections as refusal:
            self._refuse(refusal)
            return
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer, free the place, and end the response."""
        self._cancel_timer()
        self._table.leave(self)
        if self._responding is not None and not self._responding.response_complete:
            # uvicorn tells only the newest request, and with pipelining an earlier one is in progress.
            self._responding.disconnected = True
            self._responding.message_event.set()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close after the request in progress, otherwise at once; before its first request a connection has seconds."""
        self._is_draining = True
        if not self._has_requested:
            # It may have been accepted a moment ago: a close now would lose the request that is on its way.
            self.loop.call_later(_FIRST_REQUEST_SECONDS, self._close_unused)
        else:
            super().shutdown()

    def _close_unused(self) -> None:
        if not self._has_requested and not self._is_over():
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Parse what came; refuse a head that is too large, and chunk extensions that are."""
        if self._is_over():
            return
        was_open, rate = self._head_open, self._rate
        self._around_chunks += len(data)
        if self._rate is not None:
            self._rate.received(len(data), self.loop.time())
        super().data_received(data)
        if self._is_over():
            return
        if was_open and self._head_open:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self._refuse(HeadTooLarge(f"The head has more than {HEAD_BYTES} bytes"))
                return
        if rate is not None and rate is self._rate:
            self._around_chunks = max(0, self._around_chunks)
            if self._around_chunks > _EXTENSION_BYTES:
                self._refuse(Malformed(errors=[f"Chunk extensions have more than {_EXTENSION_BYTES} bytes"]))
                return
        else:  # the data held a part of a head, which is counted as such
            self._around_chunks = 0
        self._start_timer()

    # Parser callbacks

    def on_message_begin(self) -> None:
        """Begin a head; refuse a client that sends too many requests ahead of their responses."""
        super().on_message_begin()
        self.scope["state"]["keep_place"] = partial(self._table.keep, self)  # called once the caller is known
        self.scope["state"]["send_interim"] = self._send_interim
        self._head_open, self._head_bytes = True, 0
        self._chunk_debt = 0
        if len(self.pipeline) >= _MOST_PIPELINED:
            self._refuse_by_raising(Malformed(errors=["Too many requests ahead of their responses"]))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep one field of the head.

        Refuse one after the body, which would change a head that was checked (RFC 9110 6.5.1).
        """
        if not self._head_open:
            self._refuse_by_raising(Malformed(errors=["Trailer fields are not accepted"]))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Check the head before the application sees it."""
        self._cancel_timer()
        method, version = self.parser.get_method().decode("ascii"), self.parser.get_http_version()
        try:
            require_one_reading(method, self.url, version, self.headers)
        except SluiceError as refusal:
            self._refuse_by_raising(refusal)
        super().on_headers_complete()
        self._has_requested = True
        if self._is_draining:
            self.cycle.keep_alive = False
        self._head_open = False
        self._table.begin_request(self)
        self._rate = MinimumRate(self._timeouts, self.loop.time())

    def on_chunk_header(self) -> None:
        """Allow for the lines around a chunk."""
        self._around_chunks -= _CHUNK_LINES
        self._chunk_debt += _CHUNK_BYTES
        if self._chunk_debt > _CHUNK_DEBT:
            problem = (
                f"Transfer-Encoding: expected chunks of {_CHUNK_BYTES} bytes and more on average, found smaller ones"
            )
            self._refuse_by_raising(Malformed(errors=[problem]))

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body; what is not body frames it."""
        self._around_chunks -= len(body)
        self._chunk_debt = max(0, self._chunk_debt - len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the clock of the body: from here on only the response takes time."""
        self._rate = None
        self._cancel_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Read what remains of the body for a while, so that the client comes to read the response.

        Unless the place is needed: a next request that was sent ahead keeps it once its caller is known.
        """
        if self._responding is not None and isinstance(self._responding.transport, JoinedResponse):
            self._responding.transport.flush()  # a response to HEAD, whose body is never written
        super().on_response_complete()
        self._table.end_request(self)
        if self._rate is not None and self.cycle.response_complete:
            self._rate.response_sent(self.loop.time())

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002  (uvicorn's signature; its sentence is not ours)
        """Refuse what the parser refused, or what was refused while it parsed."""
        self._refuse(self._refusal or Malformed(errors=[_UNREADABLE]))

    def _unsupported_upgrade_warning(self) -> None:
        """Serve a request for another protocol in this one (RFC 9110 section 7.8); what follows it is not HTTP."""
        self.cycle.keep_alive = False

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._responding = cycle
        cycle.transport = JoinedResponse(self.transport, cycle)
        super()._start_asgi_task(cycle, partial(self._run, app))

    # Timers

    def _expect_head(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self._timeouts.head_seconds, self._on_late_head)

    def _on_late_head(self) -> None:
        self._timer = None
        if self.is_responding:
            self._expect_head()
        elif self._head_open:
            self._refuse(HeadStalled())
        else:
            self.transport.close()

    def _start_timer(self) -> None:
        """Start the timer of what is expected next, unless one runs."""
        if self._rate is None:
            if self._head_open or not self.is_responding:
                self._expect_head()
        elif self._timer is None:
            self._timer = self.loop.call_at(self._rate.late_at, self._on_late_body)

    def _on_late_body(self) -> None:
        self._timer = None
        if self._rate is None:
            return
        if self.flow.read_paused or self.cycle.waiting_for_100_continue:
            self._restart_rate()
        if self.loop.time() < self._rate.late_at:
            self._start_timer()
        else:
            self._refuse(BodyStalled())

    def _restart_rate(self) -> None:
        if self._rate is not None:
            self._rate.restart(self.loop.time())

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Responses

    async def _run(self, app: Any, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, partial(self._send, send))
        except ResponseBroken:
            # Closed before its Content-Length is reached, the response is no whole one to the client.
            if self._responding is not None:
                self._responding.disconnected = True  # uvicorn would log it as a fault
                self._responding.transport.close()

    async def _send(self, send: Send, message: Message) -> None:
        """Send a large body in pieces, each once the client has read enough of what was sent before."""
        body = message.get("body", b"")
        try:
            if len(body) <= PIECE_BYTES:
                self._hold(len(body))
                await send(message)
                return
            view, is_last = memoryview(body), not message.get("more_body", False)
            for start in range(0, len(view), PIECE_BYTES):
                piece, left = view[start : start + PIECE_BYTES], len(view) - start
                self._hold(left)
                await send({**message, "body": piece, "more_body": not is_last or len(piece) < left})
        finally:
            self._in_hand = 0

    def _send_interim(self, status: bytes, headers: Mapping[str, str]) -> bool:
        """Send an interim response ahead of that of the request under way (RFC 9110 section 15.2).

        Return whether the client can get it: one of HTTP/1.0 cannot.
        """
        cycle = self._responding
        if cycle is None or cycle.response_started or cycle.disconnected or self._is_over():
            return False
        if cycle.scope["http_version"] != "1.1":
            return False
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(b"HTTP/1.1 %b\r\n%b\r\n" % (status, lines.encode("latin-1")))
        return True

    def _hold(self, count: int) -> None:
        self._in_hand = count
        if self.flow.write_paused:
            self._table.count_unsent(self, self.unsent_bytes)

    @property
    def unsent_bytes(self) -> int:
        """Bytes of responses in the memory of this process that the client has not read."""
        return self._in_hand + int(self.transport.get_write_buffer_size())

    def pause_writing(self) -> None:
        """Count what waits for the client to read."""
        super().pause_writing()
        self._table.count_unsent(self, self.unsent_bytes)

    def resume_writing(self) -> None:
        """Resume writing: the client has read the pending bytes."""
        self._table.count_unsent(self, 0)
        super().resume_writing()

    def check_reader(self, now: float) -> None:
        """Cut the connection off if its client reads more slowly than a body may come."""
        if not self.transport.get_write_buffer_size():
            self._reading = None
            return
        if self._reading is None:
            self._reading = ReadingRate(self._timeouts, self._read_so_far(), now)
        elif self._reading.is_late(self._read_so_far(), now):
            self.cut_off("slow_reader")

    def _read_so_far(self) -> int:
        """Return a number that grows by each byte that the client has taken."""
        sock = self.transport.get_extra_info("socket")
        try:
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKED_AT + _ACKED.size)
            return int(_ACKED.unpack_from(info, _ACKED_AT)[0])
        except (OSError, struct.error):  # not TCP: what the kernel has taken
            return -int(self.transport.get_write_buffer_size())

    def give_way(self) -> None:
        """Close, also while a request is under way whose caller is not known: another connection takes the place."""
        if self.transport.get_write_buffer_size():
            self.cut_off("gave_way")
            return
        if self._is_over():
            return
        CUT_OFF.labels("gave_way").inc()
        if self._responding is not None and self.is_responding:
            self._refused = True
            self._cancel_timer()
            self.pipeline.clear()
            self._refuse_unfinished(TooManyConnections(), self._responding)
        elif self._head_open:
            self._refuse(HeadStalled())
        else:
            self.transport.close()

    def cut_off(self, why: str) -> None:
        """Close at once and drop what is unsent."""
        CUT_OFF.labels(why).inc()
        log.info("reader_stalled", why=why)
        # A reset, not an ordinary end: the kernel would keep what it has for this client, and try for minutes.
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    # Refusals

    def _is_over(self) -> bool:
        return self._refused or self.transport.is_closing()

    @property
    def is_responding(self) -> bool:
        """Whether a request is in progress that has no response yet."""
        return self._responding is not None and not self._responding.response_complete

    def _refuse_by_raising(self, refusal: SluiceError) -> None:
        """Stop the parser from within a callback; it calls `send_400_response`."""
        self._refusal = refusal
        raise refusal

    def _refuse(self, error: SluiceError) -> None:
        """Send the error in the order of the requests, and close the connection."""
        if self._is_over():
            return
        self._refused = True
        self._cancel_timer()
        REFUSALS.labels(error.code).inc()
        log.info("request_refused", code=error.code, why=error.errors[0])
        if self._rate is not None and self.cycle.response_complete:
            # A request with a response gets no second one: the client would take it for that of its next request.
            self.transport.close()
        elif not self.is_responding:
            self._respond(error)
        elif self._responding is self.cycle and self._rate is not None:
            self._refuse_unfinished(error, self.cycle)
        else:
            # An earlier request is still in progress: it keeps its response, and the connection ends with that.
            self._end_after_response()

    def _refuse_unfinished(self, error: SluiceError, cycle: RequestResponseCycle) -> None:
        if cycle.response_started:
            self.transport.abort()
            return
        self._respond(error)
        cycle.disconnected = True
        cycle.message_event.set()

    def _end_after_response(self) -> None:
        self.pipeline.clear()
        self.flow.pause_reading()
        if self._responding is not None:
            self._responding.keep_alive = False

    def _respond(self, error: SluiceError) -> None:
        origin = origin_of(self.headers or ())
        cors: Cors | None = getattr(getattr(self.config.app, "state", None), "cors", None)
        if origin is None or cors is None:
            self._write_response(error, {})
        else:
            self._page_response = self.loop.create_task(self._respond_to_page(error, origin, cors))

    async def _respond_to_page(self, error: SluiceError, origin: str, cors: Cors) -> None:
        """Send a response to a page of another origin, which may read it only if the origin is listed."""
        pairs = readable(origin) if await cors.allows(origin, None) else []
        self._write_response(error, {name.decode(): value.decode("latin-1") for name, value in pairs})

    def _write_response(self, error: SluiceError, more: Mapping[str, str]) -> None:
        if self.transport.is_closing():
            return
        response = render(error)
        headers = {
            **dict(response.headers),
            "connection": "close",
            "request-id": new_id("req"),
            **{name.lower(): value for name, value in SECURITY_HEADERS.items()},
            **more,
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(f"HTTP/1.1 {error.status} {error.message}\r\n{lines}\r\n".encode() + bytes(response.body))
        self.transport.close()


class _Flow(FlowControl):
    """uvicorn's flow control, with a callback for when the service reads again."""

    def __init__(self, transport: asyncio.Transport, resumed: Any) -> None:
        super().__init__(transport)
        self._resumed = resumed

    def resume_reading(self) -> None:
        if self.read_paused:
            self._resumed()
        super().resume_reading()
