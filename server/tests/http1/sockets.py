"""Plain sockets to a running service, for requests that no client library would send."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from tests.service import Service

_SECONDS = 20
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


@contextmanager
def connected(service: Service) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", service.port), timeout=_SECONDS) as sock:
        yield sock


@contextmanager
def narrow_connection(service: Service, address: str = "127.0.0.1") -> Iterator[socket.socket]:
    """Connect with the smallest segments and the smallest receive buffer."""
    with socket.socket() as sock:
        sock.settimeout(30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 88)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.bind((address, 0))
        sock.connect(("127.0.0.1", service.port))
        yield sock


def read_until_closed(sock: socket.socket) -> bytes:
    """Return all bytes until the service closes; a reset after the response counts as closing."""
    received = b""
    try:
        while chunk := sock.recv(65536):
            received += chunk
    except ConnectionResetError:
        pass
    return received


def exchange(service: Service, request: bytes, *, half_close: bool = True) -> bytes:
    """Send `request`, close the sending side, and return all bytes that come back."""
    with connected(service) as sock:
        sock.sendall(request)
        if half_close:
            sock.shutdown(socket.SHUT_WR)
        return read_until_closed(sock)


def statuses(received: bytes) -> list[int]:
    return [int(status) for status in _STATUS.findall(received)]


def header_lines(received: bytes) -> set[bytes]:
    """Return the header lines of the first response, in lower case."""
    return set(received.partition(b"\r\n\r\n")[0].lower().split(b"\r\n")[1:])


def read_status(sock: socket.socket) -> int:
    """Read exactly one response, and return its status."""
    received = b""
    while b"\r\n\r\n" not in received:
        received += _more(sock)
    head, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head.lower())
    while length and len(body) < int(length[1]):
        body += _more(sock)
    return statuses(head)[0]


def _more(sock: socket.socket) -> bytes:
    chunk = sock.recv(65536)
    assert chunk, "closed in the middle of a response"
    return chunk
