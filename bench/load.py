"""The load generator: closed loops of uploads with prebuilt bytes over persistent loopback connections."""

import asyncio
import itertools
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from bench.payloads import Payload

# Small requests are sent in pieces, as clients with a buffer send them: Go's net/http has one of 4 KiB.
_PIECE_BYTES = 4096
_JOIN_BELOW_BYTES = 256 * 1024
BOUNDARY = b"----bench7MA4YWxkTrZu0gW"


@dataclass(frozen=True)
class Target:
    """Where uploads go, and the processes whose CPU is counted."""

    name: str
    port: int
    authorization: str
    context: str
    pids: tuple[int, ...]


@dataclass
class Outcome:
    """The outcome of a load: the seconds of each accepted upload, and the statuses of the others."""

    seconds: list[float] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)

    def quantile(self, share: float) -> float:
        """Return the quantile of the seconds, such as 0.99 for p99."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def load(target: Target, payload: Payload, *, connections: int, uploads: int) -> Outcome:
    """Upload `uploads` times over `connections`; each starts its next upload after the response to the last."""
    outcome, numbers = Outcome(), itertools.count(time.time_ns())
    turns = iter(range(uploads))
    await asyncio.gather(
        *(_connection(target, payload, numbers, turns, outcome) for _ in range(min(connections, uploads)))
    )
    return outcome


async def _connection(
    target: Target, payload: Payload, numbers: Iterator[int], turns: Iterator[int], outcome: Outcome
) -> None:
    with connected(target.port) as sock:
        for _ in turns:
            head, tail = envelope(target, payload.name, len(payload.data))
            began = time.perf_counter()
            status = await exchange(sock, [head, *payload.stamped(next(numbers)), tail])
            if status == HTTPStatus.CREATED:
                outcome.seconds.append(time.perf_counter() - began)
            else:
                outcome.refused.append(status)


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    """Open a connection to a loopback port until the block ends."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock


async def exchange(sock: socket.socket, request: Sequence[bytes | memoryview]) -> int:
    """Send a request and return the status of its response. Uses the socket: a stream would copy large bodies."""
    loop = asyncio.get_running_loop()
    if sum(map(len, request)) <= _JOIN_BELOW_BYTES:
        whole = b"".join(request)
        request = [whole[start : start + _PIECE_BYTES] for start in range(0, len(whole), _PIECE_BYTES)]
    for piece in request:
        await loop.sock_sendall(sock, piece)
    return await read_status(sock)


def envelope(target: Target, name: str, size: int) -> tuple[bytes, bytes]:
    """Return the bytes of a request before and after the `size` bytes of a file with that name."""
    disposition = b"--" + BOUNDARY + b'\r\nContent-Disposition: form-data; name="'
    before = disposition + b'context"\r\n\r\n' + target.context.encode() + b"\r\n"
    before += (
        disposition + b'file"; filename="' + name.encode() + b'"\r\nContent-Type: application/octet-stream\r\n\r\n'
    )
    after = b"\r\n--" + BOUNDARY + b"--\r\n"
    head = (
        f"POST /api/v1/files/upload HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\nAuthorization: {target.authorization}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY.decode()}\r\n"
        f"Content-Length: {len(before) + size + len(after)}\r\n\r\n"
    )
    return head.encode() + before, after


async def read_status(sock: socket.socket) -> int:
    """Return the status of the next response and skip its body."""
    loop, found = asyncio.get_running_loop(), b""
    while b"\r\n\r\n" not in found:
        found += await _receive(loop, sock)
    head, _, body = found.partition(b"\r\n\r\n")
    missing = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]) - len(body)
    while missing > 0:
        missing -= len(await _receive(loop, sock))
    return int(head.split(b" ", 2)[1])


async def _receive(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> bytes:
    some = await loop.sock_recv(sock, 65536)
    if not some:
        raise ConnectionError("the server closed the connection before it responded")
    return some
