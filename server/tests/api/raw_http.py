"""Raw HTTP over a plain socket, for incomplete requests and for those that no client library would send."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.service import ApiClient

_SECONDS = 20


@dataclass(frozen=True)
class RawResponse:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json_body(self) -> Any:
        return json.loads(self.body)


@contextmanager
def connection(client: ApiClient) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", client.service.port), timeout=_SECONDS) as sock:
        yield sock


def request_head(client: ApiClient, *lines: str, method: str = "POST", path: str = "/api/v1/files/upload") -> bytes:
    authorization = [] if client.authorization is None else [f"Authorization: {client.authorization}"]
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *authorization, *lines, "", ""]).encode(
        "latin-1"
    )


def read_response(sock: socket.socket) -> RawResponse:
    """Read one response; fail if the connection is closed without one."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _more(sock, received)
    head, _, body = received.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += _more(sock, body)
    return RawResponse(int(first.split(" ")[1]), headers, body)


def _more(sock: socket.socket, so_far: bytes) -> bytes:
    chunk = sock.recv(65536)
    assert chunk, f"the connection was closed after {so_far[:300]!r}"
    return chunk


def send_request(
    client: ApiClient, *lines: str, body: bytes = b"", method: str = "POST", path: str = "/api/v1/files/upload"
) -> RawResponse:
    with connection(client) as sock:
        sock.sendall(request_head(client, *lines, method=method, path=path) + body)
        return read_response(sock)


def chunked(*chunks: bytes) -> bytes:
    """Return a body in the chunked transfer coding, with its end."""
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
