"""The load: closed loops of uploads over kept connections, prebuilt bytes, loopback only. Knows a port and a key, no service."""

import asyncio
import itertools
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

from bench.payloads import Payload

_AT_ONCE_BYTES = 256 * 1024
BOUNDARY = b"----bench7MA4YWxkTrZu0gW"


@dataclass(frozen=True)
class Target:
    """Where uploads go, and whose CPU they are charged to."""

    name: str
    port: int
    authorization: str
    context: str
    pids: tuple[int, ...]


@dataclass
class Outcome:
    """What came of a load: seconds of each accepted upload, and the statuses of the others."""

    seconds: list[float] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)

    def quantile(self, share: float) -> float:
        """Answer the time in seconds that this share of the uploads stayed below."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


async def load(target: Target, payload: Payload, *, connections: int, uploads: int) -> Outcome:
    """Upload that often over that many connections; each begins its next upload when the last was answered."""
    outcome, numbers = Outcome(), itertools.count(time.time_ns())
    turns = iter(range(uploads))
    await asyncio.gather(*(_connection(target, payload, numbers, turns, outcome) for _ in range(min(connections, uploads))))
    return outcome


async def _connection(target: Target, payload: Payload, numbers: Iterator[int], turns: Iterator[int], outcome: Outcome) -> None:
    with connected(target.port) as sock:
        for _ in turns:
            head, tail = around(target, payload.name, len(payload.data))
            began = time.perf_counter()
            status = await exchange(sock, [head, *payload.stamped(next(numbers)), tail])
            if status == HTTPStatus.CREATED:
                outcome.seconds.append(time.perf_counter() - began)
            else:
                outcome.refused.append(status)


@contextmanager
def connected(port: int) -> Iterator[socket.socket]:
    """Answer a connection to a port of this machine, closed when the block ends."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield sock


async def exchange(sock: socket.socket, request: Sequence[bytes | memoryview]) -> int:
    """Send a request and answer the status of its answer. On the bare socket: a stream would copy large bodies many times over."""
    loop = asyncio.get_running_loop()
    if sum(map(len, request)) <= _AT_ONCE_BYTES:
        request = [b"".join(request)]
    for piece in request:
        await loop.sock_sendall(sock, piece)
    return await answer(sock)


def around(target: Target, name: str, size: int) -> tuple[bytes, bytes]:
    """Answer what goes before and after the `size` bytes of a file of that name."""
    disposition = b"--" + BOUNDARY + b'\r\nContent-Disposition: form-data; name="'
    before = disposition + b'context"\r\n\r\n' + target.context.encode() + b"\r\n"
    before += disposition + b'file"; filename="' + name.encode() + b'"\r\nContent-Type: application/octet-stream\r\n\r\n'
    after = b"\r\n--" + BOUNDARY + b"--\r\n"
    head = (
        f"POST /api/v1/files/upload HTTP/1.1\r\nHost: 127.0.0.1:{target.port}\r\nAuthorization: {target.authorization}\r\n"
        f"Content-Type: multipart/form-data; boundary={BOUNDARY.decode()}\r\n"
        f"Content-Length: {len(before) + size + len(after)}\r\n\r\n"
    )
    return head.encode() + before, after


async def answer(sock: socket.socket) -> int:
    """Answer the status of the next answer, whose body is passed over."""
    loop, found = asyncio.get_running_loop(), b""
    while b"\r\n\r\n" not in found:
        found += await _some(loop, sock)
    head, _, body = found.partition(b"\r\n\r\n")
    missing = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]) - len(body)
    while missing > 0:
        missing -= len(await _some(loop, sock))
    return int(head.split(b" ", 2)[1])


async def _some(loop: asyncio.AbstractEventLoop, sock: socket.socket) -> bytes:
    some = await loop.sock_recv(sock, 65536)
    if not some:
        raise ConnectionError("the server hung up before it answered")
    return some
