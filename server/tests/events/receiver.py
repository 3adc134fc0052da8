"""A receiver of webhooks on loopback whose responses a test chooses, and keeps what it got."""

import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RESET = 0
"""A status for a connection that is reset without a response."""


@dataclass(frozen=True)
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found


@dataclass
class Receiver:
    """What came, and how the next requests are handled: `respond` returns status, headers and body."""

    port: int = 0
    path: str = "/hooks/sluice?of=tests"
    got: list[Received] = field(default_factory=list)
    respond: Callable[[Received], tuple[int, dict[str, str], bytes]] = lambda _request: (204, {}, b"")
    running: int = 0
    most: int = 0
    released: threading.Event = field(default_factory=threading.Event)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}"

    def respond_with(self, status: int, body: bytes = b"", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.respond = lambda _request: (status, named, body)

    def hang(self) -> None:
        """Do not respond until the test ends."""

        def wait(_request: Received) -> tuple[int, dict[str, str], bytes]:
            self.released.wait(60)
            return 204, {}, b""

        self.respond = wait

    def wait_for(self, number: int, *, seconds: float = 30) -> list[Received]:
        """Return the requests once there are at least `number`."""
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.got) >= number, seconds), f"{len(self.got)} of {number}"
            return list(self.got)

    def take(self, request: Received) -> tuple[int, dict[str, str], bytes]:
        with self.changed:
            self.running += 1
            self.most = max(self.most, self.running)
            self.got.append(request)
            self.changed.notify_all()
        try:
            return self.respond(request)
        finally:
            with self.changed:
                self.running -= 1


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    receiver: Receiver
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status, answered, content = self.receiver.take(Received(self.path, headers, body))
        if status == RESET:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **answered}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_words: object) -> None:
        return

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            return


@contextmanager
def running_receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    handler = type("Handler", (_Handler,), {"receiver": receiver})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        receiver.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield receiver
        finally:
            receiver.released.set()
            server.shutdown()


def wait_until(is_true: Callable[[], bool], *, seconds: float = 30) -> None:
    """Poll another process until a condition holds."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
