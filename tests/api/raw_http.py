"""HTTP by hand, over a plain socket: to send half a request, or one that no client library would. Whole requests go by `tests.gate`."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.gate import Gate

_SECONDS = 20


@dataclass(frozen=True)
class RawAnswer:
    """The first answer on a connection."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def said(self) -> Any:
        return json.loads(self.body)


@contextmanager
def connection(gate: Gate) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", gate.service.port), timeout=_SECONDS) as plug:
        yield plug


def request_head(gate: Gate, *lines: str, method: str = "POST", path: str = "/api/v1/files/upload") -> bytes:
    """Answer the head of a request with the gate's credential and these header lines."""
    authorization = [] if gate.authorization is None else [f"Authorization: {gate.authorization}"]
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *authorization, *lines, "", ""]).encode("latin-1")


def read_answer(plug: socket.socket) -> RawAnswer:
    """Read one answer; a closed connection without one is a failure."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _more(plug, received)
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += _more(plug, body)
    return RawAnswer(int(first.split(" ")[1]), headers, body)


def _more(plug: socket.socket, so_far: bytes) -> bytes:
    chunk = plug.recv(65536)
    assert chunk, f"the connection was closed after {so_far[:300]!r}"
    return chunk


def ask(gate: Gate, *lines: str, body: bytes = b"", method: str = "POST", path: str = "/api/v1/files/upload") -> RawAnswer:
    """Send a head and a body as they are given, and answer what comes back."""
    with connection(gate) as plug:
        plug.sendall(request_head(gate, *lines, method=method, path=path) + body)
        return read_answer(plug)


def chunked(*chunks: bytes) -> bytes:
    """Answer a body in the chunked transfer coding, with its end."""
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
