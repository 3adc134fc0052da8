"""Plain sockets to a running service, for requests that no client library would send. What they must come to is said in the tests."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tests.gate import Service

_SECONDS = 20
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


@contextmanager
def plugged(service: Service) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", service.port), timeout=_SECONDS) as plug:
        yield plug


def until_closed(plug: socket.socket) -> bytes:
    """Answer all that comes until the service closes; a reset after the answer counts as closing."""
    received = b""
    try:
        while chunk := plug.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def exchange(service: Service, request: bytes, *, half_close: bool = True) -> bytes:
    """Send `request`, say that no more comes, and answer all that comes back."""
    with plugged(service) as plug:
        plug.sendall(request)
        if half_close:
            plug.shutdown(socket.SHUT_WR)
        return until_closed(plug)


def statuses(received: bytes) -> list[int]:
    return [int(status) for status in _STATUS.findall(received)]


def head_of(received: bytes) -> set[bytes]:
    """Answer the header lines of the first answer, in lower case."""
    return set(received.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")[1:])


def first_status(plug: socket.socket) -> int:
    """Take one whole answer and no more, and answer its status."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _more(plug)
    head, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    while length and len(body) < int(length[1]):
        body += _more(plug)
    return statuses(head)[0]


def _more(plug: socket.socket) -> bytes:
    chunk = plug.recv(65536)
    assert chunk, "closed in the middle of an answer"
    return chunk
